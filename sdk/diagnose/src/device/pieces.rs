//! A stall cut into moments, each charged by the table.

use super::Host;
use super::depends::{Dependency, Next};
use super::host::Before;
use super::lanes::Doing;
use super::ops::Device;
use super::rhythm::Rhythm;
use crate::cause::Cause;
use crate::charge::Source;
use crate::partition::partition;
use crate::piece::{Edge, Piece, PieceKind};
use crate::rules::{Activity, Moment, Operation, ThreadState, judge};
use gpustall_trace::{Interval, Nanos, TraceTime, TrackId};

/// A piece of a stall, with what it is charged to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Charged {
    pub(crate) cause: Cause,
    pub(crate) source: Source,
    pub(crate) piece: Piece,
}

/// What is known about one stall.
pub(crate) struct Scene<'a> {
    pub(crate) host: &'a Host<'a>,
    pub(crate) device: &'a Device,
    pub(crate) rhythm: &'a Rhythm,
    pub(crate) stall: Interval,
    pub(crate) next: Option<Next>,
    /// Thread that launched the next kernel, or is taken to have.
    pub(crate) launcher: Option<TrackId>,
    /// When the launch of the next kernel returned; the end of the stall if that is not known.
    pub(crate) submitted: TraceTime,
    pub(crate) event_wait: bool,
    pub(crate) steps_known: bool,
    pub(crate) dependencies: Vec<Dependency>,
    /// The call of the host that waited for the device when it ran out of work.
    pub(crate) drained_in: Option<Interval>,
    /// Time that the host was ahead when it waited, not yet charged to that.
    pub(crate) lead: Nanos,
}

impl Scene<'_> {
    /// The pieces, in order; they partition the stall. What is left of the lead stays in `lead`.
    pub(crate) fn pieces(&mut self) -> Vec<Charged> {
        let mut charged = Vec::new();
        let claims: Vec<_> = self.dependencies.iter().map(|of| of.claim).collect();
        for part in partition(&[self.stall], &claims) {
            match part.claim.and_then(|claim| self.dependencies.get(claim)) {
                Some(&dependency) => charged.push(self.operation(part.span, dependency)),
                None => self.free(part.span, &mut charged),
            }
        }
        charged
    }

    pub(super) fn moment(&self) -> Moment {
        Moment {
            depends_on: None,
            submitted: false,
            event_wait: self.event_wait,
            launcher: None,
            feeder: None,
            stands_out: false,
            state: ThreadState::Unknown,
            refills: false,
            followed: self.next.is_some(),
            steps_known: self.steps_known,
        }
    }

    fn operation(&self, span: Interval, dependency: Dependency) -> Charged {
        let moment = Moment {
            depends_on: Some(dependency.operation),
            ..self.moment()
        };
        let op = self.device.ops.get(dependency.op);
        let kind = match dependency.operation {
            Operation::PageableCopy | Operation::Copy => PieceKind::Copy,
            Operation::Communication { straggling: true } => PieceKind::Straggler,
            Operation::Communication { straggling: false } => PieceKind::Collective,
        };
        Charged {
            cause: judge(&moment).1,
            source: Source::Device,
            piece: Piece {
                slice: op.map(|op| op.slice),
                named: op.map(|op| op.name),
                ..Piece::plain(kind, span, None, dependency.edge)
            },
        }
    }

    /// Time under no operation that the next kernel depends on.
    fn free(&mut self, span: Interval, charged: &mut Vec<Charged>) {
        let until = self.submitted.clamp(span.start, span.end);
        let before = Interval::new(span.start, until);
        if !before.is_empty() {
            match self.launcher {
                Some(launcher) => self.before_launch(launcher, before, charged),
                None => self.rest(before, None, Edge::Inferred, charged),
            }
        }
        let after = Interval::new(until, span.end);
        if !after.is_empty() {
            let moment = Moment {
                submitted: true,
                ..self.moment()
            };
            let call = self.next.and_then(|next| next.call);
            let call = call.and_then(|call| self.host.calls.get(call));
            charged.push(Charged {
                cause: judge(&moment).1,
                source: Source::Device,
                piece: Piece {
                    slice: call.map(|call| call.slice),
                    ..Piece::plain(PieceKind::Submitted, after, None, Edge::Observed)
                },
            });
        }
    }

    fn before_launch(&mut self, launcher: TrackId, span: Interval, charged: &mut Vec<Charged>) {
        // Without the launch itself nothing says that this was the thread.
        let edge = match self.next.and_then(|next| next.call) {
            Some(_) => Edge::Observed,
            None => Edge::Inferred,
        };
        for before in self.host.before(launcher, span) {
            let mut activity = before.launcher;
            if before.launcher.is_none()
                && before.feeder.is_none()
                && self.stages(launcher, before.span)
            {
                activity = Some(Activity::Stages);
            }
            let moment = Moment {
                launcher: activity,
                feeder: before.feeder,
                ..self.moment()
            };
            if let Some((Doing::Wait(i), track)) = before.doing {
                self.wait(i, &before, &moment, (track, edge), charged);
                continue;
            }
            let staging = activity == Some(Activity::Stages) && before.doing.is_none();
            let thread = match staging {
                true => launcher,
                false => self.host.thread(launcher, &before),
            };
            for (span, state) in self.host.states(thread, before.span) {
                let moment = Moment { state, ..moment };
                let cause = judge(&moment).1;
                let kind = match cause {
                    Cause::HostPreempted => PieceKind::Preempted,
                    Cause::HostBlocked => PieceKind::Blocked,
                    _ => {
                        self.did(span, &before, &moment, (launcher, edge), charged);
                        continue;
                    }
                };
                charged.push(Charged {
                    cause,
                    source: Source::Device,
                    piece: Piece::plain(kind, span, Some(thread), edge),
                });
            }
        }
    }

    /// A part of a loader's call, which the table of waits charges.
    fn wait(
        &self,
        wait: usize,
        before: &Before,
        moment: &Moment,
        (track, edge): (TrackId, Edge),
        charged: &mut Vec<Charged>,
    ) {
        let (timeline, data) = (self.host.timeline, self.host.data);
        data.cut(timeline, wait, before.span, |span, cause| {
            let is = |activity: Activity| match activity {
                Activity::WaitsForData(_) => Activity::WaitsForData(cause),
                other => other,
            };
            let moment = Moment {
                launcher: moment.launcher.map(is),
                feeder: moment.feeder.map(is),
                ..*moment
            };
            charged.push(Charged {
                cause: judge(&moment).1,
                source: Source::Wait(wait),
                piece: Piece::plain(PieceKind::Next, span, Some(track), edge),
            });
        });
    }

    /// A part of what the host does before a launch, in which nothing holds it up.
    fn did(
        &mut self,
        span: Interval,
        before: &Before,
        moment: &Moment,
        (launcher, edge): (TrackId, Edge),
        charged: &mut Vec<Charged>,
    ) {
        let explained = moment
            .host()
            .is_some_and(|host| host != Activity::Dispatches);
        if !explained {
            return self.rest(span, Some(launcher), edge, charged);
        }
        let (source, kind, slice, named) = match before.doing {
            Some((Doing::Phase(i), _)) => (Source::Phase(i), PieceKind::Phase, None, None),
            Some((Doing::Call(i), _)) => {
                let call = self.host.calls.get(i);
                let slice = call.map(|call| call.slice);
                (
                    Source::Device,
                    PieceKind::Call,
                    slice,
                    call.map(|call| call.name),
                )
            }
            Some((Doing::Compiler, _)) => (Source::Device, PieceKind::Compiling, None, None),
            _ => (Source::Device, PieceKind::Staging, None, None),
        };
        let track = before.doing.map_or(launcher, |(_, track)| track);
        let edge = match kind {
            PieceKind::Compiling => Edge::Inferred,
            _ => edge,
        };
        let cause = judge(moment).1;
        if cause == Cause::SyncReadback {
            self.lead = self.lead - span.len();
        }
        charged.push(Charged {
            cause,
            source,
            piece: Piece {
                slice,
                named,
                ..Piece::plain(kind, span, Some(track), edge)
            },
        });
    }
}
