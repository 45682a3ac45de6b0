//! The user's own spans say what making a batch goes into.

mod common;

use common::{Builder, V, with_workers};
use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::vocab::{arg, cat};
use gpustall_trace::{Interval, Slice, Trace, TraceTime};

/// Two workers whose get is `decode_jpeg` for 8 of its 12 ms and `resize` inside that for 2, under a span
/// that is open all the time.
fn spans(lost: bool) -> Trace {
    let mut trace = with_workers(50, 7000, 12_000);
    let get = trace.strings.intern(cat::DATA_GET);
    let span = trace.strings.intern(cat::SPAN);
    let names = ["decode_jpeg", "resize", "worker_main"].map(|name| trace.strings.intern(name));
    let gets: Vec<Slice> = trace
        .slices
        .iter()
        .filter(|of| of.cat == get)
        .cloned()
        .collect();
    let mut add = |of: &Slice, name, from: u64, to: u64| {
        let start = of.span.start.as_nanos();
        let time = |ms: u64| TraceTime::from_nanos(start + ms * 1_000_000);
        let (span_of, cat) = (Interval::new(time(from), time(to)), span);
        trace.slices.push(Slice {
            track: of.track,
            name,
            cat,
            span: span_of,
            args: Box::default(),
        });
    };
    for of in &gets {
        add(of, names[0], 1, 9);
        add(of, names[1], 2, 4);
    }
    for of in [&gets[0], &gets[1]] {
        add(of, names[2], 0, 400);
    }
    if lost {
        let mut b = Builder::new();
        b.lose("user spans", 1000, 3);
        let source = trace.strings.intern("user spans");
        trace.losses.extend(
            b.trace
                .losses
                .iter()
                .map(|of| gpustall_trace::Loss { source, ..*of }),
        );
    }
    trace.sort();
    trace
}

fn get_of(report: &Report) -> String {
    let chain = &report.findings[0].chain;
    let get = chain.iter().find(|link| link.what.starts_with("get"));
    get.map_or(String::new(), |link| link.what.clone())
}

#[test]
fn the_spans_in_a_get_are_named_with_their_part_of_it() {
    let report = diagnose(&spans(false));
    let what = get_of(&report);
    let named: Vec<&str> = what.split(", ").collect();
    assert_eq!(named.len(), 2, "{report}");
    assert!(named[1].ends_with("% in `decode_jpeg`"), "{report}");
    assert!(!what.contains("worker_main"), "{report}");
    assert!(
        report.verdict.contains("which spend it in get, "),
        "{report}"
    );
    assert!(report.verdict.ends_with("in `decode_jpeg`"), "{report}");
    let json = serde_json::to_string(&report).expect("a report is JSON");
    assert_eq!(
        serde_json::from_str::<Report>(&json).expect("its own"),
        report
    );
}

#[test]
fn where_spans_were_lost_the_part_is_the_least_that_it_can_be() {
    let report = diagnose(&spans(true));
    assert!(get_of(&report).starts_with("get, at least "), "{report}");
}

#[test]
fn annotations_in_a_next_that_makes_its_batch_are_named() {
    let mut b = Builder::new();
    b.trace.meta.recorder = "kineto".into();
    let main = b.thread(100, "main");
    let next = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
    for step in 0..10 {
        let at = 10_000 + step * 10_000;
        b.profiler_step(main, step, (at, at + 10_000));
        b.annotate(main, next, (at, at + 6_000));
        b.annotate(main, "decode_jpeg", (at + 500, at + 5_000));
        b.annotate(main, "forward", (at + 7_000, at + 8_000));
    }
    let report = diagnose(&b.build(120_000));
    let verdict = "main makes the batches itself in next(), 75 % in `decode_jpeg`";
    assert!(report.verdict.ends_with(verdict), "{report}");
}

/// A span that begins before its get is not a part of it.
#[test]
fn spans_around_a_stage_say_nothing_of_it() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    for step in 0..20 {
        let at = 100_000 + step * 10_000;
        b.step("train", 0, step, 100, (at, at + 10_000));
        b.wait(
            main,
            "train",
            (0, step),
            Some((step, 100)),
            (at, at + 7_000),
        );
        b.stage(
            main,
            cat::DATA_GET,
            step,
            Some(6_900),
            (at + 10, at + 6_990),
        );
        let args = [(arg::TARGET, V::S("app"))];
        b.slice(main, cat::SPAN, "iteration", (at, at + 9_000), &args);
    }
    let report = diagnose(&b.build(300_000));
    assert_eq!(get_of(&report), "get", "{report}");
}
