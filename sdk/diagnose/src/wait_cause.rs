//! The cause of each wait, as far as it is proven.

use crate::cause::{Cause, DATA_COMPUTE_MIN_CPU_SHARE, DATA_COMPUTE_MIN_OWN_SHARE};
use crate::contended;
use crate::events::{LoaderKey, Role, Wait};
use crate::maker::{Maker, maker};
use crate::stages::Stage;
use crate::timeline::Timeline;
use gpustall_trace::{Nanos, TrackId};
use std::cmp::Reverse;
use std::collections::HashMap;

/// CPU time and length of a wait for a batch that was made in process.
type Proof = (Nanos, Nanos);

/// The cause of each of the timeline's waits, in their order.
pub(crate) fn wait_causes(timeline: &Timeline<'_>) -> Vec<Cause> {
    let proofs: Vec<Option<Proof>> = timeline
        .waits
        .iter()
        .map(|wait| proof(timeline, wait))
        .collect();
    let mut of_loader: HashMap<(LoaderKey, TrackId), Proof> = HashMap::new();
    for (wait, proof) in timeline.waits.iter().zip(&proofs) {
        if let Some((cpu, length)) = proof {
            let sum = of_loader.entry((wait.loader, wait.track)).or_default();
            sum.0 += *cpu;
            sum.1 += *length;
        }
    }
    let cause = |(wait, proof): (&Wait, &Option<Proof>)| {
        let Some(own) = *proof else {
            return match wait.role {
                Role::EpochStart => Cause::DataStartup,
                Role::Batch if wait.first => Cause::DataStartup,
                Role::Batch | Role::EpochEnd => Cause::Data,
            };
        };
        let all = of_loader
            .get(&(wait.loader, wait.track))
            .copied()
            .unwrap_or(own);
        if is_compute(own, all) {
            Cause::DataCompute
        } else {
            Cause::Data
        }
    };
    let mut causes: Vec<Cause> = timeline.waits.iter().zip(&proofs).map(cause).collect();
    contended::mark(timeline, &mut causes);
    causes
}

/// Whether a wait was computing: on its own evidence, or on that of all of them together.
fn is_compute(own: Proof, all: Proof) -> bool {
    let share = |(cpu, length): Proof| cpu.share_of(length);
    share(own) >= DATA_COMPUTE_MIN_CPU_SHARE
        || (share(all) >= DATA_COMPUTE_MIN_CPU_SHARE && share(own) >= DATA_COMPUTE_MIN_OWN_SHARE)
}

/// `None` unless the waiting thread made the batch. In process the first wait of an epoch starts
/// no workers: it is a wait like any other.
fn proof(timeline: &Timeline<'_>, wait: &Wait) -> Option<Proof> {
    let in_process = wait.role == Role::Batch && maker(timeline, wait) == Maker::InProcess;
    in_process.then(|| (proven_cpu(timeline, wait), wait.span.len()))
}

/// CPU time that the waiting thread is known to have used for the batch: what the wait itself
/// says, or the stages inside it.
fn proven_cpu(timeline: &Timeline<'_>, wait: &Wait) -> Nanos {
    let busy = timeline.stages.during(wait.track, wait.span);
    let mut inside: Vec<&Stage> = busy.filter_map(|b| timeline.stages.get(b.stage)).collect();
    inside.sort_by_key(|stage| (stage.span.start, Reverse(stage.span.end)));
    let mut counted = wait.span.start;
    let mut of_stages = Nanos::ZERO;
    for stage in inside {
        // What a nested stage used is part of what the outer one used.
        if stage.span.start >= counted && stage.span.end <= wait.span.end {
            counted = stage.span.end;
            of_stages += stage.cpu.unwrap_or_default();
        }
    }
    wait.cpu.unwrap_or_default().max(of_stages)
}
