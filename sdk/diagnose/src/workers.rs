//! The threads that made batches, and how busy they were.

use crate::at_once::at_once;
use crate::events::LoaderKey;
use crate::partition::without;
use crate::report::Worker;
use crate::rules::ThreadState;
use crate::stages::{Stage, StageKind};
use crate::stats::{mean, round_share};
use crate::tally::covers;
use crate::threads::Lane;
use crate::timeline::Timeline;
use gpustall_trace::{Interval, Nanos, TrackId};
use std::collections::{BTreeMap, HashSet};

#[derive(Default)]
struct Sums {
    tracks: Vec<TrackId>,
    there: Option<Interval>,
    batches: HashSet<u64>,
    /// Those of which a stage was cut off.
    cut: HashSet<u64>,
    get: (Nanos, u64),
    collate: (Nanos, u64),
    busy: Nanos,
    /// Length of all stages, also those that were cut off.
    spent: Nanos,
    /// Length of the stages that say their CPU time, and that time.
    cpu: (Nanos, Nanos),
    /// Length of the stages that say how long they waited for a CPU, that time, and CPU time.
    states: (Nanos, Nanos, Nanos),
    watched: Watched,
}

impl Sums {
    /// Adds what the scheduler says of stages.
    fn watch(&mut self, lane: &Lane, span: Interval) {
        for stretch in lane.during(span) {
            let ns = stretch.span.len();
            let of = match stretch.state {
                ThreadState::Unknown => continue,
                ThreadState::Running => &mut self.watched.on_cpu,
                ThreadState::WaitsForCpu => &mut self.watched.runnable,
                ThreadState::Blocked(_) => &mut self.watched.blocked,
            };
            *of += ns;
        }
    }
}

/// What the scheduler says of the stages of a worker.
#[derive(Default)]
struct Watched {
    on_cpu: Nanos,
    runnable: Nanos,
    blocked: Nanos,
}

/// Threads of one name are one worker if they served one loader and one consumer.
type Key = (Option<(LoaderKey, TrackId)>, String);

/// A worker of the window.
#[derive(Debug, Clone)]
pub(crate) struct Hand {
    /// The loader that it served, where that is known.
    pub(crate) loader: Option<LoaderKey>,
    /// The thread that took its batches.
    pub(crate) taker: Option<TrackId>,
    /// From its first stage to its last one.
    pub(crate) there: Interval,
    pub(crate) row: Worker,
}

/// How many workers there were at the same time: of those that follow each other, one for each epoch say,
/// as many as in one epoch.
pub(crate) fn together<'a>(hands: impl IntoIterator<Item = &'a Hand>) -> usize {
    at_once(hands.into_iter().map(|hand| hand.there))
}

/// The workers that were busy in `judged`, of which `recorded` was not paused.
pub(crate) fn workers(timeline: &Timeline<'_>, judged: Interval, recorded: Nanos) -> Vec<Hand> {
    let consumers: HashSet<TrackId> = timeline.waits.iter().map(|wait| wait.track).collect();
    let mut sums: BTreeMap<Key, Sums> = BTreeMap::new();
    let mut key_of: BTreeMap<TrackId, Key> = BTreeMap::new();
    for (track, lane) in timeline.stages.lanes() {
        if consumers.contains(&track) {
            continue;
        }
        let within: Vec<Interval> = lane.iter().map(|b| b.span.intersection(judged)).collect();
        let there = within.iter().filter(|span| !span.is_empty()).copied();
        let there = there.reduce(around);
        // What a pause covers was not recorded: neither busy nor a part of the window.
        let recorded = match timeline.pauses.is_empty() {
            true => within,
            false => without(&within, &timeline.pauses),
        };
        let busy: Nanos = recorded.iter().map(|span| span.len()).sum();
        if busy == Nanos::ZERO {
            continue;
        }
        let key = (
            timeline.serves.get(&track).copied(),
            timeline.thread_name(track),
        );
        let of = sums.entry(key.clone()).or_default();
        of.tracks.push(track);
        of.busy += busy;
        of.there = of.there.into_iter().chain(there).reduce(around);
        if let Some(states) = timeline.lane(track) {
            for &span in &recorded {
                of.watch(states, span);
            }
        }
        key_of.insert(track, key);
    }
    for stage in timeline
        .stages
        .iter()
        .filter(|stage| judged.contains(stage.span.start))
    {
        if let Some(of) = key_of.get(&stage.track).and_then(|key| sums.get_mut(key)) {
            add(of, stage);
        }
    }
    let row = |(key, of)| row(timeline, recorded, key, of);
    sums.into_iter().map(row).collect()
}

/// From the start of the first one to the end of the last one.
fn around(one: Interval, other: Interval) -> Interval {
    Interval::new(one.start.min(other.start), one.end.max(other.end))
}

fn add(sums: &mut Sums, stage: &Stage) {
    let length = stage.span.len();
    let kind = match stage.kind {
        StageKind::Get => &mut sums.get,
        StageKind::Collate => &mut sums.collate,
    };
    match stage.whole {
        true => {
            sums.batches.extend(stage.batch);
            kind.0 += length;
            kind.1 += 1;
        }
        false => sums.cut.extend(stage.batch),
    }
    sums.spent += length;
    if let Some(cpu) = stage.cpu {
        sums.cpu.0 += length;
        sums.cpu.1 += cpu;
        if let Some(runnable) = stage.runnable {
            sums.states.0 += length;
            sums.states.1 += runnable;
            sums.states.2 += cpu;
        }
    }
}

fn row(timeline: &Timeline<'_>, recorded: Nanos, (serves, name): Key, sums: Sums) -> Hand {
    let mean_of = |(total, count): (Nanos, u64)| (count > 0).then(|| mean(total, count).get());
    let loader = serves.map(|(loader, _)| loader);
    let last = sums
        .tracks
        .iter()
        .max()
        .and_then(|&track| timeline.trace.track(track));
    let (known, runnable, on_cpu) = sums.states;
    let spent = sums.spent;
    let share = |ns: Nanos| covers(known, spent).then(|| round_share(ns.share_of(known)));
    let on_cpu_share =
        covers(sums.cpu.0, spent).then(|| round_share(sums.cpu.1.share_of(sums.cpu.0).min(1.0)));
    let mut shares = [
        on_cpu_share,
        share(runnable),
        share(known - runnable - on_cpu),
    ];
    // The scheduler's word counts more than what a thread asks about itself.
    let of = &sums.watched;
    let seen = of.on_cpu + of.runnable + of.blocked;
    if covers(seen, sums.busy) {
        let share = |ns: Nanos| Some(round_share(ns.share_of(seen)));
        shares = [share(of.on_cpu), share(of.runnable), share(of.blocked)];
    }
    let [cpu_share, runnable_share, blocked_share] = shares;
    let row = Worker {
        name,
        tid: last.map(|track| track.tid.0),
        threads: sums.tracks.len() as u64,
        loader: loader.map(|loader| timeline.loader_name(loader).to_owned()),
        batches: sums.batches.difference(&sums.cut).count() as u64,
        get_mean_ns: mean_of(sums.get),
        collate_mean_ns: mean_of(sums.collate),
        busy_share: round_share(sums.busy.share_of(recorded).min(1.0)),
        cpu_share,
        runnable_share,
        blocked_share,
    };
    Hand {
        loader,
        taker: serves.map(|(_, taker)| taker),
        there: sums.there.unwrap_or_default(),
        row,
    }
}

/// Workers that are ready to run and wait for a CPU for at least this share of their stages are
/// short of CPUs. Being off a CPU alone is no sign of it: who reads a file or sleeps is off it too.
pub const CONTENDED_MIN_RUNNABLE_SHARE: f64 = 0.2;

/// They are so only where the waiting of all workers together takes at least this share of the
/// window: less holds nobody up.
pub const CONTENDED_MIN_WINDOW_SHARE: f64 = 0.05;

/// Share of the time of `workers` in their stages in which they waited for a CPU, where it was
/// measured and is enough to say that they are short of CPUs.
pub(crate) fn shortage<'a>(workers: impl Iterator<Item = &'a Worker>) -> Option<f64> {
    let known = workers.filter_map(|worker| Some((worker.busy_share, worker.runnable_share?)));
    let (busy, waited) = known.fold((0.0, 0.0), |(all, waited), (busy, share)| {
        (all + busy, waited + busy * share)
    });
    let share = if busy > 0.0 { waited / busy } else { 0.0 };
    let counts = share >= CONTENDED_MIN_RUNNABLE_SHARE && waited >= CONTENDED_MIN_WINDOW_SHARE;
    counts.then_some(share)
}
