//! The threads that made batches, and how busy they were.

use crate::events::LoaderKey;
use crate::links::percent;
use crate::report::Worker;
use crate::stages::{Stage, StageKind};
use crate::stats::{mean, round_share};
use crate::timeline::Timeline;
use gpustall_trace::{Interval, Nanos, TrackId};
use std::collections::{BTreeMap, HashSet};

#[derive(Default)]
struct Sums {
    tracks: Vec<TrackId>,
    batches: HashSet<u64>,
    get: (Nanos, u64),
    collate: (Nanos, u64),
    busy: Nanos,
    /// Length of the stages that say their CPU time, and that time.
    cpu: (Nanos, Nanos),
}

/// Threads of one name are one worker if they served one loader and one consumer.
type Key = (Option<(LoaderKey, TrackId)>, String);

/// The workers that were busy in `judged`, of which `recorded` was not paused.
pub(crate) fn workers(
    timeline: &Timeline<'_>,
    judged: Interval,
    recorded: Nanos,
) -> Vec<(Option<LoaderKey>, Worker)> {
    let consumers: HashSet<TrackId> = timeline.waits.iter().map(|wait| wait.track).collect();
    let mut sums: BTreeMap<Key, Sums> = BTreeMap::new();
    let mut key_of: BTreeMap<TrackId, Key> = BTreeMap::new();
    for (track, lane) in timeline.stages.lanes() {
        if consumers.contains(&track) {
            continue;
        }
        let busy: Nanos = lane.iter().map(|b| b.span.intersection(judged).len()).sum();
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

fn add(sums: &mut Sums, stage: &Stage) {
    let length = stage.span.len();
    sums.batches.extend(stage.batch);
    let kind = match stage.kind {
        StageKind::Get => &mut sums.get,
        StageKind::Collate => &mut sums.collate,
    };
    kind.0 += length;
    kind.1 += 1;
    if let Some(cpu) = stage.cpu {
        sums.cpu.0 += length;
        sums.cpu.1 += cpu;
    }
}

fn row(
    timeline: &Timeline<'_>,
    recorded: Nanos,
    (serves, name): Key,
    sums: Sums,
) -> (Option<LoaderKey>, Worker) {
    let mean_of = |(total, count): (Nanos, u64)| (count > 0).then(|| mean(total, count).get());
    let loader = serves.map(|(loader, _)| loader);
    let last = sums
        .tracks
        .iter()
        .max()
        .and_then(|&track| timeline.trace.track(track));
    let worker = Worker {
        name,
        tid: last.map(|track| track.tid.0),
        threads: sums.tracks.len() as u64,
        loader: loader.map(|loader| timeline.loader_name(loader).to_owned()),
        batches: sums.batches.len() as u64,
        get_mean_ns: mean_of(sums.get),
        collate_mean_ns: mean_of(sums.collate),
        busy_share: round_share(sums.busy.share_of(recorded).min(1.0)),
        cpu_share: (sums.cpu.0 > Nanos::ZERO)
            .then(|| round_share(sums.cpu.1.share_of(sums.cpu.0).min(1.0))),
    };
    (loader, worker)
}

/// Workers that are on a CPU for less than this share of their stages, on a machine with fewer
/// CPUs than busy threads, are short of CPUs.
pub const CPU_SHORT_SHARE: f64 = 0.5;

/// More threads than CPUs, and workers that are seldom on one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shortage {
    pub(crate) workers: usize,
    /// CPUs that the job may use.
    pub(crate) cpus: u32,
    /// Share of the workers' stages on a CPU.
    pub(crate) on_cpu: f64,
    /// Workers that leave each trainer a CPU, at least one.
    pub(crate) fitting: usize,
}

/// Whether `workers` and so many trainers are short of CPUs, as far as that can be told without
/// the scheduler: the workers may also have been blocked.
pub(crate) fn shortage<'a>(
    workers: impl Iterator<Item = &'a Worker>,
    trainers: usize,
    cpus: u32,
) -> Option<Shortage> {
    let shares: Vec<Option<f64>> = workers.map(|worker| worker.cpu_share).collect();
    let known: Vec<f64> = shares.iter().copied().flatten().collect();
    let room = usize::try_from(cpus).unwrap_or(usize::MAX);
    if known.is_empty() || room == 0 || shares.len() + trainers <= room {
        return None;
    }
    let on_cpu = known.iter().sum::<f64>() / known.len() as f64;
    let fitting = room.saturating_sub(trainers).max(1);
    let short = on_cpu < CPU_SHORT_SHARE && fitting < shares.len();
    short.then_some(Shortage {
        workers: shares.len(),
        cpus,
        on_cpu,
        fitting,
    })
}

impl Shortage {
    /// What was measured, and what it does not prove.
    pub(crate) fn describe(&self) -> String {
        format!(
            "{} workers and the trainer share {} CPUs, and the workers were on one for only {} of \
             their get and collate (they waited for a CPU or were blocked)",
            self.workers,
            self.cpus,
            percent(self.on_cpu)
        )
    }
}
