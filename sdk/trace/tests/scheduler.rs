//! Scheduler tracks: what was recorded of each thread is what viewers show.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kernel;
mod sample;

use gpustall_trace::vocab::{cat, state};
use gpustall_trace::*;
use kernel::{Kernel, Off, lines, sleep, states, time, trace};
use proptest::prelude::*;
use sample::canonical;

fn written(trace: &Trace, options: &ViewOptions) -> (Vec<String>, WriteStats, ReadOutcome) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.json");
    let stats = write_finished_with(&path, trace, options).unwrap();
    let lines = lines(&path);
    assert_eq!(stats.sched_lines as usize, lines.len());
    (lines, stats, read(&path).unwrap())
}

#[test]
fn two_threads_that_hand_a_cpu_to_each_other_share_its_lines() {
    let hand_over = |tid, start, other, state| Off {
        state,
        runnable: if state == state::PREEMPTED { 100 } else { 40 },
        others: [other, other, other],
        ..sleep(tid, start, 100)
    };
    let trace = trace(&[
        hand_over(11, 1_000, 12, state::SLEEPING),
        hand_over(12, 1_100, 11, state::PREEMPTED),
        hand_over(11, 1_200, 12, state::UNINTERRUPTIBLE),
    ]);
    let (lines, ..) = written(&trace, &ViewOptions::default());
    let switch = |at, prev, state, next| {
        format!(
            "worker-{prev} (7) [0] .... 0.{at:09}5: sched_switch: prev_comm=worker prev_pid={prev} \
             prev_prio=120 prev_state={state} ==> next_comm=worker next_pid={next} next_prio=120"
        )
    };
    let waking = |at, waker, wakee| {
        format!(
            "worker-{waker} (7) [0] .... 0.{at:09}5: sched_waking: comm=worker pid={wakee} \
             prio=120 target_cpu=0"
        )
    };
    assert_eq!(
        lines,
        [
            switch(1_000, 11, "S", 12),
            waking(1_060, 12, 11),
            switch(1_100, 12, "R+", 11),
            switch(1_200, 11, "D", 12),
            "worker-11 (7) [0] .... 0.0000012005: sched_blocked_reason: pid=11 iowait=0 caller=_"
                .to_owned(),
            waking(1_260, 12, 11),
            switch(1_300, 12, "R", 11),
        ]
    );
}

#[test]
fn a_trace_without_stretches_off_cpu_has_no_scheduler_text() {
    let (lines, stats, _) = written(&trace(&[]), &ViewOptions::default());
    assert_eq!((lines.len(), stats.sched_lines), (0, 0));
}

#[test]
fn names_cannot_break_a_line() {
    let mut trace = trace(&[sleep(11, 10, 100)]);
    let name = "a b=c\n\"d\\ [1] ==> x\u{2028}\u{0}é";
    trace.tracks[0].name = trace.strings.intern(name);
    let (lines, ..) = written(&trace, &ViewOptions::default());
    assert!(
        lines[0].starts_with("a_b_c__d__[1]___>_x__é-11 (7) [0]"),
        "{}",
        lines[0]
    );
    assert_eq!(
        Kernel::read(&lines).not_running(&[11]),
        states(&[sleep(11, 10, 100)])
    );
}

/// Threads 11 to 13, each asleep 40 times, and a budget for a part of that.
fn many() -> (Vec<Off>, Trace) {
    let one = |n: u64, tid| sleep(tid, n * 1_000 + u64::from(tid), 100 + (n * 7) % 40);
    let mut all: Vec<Off> = (11..14)
        .flat_map(|tid| (0..40).map(move |n| one(n, tid)))
        .collect();
    all.iter_mut()
        .for_each(|off| off.cpus = (Some(off.tid), Some(off.tid)));
    let trace = trace(&all);
    (all, trace)
}

#[test]
fn stalls_come_first_and_then_the_longest_stretches() {
    let (all, whole) = many();
    let stall = Interval::new(time(4_050), time(9_050));
    let options = ViewOptions {
        sched_lines: 90,
        first: vec![stall],
    };
    let (lines, stats, outcome) = written(&whole, &options);
    assert!(lines.len() <= 90, "{}", lines.len());
    let shown = Kernel::read(&lines).not_running(&[11, 12, 13]);
    let left_out = all.len() - shown.len();
    assert_eq!(stats.off_cpu_left_out as usize, left_out);
    let mut shortest_outside = u64::MAX;
    for state in &shown {
        assert!(states(&all).contains(state), "{state:?}");
        let inside = state.2 < 9_050 && state.2 + state.3 > 4_050;
        if !inside {
            shortest_outside = shortest_outside.min(state.3);
        }
    }
    for state in states(&all).iter().filter(|state| !shown.contains(state)) {
        let outside = state.2 >= 9_050 || state.2 + state.3 <= 4_050;
        assert!(outside && state.3 <= shortest_outside, "{state:?}");
    }
    assert!(
        shortest_outside < u64::MAX,
        "there was room outside the stall"
    );
    // The block has them all.
    assert_eq!(canonical(&outcome.trace), canonical(&whole));
}

#[test]
fn what_is_left_out_is_said_and_only_the_view_lacks_it() {
    let (all, whole) = many();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.json");
    let options = ViewOptions {
        sched_lines: 60,
        first: Vec::new(),
    };
    let stats = write_finished_with(&path, &whole, &options).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let note = "scheduler tracks are not complete";
    let line = text.lines().find(|line| line.contains(note)).unwrap();
    let note: serde_json::Value = serde_json::from_str(line.trim_end_matches(',')).unwrap();
    assert_eq!(note["args"]["left_out"], stats.off_cpu_left_out);
    assert_eq!(
        note["args"]["drawn"],
        all.len() as u64 - stats.off_cpu_left_out
    );
    // Without the block the view is read: what was drawn, and nothing that was no event.
    std::fs::write(&path, text.replace("\"chunk_count\"", "\"chunk_discount\"")).unwrap();
    let outcome = read(&path).unwrap();
    assert!(outcome.warnings[0].contains("the lossless block is damaged"));
    assert_eq!(outcome.trace.slices.len() as u64, stats.slices);
    assert_eq!(stats.slices + stats.off_cpu_left_out, all.len() as u64);
    assert_eq!(outcome.trace.instants.len(), 0);
}

#[test]
fn the_stalls_of_findings_come_first_by_what_they_cost() {
    let mut trace = trace(&[]);
    let (name, cat) = (
        trace.strings.intern("starved"),
        trace.strings.intern(cat::FINDING),
    );
    let lost = trace.strings.intern("lost_ns");
    for (start, ns) in [(0, Some(5)), (10, Some(9)), (12, None)] {
        trace.slices.push(Slice {
            track: TrackId(0),
            name,
            cat,
            span: Interval::new(time(start), time(start + 8)),
            args: ns.map(|ns| (lost, Value::U64(ns))).into_iter().collect(),
        });
    }
    let first = ViewOptions::of(&trace).first;
    let starts: Vec<_> = first.iter().map(|span| span.start.as_nanos()).collect();
    assert_eq!(starts, [10, 0]);
}

fn any_off() -> impl Strategy<Value = (u64, Off)> {
    let states = prop::sample::select(vec![
        state::PREEMPTED,
        state::SLEEPING,
        state::UNINTERRUPTIBLE,
        state::STOPPED,
        state::STARTING,
    ]);
    let cpu = || prop::option::weighted(0.9, 0..3u32);
    let other = || prop::sample::select(vec![0, 11, 12, 13, 14, 99, 98]);
    let others = [other(), other(), other()];
    let lengths = (0..60u64, 0..60u64, 0..60u64);
    (11..15u32, states, lengths, (cpu(), 0..3u32), others).prop_map(
        |(tid, state, (gap, length, runnable), (out, back), others)| {
            let off = Off {
                tid,
                start: 0,
                length,
                state,
                runnable,
                cpus: (out, Some(back)),
                others,
            };
            (gap, off)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the CPUs and the other threads are said to be, also what cannot be.
    #[test]
    fn what_was_recorded_of_a_thread_is_shown_to_the_nanosecond(
        list in prop::collection::vec(any_off(), 0..40),
        room in prop_oneof![Just(SCHED_LINES), 0..120usize],
    ) {
        let mut ends = [0u64; 20];
        let mut all = Vec::new();
        for (gap, mut off) in list {
            let end = &mut ends[off.tid as usize];
            // Only a new thread can be starting.
            if off.state == state::STARTING && *end > 0 {
                off.state = state::PREEMPTED;
            }
            off.start = *end + gap;
            *end = off.start + off.length;
            all.push(off);
        }
        let whole = trace(&all);
        let options = ViewOptions { sched_lines: room, first: Vec::new() };
        let (lines, _, outcome) = written(&whole, &options);
        prop_assert_eq!(canonical(&outcome.trace), canonical(&whole));
        prop_assert!(lines.len() <= room);
        let tids: Vec<u32> = all.iter().map(|off| off.tid).collect();
        let mut shown = Kernel::read(&lines).not_running(&tids);
        let mut missing = Vec::new();
        for state in states(&all) {
            match shown.iter().position(|other| *other == state) {
                Some(at) => drop(shown.remove(at)),
                None => missing.push(state),
            }
        }
        prop_assert!(room < SCHED_LINES || missing.is_empty(), "{:?} in {:#?}", missing, lines);
        // A thread whose CPU another one has is ready meanwhile.
        prop_assert!(shown.iter().all(|(_, state, ..)| state == "R"), "{:?}", shown);
    }
}
