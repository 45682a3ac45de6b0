//! Every sentence of a report is plain: read over many random runs, not one that was thought of.

mod common;
mod table_oracle;

use gpustall_diagnose::{Finding, Report, diagnose};
use table_oracle::tape::Tape;
use table_oracle::{draw_device, draw_host};

/// What no sentence has in it.
const WRONG: [&str; 12] = [
    "  ",
    " ,",
    " ;",
    "( ",
    " ()",
    ", ,",
    " 1 workers",
    " 1 times",
    " 1 threads",
    "instead of 0,",
    "mostly not watched",
    "unknown worker, which",
];

fn sentences(finding: &Finding) -> Vec<&str> {
    let links = finding.chain.iter();
    let links = links.flat_map(|link| [link.what.as_str(), link.evidence.as_str()]);
    let own = [
        finding.remedy.as_str(),
        finding.caveat.as_str(),
        finding.assumption.as_str(),
        finding.without_loss_assumption.as_str(),
    ];
    links.chain(own).collect()
}

/// What reads wrong in a report.
fn wrong(report: &Report) -> Vec<String> {
    let of_findings = report.findings.iter().flat_map(sentences);
    let notes = report.notes.iter().map(String::as_str);
    let all = of_findings.chain(notes).chain([report.verdict.as_str()]);
    let reads_wrong = |sentence: &&str| {
        let slip = WRONG
            .iter()
            .any(|wrong| format!(" {sentence}").contains(wrong));
        slip || *sentence != sentence.trim()
    };
    let mut wrong: Vec<String> = all.filter(reads_wrong).map(str::to_owned).collect();
    for finding in &report.findings {
        let (remedy, assumed) = (&finding.remedy, &finding.assumption);
        let step = finding.step_ns;
        if finding.predicted_step_ns > step || finding.step_without_loss_ns > step {
            wrong.push(format!("longer than now: {finding:?}"));
        }
        let names = remedy.contains("num_workers(") && !remedy.contains("num_workers(n)");
        if assumed.starts_with("with ") && !names {
            wrong.push(format!("`{assumed}`, and the remedy is `{remedy}`"));
        }
    }
    wrong
}

#[test]
fn no_sentence_of_a_report_reads_wrong() {
    let mut state = 11_u64;
    let mut number = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 48) as u16
    };
    let (mut found, mut slips) = (0, Vec::new());
    for turn in 0..800 {
        let draws: Vec<u16> = (0..500).map(|_| number()).collect();
        let mut tape = Tape::new(&draws);
        let trace = match turn % 2 {
            0 => draw_host::run(&mut tape).trace(),
            _ => draw_device::job(&mut tape).trace(),
        };
        let report = diagnose(&trace);
        found += report.findings.len();
        slips.extend(wrong(&report));
    }
    assert!(found > 400, "{found}");
    slips.sort_unstable();
    slips.dedup();
    assert!(slips.is_empty(), "{}", slips.join("\n"));
}
