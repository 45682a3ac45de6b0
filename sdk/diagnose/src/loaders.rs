//! The loaders of a run: what their batches cost to make and to wait for.

use crate::disk::{Disk, Source};
use crate::events::{LoaderKey, Role, Wait};
use crate::framework::Framework;
use crate::maker::{Maker, maker};
use crate::recorded::{Making, Recorded, is_uneven};
use crate::report::{Loader, Queue};
use crate::rules::{BlockedOn, ThreadState};
use crate::stages::{Stage, StageKind};
use crate::stats::{Distribution, mean, round_share};
use crate::timeline::Timeline;
use gpustall_trace::vocab::QUEUE_DEPTH;
use gpustall_trace::{Interval, Nanos, TraceTime, TrackId};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// A counter value beyond this is no queue depth.
const MAX_DEPTH: f64 = 1e9;

/// One loader's row and what else a remedy needs to know of it.
#[derive(Debug, Clone)]
pub(crate) struct LoaderFacts {
    pub(crate) key: LoaderKey,
    pub(crate) row: Loader,
    /// Batches of an epoch, on average over those that were seen.
    pub(crate) epoch_batches: u64,
    /// Batches of a whole epoch; `None` if none was seen to end.
    pub(crate) epoch: Option<u64>,
    /// Whether its workers are kept from one epoch to the next, as far as that is known.
    pub(crate) keeps_workers: bool,
    /// Its workers, as far as it says how many they are: in a short epoch some make none.
    pub(crate) num_workers: Option<u64>,
    /// Batches that each of its workers may have ahead of the trainer, as far as that is known.
    pub(crate) prefetch: Option<u64>,
    /// Whether some batches take much longer to make than most.
    pub(crate) uneven: bool,
    /// What they took to make one after the other, where they are uneven; empty where they are not, or where
    /// it is not known.
    pub(crate) recorded: Arc<[Making]>,
    /// Whether its data set is iterated, not indexed, as far as that is known.
    pub(crate) iterable: bool,
    /// Mean time of all stages of one batch that was waited for; `None` if none were recorded.
    pub(crate) production: Option<Nanos>,
    /// How much of it is collate.
    pub(crate) production_collate: Nanos,
    /// Mean CPU time of those stages; `None` unless all of them say it.
    pub(crate) production_cpu: Option<Nanos>,
    /// Mean time in them in which their thread was ready and waited for a CPU; `None` unless all of
    /// them say it.
    pub(crate) production_ready: Option<Nanos>,
    /// Mean time in them in which their thread waited for a file, as the scheduler saw it; or for whoever is at
    /// the other end of a connection, where that is more.
    pub(crate) production_read: Nanos,
    /// What that says about the disk.
    pub(crate) disk: Option<Disk>,
}

impl LoaderFacts {
    /// Where the threads that take batches make them themselves: share of that in which they waited for a
    /// CPU, if it is known.
    pub(crate) fn starved(&self) -> Option<f64> {
        let in_process = self.row.in_process == Some(true);
        let (made, ready) = self.production.zip(self.production_ready)?;
        in_process.then(|| ready.share_of(made))
    }
}

/// The loaders that were waited for in `judged`.
pub(crate) fn loaders(timeline: &Timeline<'_>, judged: Interval) -> Vec<LoaderFacts> {
    let mut waits_of: BTreeMap<LoaderKey, Vec<&Wait>> = BTreeMap::new();
    let in_window =
        |wait: &&Wait| wait.role == Role::Batch && !wait.aside && judged.contains(wait.span.start);
    for wait in timeline.waits.iter().filter(in_window) {
        waits_of.entry(wait.loader).or_default().push(wait);
    }
    let mut steps_of: BTreeMap<LoaderKey, Nanos> = BTreeMap::new();
    for step in timeline
        .steps
        .iter()
        .filter(|step| judged.contains(step.span.start))
    {
        *steps_of.entry(step.loader).or_default() += step.span.len();
    }
    let ended = timeline.waits.iter().filter(ends_an_epoch);
    let ended: BTreeSet<LoaderKey> = ended.map(|wait| wait.loader).collect();
    let mut loaders: Vec<LoaderFacts> = waits_of
        .into_iter()
        .map(|(key, waits)| {
            let steps = steps_of.get(&key).copied().unwrap_or_default();
            loader(timeline, judged, key, &waits, (steps, ended.contains(&key)))
        })
        .collect();
    loaders.sort_by(|a, b| (a.key.kind, &a.row.name).cmp(&(b.key.kind, &b.row.name)));
    loaders
}

/// What the loader's batches cost that these threads took in `judged`.
pub(crate) fn taken_by(
    timeline: &Timeline<'_>,
    judged: Interval,
    key: LoaderKey,
    takers: &HashSet<TrackId>,
) -> LoaderFacts {
    let taken = |wait: &&Wait| {
        let batch = wait.role == Role::Batch && wait.loader == key && !wait.aside;
        batch && takers.contains(&wait.track) && judged.contains(wait.span.start)
    };
    let waits: Vec<&Wait> = timeline.waits.iter().filter(taken).collect();
    let mut ends = timeline.waits.iter().filter(ends_an_epoch);
    let ended = ends.any(|wait| wait.loader == key);
    loader(timeline, judged, key, &waits, (Nanos::ZERO, ended))
}

fn ends_an_epoch(wait: &&Wait) -> bool {
    wait.role == Role::EpochEnd
}

/// Batches of the longest epoch that these waits are of, where one was seen to end.
fn whole_epoch(waits: &[&Wait], ended: bool) -> Option<u64> {
    let taken = waits.iter().filter(|wait| !wait.failed);
    let last = taken.filter_map(|wait| wait.step).max();
    last.filter(|_| ended).map(|last| last.saturating_add(1))
}

fn loader(
    timeline: &Timeline<'_>,
    judged: Interval,
    key: LoaderKey,
    waits: &[&Wait],
    (steps, ends_epochs): (Nanos, bool),
) -> LoaderFacts {
    let waited: Nanos = waits.iter().map(|wait| wait.span.len()).sum();
    let taken = |wait: &&&Wait| !wait.unfinished && !wait.failed;
    let finished: Vec<&&Wait> = waits.iter().filter(taken).collect();
    let (mut inside, mut outside) = (0, 0);
    let (mut made, mut production, mut times) = (0, Nanos::ZERO, Vec::new());
    let (mut cpu, mut cpu_known) = (Nanos::ZERO, true);
    let (mut ready, mut ready_known) = (Nanos::ZERO, true);
    let mut collate = Nanos::ZERO;
    let (mut read, mut asked, mut tracks) = (Nanos::ZERO, Nanos::ZERO, BTreeSet::new());
    let mut recorded = Recorded::default();
    for wait in waits {
        let maker = maker(timeline, wait);
        match maker {
            Maker::InProcess => inside += 1,
            Maker::Worker(_) | Maker::Open(..) | Maker::Elsewhere => outside += 1,
            Maker::Unknown => {}
        }
        let mut stages = Nanos::ZERO;
        let (cpu_before, ready_before) = (cpu, ready);
        let mut whole = taken(&wait);
        for stage in stages_of(timeline, wait) {
            stages += stage.span.len();
            if stage.kind == StageKind::Collate {
                collate += stage.span.len();
            }
            let spent = spent(timeline, stage);
            cpu_known &= spent.cpu.is_some() || stage.unfinished;
            cpu += spent.cpu.unwrap_or_default();
            ready_known &= spent.ready.is_some() || stage.unfinished;
            ready += spent.ready.unwrap_or_default();
            read += spent.read;
            asked += spent.asked;
            tracks.insert(stage.track);
            whole &= stage.whole;
        }
        if wait.annotated && wait.in_process == Some(true) && stages == Nanos::ZERO {
            // No stages are recorded: what the thread does in `next()` is making the batch.
            stages = wait.span.len();
            cpu_known = false;
            ready_known = false;
        }
        made += u64::from(stages > Nanos::ZERO);
        times.extend((stages > Nanos::ZERO).then_some(stages));
        production += stages;
        if whole && stages > Nanos::ZERO {
            let cpu = cpu_known.then(|| cpu - cpu_before);
            recorded.add(
                timeline,
                wait,
                maker,
                Making::of(stages, ready - ready_before, cpu),
            );
        }
    }
    // Of both, what they wait for more is what may be the limit.
    let (source, read) = match asked > read {
        true => (Source::Peer, asked),
        false => (Source::Disk, read),
    };
    let epochs: BTreeSet<Option<u64>> = waits.iter().map(|wait| wait.epoch).collect();
    LoaderFacts {
        key,
        keeps_workers: waits.iter().any(|wait| wait.keeps_workers),
        num_workers: waits.iter().find_map(|wait| wait.num_workers),
        prefetch: waits.iter().find_map(|wait| wait.prefetch),
        uneven: is_uneven(&mut times),
        recorded: recorded.if_uneven(Framework::of(timeline.trace), finished.len()),
        iterable: waits.iter().any(|wait| wait.iterable),
        epoch_batches: (waits.len() / epochs.len().max(1)) as u64,
        epoch: whole_epoch(waits, epochs.len() > 1 || ends_epochs),
        row: Loader {
            name: timeline.loader_name(key).to_owned(),
            kind: key.kind.as_str().to_owned(),
            batches: finished.len() as u64,
            wait: Distribution::of(finished.iter().map(|wait| wait.span.len())),
            wait_share: (steps > Nanos::ZERO).then(|| round_share(waited.share_of(steps).min(1.0))),
            in_process: (inside + outside > 0).then_some(inside > outside),
            queue: queue(timeline, judged, key, waits),
        },
        production: (made > 0).then(|| mean(production, made)),
        production_collate: mean(collate, made.max(1)),
        production_cpu: (made > 0 && cpu_known).then(|| mean(cpu, made)),
        production_ready: (made > 0 && ready_known).then(|| mean(ready, made)),
        production_read: mean(read, made.max(1)),
        disk: Disk::of(source, timeline, judged, &tracks, made),
    }
}

/// What the thread of a stage did in it.
struct Spent {
    /// On a CPU, and ready for one, where it is known.
    cpu: Option<Nanos>,
    ready: Option<Nanos>,
    /// Blocked on a file, as the scheduler saw it.
    read: Nanos,
    /// Blocked on whoever is at the other end of a connection.
    asked: Nanos,
}

fn spent(timeline: &Timeline<'_>, stage: &Stage) -> Spent {
    let itself = Spent {
        cpu: stage.cpu,
        ready: stage.runnable,
        read: Nanos::ZERO,
        asked: Nanos::ZERO,
    };
    let Some(lane) = timeline.lane(stage.track) else {
        return itself;
    };
    let (mut ran, mut waited) = (Nanos::ZERO, Nanos::ZERO);
    let (mut read, mut asked) = (Nanos::ZERO, Nanos::ZERO);
    for stretch in lane.during(stage.span) {
        match stretch.state {
            ThreadState::Unknown => return itself,
            ThreadState::Running => ran += stretch.span.len(),
            ThreadState::WaitsForCpu => waited += stretch.span.len(),
            ThreadState::Blocked(BlockedOn::File) => read += stretch.span.len(),
            ThreadState::Blocked(BlockedOn::Peer) => asked += stretch.span.len(),
            ThreadState::Blocked(_) => {}
        }
    }
    Spent {
        cpu: Some(ran),
        ready: Some(waited),
        read,
        asked,
    }
}

/// The recorded stages of the batch of a wait; in process, those inside it.
pub(crate) fn stages_of<'a>(
    timeline: &'a Timeline<'_>,
    wait: &Wait,
) -> impl Iterator<Item = &'a Stage> {
    let of_batch = wait
        .batch
        .map_or(&[][..], |batch| timeline.stages.of_batch(batch));
    let mut stages = of_batch.to_vec();
    if stages.is_empty() {
        stages.extend(
            timeline
                .stages
                .during(wait.track, wait.span)
                .map(|busy| busy.stage),
        );
        stages.sort_unstable();
        stages.dedup();
    }
    stages
        .into_iter()
        .filter_map(|stage| timeline.stages.get(stage))
}

fn queue(
    timeline: &Timeline<'_>,
    judged: Interval,
    key: LoaderKey,
    waits: &[&Wait],
) -> Option<Queue> {
    let trace = timeline.trace;
    let name = format!("{QUEUE_DEPTH} {}", trace.text(key.name?));
    let name = trace.strings.find(&name)?;
    let series = trace
        .counter_series
        .iter()
        .position(|series| series.name == name)?;
    let series = u32::try_from(series).ok()?;
    let mut samples: Vec<(TraceTime, f64)> = trace
        .counters
        .iter()
        .filter(|sample| sample.series == series && sample.value.abs() < MAX_DEPTH)
        .map(|sample| (sample.at, sample.value))
        .collect();
    samples.sort_by_key(|&(at, _)| at);
    let mut area = 0.0;
    let mut covered = Nanos::ZERO;
    let mut min = f64::INFINITY;
    for (i, &(at, value)) in samples.iter().enumerate() {
        let until = samples.get(i + 1).map_or(judged.end, |&(next, _)| next);
        let span = Interval::new(at, until).intersection(judged);
        if !span.is_empty() {
            area += value * span.len().get() as f64;
            covered += span.len();
            min = min.min(value);
        }
    }
    if covered == Nanos::ZERO {
        return None;
    }
    let empty = |wait: &&&Wait| {
        let at = samples.partition_point(|&(at, _)| at <= wait.span.start);
        at.checked_sub(1)
            .and_then(|i| samples.get(i))
            .is_none_or(|&(_, depth)| depth <= 0.0)
    };
    let empty = waits.iter().filter(empty).count() as f64;
    Some(Queue {
        mean: round_share(area / covered.get() as f64),
        min: round_share(min),
        empty: round_share(empty / waits.len().max(1) as f64),
    })
}
