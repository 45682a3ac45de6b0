//! PyTorch traces that lack a part (steps, the device), or have more than others (stacks of Python).

mod common;

use common::pytorch::{Spelling, Torch};
use common::pytorch_steps::{SINGLE, assert_causes, busy, steps};

#[test]
fn stacks_of_python_change_nothing() {
    let torch = |stacks: bool| {
        steps(Spelling::Cuda, move |t, _| {
            let work = |t: &mut Torch| {
                t.data(SINGLE, 5_000.0);
                busy(t);
                t.item();
            };
            match stacks {
                true => t.python("train.py(12): main", |t| {
                    t.python("train.py(40): step", work)
                }),
                false => work(t),
            }
        })
    };
    let (with, without) = (torch(true).report(), torch(false).report());
    assert_eq!(with.charges_ns, without.charges_ns);
}

#[test]
fn without_steps_nothing_finer_than_the_host_is_said() {
    let mut torch = Torch::new(Spelling::Cuda);
    for _ in 0..50 {
        torch.model(3, 100.0);
        torch.spend(2_000.0);
    }
    assert_causes(&torch, &["host"]);
}

#[test]
fn a_file_with_operators_only_tells_of_the_loader() {
    let torch = steps(Spelling::Cuda, |t, _| {
        t.data(SINGLE, 6_000.0);
        t.op("aten::linear", |t| t.spend(4_000.0));
    });
    let report = assert_causes(&torch, &["data"]);
    assert!(
        report
            .evidence
            .missing
            .iter()
            .any(|of| of.what == "device activity")
    );
}

#[test]
fn without_a_device_what_no_operator_fills_is_the_hosts() {
    let torch = steps(Spelling::Cuda, |t, _| {
        // A queue that another thread of the user's fills.
        t.spend(14_000.0);
        t.op("aten::linear", |t| t.spend(9_000.0));
    });
    let report = assert_causes(&torch, &["host.compute"]);
    assert!(
        report.verdict.contains("outside of the operators"),
        "{report}"
    );
    let compiled = steps(Spelling::Cuda, |t, _| {
        t.annotate("Torch-Compiled Region: 0/0", |t| t.spend(14_000.0));
        t.op("aten::linear", |t| t.spend(9_000.0));
    });
    assert_causes(&compiled, &[]);
}

#[test]
fn a_file_of_one_step_or_of_none_is_too_little_to_judge() {
    let mut one = Torch::new(Spelling::Cuda);
    one.step(3, |t| t.model(2, 50.0));
    for torch in [&one, &Torch::new(Spelling::Of2021)] {
        let report = torch.report();
        assert!(report.findings.is_empty(), "{report}");
        assert!(report.verdict.contains("too little to judge"), "{report}");
    }
}
