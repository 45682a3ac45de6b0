//! A wait that never ends is charged to what the worker was in: no number of workers mends it.

mod common;

use common::kernel::{Off, blocked};
use common::{Builder, V};
use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::vocab::{arg, cat, kind};

const BEGAN: u64 = 400_000;
const END: u64 = BEGAN + 8_000_000;

/// Thirty steps of 10 ms, then one whose batch the only worker never finishes: `off` says what it does
/// in its get, which it otherwise runs.
fn hang(off: Option<Off<'_>>) -> Report {
    let mut b = Builder::new();
    b.trace.meta.cpus = 4;
    let main = b.thread(100, "main");
    let worker = b.thread(101, "dataloader-0");
    for step in 0..30 {
        let at = 100_000 + step * 10_000;
        let wait = (at, at + 2_000);
        b.step("train", 0, step, 100, (at, at + 10_000));
        b.wait(main, "train", (0, step), Some((step, 101)), wait);
        b.stage(worker, cat::DATA_GET, step, None, (at - 7_000, wait.1));
        b.off(100, blocked("futex", "futex_wait"), wait);
    }
    let open = (arg::UNFINISHED, V::B(true));
    let wait = [
        (arg::LOADER, V::S("train")),
        (arg::KIND, V::S(kind::TRAIN)),
        (arg::STEP, V::N(30)),
        open,
    ];
    b.slice(main, cat::DATA_WAIT, "data wait", (BEGAN, END), &wait);
    b.slice(worker, cat::DATA_GET, "get", (BEGAN, END), &[open]);
    b.off(100, blocked("futex", "futex_wait"), (BEGAN, END));
    if let Some(off) = off {
        b.off(101, off, (BEGAN, END));
    }
    for tid in [100, 101] {
        b.watch(tid, (0, END), &[]);
    }
    diagnose(&b.build(END))
}

#[test]
fn a_hang_is_charged_to_what_the_worker_was_in() {
    let cases = [
        ("data", Some(blocked("sleep", "hrtimer_nanosleep"))),
        ("data.lock", Some(blocked("futex", "futex_wait_queue"))),
        ("data.io", Some(blocked("socket", "sk_wait_data"))),
        ("data.compute", None),
    ];
    for (cause, off) in cases {
        let report = hang(off);
        let finding = &report.findings[0];
        assert_eq!(finding.cause.id(), cause, "{report}");
        assert!(finding.share > 0.9, "{report}");
        let head = "find what dataloader-0 has been doing in get since 400 ms";
        assert!(finding.remedy.starts_with(head), "{report}");
        let verdict = "mlp: main had been in next() of `train` for 8.00 s when the recording ended";
        assert_eq!(report.verdict, verdict, "{report}");
    }
}
