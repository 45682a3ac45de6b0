//! The five lines that the README and the guide ask for are here as they stand there, and run.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use burn_core::data::dataloader::DataLoaderBuilder;
use gpustall::instrument;
use gpustall_tests::{Collect, Numbers};
use std::error::Error;

#[rustfmt::skip]
fn train(batcher: Collect, dataset: Numbers) -> Result<usize, Box<dyn Error>> {
    let session = gpustall::session("mlp").output("mlp.trace.json.gz").start()?;
    let loader = instrument::loader("train", DataLoaderBuilder::new(instrument::batcher(batcher))
        .batch_size(256).num_workers(4).build(instrument::dataset(dataset)));
    let mut items = 0;
    for batch in loader.iter() {
        items += batch?.len();
    }
    println!("{}", session.finish()?);
    Ok(items)
}

#[test]
fn the_five_lines_of_the_readme_and_the_guide_compile_and_run() {
    let here = include_str!("readme_five_lines.rs");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap();
    for page in ["README.md", "docs/guide.md"] {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        let block = text
            .split("```")
            .find(|block| block.starts_with("rust") && block.contains("session.finish()?"))
            .unwrap_or_else(|| panic!("{page} shows the five lines"));
        let code = block.lines().skip(1).map(str::trim);
        for line in code.filter(|line| !line.is_empty() && !line.starts_with("//")) {
            let same = here.lines().any(|l| l.trim() == line);
            assert!(same, "{page} has a line that is not tried here: {line}");
        }
    }
    let directory = tempfile::tempdir().unwrap();
    std::env::set_current_dir(directory.path()).unwrap();
    let items = train(Collect::default(), Numbers::new(3000)).unwrap();
    assert_eq!(items, 3000);
    assert!(directory.path().join("mlp.trace.json.gz").exists());
}
