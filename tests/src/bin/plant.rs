//! `plant NAME DIRECTORY [--bare]`: one training program of the planted-stall suite. It writes
//! `DIRECTORY/NAME.trace.json.gz` and prints what the plant took, as JSON; with `--bare`, nothing is
//! planted outside of its threads. `spin` and `store` are what it starts beside itself.

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
        [name, directory, ref rest @ ..] => {
            let plant = PLANTS.iter().find(|plant| plant.name == name);
            let plant = plant.ok_or_else(|| format!("no plant {name}"))?;
            trainer::train(plant, rest != ["--bare"], Path::new(directory))?;
            println!("{}", truth::json());
            Ok(())
        }
        _ => Err("plant NAME DIRECTORY [--bare]".into()),
    }
}
