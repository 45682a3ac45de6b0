//! PyTorch runs of twelve steps, and what is found in them.

use super::pytorch::{Spelling, Torch};
use gpustall_diagnose::Report;

pub const SINGLE: &str = "_SingleProcessDataLoaderIter";
pub const MULTI: &str = "_MultiProcessingDataLoaderIter";
pub const EVERY: [Spelling; 4] = [
    Spelling::Cuda,
    Spelling::Hip,
    Spelling::Of2021,
    Spelling::Xpu,
];

/// Twelve steps.
pub fn steps(spelling: Spelling, step: impl Fn(&mut Torch, u64)) -> Torch {
    let mut torch = Torch::new(spelling);
    for number in 3..15 {
        torch.step(number, |t| step(t, number));
    }
    torch
}

pub fn causes(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|f| f.cause.id()).collect()
}

#[track_caller]
pub fn assert_causes(torch: &Torch, expected: &[&str]) -> Report {
    let report = torch.report();
    assert_eq!(causes(&report), expected, "{report}");
    report
}

/// A model that keeps the device busy.
pub fn busy(t: &mut Torch) {
    t.model(10, 400.0);
    t.optimizer(300.0);
}
