//! What the user's own spans say of the time in which batches are made: `get, 80 % in decode_jpeg`.

use crate::links::percent;
use crate::partition::{Claim, partition};
use crate::state_links::short;
use crate::tally::Sum;
use crate::timeline::Timeline;
use gpustall_trace::{Interval, Nanos, Slice, Symbol, TraceTime, TrackId};
use std::collections::HashMap;

/// No more spans than this are named.
const MAX_NAMED: usize = 2;

/// One below this share of the time is not named.
const SMALLEST: f64 = 0.05;

/// The source of events that tells of lost spans.
const SOURCE: &str = "user spans";

/// The user's spans inside the stages of batches; where the stages are not recorded, inside a `next()`
/// that makes its batch itself.
#[derive(Debug, Default)]
pub(crate) struct UserSpans {
    /// Of each thread the innermost span at each moment: disjoint, in order.
    by_track: HashMap<TrackId, Vec<(Interval, Symbol)>>,
}

impl UserSpans {
    /// Looks through the slices once.
    pub(crate) fn of(timeline: &Timeline<'_>) -> Self {
        let cat = &timeline.names.cat;
        let is_users = |slice: &&Slice| {
            let annotated = Some(slice.cat) == cat.user_annotation;
            let means = || timeline.meanings.contains_key(&slice.name);
            Some(slice.cat) == cat.span || (annotated && !means())
        };
        if cat.span.is_none() && cat.user_annotation.is_none() {
            return Self::default();
        }
        let mut calls: HashMap<TrackId, Vec<Interval>> = HashMap::new();
        for wait in timeline.waits.iter().filter(|wait| wait.annotated) {
            if wait.in_process == Some(true) {
                calls.entry(wait.track).or_default().push(wait.span);
            }
        }
        let inside = |track: TrackId, span: Interval| {
            let holds = |of: Interval| of.start <= span.start && span.end <= of.end;
            let mut stages = timeline.stages.during(track, span);
            let calls = calls.get(&track).map_or(&[][..], Vec::as_slice);
            let after = calls.partition_point(|call| call.start <= span.start);
            stages.any(|busy| {
                timeline
                    .stages
                    .get(busy.stage)
                    .is_some_and(|of| holds(of.span))
            }) || after.checked_sub(1).is_some_and(|at| holds(calls[at]))
        };
        let mut found: HashMap<TrackId, Vec<(Interval, Symbol)>> = HashMap::new();
        for slice in timeline.trace.slices.iter().filter(is_users) {
            let span = timeline.clip(slice.span);
            // What encloses a whole loop says nothing of a batch.
            if !span.is_empty() && inside(slice.track, span) {
                found
                    .entry(slice.track)
                    .or_default()
                    .push((span, slice.name));
            }
        }
        let whole = [Interval::new(TraceTime::ZERO, timeline.end)];
        let laid_out = |spans: &Vec<(Interval, Symbol)>| {
            let claims: Vec<Claim> = spans
                .iter()
                .map(|&(span, _)| Claim { span, rank: 0 })
                .collect();
            let parts = partition(&whole, &claims).into_iter();
            parts
                .filter_map(|part| Some((part.span, spans.get(part.claim?)?.1)))
                .collect()
        };
        Self {
            by_track: found
                .iter()
                .map(|(&track, spans)| (track, laid_out(spans)))
                .collect(),
        }
    }

    /// In which spans the thread was in `span`, and for how long.
    pub(crate) fn during(
        &self,
        track: TrackId,
        span: Interval,
    ) -> impl Iterator<Item = (Symbol, Nanos)> {
        let lane = self.by_track.get(&track).map_or(&[][..], Vec::as_slice);
        let first = lane.partition_point(|(of, _)| of.end <= span.start);
        let rest = lane
            .iter()
            .skip(first)
            .take_while(move |(of, _)| of.start < span.end);
        rest.map(move |&(of, name)| (name, of.intersection(span).len()))
    }
}

/// The spans that most of the time was in, as they stand behind the name of a stage.
pub(crate) fn named(timeline: &Timeline<'_>, sum: &Sum) -> String {
    let mut spans: Vec<(&str, f64)> = sum
        .by_span
        .iter()
        .map(|(&name, ns)| (timeline.trace.text(name), ns.share_of(sum.ns)))
        .filter(|&(_, share)| share >= SMALLEST)
        .collect();
    spans.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    let lost = timeline.trace.lost_by_source();
    let lost = lost.get(SOURCE).is_some_and(|&total| total > 0);
    let least = if lost { "at least " } else { "" };
    let one =
        |&(name, share): &(&str, f64)| format!(", {least}{} in `{}`", percent(share), short(name));
    spans.iter().take(MAX_NAMED).map(one).collect()
}
