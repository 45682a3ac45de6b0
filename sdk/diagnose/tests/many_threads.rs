//! A job that starts tens of thousands of threads, and one whose threads get the ids of others.

mod common;

use common::{Builder, V};
use gpustall_diagnose::{Report, annotate, diagnose};
use gpustall_trace::vocab::{arg, cat, state, totals};
use gpustall_trace::{Instant, Pid, Trace, TraceTime, TrackKind, Value, read_any, write_finished};
use std::time::{Duration, Instant as Clock};

/// A thread of a job, as the sidecar records it: a track, a lane beside it, one wait, its totals.
struct Short<'a> {
    pid: u32,
    tid: u32,
    name: &'a str,
    number: u32,
    /// From its first event to its end, microseconds.
    lives: (u64, u64),
}

/// It is blocked for half of its life, until the main thread wakes it.
fn short(b: &mut Builder, of: &Short<'_>) {
    b.track(Pid(of.pid), of.tid, of.name, TrackKind::Thread);
    let title = format!("{} off CPU", of.name);
    let lane = b.track(
        Pid(of.pid),
        0xD000_0000 + of.number,
        &title,
        TrackKind::Synthetic,
    );
    let (from, to) = of.lives;
    let half = u64::midpoint(from, to);
    let args = [
        (arg::THREAD, V::N(u64::from(of.tid))),
        (arg::STATE, V::S(state::SLEEPING)),
        (arg::WAIT, V::S("futex")),
        (arg::RUNNABLE_NS, V::N(0)),
        (arg::WAKER, V::S("main")),
        ("waker_tid", V::N(100)),
        ("waker_pid", V::N(100)),
    ];
    b.slice(lane, cat::OFF_CPU, "futex", (from, half), &args);
    let strings = &mut b.trace.strings;
    let numbers = [
        (arg::THREAD, u64::from(of.tid)),
        (totals::FIRST_NS, from * 1000),
        (totals::ON_CPU_NS, (to - half) * 1000),
        (totals::SLEEPING_NS, (half - from) * 1000),
        (totals::WAITS, 1),
    ];
    let args = numbers.map(|(key, n)| (strings.intern(key), Value::U64(n)));
    let (cat, name) = (strings.intern(cat::THREAD_TOTALS), strings.intern("totals"));
    b.trace.instants.push(Instant {
        track: lane,
        name,
        cat,
        at: TraceTime::from_nanos(to * 1000),
        args: args.into(),
    });
}

/// Forty steps of 10 ms; meanwhile `threads` threads live for 20 us each, one after the other, and the
/// main thread leaves its CPU as often.
fn job(threads: u32) -> Trace {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    for step in 0..40 {
        let (at, batch) = (step * 10_000, Some((step, 100)));
        b.step("train", 0, step, 100, (at, at + 10_000));
        b.wait(main, "train", (0, step), batch, (at, at + 2_000));
    }
    b.watch(100, (0, 400_000), &[]);
    let lane = b.lane(100);
    let args = [
        (arg::THREAD, V::N(100)),
        (arg::STATE, V::S(state::PREEMPTED)),
        (arg::RUNNABLE_NS, V::N(0)),
    ];
    for number in 0..threads {
        let from = u64::from(number) * 380_000 / u64::from(threads);
        b.slice(lane, cat::OFF_CPU, "preempted", (from, from + 1), &args);
        let thread = Short {
            pid: 100,
            tid: 1_000 + number,
            name: &format!("pool-{number}"),
            number,
            lives: (from, from + 20),
        };
        short(&mut b, &thread);
    }
    b.build(400_000)
}

/// How long it takes to write, read, diagnose and annotate.
fn times(threads: u32) -> [Duration; 4] {
    let trace = job(threads);
    let folder = std::env::temp_dir().join(format!("gpustall-threads-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("many.trace.json.gz");
    let begun = Clock::now();
    write_finished(&path, &trace).expect("it is written");
    let written = begun.elapsed();
    let begun = Clock::now();
    let mut trace = read_any(&path).expect("it is read").trace;
    let read = begun.elapsed();
    let begun = Clock::now();
    let report = diagnose(&trace);
    let diagnosed = begun.elapsed();
    let begun = Clock::now();
    annotate(&mut trace, &report);
    let annotated = begun.elapsed();
    assert_eq!(report.processes[0].threads, u64::from(threads) + 1);
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    [written, read, diagnosed, annotated]
}

/// The least that each took, of so many rounds at most: others that use the machine make them longer only.
const ROUNDS: usize = 4;

#[test]
fn the_time_grows_as_the_number_of_threads() {
    let (mut few, mut many) = ([Duration::MAX; 4], [Duration::MAX; 4]);
    // Four times as many: a quadratic part would take sixteen times as long. Writing is not the diagnosis's.
    let grow = |few: [Duration; 4], many: [Duration; 4]| {
        let mut both = few.into_iter().zip(many).skip(1);
        both.any(|(few, many)| many >= 10 * few)
    };
    for _ in 0..ROUNDS {
        for (least, threads) in [(&mut few, 10_000), (&mut many, 40_000)] {
            for (least, time) in least.iter_mut().zip(times(threads)) {
                *least = time.min(*least);
            }
        }
        if !grow(few, many) {
            break;
        }
    }
    println!(
        "written, read, diagnosed and annotated in {few:.2?}, four times as many in {many:.2?}"
    );
    assert!(!grow(few, many), "{few:?}, then {many:?}");
}

fn of_id(report: &Report, tid: u32) -> Vec<(&str, Option<u32>, Option<u64>, u64)> {
    let mut rows: Vec<_> = report.threads.iter().filter(|of| of.tid == tid).collect();
    rows.sort_by_key(|of| of.since_ns);
    rows.iter()
        .map(|of| (of.name.as_str(), of.pid, of.since_ns, of.usage.watched_ns))
        .collect()
}

#[test]
fn threads_that_had_one_id_in_turn_have_a_row_each() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    for step in 0..40 {
        let at = step * 10_000;
        b.step("train", 0, step, 100, (at, at + 10_000));
        b.wait(main, "train", (0, step), None, (at, at + 2_000));
    }
    b.watch(100, (0, 400_000), &[]);
    for (number, (name, pid, lives)) in [
        ("reader", 100, (1_000, 3_000)),
        ("writer", 100, (50_000, 150_000)),
        ("sh", 777, (200_000, 240_000)),
    ]
    .into_iter()
    .enumerate()
    {
        let (tid, number) = (777, number as u32);
        let thread = Short {
            pid,
            tid,
            name,
            number,
            lives,
        };
        short(&mut b, &thread);
    }
    let report = diagnose(&b.build(400_000));
    let own = Some(100);
    assert_eq!(
        of_id(&report, 777),
        [
            ("reader", own, Some(1_000_000), 2_000_000),
            ("writer", own, Some(50_000_000), 100_000_000),
            ("sh", Some(777), Some(200_000_000), 40_000_000),
        ]
    );
    let mut rows = report.threads.iter();
    let writer = rows.find(|of| of.name == "writer").expect("a row");
    let worst = writer.worst_off_cpu.as_ref().expect("it was off CPU");
    assert_eq!((worst.start_ns, worst.length_ns), (50_000_000, 50_000_000));
    let processes: Vec<_> = report
        .processes
        .iter()
        .map(|of| (of.pid, of.threads))
        .collect();
    assert_eq!(processes, [(100, 3), (777, 1)]);
}
