//! The page that describes the report is right.

use gpustall_diagnose::Report;
use std::path::Path;

fn block<'a>(page: &'a str, language: &str) -> &'a str {
    let start = page
        .split_once(&format!("```{language}\n"))
        .map_or("", |(_, rest)| rest);
    start.split_once("\n```").map_or("", |(block, _)| block)
}

#[test]
fn the_example_in_the_documentation_is_a_report_and_its_text() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/report.md");
    // A published crate comes without the pages of the repository.
    let Ok(page) = std::fs::read_to_string(page) else {
        return;
    };
    let report: Report = serde_json::from_str(block(&page, "json")).expect("it is a report");
    assert_eq!(block(&page, "text"), report.to_string());
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    let fields = serde_json::to_value(&report).expect("a report is JSON");
    for field in fields.as_object().expect("it has fields").keys() {
        assert!(page.contains(&format!("`{field}`")) || page.contains(&format!("`{field}[]`")));
    }
}
