//! `plant NAME DIRECTORY [CHANGE...]`: one training program of the planted-stall suite. It writes
//! `DIRECTORY/NAME.trace.json.gz` and prints what the plant took, as JSON. A change is one of
//! `--bare` (nothing is planted outside of its threads), `--workers=N` and `--ready` (batches cost
//! nothing to make). `spin` and `store` are what it starts beside itself.

use gpustall_tests::plant::{PLANTS, outside, trainer, truth, work};
use std::error::Error;
use std::path::Path;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match *args {
        ["spin", cpu] => {
            outside::pin(cpu.parse()?);
            loop {
                work::spin(Duration::from_secs(1));
            }
        }
        ["store", path, delay] => {
            let delay = Duration::from_micros(delay.parse()?);
            Ok(outside::serve_store(Path::new(path), delay)?)
        }
        [name, directory, ref changes @ ..] => {
            let plant = PLANTS.iter().find(|plant| plant.name == name);
            let mut plant = *plant.ok_or_else(|| format!("no plant {name}"))?;
            let mut planted = true;
            for change in changes {
                match change.split_once('=') {
                    Some(("--workers", workers)) => plant.workers = workers.parse()?,
                    None if *change == "--ready" => plant.batch = Duration::ZERO,
                    None if *change == "--bare" => planted = false,
                    _ => return Err(format!("no change {change}").into()),
                }
            }
            trainer::train(&plant, planted, Path::new(directory))?;
            println!("{}", truth::json());
            Ok(())
        }
        _ => Err("plant NAME DIRECTORY [CHANGE...]".into()),
    }
}
