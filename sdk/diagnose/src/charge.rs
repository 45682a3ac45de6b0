//! Charging the stretch of each trainer: every nanosecond is compute or one stall's.
//!
//! What a moment is charged to, the tables say: [`TRAINER_RULES`](crate::rules::TRAINER_RULES), and
//! inside a loader's call [`WAIT_RULES`](crate::rules::WAIT_RULES).

use crate::cause::Cause;
use crate::cover::Cover;
use crate::device::{DeviceFacts, Shares};
use crate::partition::{Claim, partition};
use crate::piece::{Edge, Piece, PieceKind};
use crate::rules::{ThreadState, TrainerMoment, judge_trainer};
use crate::timeline::Timeline;
use crate::unmarked::unmarked;
use crate::waits::Waits;
use crate::window::Trainer;
use gpustall_trace::{Interval, Nanos, TraceTime, TrackId};
use std::collections::HashMap;

/// What a stall is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Source {
    /// Position in `Timeline::waits`.
    Wait(usize),
    /// Position in `Timeline::phases`.
    Phase(usize),
    /// Neither: what a device, or the host before a launch, did.
    Device,
    /// Neither: a thread that stands for a device was held up.
    Thread,
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
    /// What filled the parts, where no wait or phase says more.
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
pub(crate) fn charge(timeline: &Timeline<'_>, waits: &Waits, trainers: &[Trainer]) -> Vec<Account> {
    let mut sources: HashMap<TrackId, Vec<(Source, Claim)>> = HashMap::new();
    let of_waits = timeline.waits.iter().enumerate().map(|(i, wait)| {
        let span = wait.span;
        (wait.track, Source::Wait(i), Claim { span, rank: 1 })
    });
    let phases = timeline.phases.iter().enumerate();
    let phases = phases
        .filter(|(_, phase)| timeline.cause_of_phase(phase.name).is_some())
        .map(|(i, phase)| {
            let span = phase.span;
            (phase.track, Source::Phase(i), Claim { span, rank: 0 })
        });
    for (track, source, claim) in of_waits.chain(phases) {
        sources.entry(track).or_default().push((source, claim));
    }
    let one = |(i, trainer): (usize, &Trainer)| {
        let claims = trainer.track.and_then(|track| sources.get(&track));
        let mut charging = Charging {
            timeline,
            waits,
            at: i,
            trainer,
            compute: Nanos::ZERO,
            stalls: Vec::new(),
            known: HashMap::new(),
            unmarked: unmarked(timeline, trainer),
        };
        charging.charge(claims.map_or(&[], Vec::as_slice));
        charging.account()
    };
    trainers.iter().enumerate().map(one).collect()
}

/// The account of one trainer in the making.
struct Charging<'a> {
    timeline: &'a Timeline<'a>,
    waits: &'a Waits,
    at: usize,
    trainer: &'a Trainer,
    compute: Nanos,
    stalls: Vec<Stall>,
    /// Positions of the stalls of waits and phases.
    known: HashMap<(Source, Cause), usize>,
    /// Time in no phase, in steps whose work is marked.
    unmarked: Cover,
}

impl Charging<'_> {
    fn charge(&mut self, sources: &[(Source, Claim)]) {
        let claims: Vec<Claim> = sources.iter().map(|&(_, claim)| claim).collect();
        for part in partition(&self.trainer.parts, &claims) {
            let source = part.claim.and_then(|claim| sources.get(claim));
            match source.map(|&(source, _)| source) {
                Some(Source::Wait(i)) => {
                    let (timeline, waits) = (self.timeline, self.waits);
                    waits.cut(timeline, i, part.span, |span, cause| {
                        self.add(Source::Wait(i), cause, span);
                    });
                }
                Some(Source::Phase(i)) => {
                    let phase = self.timeline.phases.get(i);
                    let cause = phase.and_then(|phase| self.timeline.cause_of_phase(phase.name));
                    self.own(Source::Phase(i), cause, part.span);
                }
                _ => self.own(Source::Thread, None, part.span),
            }
        }
    }

    /// Time outside of the loader.
    fn own(&mut self, source: Source, marked: Option<Cause>, span: Interval) {
        let lane = self
            .trainer
            .track
            .and_then(|track| self.timeline.lane(track));
        let mut moment = TrainerMoment {
            wait: None,
            marked,
            unmarked: false,
            state: ThreadState::Unknown,
        };
        let mut until = span.start;
        for stretch in lane.iter().flat_map(|lane| lane.during(span)) {
            moment.state = stretch.state;
            self.moment(source, moment, stretch.span);
            until = stretch.span.end;
        }
        let rest = Interval::new(until, span.end);
        if !rest.is_empty() {
            moment.state = ThreadState::Unknown;
            self.moment(source, moment, rest);
        }
    }

    /// A moment that lasts for `span`, but for what phases say of it.
    fn moment(&mut self, source: Source, moment: TrainerMoment, span: Interval) {
        let mut parts = Vec::new();
        self.unmarked
            .cut(span, |part, unmarked| parts.push((part, unmarked)));
        for (part, unmarked) in parts {
            let moment = TrainerMoment { unmarked, ..moment };
            self.charged(source, judge_trainer(&moment).1, part);
        }
    }

    fn charged(&mut self, source: Source, cause: Option<Cause>, span: Interval) {
        match cause {
            Some(cause) => self.add(source, cause, span),
            None => self.compute += span.len(),
        }
    }

    fn add(&mut self, source: Source, cause: Cause, span: Interval) {
        let known = match source {
            // Each time that the thread is held up is a stall of its own.
            Source::Thread => {
                let goes_on = |stall: &&Stall| {
                    stall.source == source
                        && stall.cause == cause
                        && stall
                            .parts
                            .last()
                            .is_some_and(|last| last.end == span.start)
                };
                let last = self.stalls.last().filter(goes_on);
                last.map(|_| self.stalls.len() - 1)
            }
            _ => self.known.get(&(source, cause)).copied(),
        };
        let at = known.unwrap_or(self.stalls.len());
        if known.is_none() {
            self.stalls.push(Stall {
                device: self.at,
                trainer: self.at,
                source,
                cause,
                parts: Vec::new(),
                lost: Nanos::ZERO,
                pieces: Vec::new(),
                kernel: None,
                launch: None,
                drained: false,
            });
            if source != Source::Thread {
                self.known.insert((source, cause), at);
            }
        }
        let stall = &mut self.stalls[at];
        stall.lost += span.len();
        match stall.parts.last_mut() {
            Some(last) if last.end == span.start => last.end = span.end,
            _ => stall.parts.push(span),
        }
        if source == Source::Thread {
            let kind = match cause {
                Cause::HostPreempted => PieceKind::Preempted,
                Cause::HostCompute => PieceKind::Unmarked,
                _ => PieceKind::Blocked,
            };
            stall
                .pieces
                .push(Piece::plain(kind, span, self.trainer.track, Edge::Observed));
        }
    }

    fn account(mut self) -> Account {
        self.stalls.sort_by_key(Stall::start);
        Account {
            name: self.trainer.name.clone(),
            compute: self.compute,
            device: None,
            stalls: self.stalls,
        }
    }
}
