//! Time before a launch that no call and no mark explains: rhythm, refill, stretches.

use super::lanes::Within;
use super::ops::OpKind;
use super::pieces::{Charged, Scene};
use crate::cause::Cause;
use crate::charge::Source;
use crate::piece::{Edge, Piece, PieceKind};
use crate::rules::{Activity, Moment, judge};
use gpustall_trace::{Interval, TrackId};

impl Scene<'_> {
    /// Time before the launch that no call and no mark explains: cut where stretches that stand
    /// out begin and end, where the refill after a wait ends, and by phases.
    pub(super) fn rest(
        &mut self,
        span: Interval,
        launcher: Option<TrackId>,
        edge: Edge,
        charged: &mut Vec<Charged>,
    ) {
        let mut at = span.start;
        let outstanding: Vec<_> = self.rhythm.outstanding(span).collect();
        for (stretch, gap) in outstanding {
            self.rhythmic(Interval::new(at, stretch.start), launcher, edge, charged);
            let moment = Moment {
                stands_out: true,
                ..self.moment()
            };
            let thread = launcher.map(|track| self.host.feeder(track).unwrap_or(track));
            let framework = thread.map(|track| self.host.framework(track, gap));
            let framework = framework.unwrap_or_default();
            self.named(stretch, (&moment, &framework), launcher, edge, charged);
            at = stretch.end;
        }
        self.rhythmic(Interval::new(at, span.end), launcher, edge, charged);
    }

    fn rhythmic(
        &mut self,
        span: Interval,
        launcher: Option<TrackId>,
        edge: Edge,
        charged: &mut Vec<Charged>,
    ) {
        // In the stall in which the host waited, all is refill from the end of the wait on.
        let waited = self.drained_in.map_or(span.end, |wait| wait.end);
        let waited = waited.clamp(span.start, span.end);
        let lead = (span.start + self.lead).min(waited);
        let cuts = [
            (Interval::new(span.start, lead), true),
            (Interval::new(lead, waited), false),
            (Interval::new(waited, span.end), true),
        ];
        for (span, refills) in cuts {
            if refills {
                self.lead = self.lead - span.len();
            }
            let moment = Moment {
                refills,
                ..self.moment()
            };
            self.named(span, (&moment, &[]), launcher, edge, charged);
        }
    }

    /// A moment that lasts for `span`, cut by the phases that the launcher's feeder was in; of these the
    /// framework's own work lies in `framework`.
    fn named(
        &self,
        span: Interval,
        (moment, framework): (&Moment, &[Interval]),
        launcher: Option<TrackId>,
        edge: Edge,
        charged: &mut Vec<Charged>,
    ) {
        let mut push = |span: Interval, within: Option<Within>| {
            let framework = within.is_some_and(|within| {
                let start = within.span.start;
                within.framework && framework.iter().any(|own| own.contains(start))
            });
            let cause = judge(&Moment {
                stands_out: moment.stands_out && !framework,
                ..*moment
            })
            .1;
            let kind = match cause {
                Cause::HostCompute => PieceKind::NoLaunch,
                Cause::SyncReadback => PieceKind::Refill,
                Cause::HostLaunchBound => PieceKind::BetweenLaunches,
                _ => PieceKind::Unrecorded,
            };
            let named = within.map(|within| within.name);
            if !span.is_empty() {
                charged.push(Charged {
                    cause,
                    source: Source::Device,
                    piece: Piece {
                        named,
                        ..Piece::plain(kind, span, launcher, edge)
                    },
                });
            }
        };
        let mut at = span.start;
        let thread = launcher.map(|track| self.host.feeder(track).unwrap_or(track));
        let phases = thread.into_iter();
        for within in phases.flat_map(|track| self.host.lanes.phases(track, span)) {
            push(Interval::new(at, within.span.start), None);
            push(within.span, Some(within));
            at = within.span.end;
        }
        push(Interval::new(at, span.end), None);
    }

    /// Whether a runner that is in no call at that time is between two copies to the device of
    /// this stall: it then copies into pinned memory.
    pub(super) fn stages(&self, launcher: TrackId, span: Interval) -> bool {
        if self
            .host
            .feeder(launcher)
            .is_none_or(|feeder| feeder == launcher)
        {
            return false;
        }
        let copies = || {
            let ops = self.dependencies.iter().map(|of| of.op);
            ops.filter_map(|op| self.device.ops.get(op)).filter(|op| {
                let call = op.call.and_then(|call| self.host.calls.get(call));
                call.is_some_and(|call| {
                    matches!(
                        op.kind,
                        OpKind::Copy {
                            to_host: false,
                            on_device: false,
                            ..
                        }
                    ) && call.track == launcher
                        && call.activity == Activity::Dispatches
                })
            })
        };
        copies().any(|copy| copy.span.end <= span.start)
            && copies().any(|copy| copy.span.start >= span.end)
    }
}
