//! Every nanosecond is charged once, to what the rule says: checked against an oracle that asks
//! for each nanosecond.

mod common;

use common::{Builder, V};
use gpustall_diagnose::{MAX_UNRECORDED, diagnose};
use gpustall_trace::vocab::{arg, cat};
use proptest::prelude::*;
use std::collections::BTreeMap;

const END: u64 = 300;

/// What lies on a trainer's thread.
#[derive(Debug, Clone, Copy, PartialEq)]
enum What {
    /// A wait for a batch that nobody tagged.
    Untagged {
        step: u64,
    },
    /// A wait for a batch that the waiting thread made, so many percent of it on a CPU.
    InProcess {
        step: u64,
        cpu: u64,
    },
    EpochStart,
    EpochEnd,
    Metrics,
    Checkpoint,
    /// A phase that means nothing.
    Forward,
}

impl What {
    /// Whether it is a call of a loader.
    fn calls(self) -> bool {
        !matches!(self, What::Metrics | What::Checkpoint | What::Forward)
    }
}

#[derive(Debug, Clone, Copy)]
struct Event {
    trainer: usize,
    what: What,
    start: u64,
    end: u64,
}

fn what() -> impl Strategy<Value = What> {
    prop_oneof![
        (0u64..3).prop_map(|step| What::Untagged { step }),
        (
            0u64..3,
            prop_oneof![Just(100u64), Just(80), Just(79), Just(0)]
        )
            .prop_map(|(step, cpu)| What::InProcess { step, cpu }),
        Just(What::EpochStart),
        Just(What::EpochEnd),
        Just(What::Metrics),
        Just(What::Checkpoint),
        Just(What::Forward),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    (0usize..2, what(), 0u64..END, 1u64..60).prop_map(|(trainer, what, start, len)| Event {
        trainer,
        what,
        start,
        end: start + len,
    })
}

/// CPU time of a wait in process. One that the end of the recording cuts is as long as what is
/// left of it.
fn cpu_ns(event: &Event) -> u64 {
    let length = event.end.min(END) - event.start;
    match event.what {
        // Just too little.
        What::InProcess { cpu: 79, .. } => (length * 79).div_ceil(100) - 1,
        What::InProcess { cpu, .. } => (length * cpu).div_ceil(100),
        _ => 0,
    }
}

/// The cause of the event, `None` if it causes nothing, with the rank of the kind of event.
fn cause(event: &Event, events: &[Event]) -> Option<(u8, &'static str)> {
    Some(match event.what {
        What::Untagged { step: 0 } | What::EpochStart => (1, "data.startup"),
        What::InProcess { .. } => {
            let others = events.iter().filter(|other| {
                other.trainer == event.trainer && matches!(other.what, What::InProcess { .. })
            });
            let length = |e: &Event| e.end.min(END) - e.start;
            let all = others.fold((0, 0), |(cpu, len), e| (cpu + cpu_ns(e), len + length(e)));
            let own = (cpu_ns(event), length(event));
            let at_least = |(cpu, len): (u64, u64), percent| cpu * 100 >= len * percent;
            let compute = at_least(own, 80) || (at_least(all, 80) && at_least(own, 50));
            (1, if compute { "data.compute" } else { "data" })
        }
        What::Untagged { .. } | What::EpochEnd => (1, "data"),
        What::Metrics => (0, "host.metrics"),
        What::Checkpoint => (0, "host.checkpoint"),
        What::Forward => return None,
    })
}

/// From when to when the time of a trainer counts, if at all.
fn account(
    trainer: usize,
    steps: &[(usize, u64, u64)],
    complete: &dyn Fn(usize) -> bool,
    events: &[Event],
) -> Option<(u64, u64)> {
    (0..steps.len()).find(|&i| complete(i))?;
    let stretch = |trainer: usize| {
        let own = |i: &usize| steps[*i].0 == trainer;
        let waits = || {
            events.iter().filter_map(move |e| match e.what {
                What::Untagged { step } | What::InProcess { step, .. } if e.trainer == trainer => {
                    Some((step as usize, e.start, e.end.min(END)))
                }
                _ => None,
            })
        };
        let in_complete = waits().filter(|&(step, _, _)| step < steps.len() && complete(step));
        let start = (0..steps.len())
            .filter(own)
            .filter(|&i| complete(i))
            .map(|i| steps[i].1)
            .chain(in_complete.clone().map(|(_, start, _)| start))
            .min();
        let start = start.or_else(|| waits().map(|(_, start, _)| start).min())?;
        let spans = (0..steps.len())
            .filter(own)
            .map(|i| (steps[i].1, steps[i].2.min(END)))
            .filter(|&(start, _)| start < END)
            .chain(waits().map(|(_, start, end)| (start, end)));
        let first = spans.clone().map(|(start, _)| start).min()?;
        let ends = spans.map(|(_, end)| end);
        let last = ends.chain(in_complete.map(|(step, _, _)| steps[step].2));
        Some((start, first, last.max()?))
    };
    let (start, first, last) = stretch(trainer)?;
    let others = (0..2).filter_map(stretch).map(|(_, other, _)| other);
    let successors = others.filter(|&other| other >= last && other > first);
    let until = until(steps, complete, events);
    Some((start, successors.min().unwrap_or(END).min(until)))
}

/// The end of the window: where each thread's last call of its loader ended an epoch, that of all of them.
fn until(steps: &[(usize, u64, u64)], complete: &dyn Fn(usize) -> bool, events: &[Event]) -> u64 {
    let calls = |trainer: usize| {
        let of = move |e: &&Event| e.trainer == trainer && e.what.calls();
        events.iter().filter(of)
    };
    let ended = |trainer: usize| {
        let last = calls(trainer).max_by_key(|e| (e.end.min(END), e.start));
        last.is_none_or(|last| matches!(last.what, What::EpochEnd))
    };
    let cut = |i: usize| steps[i].2 >= END && !complete(i);
    let none = calls(0).chain(calls(1)).next().is_none();
    if none || !(ended(0) && ended(1)) || (0..steps.len()).any(cut) {
        return END;
    }
    let steps = steps.iter().filter(|step| step.1 < END).map(|step| step.2);
    let events = events.iter().map(|e| e.end);
    steps.chain(events).max().unwrap_or(END).min(END)
}

/// Charges nanosecond by nanosecond.
fn oracle(
    steps: &[(usize, u64, u64)],
    pauses: &[(u64, u64)],
    events: &[Event],
) -> (BTreeMap<String, u64>, Vec<u64>) {
    let paused = |t: u64| pauses.iter().any(|&(start, end)| start <= t && t < end);
    let complete = |i: usize| {
        let (_, start, end) = steps[i];
        let missing = (start..end).filter(|&t| t >= END || paused(t)).count() as u64;
        missing <= (end - start) / MAX_UNRECORDED
    };
    let mut charges = BTreeMap::new();
    let mut lengths = Vec::new();
    for trainer in 0..2 {
        let Some((start, end)) = account(trainer, steps, &complete, events) else {
            continue;
        };
        charges.entry("compute".to_owned()).or_insert(0);
        let mut length = 0;
        for t in (start..end).filter(|&t| !paused(t)) {
            length += 1;
            let winner = events
                .iter()
                .filter(|e| e.trainer == trainer && e.start <= t && t < e.end)
                .filter_map(|e| {
                    let (rank, cause) = cause(e, events)?;
                    Some(((rank, e.start, std::cmp::Reverse(e.end.min(END))), cause))
                })
                .max();
            let cause = winner.map_or("compute", |(_, cause)| cause);
            *charges.entry(cause.to_owned()).or_insert(0) += 1;
        }
        lengths.push(length);
    }
    (charges, lengths)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_nanosecond_is_charged_once_and_to_what_the_rule_says(
        steps in prop::collection::vec((0usize..2, 1u64..60), 0..10),
        pauses in prop::collection::vec((0u64..END, 1u64..20), 0..3),
        events in prop::collection::vec(event(), 0..14),
    ) {
        // Of events with the same times one is enough: which of them wins is not the rule's.
        let mut events = events;
        events.sort_by_key(|e| (e.trainer, e.start, e.end.min(END)));
        events.dedup_by_key(|e| (e.trainer, e.start, e.end.min(END)));
        let pauses: Vec<_> = pauses.into_iter().map(|(start, len)| (start, start + len)).collect();
        let mut at = [0, 0];
        let steps: Vec<(usize, u64, u64)> = steps.into_iter().map(|(trainer, len)| {
            let start = at[trainer];
            at[trainer] += len;
            (trainer, start, start + len)
        }).collect();

        let mut b = Builder::new();
        b.unit = 1;
        let threads = [b.thread(100, "main"), b.thread(101, "second")];
        for (i, &(trainer, start, end)) in steps.iter().enumerate() {
            b.step("train", 0, i as u64, 100 + trainer as u32, (start, end));
        }
        let pause_track = threads[0];
        for &pause in &pauses {
            b.slice(pause_track, cat::PAUSE, "paused", pause, &[]);
        }
        for e in &events {
            let (track, span) = (threads[e.trainer], (e.start, e.end));
            let loader = (arg::LOADER, V::S("train"));
            let epoch = (arg::EPOCH, V::N(0));
            match e.what {
                What::Untagged { step } => b.slice(
                    track, cat::DATA_WAIT, "wait", span, &[loader, epoch, (arg::STEP, V::N(step))],
                ),
                What::InProcess { step, .. } => {
                    let args = [
                        loader,
                        epoch,
                        (arg::STEP, V::N(step)),
                        (arg::BATCH, V::N(1)),
                        (arg::WORKER, V::N(100 + e.trainer as u64)),
                        (arg::CPU_NS, V::N(cpu_ns(e))),
                    ];
                    b.slice(track, cat::DATA_WAIT, "wait", span, &args);
                }
                What::EpochStart => b.slice(track, cat::EPOCH_START, "start", span, &[loader]),
                What::EpochEnd => b.slice(track, cat::EPOCH_END, "end", span, &[loader]),
                What::Metrics => b.phase(track, "metrics.push", span),
                What::Checkpoint => b.phase(track, "Checkpoint", span),
                What::Forward => b.phase(track, "forward", span),
            }
        }
        let report = diagnose(&b.build(END));

        let (expected, lengths) = oracle(&steps, &pauses, &events);
        prop_assert_eq!(&report.charges_ns, &expected);
        prop_assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
        prop_assert_eq!(report.device_ns, lengths.iter().sum::<u64>());
        prop_assert_eq!(report.devices.len(), lengths.len());
        let shares: f64 = report.breakdown.values().sum();
        prop_assert!(report.device_ns == 0 || (shares - 1.0).abs() < 1e-9);
        for finding in &report.findings {
            let below: u64 = finding.chain.iter().filter(|l| l.depth == 1).map(|l| l.ns).sum();
            prop_assert!(below == finding.lost_ns || !finding.cause.id().starts_with("data"));
            for stall in &finding.worst {
                let pieces: u64 = stall.pieces.iter().map(|piece| piece.ns).sum();
                prop_assert_eq!(pieces + stall.unlisted_ns, stall.lost_ns);
            }
        }
    }
}
