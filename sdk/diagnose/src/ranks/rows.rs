//! A row for each process of a job.

use super::{Waited, device_name};
use crate::cause::{COMPUTE, Cause};
use crate::device::{Collectives, Devices};
use crate::report::Rank;
use crate::stats::Distribution;
use crate::steps::Steps;
use crate::timeline::Timeline;
use crate::trainers::Trainer;
use gpustall_trace::{Member, Nanos};
use std::collections::{BTreeMap, BTreeSet};

/// The rows, by rank; none where the trace is of one process.
pub(crate) fn rows(
    timeline: &Timeline<'_>,
    (devices, collectives): (&Devices, &Collectives),
    (trainers, steps): (&[Trainer], &Steps),
    waited: &[Waited],
) -> Vec<Rank> {
    let trace = timeline.trace;
    if trace.meta.members.len() < 2 {
        return Vec::new();
    }
    let row = |member: &Member| {
        let uses = |at: &usize| {
            let key = devices.list.get(*at).map(|device| device.key);
            let mut own = member.devices.iter();
            own.any(|&of| Some(u64::from(of)) == key)
        };
        let own: BTreeSet<usize> = (0..devices.list.len()).filter(uses).collect();
        let mut held_up: BTreeMap<String, u64> = BTreeMap::new();
        let (mut waits, mut waited_for) = (Nanos::ZERO, Nanos::ZERO);
        for wait in waited {
            if own.contains(&wait.waiting) {
                waits += wait.lost;
            }
            if own.contains(&wait.late) {
                waited_for += wait.lost;
                for (cause, ns) in &wait.why {
                    let id = cause.map_or(COMPUTE, Cause::id);
                    *held_up.entry(id.to_owned()).or_default() += ns.get();
                }
            }
        }
        let takes = |ops: &[(usize, usize)]| ops.iter().any(|(device, _)| own.contains(device));
        let took = collectives.list.iter().filter(|of| takes(&of.ops));
        let lengths = trainers.iter().enumerate().filter(|(_, trainer)| {
            let track = trainer.track.and_then(|track| trace.track(track));
            track.is_some_and(|track| track.pid == member.pid)
        });
        let lengths = lengths.flat_map(|(at, trainer)| steps.steady_of(at, trainer));
        Rank {
            rank: member.distributed.map(|of| of.rank),
            world_size: member.distributed.map(|of| of.world_size),
            pid: member.pid.0,
            devices: (member.devices.iter())
                .map(|&device| device_name(trace, device.into()))
                .collect(),
            steps: Distribution::of(lengths),
            collectives: took.clone().count() as u64,
            last_in: took.filter(|of| own.contains(&of.last)).count() as u64,
            waits_ns: waits.get(),
            waited_for_ns: waited_for.get(),
            late_by_ns: held_up,
        }
    };
    let mut rows: Vec<Rank> = trace.meta.members.iter().map(row).collect();
    rows.sort_by_key(|row| (row.rank.unwrap_or(u32::MAX), row.pid));
    rows
}

/// What the reader should know: which ranks are not there.
pub(crate) fn notes(timeline: &Timeline<'_>) -> Vec<String> {
    let meta = &timeline.trace.meta;
    let of_members = meta.members.iter().filter_map(|member| member.distributed);
    let own = meta
        .distributed
        .into_iter()
        .filter(|_| meta.members.is_empty());
    let ranks: Vec<_> = of_members.chain(own).collect();
    let size = ranks.iter().map(|of| of.world_size).max().unwrap_or(0);
    let known: BTreeSet<u32> = ranks.iter().map(|of| of.rank).collect();
    let missing = u64::from(size).saturating_sub(known.len() as u64);
    match (known.len(), missing) {
        (0, _) | (_, 0) => Vec::new(),
        (1, _) => vec![format!(
            "This is rank {} of a job of {size}. Name the traces of the other ranks too, and the report says \
             which one the others wait for.",
            known.first().copied().unwrap_or(0)
        )],
        (n, missing) => vec![format!(
            "{n} of the {size} ranks of the job are in this report; what waits for one of the other \
             {missing} counts as communication."
        )],
    }
}
