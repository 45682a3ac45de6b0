//! No trace makes the diagnosis panic, and its sums hold whatever the trace.

mod common;

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
            // What is on a track that is not there would be on one of those that the findings add.
            let there = trace.tracks.len() as u32;
            let slices = trace.slices.iter_mut().map(|slice| &mut slice.track);
            let instants = trace.instants.iter_mut().map(|instant| &mut instant.track);
            slices.chain(instants).for_each(|track| track.0 %= there);
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
