//! No trace makes the diagnosis panic, and its sums hold whatever the trace.

mod common;

use common::kernel::{blocked, preempted};
use common::{Builder, V};
use gpustall_diagnose::{annotate, diagnose};
use gpustall_trace::vocab::{QUEUE_DEPTH, arg, cat, kind, state, totals};
use gpustall_trace::{
    CounterSample, Instant, Interval, Slice, Symbol, Tid, Trace, TraceTime, Track, TrackId,
    TrackKind, Value,
};
use proptest::prelude::*;

const CATEGORIES: [&str; 25] = [
    cat::STEP,
    cat::DATA_WAIT,
    cat::EPOCH_START,
    cat::EPOCH_END,
    cat::DATA_GET,
    cat::DATA_COLLATE,
    cat::PHASE,
    cat::PAUSE,
    cat::FINDING,
    cat::KERNEL,
    cat::KERNEL,
    cat::GPU_MEMCPY,
    cat::GPU_MEMSET,
    cat::CUDA_RUNTIME,
    cat::CUDA_DRIVER,
    cat::CPU_OP,
    cat::USER_ANNOTATION,
    "unheard of",
    cat::OFF_CPU,
    cat::OFF_CPU,
    cat::OFF_CPU,
    cat::OFF_CPU,
    cat::BLOCK_IO,
    cat::RECLAIM,
    cat::COMPACTION,
];

const KEYS: [&str; 31] = [
    arg::LOADER,
    arg::KIND,
    arg::EPOCH,
    arg::STEP,
    arg::BATCH,
    arg::ITEMS,
    arg::WORKER,
    arg::THREAD,
    arg::CPU_NS,
    arg::UNFINISHED,
    arg::PANICKED,
    arg::MESSAGE,
    arg::DEVICE,
    arg::STREAM,
    arg::CORRELATION,
    arg::BYTES,
    arg::STATE,
    arg::RUNNABLE_NS,
    arg::WAIT,
    arg::FUNCTION,
    arg::WAKER,
    "waker_tid",
    "waker_pid",
    arg::DISPLACED_BY,
    arg::GAVE_BACK,
    arg::IOWAIT,
    arg::INFERRED,
    arg::RUNNING,
    totals::FIRST_NS,
    totals::LOST_NS,
    totals::MINOR_FAULTS,
];

const TEXTS: [&str; 21] = [
    "train",
    kind::VALID,
    "metrics",
    "checkpoint",
    "",
    "a\u{7}\n\t\u{200d}b",
    "cudaMemcpyAsync",
    "Memcpy DtoH (Device -> Pageable)",
    "ncclKernel",
    "cudaStreamSynchronize",
    "cudaStreamWaitEvent",
    "cuModuleLoadData",
    "ProfilerStep#1",
    "data_next",
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    state::PREEMPTED,
    state::SLEEPING,
    state::STARTING,
    "futex",
    "page fault",
    "do_swap_page",
];

fn time() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0u64..1000, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

#[derive(Debug, Clone, Copy)]
enum Raw {
    Number(u64),
    Float(f64),
    Bool(bool),
    Text(usize),
}

fn raw() -> impl Strategy<Value = Raw> {
    prop_oneof![
        6 => (0u64..6).prop_map(Raw::Number),
        1 => any::<u64>().prop_map(Raw::Number),
        1 => any::<f64>().prop_map(Raw::Float),
        2 => any::<bool>().prop_map(Raw::Bool),
        4 => (0..TEXTS.len()).prop_map(Raw::Text),
    ]
}

type RawSlice = (u32, usize, usize, u64, u64, Vec<(usize, Raw)>);

fn slice() -> impl Strategy<Value = RawSlice> {
    let args = prop::collection::vec((0..KEYS.len(), raw()), 0..9);
    (
        0u32..7,
        0..CATEGORIES.len(),
        0..TEXTS.len(),
        time(),
        time(),
        args,
    )
}

fn trace(end: u64, slices: &[RawSlice], depths: &[(u32, u64, f64)]) -> Trace {
    let mut trace = Trace::default();
    trace.meta.end = TraceTime::from_nanos(end);
    for i in 0..5 {
        let name = trace.strings.intern(TEXTS[i as usize]);
        let kind = if i == 4 {
            TrackKind::Synthetic
        } else {
            TrackKind::Thread
        };
        trace.tracks.push(Track {
            pid: common::PID,
            tid: Tid(i % 3),
            name,
            sort: 0,
            kind,
        });
    }
    for &(track, category, name, start, to, ref args) in slices {
        let args: gpustall_trace::Args = args
            .iter()
            .map(|&(key, raw)| {
                let value = match raw {
                    Raw::Number(n) => Value::U64(n),
                    Raw::Float(x) => Value::F64(x),
                    Raw::Bool(b) => Value::Bool(b),
                    Raw::Text(text) => Value::Str(trace.strings.intern(TEXTS[text])),
                };
                (trace.strings.intern(KEYS[key]), value)
            })
            .collect();
        let cat = trace.strings.intern(CATEGORIES[category]);
        let name = trace.strings.intern(TEXTS[name]);
        let (start, end) = (TraceTime::from_nanos(start), TraceTime::from_nanos(to));
        let track = TrackId(track);
        let moment = match category {
            9 => Some(cat::FAULT),
            18 => Some(cat::THREAD_TOTALS),
            19 => Some(cat::CPU_SAMPLE),
            20 => Some(cat::OOM_KILL),
            _ => None,
        };
        if let Some(moment) = moment {
            trace.instants.push(Instant {
                track,
                name,
                cat: trace.strings.intern(moment),
                at: start,
                args: args.clone(),
            });
            if moment != cat::FAULT && moment != cat::OOM_KILL {
                continue;
            }
        }
        // The end may lie before the start.
        trace.slices.push(Slice {
            track,
            name,
            cat,
            span: Interval { start, end },
            args,
        });
    }
    let name = trace.strings.intern(&format!("{QUEUE_DEPTH} train"));
    trace.counter_series.push(gpustall_trace::CounterSeries {
        pid: common::PID,
        name,
    });
    let sample = |&(series, at, value): &(u32, u64, f64)| CounterSample {
        series,
        at: TraceTime::from_nanos(at),
        value,
    };
    trace.counters = depths.iter().map(sample).collect();
    trace
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_trace_makes_it_panic_and_the_sums_hold(
        end in time(),
        slices in prop::collection::vec(slice(), 0..60),
        depths in prop::collection::vec((0u32..2, time(), any::<f64>()), 0..6),
        sort in any::<bool>(),
    ) {
        let mut trace = trace(end, &slices, &depths);
        if sort {
            trace.sort();
        }
        let report = diagnose(&trace);
        let charged: u128 = report.charges_ns.values().map(|&ns| u128::from(ns)).sum();
        prop_assert!(charged == u128::from(report.device_ns) || end > u64::MAX / 8);
        for share in report.breakdown.values() {
            prop_assert!((0.0..=1.0).contains(share));
        }
        let text = report.to_string();
        prop_assert!(text.lines().all(|line| line.chars().all(|c| !c.is_control())));
        let json = serde_json::to_string(&report).expect("a report is JSON");
        let back: gpustall_diagnose::Report = serde_json::from_str(&json).expect("its own JSON");
        prop_assert_eq!(&back, &report);
        annotate(&mut trace, &report);
        for flow in &trace.flows {
            prop_assert!(flow.from.at <= flow.to.at);
        }
        // The order of a trace that is out of order decides between equals.
        if sort {
            prop_assert_eq!(diagnose(&trace), report);
        }
    }
}

#[test]
fn a_long_slice_under_many_waits_does_not_make_it_slow() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let worker = b.thread(101, "dataloader-0");
    b.stage(worker, cat::DATA_GET, 1, None, (0, 1_000_000));
    for step in 0..100_000 {
        let at = step * 10;
        b.step("train", 0, step, 100, (at, at + 10));
        b.wait(main, "train", (0, step), Some((step, 101)), (at, at + 5));
        b.stage(worker, cat::DATA_GET, step, None, (at, at + 2));
        b.slice(
            main,
            cat::PAUSE,
            "paused",
            (at + 7, at + 8),
            &[(arg::STEP, V::N(1))],
        );
    }
    let trace = b.build(1_000_000);
    let begun = std::time::Instant::now();
    diagnose(&trace);
    // Takes a fraction of a second; a quadratic one would take minutes.
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

#[test]
fn symbols_of_another_trace_are_no_names() {
    let mut trace = common::with_workers(20, 7000, 3000);
    let foreign = {
        let mut other = Trace::default();
        (0..10_000)
            .map(|i| other.strings.intern(&i.to_string()))
            .last()
    };
    let foreign: Symbol = foreign.expect("there are some");
    for slice in &mut trace.slices {
        slice.name = foreign;
    }
    assert_eq!(diagnose(&trace).findings.len(), 1);
}

#[test]
fn long_copies_under_many_kernels_do_not_make_it_slow() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let (compute, copies) = (b.stream(0, 7), b.stream(0, 8));
    b.profiler_step(main, 0, (0, 200_000));
    for i in 0..100_000u64 {
        b.copy(copies, common::device::PINNED, 0, 1, (i, 200_000 + i));
        b.launch(main, compute, i + 1, (2 * i, 2 * i + 1), (2 * i, 2 * i + 1));
    }
    let begun = std::time::Instant::now();
    let report = diagnose(&b.build(400_000));
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    // Seconds without optimization, on a machine that does nothing else.
    assert!(begun.elapsed().as_secs() < 120, "{:?}", begun.elapsed());
}

/// A step, a wait in it, and what is off CPU on the thread 100.
fn one_step(more: impl FnOnce(&mut Builder)) -> gpustall_diagnose::Report {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    b.thread(101, "dataloader-0");
    for step in 0..10 {
        b.step("train", 0, step, 100, (step * 100, step * 100 + 100));
    }
    b.wait(main, "train", (0, 1), Some((1, 101)), (100, 200));
    more(&mut b);
    let report = diagnose(&b.build(1000));
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    report
}

#[test]
fn of_overlapping_intervals_the_one_that_began_last_counts() {
    let report = one_step(|b| {
        b.off(100, blocked("futex", "futex_wait"), (500, 700));
        b.off(100, preempted("x", 9), (600, 650));
    });
    assert_eq!(report.charges_ns["host.preempted"], 50_000);
    assert_eq!(report.charges_ns["host.blocked"], 150_000);
}

#[test]
fn an_interval_that_says_nothing_is_a_wait_for_something() {
    let report = one_step(|b| {
        let lane = b.lane(100);
        let args = [(arg::THREAD, V::N(100))];
        b.slice(lane, cat::OFF_CPU, "?", (500, 600), &args);
        b.slice(lane, cat::OFF_CPU, "?", (700, 800), &[]);
    });
    // Of no thread, the second is nobody's.
    assert_eq!(report.charges_ns["host.blocked"], 100_000);
}

#[test]
fn a_wake_up_before_the_interval_began_makes_all_of_it_waiting_for_a_cpu() {
    let report = one_step(|b| {
        let wait = blocked("futex", "futex_wait").then_runnable(500, "x", 9);
        b.off(100, wait, (500, 600));
    });
    assert_eq!(report.charges_ns["host.preempted"], 100_000);
}

#[test]
fn threads_that_nobody_knows_change_nothing() {
    let plain = one_step(|_| {});
    let with = one_step(|b| {
        b.off(9_999, preempted("x", 9), (0, 1000));
        b.sample(9_999, "page fault", "f", 150);
    });
    assert_eq!(with.charges_ns, plain.charges_ns);
    assert_eq!(with.threads.len(), 1);
}

#[test]
fn an_id_that_two_threads_had_is_watched_while_either_lived() {
    let report = one_step(|b| {
        b.watch(101, (100, 130), &[]);
        b.watch(101, (160, 180), &[]);
        b.stage(TrackId(2), cat::DATA_GET, 1, None, (100, 200));
    });
    assert_eq!(report.charges_ns["data.compute"], 50_000);
    assert_eq!(report.charges_ns["data"], 50_000);
    assert_eq!(report.threads[0].usage.watched_ns, 50_000);
}

#[test]
fn totals_alone_tell_that_a_thread_ran() {
    let report = one_step(|b| {
        b.watch(100, (0, 1000), &[(totals::ON_CPU_NS, 5)]);
        b.watch(101, (0, 1000), &[]);
        b.stage(TrackId(2), cat::DATA_GET, 1, None, (100, 200));
    });
    assert_eq!(report.charges_ns["data.compute"], 100_000);
    assert_eq!(report.threads[0].usage.on_cpu_ns, 5);
}

#[test]
fn many_intervals_under_long_waits_do_not_make_it_slow() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let worker = b.thread(101, "dataloader-0");
    b.off(101, blocked("futex", "futex_wait"), (0, 200_000));
    for step in 0..20_000u64 {
        let at = step * 10;
        b.off(101, preempted("x", 9), (at, at + 2));
        b.off(
            100,
            blocked("futex", "futex_wait").woken_by("y", 101),
            (at + 1, at + 4),
        );
        b.sample(101, "page fault", "f", at + 3);
        b.request(101, 4096, (at, 200_000 - step));
        b.slice(worker, cat::RECLAIM, "direct reclaim", (at, 200_000), &[]);
        if step % 50 == 0 {
            b.step("train", 0, step, 100, (at, at + 500));
            b.wait(main, "train", (0, step), Some((step, 101)), (at, at + 400));
            b.stage(worker, cat::DATA_GET, step, None, (at, at + 400));
        }
    }
    b.watch(101, (0, 200_000), &[]);
    let mut trace = b.build(200_000);
    let begun = std::time::Instant::now();
    let report = diagnose(&trace);
    annotate(&mut trace, &report);
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    // Takes a second or two without optimization; a quadratic one would take minutes.
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}
