//! What the scheduler says of the thread that trains, and healthy runs.

mod common;

use common::Builder;
use common::kernel::{Off, blocked, preempted};
use common::planted::{END, START, STEP, STEPS, WAIT, healthy, run, share};
use gpustall_diagnose::{Cause, Report, diagnose};
use gpustall_trace::TrackId;
use gpustall_trace::vocab::cat;

#[test]
fn a_trainer_without_a_cpu_is_preempted_outside_of_the_loader_and_in_marked_phases() {
    let report = run(2, |b, (start, _)| {
        let compute = start + WAIT;
        b.off(100, preempted("spinner", 900), (compute, compute + 3_000));
        b.phase(TrackId(1), "metrics", (compute + 2_000, compute + 5_000));
    });
    assert_eq!(report.charges_ns["host.preempted"], STEPS * 3_000_000);
    assert_eq!(report.charges_ns["host.metrics"], STEPS * 2_000_000);
    let finding = report
        .findings
        .iter()
        .find(|f| f.cause == Cause::HostPreempted);
    let finding = finding.expect("it is one");
    assert!(finding.remedy.contains("spinner has its CPU"), "{report}");
    assert_eq!(finding.loader, None);
}

#[test]
fn a_trainer_whose_cpu_gpustall_has_is_told_that_this_is_the_cost_of_recording() {
    let held_by = |sidecar: u64| {
        run(2, |b, (start, _)| {
            let compute = start + WAIT;
            let (middle, end) = (compute + sidecar, compute + 4_000);
            b.off(100, preempted("gpustall-sideca", 900), (compute, middle));
            b.off(100, preempted("spinner", 901), (middle + 1, end + 1));
        })
    };
    let finding = |report: &gpustall_diagnose::Report| {
        let mut findings = report.findings.iter();
        let finding = findings.find(|of| of.cause == Cause::HostPreempted);
        finding.expect("it is one").clone()
    };
    let report = held_by(3_000);
    let own = finding(&report);
    assert!(own.remedy.contains("cost of recording"), "{report}");
    assert!(own.remedy.contains("gpustall run --no-sidecar"), "{report}");
    assert!(!own.remedy.contains("stop it"), "{report}");
    // The job by itself gains nothing.
    assert_eq!((own.predicted_step_ns, own.step_ns), (None, None));
    // Where it is the smaller part, the other one is who is named.
    let report = held_by(1_500);
    let other = finding(&report);
    assert!(other.remedy.starts_with("spinner has its CPU"), "{report}");
    assert!(other.predicted_step_ns.is_some(), "{report}");
}

#[test]
fn workers_whose_cpu_gpustall_has_are_told_so_and_no_gain() {
    for more in [false, true] {
        let mut trace = common::planted::trace(2, |b, span| {
            b.off(101, preempted("gpustall-sideca", 900), span);
        });
        if more {
            trace.strings.intern(gpustall_trace::vocab::arg::FRAMEWORK);
            trace.strings.intern(gpustall_trace::vocab::PYTORCH);
        }
        let report = diagnose(&trace);
        let finding = &report.findings[0];
        assert_eq!(finding.cause, Cause::DataContended, "{report}");
        assert!(!finding.remedy.contains("gpustall-sideca"), "{report}");
        assert_eq!(finding.predicted_step_ns, None, "{report}");
    }
}

#[test]
fn a_trainer_whose_cpu_its_own_worker_has_is_told_so() {
    let report = run(1, |b, (start, _)| {
        let compute = start + WAIT;
        b.off(
            100,
            preempted("dataloader-0", 101),
            (compute - 1_000, compute + 3_000),
        );
    });
    let finding = report
        .findings
        .iter()
        .find(|f| f.cause == Cause::HostPreempted);
    assert!(
        finding.is_some_and(|f| f
            .remedy
            .starts_with("the loader's own worker has its CPU: give")),
        "{report}"
    );
}

#[test]
fn a_trainer_that_is_blocked_outside_of_the_loader_is_blocked_unless_the_phase_is_marked() {
    let lock = blocked("futex", "futex_wait_queue").woken_by("logger", 800);
    let report = run(2, |b, (start, _)| {
        let compute = start + WAIT - 2_000;
        b.off(100, lock, (compute, compute + 5_000));
        b.phase(TrackId(1), "checkpoint", (compute + 3_000, compute + 5_000));
    });
    assert_eq!(report.charges_ns["host.blocked"], STEPS * 3_000_000);
    assert_eq!(report.charges_ns["host.checkpoint"], STEPS * 2_000_000);
    let finding = report
        .findings
        .iter()
        .find(|f| f.cause == Cause::HostBlocked);
    assert!(
        finding.is_some_and(|f| f
            .remedy
            .starts_with("logger, another thread of the job, is who")),
        "{report}"
    );
}

#[test]
fn workers_that_wait_for_room_in_the_queue_are_healthy() {
    let report = healthy(|_, _| {});
    assert!(report.findings.is_empty(), "{report}");
    assert!(!report.charges_ns.contains_key("data.lock"), "{report}");
    assert!(report.verdict.contains("healthy"));
}

#[test]
fn a_trainer_that_is_preempted_for_one_percent_is_healthy() {
    let report = healthy(|b, at| b.off(100, preempted("systemd", 1), (at + 5_000, at + 5_200)));
    assert!(report.findings.is_empty(), "{report}");
    assert_eq!(share(&report, Cause::HostPreempted), 0.01);
}

#[test]
fn a_trainer_whose_helpers_compute_for_it_computes() {
    let mut made = false;
    let report = healthy(|b, at| {
        if !made {
            made = true;
            b.thread(700, "rayon-0");
            b.watch(700, (0, END), &[]);
        }
        b.off(
            700,
            blocked("futex", "futex_wait"),
            (at - 5_000, at + 5_000),
        );
        let helped = blocked("futex", "futex_wait_queue").woken_by("rayon-0", 700);
        b.off(100, helped, (at + 5_000, at + 15_000));
    });
    assert!(report.findings.is_empty(), "{report}");
    assert!(!report.charges_ns.contains_key("host.blocked"), "{report}");
}

#[test]
fn in_process_the_wait_is_charged_to_the_states_of_the_trainer() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    for step in 0..STEPS {
        let at = START + step * STEP;
        b.step("train", 0, step, 100, (at, at + STEP));
        b.wait(
            main,
            "train",
            (0, step),
            Some((step, 100)),
            (at, at + 10_000),
        );
        b.stage(main, cat::DATA_GET, step, None, (at, at + 10_000));
        b.off(
            100,
            blocked("file read", "filemap_read"),
            (at + 1_000, at + 4_000),
        );
        b.off(100, preempted("spinner", 900), (at + 5_000, at + 7_000));
    }
    b.watch(100, (0, END), &[]);
    let report = diagnose(&b.build(END));
    let expected = [
        ("compute", 10),
        ("data.compute", 5),
        ("data.io", 3),
        ("host.preempted", 2),
    ];
    for (cause, ms) in expected {
        assert_eq!(report.charges_ns[cause], STEPS * ms * 1_000_000, "{report}");
    }
}

#[test]
fn waits_that_no_cause_alone_makes_a_finding_are_one_together() {
    let report = healthy(|b, at| {
        // A second loader, of which a third of each wait is a read, a lock, and no CPU.
        let main = TrackId(1);
        b.wait(
            main,
            "more",
            (0, at / STEP),
            Some((at, 101)),
            (at + 300, at + 1_800),
        );
        b.stage(TrackId(2), cat::DATA_GET, at, None, (at + 300, at + 1_800));
        b.off(
            101,
            blocked("file read", "filemap_read"),
            (at + 300, at + 800),
        );
        b.off(101, blocked("futex", "futex_wait"), (at + 800, at + 1_310));
        b.off(101, preempted("x", 9), (at + 1_310, at + 1_800));
    });
    let found: Vec<_> = report
        .findings
        .iter()
        .map(|f| (f.cause, f.loader.as_deref()))
        .collect();
    assert_eq!(found, [(Cause::DataLock, Some("more"))], "{report}");
}

/// Of `sampled` steps the host's work between the phases has a sample.
fn between_phases(sampled: u64) -> Report {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    for step in 0..STEPS {
        let at = START + step * STEP;
        b.step("train", 0, step, 100, (at, at + STEP));
        b.phase(main, "forward", (at, at + 6_000));
        if step < sampled {
            b.sample(100, "user", "augment", at + 10_000);
        }
        b.phase(main, "backward", (at + 11_000, at + STEP));
    }
    // What follows, a validation that marks nothing, is none.
    b.watch(100, (0, END + 50_000), &[]);
    diagnose(&b.build(END + 50_000))
}

#[test]
fn work_between_marked_phases_is_the_hosts_and_its_functions_are_named() {
    let report = between_phases(STEPS);
    assert_eq!(report.charges_ns["host.compute"], STEPS * 5_000_000);
    let finding = &report.findings[0];
    assert_eq!(finding.chain[0].what, "between the marked phases");
    assert_eq!(finding.chain[1].evidence, "augment 100 % of 40 samples");
    assert!(finding.remedy.contains("between the phases"));
}

#[test]
fn few_samples_say_nothing_of_shares() {
    let told = |sampled: u64| between_phases(sampled).to_string().contains("augment");
    assert!(told(5));
    assert!(!told(4));
}

#[test]
fn a_wait_is_for_the_thread_that_ends_it_and_for_none_if_that_is_the_kernel_or_one_of_many() {
    let remedy = |waker: &dyn Fn(u64) -> (String, u32, u32)| {
        let report = run(2, |b, (start, _)| {
            let compute = start + WAIT;
            let (name, tid, pid) = waker(start / STEP);
            let off = Off {
                waker: Some((&name, tid, pid)),
                ..blocked("futex", "futex_wait")
            };
            b.off(100, off, (compute, compute + 3_000));
        });
        let mut findings = report.findings.iter();
        let finding = findings.find(|of| of.cause == Cause::HostBlocked);
        finding.expect("it is one").remedy.clone()
    };
    let own = remedy(&|_| ("logger".to_owned(), 700, common::PID.0));
    assert!(
        own.starts_with("logger, another thread of the job, is who it waits for"),
        "{own}"
    );
    let kernel = remedy(&|_| ("kworker/0:1".to_owned(), 33, 2));
    assert!(kernel.starts_with("find the lock"), "{kernel}");
    let many = remedy(&|step| {
        let tid = 700 + (step % 8) as u32;
        (format!("pool-{tid}"), tid, common::PID.0)
    });
    assert!(many.starts_with("find the lock"), "{many}");
}
