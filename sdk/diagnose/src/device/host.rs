//! The host threads behind a device: who launches, who feeds the launcher, who waits.

use super::calls::{Call, CallKind, StreamWait};
use super::lanes::{Doing, Lanes, Within};
use crate::cover::Cover;
use crate::id_map::IdMap;
use crate::piece::Edge;
use crate::rules::{Activity, STANDS_OUT_MAX_NS, ThreadState, blocks};
use crate::timeline::Timeline;
use crate::waits::Waits;
use crate::window::Trainer;
use gpustall_trace::{Interval, Nanos, TraceTime, TrackId};

/// What the host does in a stretch before a launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    pub(crate) span: Interval,
    pub(crate) launcher: Option<Activity>,
    pub(crate) feeder: Option<Activity>,
    /// What says so, and on which thread.
    pub(crate) doing: Option<(Doing, TrackId)>,
}

/// All that is known about the host.
pub(crate) struct Host<'a> {
    pub(crate) timeline: &'a Timeline<'a>,
    pub(crate) data: &'a Waits,
    pub(crate) calls: &'a [Call],
    pub(crate) lanes: Lanes,
    /// Positions of the calls of each thread, by start.
    of_track: IdMap<TrackId, Vec<usize>>,
    /// Positions of those that wait for the device.
    waits: IdMap<TrackId, Vec<usize>>,
    feeders: IdMap<TrackId, (TrackId, usize)>,
    /// When launchers that others feed had been asked and waited for a CPU.
    asked: IdMap<TrackId, Cover>,
    trainers: Vec<Option<TrackId>>,
}

impl<'a> Host<'a> {
    /// Lays out the host's threads.
    pub(crate) fn of(
        timeline: &'a Timeline<'a>,
        calls: &'a [Call],
        trainers: &[Trainer],
        data: &'a Waits,
    ) -> Self {
        let mut of_track: IdMap<TrackId, Vec<usize>> = IdMap::default();
        let mut waits: IdMap<TrackId, Vec<usize>> = IdMap::default();
        for (i, call) in calls.iter().enumerate() {
            of_track.entry(call.track).or_default().push(i);
            if call.activity == Activity::WaitsForDevice {
                let waits = waits.entry(call.track).or_default();
                let last = waits.last().and_then(|&last| calls.get(last));
                // A call inside another one of its thread is the same wait.
                if last.is_none_or(|last| call.span.end > last.span.end) {
                    waits.push(i);
                }
            }
        }
        let mut host = Self {
            timeline,
            data,
            calls,
            lanes: Lanes::of(timeline, calls, &data.causes),
            waits,
            feeders: IdMap::default(),
            asked: IdMap::default(),
            trainers: trainers.iter().map(|trainer| trainer.track).collect(),
            of_track,
        };
        let launchers: Vec<TrackId> = host.of_track.keys().copied().collect();
        for track in launchers {
            if let Some(feeder) = host.find_feeder(timeline, track) {
                host.feeders.insert(track, feeder);
            }
            let fed = host.feeder(track).is_some_and(|feeder| feeder != track);
            if let Some(lane) = timeline.lane(track).filter(|_| fed) {
                let waits = lane.waits_for_cpu();
                let asked = before_work(&waits, host.lanes.work(track));
                host.asked.insert(track, Cover::new(asked));
            }
        }
        host
    }

    /// The thread that runs steps and gives this one its work: the one of its process.
    fn find_feeder(&self, timeline: &Timeline<'_>, track: TrackId) -> Option<(TrackId, usize)> {
        let pid = timeline.trace.track(track).map(|track| track.pid);
        let trainers = || {
            let trainers = self.trainers.iter().enumerate();
            trainers.filter_map(|(i, trainer)| Some(((*trainer)?, i)))
        };
        let same = |of: &(TrackId, usize)| timeline.trace.track(of.0).map(|track| track.pid) == pid;
        trainers()
            .find(|of| of.0 == track)
            .or_else(|| trainers().find(same))
            .or_else(|| trainers().next().filter(|_| self.is_one_process()))
    }

    /// The thread that gives this one its work; the thread itself if it runs steps.
    pub(crate) fn feeder(&self, launcher: TrackId) -> Option<TrackId> {
        self.feeders
            .get(&launcher)
            .map(|&(track, _)| track)
            .or_else(|| self.first_trainer())
    }

    /// The thread of the first trainer that has one; in a trace of several processes it need not be the
    /// one that is looked for.
    pub(crate) fn first_trainer(&self) -> Option<TrackId> {
        let first = self.trainers.iter().flatten().next().copied();
        first.filter(|_| self.is_one_process())
    }

    fn is_one_process(&self) -> bool {
        self.timeline.trace.meta.members.len() < 2
    }

    /// Position of the trainer that feeds a launcher.
    pub(crate) fn trainer(&self, launcher: Option<TrackId>) -> usize {
        launcher
            .and_then(|track| self.feeders.get(&track))
            .map_or(0, |&(_, trainer)| trainer)
    }

    /// What the host does in `span` for a launcher: disjoint, in order, covering it.
    pub(crate) fn before(&self, launcher: TrackId, span: Interval) -> Vec<Before> {
        let feeder = self.feeder(launcher).filter(|&feeder| feeder != launcher);
        let mut found = Vec::new();
        let mut at = span.start;
        let marked = self.lanes.marked(launcher, span);
        for stretch in marked {
            self.unmarked(
                launcher,
                feeder,
                Interval::new(at, stretch.span.start),
                &mut found,
            );
            found.push(Before {
                span: stretch.span,
                launcher: Some(stretch.activity),
                feeder: None,
                doing: Some((stretch.doing, launcher)),
            });
            at = stretch.span.end;
        }
        self.unmarked(launcher, feeder, Interval::new(at, span.end), &mut found);
        found
    }

    /// Time in which nothing marks what the launcher does.
    fn unmarked(
        &self,
        launcher: TrackId,
        feeder: Option<TrackId>,
        span: Interval,
        found: &mut Vec<Before>,
    ) {
        let Some(feeder) = feeder else {
            push(found, span, None, None, None);
            return;
        };
        let mut at = span.start;
        for busy in self.lanes.busy(launcher, span) {
            self.idle((launcher, feeder), Interval::new(at, busy.start), found);
            let doing = Some((Doing::Work, launcher));
            push(found, busy, Some(Activity::Dispatches), None, doing);
            at = busy.end;
        }
        self.idle((launcher, feeder), Interval::new(at, span.end), found);
    }

    /// Time in which nothing that is recorded goes on on the launcher.
    fn idle(
        &self,
        (launcher, feeder): (TrackId, TrackId),
        span: Interval,
        found: &mut Vec<Before>,
    ) {
        let mut at = span.start;
        for stretch in self.lanes.marked(feeder, span) {
            self.unasked(launcher, Interval::new(at, stretch.span.start), found);
            let doing = Some((stretch.doing, feeder));
            push(found, stretch.span, None, Some(stretch.activity), doing);
            at = stretch.span.end;
        }
        self.unasked(launcher, Interval::new(at, span.end), found);
    }

    /// Time in which nothing is asked of the launcher, unless it only had no CPU to begin.
    fn unasked(&self, launcher: TrackId, span: Interval, found: &mut Vec<Before>) {
        let Some(asked) = self.asked.get(&launcher) else {
            return push(found, span, None, None, None);
        };
        asked.cut(span, |span, asked| match asked {
            true => {
                let doing = Some((Doing::Work, launcher));
                push(found, span, Some(Activity::Dispatches), None, doing);
            }
            false => push(found, span, None, None, None),
        });
    }

    /// How much of `span`, in which a launcher launches nothing, is neither explained by a call or
    /// a mark nor the framework's own work.
    pub(crate) fn unexplained(&self, launcher: TrackId, span: Interval) -> Nanos {
        let thread = self.feeder(launcher).unwrap_or(launcher);
        let open = |before: &Before| {
            let activity = before.launcher.or(before.feeder);
            activity.is_none_or(|activity| activity == Activity::Dispatches)
        };
        let framework = self.framework(thread, span);
        let own = |span: Interval| {
            let inside = framework.iter().map(|of| of.intersection(span).len());
            span.len() - inside.sum::<Nanos>()
        };
        let before = self.before(launcher, span);
        let open = before.iter().filter(|before| open(before));
        open.map(|before| self.unheld(launcher, before).map(own).sum::<Nanos>())
            .sum()
    }

    /// When a thread does the framework's own work in `gap`, in which nothing is launched. What goes on
    /// for so long that it always stands out is not that: an optimizer computes on the host, say.
    pub(crate) fn framework(&self, track: TrackId, gap: Interval) -> Vec<Interval> {
        let phases = self.lanes.phases(track, gap);
        let short = |within: &Within| within.span.len().get() < STANDS_OUT_MAX_NS;
        let own = phases.filter(|within| within.framework && short(within));
        own.map(|within| within.span).collect()
    }

    /// The parts of `before` in which nothing held the thread up that counts.
    fn unheld(&self, launcher: TrackId, before: &Before) -> impl Iterator<Item = Interval> + use<> {
        let works = before.doing.is_some();
        let held = |state| state == ThreadState::WaitsForCpu || (!works && blocks(state));
        let states = self.states(self.thread(launcher, before), before.span);
        let free: Vec<Interval> = states
            .into_iter()
            .filter(|&(_, state)| !held(state))
            .map(|(span, _)| span)
            .collect();
        free.into_iter()
    }

    /// The thread whose state counts: the one that does something, else the one that the next
    /// work must come from.
    pub(crate) fn thread(&self, launcher: TrackId, before: &Before) -> TrackId {
        let asked = || self.feeder(launcher).unwrap_or(launcher);
        before.doing.map_or_else(asked, |(_, track)| track)
    }

    /// What the scheduler says of a thread in `span`, as far as it holds the thread up: disjoint,
    /// in order, covering it.
    pub(crate) fn states(&self, track: TrackId, span: Interval) -> Vec<(Interval, ThreadState)> {
        let mut states: Vec<(Interval, ThreadState)> = Vec::new();
        let mut add = |span: Interval, state| match states.last_mut() {
            _ if span.is_empty() => {}
            Some((last, of)) if *of == state && last.end == span.start => last.end = span.end,
            _ => states.push((span, state)),
        };
        let mut at = span.start;
        if let Some(lane) = self.timeline.lane(track) {
            for stretch in lane.during(span) {
                let holds = stretch.state == ThreadState::WaitsForCpu || blocks(stretch.state);
                let state = match holds {
                    true => stretch.state,
                    false => ThreadState::Unknown,
                };
                add(stretch.span, state);
                at = stretch.span.end;
            }
        }
        add(Interval::new(at, span.end), ThreadState::Unknown);
        states
    }

    /// The call of a thread that waited for the device at `time`, entered before it.
    pub(crate) fn waiting(&self, track: TrackId, time: TraceTime) -> Option<&Call> {
        let waits = self.waits.get(&track)?;
        let after = waits.partition_point(|&i| self.calls[i].span.start < time);
        let call = self.calls.get(*waits.get(after.checked_sub(1)?)?)?;
        (call.span.end >= time).then_some(call)
    }

    /// Whether a thread, before the call at `until`, waited for what ended at `end`.
    pub(crate) fn waited_for(&self, track: TrackId, end: TraceTime, until: TraceTime) -> bool {
        let Some(waits) = self.waits.get(&track) else {
            return false;
        };
        let first = waits.partition_point(|&i| self.calls[i].span.end < end);
        let wait = waits.get(first).and_then(|&i| self.calls.get(i));
        wait.is_some_and(|wait| wait.span.start <= end && wait.span.end <= until)
    }

    /// The calls of a thread before this one, the last first.
    pub(crate) fn calls_before(&self, call: usize) -> impl Iterator<Item = &Call> {
        let track = self.calls.get(call).map(|call| call.track);
        let own = track.and_then(|track| self.of_track.get(&track));
        let own = own.map_or(&[][..], Vec::as_slice);
        let before = own.partition_point(|&i| i < call);
        own[..before]
            .iter()
            .rev()
            .filter_map(|&i| self.calls.get(i))
    }

    /// Whether a thread told `stream` to wait for an event of the stream `on`, after `from` and
    /// before a call: observed if the streams were recorded, inferred if only a wait was.
    pub(crate) fn event_wait_since(
        &self,
        call: usize,
        from: TraceTime,
        (stream, on): (u64, u64),
    ) -> Option<Edge> {
        let before = self.calls_before(call).take(MAX_CALLS_BACK);
        let edges = before
            .take_while(|before| before.span.start >= from)
            .filter(|before| before.kind == CallKind::StreamWait)
            .filter_map(|before| match before.waits {
                Some(waits) => (waits == StreamWait { stream, on }).then_some(Edge::Observed),
                None => Some(Edge::Inferred),
            });
        edges.min()
    }
}

/// What of `waits` for a CPU lies before work that begins in the same wait, or in less than
/// [`BEGINS_WITHIN`] after it and before the next one; all disjoint, in order.
fn before_work(waits: &[Interval], work: &[Interval]) -> Vec<Interval> {
    let mut found = Vec::new();
    for (i, wait) in waits.iter().enumerate() {
        let inside = work.partition_point(|of| of.start < wait.end);
        let last = inside.checked_sub(1).and_then(|last| work.get(last));
        let last = last.map(|of| of.start).filter(|&at| at > wait.start);
        let next = work.get(inside).map(|of| of.start);
        let again = waits.get(i + 1).map(|of| of.start);
        let soon = next.filter(|&next| {
            next.since(wait.end) < BEGINS_WITHIN && again.is_none_or(|again| next <= again)
        });
        let end = match soon {
            Some(_) => Some(wait.end),
            None => last,
        };
        found.extend(end.map(|end| Interval::new(wait.start, end)));
    }
    found
}

/// A launcher that begins to work no later than this after it got a CPU had been asked to before.
const BEGINS_WITHIN: Nanos = Nanos::new(1_000_000);

/// No more calls than this are looked back for an event wait.
const MAX_CALLS_BACK: usize = 256;

fn push(
    found: &mut Vec<Before>,
    span: Interval,
    launcher: Option<Activity>,
    feeder: Option<Activity>,
    doing: Option<(Doing, TrackId)>,
) {
    if !span.is_empty() {
        found.push(Before {
            span,
            launcher,
            feeder,
            doing,
        });
    }
}
