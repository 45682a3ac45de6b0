//! Charging the stretch of each trainer: every nanosecond is compute or one stall's.
//!
//! The rule, first match: inside `iter()` or `next()` of a loader, the wait; inside a phase named as
//! metrics or checkpoint work, that cause (of nested ones the innermost); else compute.

use crate::cause::Cause;
use crate::device::{DeviceFacts, Shares};
use crate::partition::{Claim, partition};
use crate::piece::Piece;
use crate::timeline::Timeline;
use crate::wait_cause::wait_causes;
use crate::window::Trainer;
use gpustall_trace::{Interval, Nanos, TraceTime, TrackId};
use std::collections::HashMap;

/// What a stall is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// Position in `Timeline::waits`.
    Wait(usize),
    /// Position in `Timeline::phases`.
    Phase(usize),
    /// Neither: what a device, or the host before a launch, did.
    Device,
}

/// Time of a device that was not compute.
#[derive(Debug, Clone)]
pub(crate) struct Stall {
    /// Position of the account that it belongs to.
    pub(crate) device: usize,
    /// Position of the trainer whose steps it is counted in.
    pub(crate) trainer: usize,
    pub(crate) source: Source,
    pub(crate) cause: Cause,
    /// The time charged to it: disjoint, in order, not empty.
    pub(crate) parts: Vec<Interval>,
    /// Length of those.
    pub(crate) lost: Nanos,
    /// What filled the parts of a stall of a device, where no wait or phase says more.
    pub(crate) pieces: Vec<Piece>,
    /// Position of the slice of the kernel that ended the stall of a device.
    pub(crate) kernel: Option<usize>,
    /// Position of the slice of the call that launched it.
    pub(crate) launch: Option<usize>,
    /// Whether the stall of a device began while the host waited for the device.
    pub(crate) drained: bool,
}

impl Stall {
    /// When it begins.
    pub(crate) fn start(&self) -> TraceTime {
        self.parts
            .first()
            .map_or(TraceTime::ZERO, |part| part.start)
    }

    /// From its first part to its last one.
    pub(crate) fn whole(&self) -> Interval {
        let end = self.parts.last().map_or(self.start(), |part| part.end);
        Interval::new(self.start(), end)
    }
}

/// The window of one device, or the stretch of one trainer, charged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Account {
    /// Its name, or that of the thread which stands for it.
    pub(crate) name: String,
    pub(crate) compute: Nanos,
    /// How a device that was recorded spent the window, and what is known about it.
    pub(crate) device: Option<(Shares, DeviceFacts)>,
    /// By start.
    pub(crate) stalls: Vec<Stall>,
}

/// Charges the stretch of every trainer, in their order.
pub(crate) fn charge(timeline: &Timeline<'_>, trainers: &[Trainer]) -> Vec<Account> {
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
    let causes = wait_causes(timeline);
    let one = |(i, trainer): (usize, &Trainer)| {
        let claims = trainer.track.and_then(|track| sources.get(&track));
        account(
            timeline,
            &causes,
            (i, trainer),
            claims.map_or(&[], Vec::as_slice),
        )
    };
    trainers.iter().enumerate().map(one).collect()
}

fn account(
    timeline: &Timeline<'_>,
    waits: &[Cause],
    (trainer, of): (usize, &Trainer),
    sources: &[(Source, Claim)],
) -> Account {
    let claims: Vec<Claim> = sources.iter().map(|&(_, claim)| claim).collect();
    let mut compute = Nanos::ZERO;
    let mut parts_of: Vec<Vec<Interval>> = vec![Vec::new(); claims.len()];
    for part in partition(&of.parts, &claims) {
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
            device: trainer,
            trainer,
            source,
            cause: cause(timeline, waits, source),
            lost: parts.iter().map(|part| part.len()).sum(),
            parts,
            pieces: Vec::new(),
            kernel: None,
            launch: None,
            drained: false,
        })
        .collect();
    stalls.sort_by_key(Stall::start);
    Account {
        name: of.name.clone(),
        compute,
        device: None,
        stalls,
    }
}

fn cause(timeline: &Timeline<'_>, waits: &[Cause], source: Source) -> Cause {
    match source {
        Source::Wait(i) => waits.get(i).copied().unwrap_or(Cause::Data),
        Source::Phase(i) => {
            let name = timeline
                .phases
                .get(i)
                .map_or("", |p| timeline.trace.text(p.name));
            Cause::of_phase(name).unwrap_or(Cause::HostMetrics)
        }
        Source::Device => Cause::Unknown,
    }
}
