//! `check`: what a recording needs on this machine.

use anyhow::Result;
use gpustall_sidecar::check::{Requirement, can_record, requirements};
use std::io::Write;
use std::process::ExitCode;

pub(super) fn run(json: bool) -> Result<ExitCode> {
    let found = requirements();
    let possible = can_record(&found);
    let mut out = std::io::stdout().lock();
    if json {
        let report = serde_json::json!({
            "can_record": possible,
            "wire_version": gpustall_wire::WIRE_VERSION,
            "requirements": found,
        });
        writeln!(out, "{report:#}")?;
    } else {
        for requirement in &found {
            write(&mut out, requirement)?;
        }
        let verdict = match (possible, found.iter().all(|r| r.met)) {
            (true, true) => "recording is possible, nothing is missing",
            (true, false) => "recording is possible, without the evidence above",
            (false, _) => "recording is NOT possible",
        };
        writeln!(out, "{verdict}")?;
    }
    Ok(ExitCode::from(u8::from(!possible)))
}

fn write(out: &mut impl Write, requirement: &Requirement) -> std::io::Result<()> {
    let mark = match (requirement.met, requirement.required) {
        (true, _) => "ok     ",
        (false, true) => "MISSING",
        (false, false) => "without",
    };
    writeln!(out, "{mark}  {}", requirement.name)?;
    if let (Some(problem), Some(mend)) = (&requirement.problem, &requirement.mend) {
        writeln!(out, "           found: {problem}")?;
        writeln!(out, "           costs: {}", requirement.costs)?;
        writeln!(out, "           mend:  {mend}")?;
    }
    Ok(())
}
