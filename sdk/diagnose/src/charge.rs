//! Charging the window of each trainer: every nanosecond is compute or one stall's.
//!
//! The rule, first match: inside `iter()` or `next()` of a loader, the wait; inside a phase named as
//! metrics or checkpoint work, that cause (of nested ones the innermost); else compute.

use crate::cause::{Cause, DATA_COMPUTE_MIN_CPU_SHARE};
use crate::events::{Role, Wait};
use crate::maker::{Maker, maker};
use crate::partition::{Claim, partition};
use crate::stages::Stage;
use crate::timeline::Timeline;
use crate::window::{Trainer, Window};
use gpustall_trace::{Interval, Nanos, TraceTime, TrackId};
use std::cmp::Reverse;
use std::collections::HashMap;

/// What a stall is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Position in `Timeline::waits`.
    Wait(usize),
    /// Position in `Timeline::phases`.
    Phase(usize),
}

/// Time of a trainer that was not compute.
#[derive(Debug, Clone)]
pub(crate) struct Stall {
    /// Position of its trainer.
    pub(crate) trainer: usize,
    pub(crate) source: Source,
    pub(crate) cause: Cause,
    /// The time charged to it: disjoint, in order, not empty.
    pub(crate) parts: Vec<Interval>,
    /// Length of those.
    pub(crate) lost: Nanos,
}

impl Stall {
    /// When it begins.
    pub(crate) fn start(&self) -> TraceTime {
        self.parts
            .first()
            .map_or(TraceTime::ZERO, |part| part.start)
    }
}

/// The window of one trainer, charged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Account {
    pub(crate) compute: Nanos,
    /// By start.
    pub(crate) stalls: Vec<Stall>,
}

/// Charges the window of every trainer, in their order.
pub(crate) fn charge(
    timeline: &Timeline<'_>,
    window: &Window,
    trainers: &[Trainer],
) -> Vec<Account> {
    let mut sources: HashMap<TrackId, Vec<(Source, Claim)>> = HashMap::new();
    let waits = timeline.waits.iter().enumerate().map(|(i, wait)| {
        (
            wait.track,
            Source::Wait(i),
            Claim {
                span: wait.span,
                rank: 1,
            },
        )
    });
    let phases = timeline.phases.iter().enumerate();
    let phases = phases
        .filter(|(_, phase)| Cause::of_phase(timeline.trace.text(phase.name)).is_some())
        .map(|(i, phase)| {
            (
                phase.track,
                Source::Phase(i),
                Claim {
                    span: phase.span,
                    rank: 0,
                },
            )
        });
    for (track, source, claim) in waits.chain(phases) {
        sources.entry(track).or_default().push((source, claim));
    }
    let one = |(i, trainer): (usize, &Trainer)| {
        let claims = trainer.track.and_then(|track| sources.get(&track));
        account(timeline, window, i, claims.map_or(&[], Vec::as_slice))
    };
    trainers.iter().enumerate().map(one).collect()
}

fn account(
    timeline: &Timeline<'_>,
    window: &Window,
    trainer: usize,
    sources: &[(Source, Claim)],
) -> Account {
    let claims: Vec<Claim> = sources.iter().map(|&(_, claim)| claim).collect();
    let mut compute = Nanos::ZERO;
    let mut parts_of: Vec<Vec<Interval>> = vec![Vec::new(); claims.len()];
    for part in partition(&window.parts, &claims) {
        match part.claim {
            Some(claim) => parts_of[claim].push(part.span),
            None => compute += part.span.len(),
        }
    }
    let charged = sources
        .iter()
        .zip(parts_of)
        .filter(|(_, parts)| !parts.is_empty());
    let mut stalls: Vec<Stall> = charged
        .map(|(&(source, _), parts)| Stall {
            trainer,
            source,
            cause: cause(timeline, source),
            lost: parts.iter().map(|part| part.len()).sum(),
            parts,
        })
        .collect();
    stalls.sort_by_key(Stall::start);
    Account { compute, stalls }
}

fn cause(timeline: &Timeline<'_>, source: Source) -> Cause {
    match source {
        Source::Wait(i) => timeline
            .waits
            .get(i)
            .map_or(Cause::Data, |w| wait_cause(timeline, w)),
        Source::Phase(i) => {
            let name = timeline
                .phases
                .get(i)
                .map_or("", |p| timeline.trace.text(p.name));
            Cause::of_phase(name).unwrap_or(Cause::HostMetrics)
        }
    }
}

/// In process, the first wait of an epoch starts no workers: it is a wait like any other.
fn wait_cause(timeline: &Timeline<'_>, wait: &Wait) -> Cause {
    if wait.role == Role::EpochStart {
        return Cause::DataStartup;
    }
    let in_process = maker(timeline, wait) == Maker::InProcess;
    if in_process
        && proven_cpu(timeline, wait).share_of(wait.span.len()) >= DATA_COMPUTE_MIN_CPU_SHARE
    {
        Cause::DataCompute
    } else if wait.first && !in_process {
        Cause::DataStartup
    } else {
        Cause::Data
    }
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
