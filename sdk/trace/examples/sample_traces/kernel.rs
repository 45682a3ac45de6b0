//! What the kernel adds: stretches off CPU, reclaim, requests to disks, counters of the host.

use crate::{empty, slice, span, time};
use gpustall_trace::vocab::{arg, cat, host, state};
use gpustall_trace::{
    Arg, CounterSample, CounterSeries, Pid, Process, Slice, Tid, Trace, Track, TrackId, TrackKind,
    Value,
};

/// Two pairs of threads, each pair on one CPU that its threads hand to each other `rounds` times, and
/// whose slices of the kernel lie across those of the program.
pub(crate) fn kernel(rounds: u64) -> Trace {
    let mut trace = empty();
    let first_lane = trace.tracks.len() as u32;
    for tid in 100..104 {
        let name = trace.strings.intern(&format!("thread {tid} off CPU"));
        trace.tracks.push(Track {
            pid: Pid(100),
            tid: Tid(0xD000_0000 + tid),
            name,
            sort: 10 + tid as i32,
            kind: TrackKind::Synthetic,
        });
    }
    for round in 0..rounds {
        let (start, turn) = (round * 100_000, 30_000 + round % 7 * 1_000);
        for (cpu, pair) in [(0, [100, 101]), (1, [102, 103])] {
            for (n, from, length) in [(0, 0, turn), (1, turn, 100_000 - turn)] {
                let (tid, other) = (pair[n], pair[1 - n]);
                let lane = TrackId(first_lane + tid - 100);
                let why = match round % 3 {
                    0 => state::PREEMPTED,
                    1 => state::SLEEPING,
                    _ => state::UNINTERRUPTIBLE,
                };
                off_cpu(
                    &mut trace,
                    lane,
                    (tid, other, cpu),
                    why,
                    span(start + from, length),
                );
            }
        }
    }
    // Reclaim that outlasts the phase in which it began, and one inside a phase.
    let end = rounds * 100_000;
    slice(&mut trace, 0, "forward", cat::PHASE, span(1_000, 50_000));
    slice(
        &mut trace,
        0,
        "direct reclaim",
        cat::RECLAIM,
        span(2_000, 10_000),
    );
    slice(
        &mut trace,
        0,
        "direct reclaim",
        cat::RECLAIM,
        span(40_000, 30_000),
    );
    slice(
        &mut trace,
        0,
        "compaction",
        cat::COMPACTION,
        span(45_000, 20_000),
    );
    slice(
        &mut trace,
        0,
        "migration",
        cat::MIGRATION,
        span(46_000, 10_000),
    );
    // Requests that overlap.
    for start in [5_000, 6_000, 7_000] {
        slice(
            &mut trace,
            first_lane + 1,
            "read",
            cat::BLOCK_IO,
            span(start, 20_000),
        );
    }
    let name = trace.strings.intern(host::PROCESS);
    let (pid, sort) = (Pid(host::PID), i32::MAX);
    trace.processes.push(Process { pid, name, sort });
    let name = trace.strings.intern(host::RUN_QUEUE);
    trace.counter_series.push(CounterSeries { pid, name });
    for n in 0..3 {
        trace.counters.push(CounterSample {
            series: 0,
            at: time(n * 1_000),
            value: n as f64,
        });
    }
    trace.meta.end = time(end);
    trace
}

fn off_cpu(
    trace: &mut Trace,
    track: TrackId,
    (tid, other, cpu): (u32, u32, u32),
    why: &str,
    span: gpustall_trace::Interval,
) {
    let runnable = match why {
        state::PREEMPTED => span.len().get(),
        _ => 5_000,
    };
    let strings = &mut trace.strings;
    let mut args: Vec<Arg> = Vec::new();
    for (key, number) in [
        (arg::THREAD, u64::from(tid)),
        (arg::RUNNABLE_NS, runnable),
        (arg::CPU_OUT, cpu.into()),
        (arg::CPU_IN, cpu.into()),
    ] {
        args.push((strings.intern(key), Value::U64(number)));
    }
    args.push((strings.intern(arg::STATE), Value::Str(strings.intern(why))));
    for key in [arg::DISPLACED_BY, arg::GAVE_BACK, arg::WAKER] {
        let name = strings.intern(&format!("dataloader-{other}"));
        args.push((strings.intern(key), Value::Str(name)));
        args.push((
            strings.intern(&format!("{key}_tid")),
            Value::U64(other.into()),
        ));
    }
    let (name, cat) = (strings.intern(why), strings.intern(cat::OFF_CPU));
    trace.slices.push(Slice {
        track,
        name,
        cat,
        span,
        args: args.into(),
    });
}
