//! What each host thread does when, as far as it matters to a device.

use super::calls::Call;
use crate::cause::Cause;
use crate::foreign::{COMPILES, Meaning};
use crate::id_map::IdMap;
use crate::partition::{Claim, partition};
use crate::rules::Activity;
use crate::timeline::Timeline;
use gpustall_trace::{Interval, Slice, Symbol, TraceTime, TrackId};
use std::collections::HashMap;

/// What says what a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Position in [`Host::calls`](super::Host::calls).
    Call(usize),
    /// Position in `Timeline::waits`.
    Wait(usize),
    /// Position in `Timeline::phases`.
    Phase(usize),
    /// The thread's samples are in a compiler of device code.
    Compiler,
    /// Some operator, call or span.
    Work,
}

/// A stretch of a thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    pub(crate) span: Interval,
    pub(crate) doing: Doing,
    pub(crate) activity: Activity,
}

/// A stretch of a thread inside a phase.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Within {
    pub(crate) span: Interval,
    pub(crate) name: Symbol,
    /// Whether the framework marked it, not the user.
    pub(crate) framework: bool,
}

/// One thread.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// What explains time by itself: disjoint, in order.
    marked: Vec<Stretch>,
    /// Time inside any slice: disjoint, in order.
    busy: Vec<Interval>,
    /// Phases, the innermost at each moment: disjoint, in order.
    phases: Vec<Within>,
}

/// The threads of a trace.
pub(crate) struct Lanes {
    by_track: IdMap<TrackId, Lane>,
}

impl Lanes {
    /// Lays out every thread; `causes` are those of the timeline's waits.
    pub(crate) fn of(timeline: &Timeline<'_>, calls: &[Call], causes: &[Cause]) -> Self {
        let mut claims: HashMap<TrackId, Vec<(Claim, Doing, Activity)>> = HashMap::new();
        let mut claim = |track, span, rank, doing, activity| {
            let claim = Claim { span, rank };
            claims
                .entry(track)
                .or_default()
                .push((claim, doing, activity));
        };
        for (i, call) in calls.iter().enumerate() {
            if call.activity != Activity::Dispatches {
                claim(call.track, call.span, 2, Doing::Call(i), call.activity);
            }
        }
        for (i, (wait, &cause)) in timeline.waits.iter().zip(causes).enumerate() {
            let activity = Activity::WaitsForData(cause);
            claim(wait.track, wait.span, 1, Doing::Wait(i), activity);
        }
        for (i, phase) in timeline.phases.iter().enumerate() {
            if let Some(activity) = phase_activity(timeline, phase.name) {
                claim(phase.track, phase.span, 1, Doing::Phase(i), activity);
            }
        }
        // What a loader pins is a part of the wait for it.
        for slice in pinning(timeline) {
            let span = timeline.clip(slice.span);
            claim(slice.track, span, 0, Doing::Work, Activity::Stages);
        }
        for track in (0..timeline.trace.tracks.len()).map(|at| TrackId(at as u32)) {
            let compiling = timeline.lane(track).map(|lane| lane.compiling());
            for span in compiling.into_iter().flatten() {
                claim(track, span, 1, Doing::Compiler, Activity::Compiles);
            }
        }
        let ground = [Interval::new(TraceTime::ZERO, timeline.end)];
        let mut by_track: IdMap<TrackId, Lane> = IdMap::default();
        for (track, claims) in claims {
            let spans: Vec<Claim> = claims.iter().map(|&(claim, ..)| claim).collect();
            let stretch = |part: crate::partition::Part| {
                let &(_, doing, activity) = claims.get(part.claim?)?;
                Some(Stretch {
                    span: part.span,
                    doing,
                    activity,
                })
            };
            let parts = partition(&ground, &spans).into_iter();
            by_track.entry(track).or_default().marked = parts.filter_map(stretch).collect();
        }
        let mut lanes = Self { by_track };
        lanes.lay_out_work(timeline);
        lanes.lay_out_phases(timeline, &ground);
        lanes
    }

    /// The union of the slices of each thread that say it works: slices come by start.
    fn lay_out_work(&mut self, timeline: &Timeline<'_>) {
        let cat = &timeline.names.cat;
        let work = [
            cat.cpu_op,
            cat.cuda_runtime,
            cat.cuda_driver,
            cat.span,
            cat.phase,
        ];
        for slice in &timeline.trace.slices {
            let cat_of = Some(slice.cat);
            // Only operators may have names that mean a step or a loader.
            let marks = cat_of == cat.cpu_op && timeline.meanings.contains_key(&slice.name);
            if !work.contains(&cat_of) || marks {
                continue;
            }
            let span = timeline.clip(slice.span);
            if span.is_empty() {
                continue;
            }
            let busy = &mut self.by_track.entry(slice.track).or_default().busy;
            match busy.last_mut() {
                Some(last) if last.start <= span.start && span.start <= last.end => {
                    last.end = last.end.max(span.end);
                }
                _ => busy.push(span),
            }
        }
        for lane in self.by_track.values_mut() {
            let ordered = lane.busy.is_sorted_by(|a, b| a.end < b.start);
            if !ordered {
                lane.busy = union(std::mem::take(&mut lane.busy));
            }
        }
    }

    fn lay_out_phases(&mut self, timeline: &Timeline<'_>, ground: &[Interval]) {
        let mut of: HashMap<TrackId, Vec<(Claim, Symbol)>> = HashMap::new();
        for phase in &timeline.phases {
            let span = phase.span;
            of.entry(phase.track)
                .or_default()
                .push((Claim { span, rank: 0 }, phase.name));
        }
        for (track, phases) in of {
            let claims: Vec<Claim> = phases.iter().map(|&(claim, _)| claim).collect();
            let named = partition(ground, &claims).into_iter();
            self.by_track.entry(track).or_default().phases = named
                .filter_map(|part| {
                    let name = phases.get(part.claim?)?.1;
                    Some(Within {
                        span: part.span,
                        name,
                        framework: timeline.meanings.get(&name) == Some(&Meaning::Framework),
                    })
                })
                .collect();
        }
    }

    /// What explains the time of a thread in `span` by itself: disjoint, in order, cut to it.
    pub(crate) fn marked(
        &self,
        track: TrackId,
        span: Interval,
    ) -> impl Iterator<Item = Stretch> + '_ {
        let lane = self.by_track.get(&track);
        let marked = lane.map_or(&[][..], |lane| lane.marked.as_slice());
        during(marked, span, |stretch| stretch.span).map(move |stretch| Stretch {
            span: stretch.span.intersection(span),
            ..*stretch
        })
    }

    /// When a thread is inside any slice: disjoint, in order.
    pub(crate) fn work(&self, track: TrackId) -> &[Interval] {
        self.by_track
            .get(&track)
            .map_or(&[][..], |lane| lane.busy.as_slice())
    }

    /// When a thread is inside any slice in `span`: disjoint, in order, cut to it.
    pub(crate) fn busy(
        &self,
        track: TrackId,
        span: Interval,
    ) -> impl Iterator<Item = Interval> + '_ {
        let lane = self.by_track.get(&track);
        let busy = lane.map_or(&[][..], |lane| lane.busy.as_slice());
        during(busy, span, |&busy| busy).map(move |busy| busy.intersection(span))
    }

    /// The innermost phases of a thread in `span`: disjoint, in order, cut to it.
    pub(crate) fn phases(
        &self,
        track: TrackId,
        span: Interval,
    ) -> impl Iterator<Item = Within> + '_ {
        let lane = self.by_track.get(&track);
        let phases = lane.map_or(&[][..], |lane| lane.phases.as_slice());
        during(phases, span, |phase| phase.span).map(move |phase| Within {
            span: phase.span.intersection(span),
            ..*phase
        })
    }
}

/// Those of `list` (disjoint, in order) that share time with `span`.
fn during<T>(list: &[T], span: Interval, of: impl Fn(&T) -> Interval) -> impl Iterator<Item = &T> {
    let first = list.partition_point(|item| of(item).end <= span.start);
    list[first..]
        .iter()
        .take_while(move |item| of(item).start < span.end)
}

fn union(mut spans: Vec<Interval>) -> Vec<Interval> {
    spans.sort_by_key(|span| span.start);
    let mut union: Vec<Interval> = Vec::with_capacity(spans.len());
    for span in spans {
        match union.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => union.push(span),
        }
    }
    union
}

/// The operators in which PyTorch copies a tensor into pinned memory.
fn pinning<'a>(timeline: &'a Timeline<'_>) -> impl Iterator<Item = &'a Slice> {
    let find = |name| timeline.trace.strings.find(name);
    let names = ["aten::pin_memory", "aten::_pin_memory"].map(find);
    let any = names.iter().any(Option::is_some);
    let slices = timeline.trace.slices.iter().filter(move |_| any);
    slices.filter(move |slice| {
        Some(slice.cat) == timeline.names.cat.cpu_op && names.contains(&Some(slice.name))
    })
}

/// What a phase of this name says, if it says anything.
fn phase_activity(timeline: &Timeline<'_>, phase: Symbol) -> Option<Activity> {
    let name = timeline.trace.text(phase);
    let lower = name.get(..16.min(name.len())).map(str::to_ascii_lowercase);
    let starts = |head| lower.as_ref().is_some_and(|name| name.starts_with(head));
    if starts("compile") || starts("autotune") || name.ends_with(COMPILES) {
        return Some(Activity::Compiles);
    }
    if starts("stag") {
        return Some(Activity::Stages);
    }
    timeline.cause_of_phase(phase).map(Activity::Marked)
}
