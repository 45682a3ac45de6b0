//! When threads that take batches are in a loader's sampler: it draws the indices of batches in `next()`,
//! on the thread that asks for them, and no worker can take that over.
//!
//! Without workers it draws those of the batch that is asked for. With workers it draws, once a batch has
//! come, those of a later one, which the worker then has to make.

use crate::charge::Stall;
use crate::events::{LoaderKey, Role, Wait};
use crate::partition::{Claim, partition};
use crate::remedy::{Facts, Remedy};
use crate::timeline::Timeline;
use gpustall_trace::vocab::SAMPLE_INDICES;
use gpustall_trace::{Interval, Nanos, TrackId};
use std::collections::{BTreeMap, HashMap};

/// A sampler that takes less than this share of the time in `next()` of its loader, or in `iter()`, is not told
/// apart there.
pub const MIN_SAMPLER_SHARE: f64 = 0.05;

/// What the time in samplers is counted by: a loader's `iter()`, or its `next()`.
type Calls = (LoaderKey, bool);

/// The stretches in which threads were in a sampler, inside the calls of a loader.
#[derive(Debug, Default)]
pub(crate) struct Sampling {
    /// Disjoint, in order.
    by_track: HashMap<TrackId, Vec<Interval>>,
}

impl Sampling {
    /// Looks through the slices once; the waits are in already.
    pub(crate) fn of(timeline: &Timeline<'_>) -> Self {
        let trace = timeline.trace;
        let known = trace.strings.find(SAMPLE_INDICES);
        let Some((cat, name)) = timeline.names.cat.python_function.zip(known) else {
            return Self::default();
        };
        let mut drawn: HashMap<TrackId, Vec<Interval>> = HashMap::new();
        let samples = trace.slices.iter();
        for slice in samples.filter(|slice| slice.cat == cat && slice.name == name) {
            let spans = drawn.entry(slice.track).or_default();
            let span = timeline.clip(slice.span);
            match spans.last_mut() {
                // A sampler around another one.
                Some(last) if span.start < last.end => last.end = last.end.max(span.end),
                _ => spans.push(span),
            }
        }
        let mut waits: HashMap<TrackId, Vec<&Wait>> = HashMap::new();
        let (mut called, mut sampled) = (BTreeMap::new(), BTreeMap::new());
        for wait in &timeline.waits {
            waits.entry(wait.track).or_default().push(wait);
            *called.entry(calls(wait)).or_insert(Nanos::ZERO) += wait.span.len();
        }
        let mut found: Vec<(TrackId, Interval, Calls)> = Vec::new();
        for (track, spans) in drawn {
            let waits = waits.get(&track).map_or(&[][..], Vec::as_slice);
            let claim = |wait: &&Wait| Claim {
                span: wait.span,
                rank: 0,
            };
            let claims: Vec<Claim> = waits.iter().map(claim).collect();
            for part in partition(&spans, &claims) {
                if let Some(wait) = part.claim.and_then(|at| waits.get(at)) {
                    *sampled.entry(calls(wait)).or_insert(Nanos::ZERO) += part.span.len();
                    found.push((track, part.span, calls(wait)));
                }
            }
        }
        let matters = |calls: &Calls| {
            let all = called.get(calls).copied().unwrap_or_default();
            let sampled = sampled.get(calls).copied().unwrap_or_default();
            sampled.share_of(all) >= MIN_SAMPLER_SHARE
        };
        let mut sampling = Self::default();
        for (track, span, _) in found.iter().filter(|(_, _, calls)| matters(calls)) {
            sampling.by_track.entry(*track).or_default().push(*span);
        }
        sampling
    }

    /// When the thread was in a sampler in these parts: disjoint, in order, cut to them.
    pub(crate) fn during(&self, track: TrackId, parts: &[Interval]) -> Vec<Interval> {
        let Some(spans) = self.by_track.get(&track) else {
            return Vec::new();
        };
        let inside = |part: &Interval| {
            let part = *part;
            let first = spans.partition_point(|span| span.end <= part.start);
            spans[first..]
                .iter()
                .take_while(move |span| span.start < part.end)
                .map(move |span| span.intersection(part))
        };
        parts.iter().flat_map(inside).collect()
    }

    /// The stall of this wait without the time in a sampler; `None` if there is none.
    pub(crate) fn left_of(&self, wait: &Wait, stall: &Stall) -> Option<Stall> {
        let sampled = self.during(wait.track, &stall.parts);
        let sampled: Nanos = sampled.iter().map(|span| span.len()).sum();
        (sampled > Nanos::ZERO).then(|| Stall {
            lost: stall.lost - sampled,
            ..stall.clone()
        })
    }
}

fn calls(wait: &Wait) -> Calls {
    (wait.loader, wait.role == Role::EpochStart)
}

/// How much of a finding's loss is a sampler's.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sampled {
    /// Share of the loss.
    pub(crate) share: f64,
    /// On average, each time that the loss is of.
    pub(crate) mean: Nanos,
}

impl Facts<'_> {
    /// Whether most of the loss is the sampler's.
    pub(crate) fn is_of_sampler(&self) -> bool {
        self.sampled.share > 0.5
    }
}

/// What to change where the sampler takes the time.
pub(crate) fn remedy(facts: &Facts<'_>) -> Remedy {
    format!(
        "the sampler runs on the thread that trains, {} on average each time, and workers do not take that \
         over, however many: they only get the indices. Draw the indices beforehand (a list of all batches \
         as batch_sampler, or a thread of its own that keeps some ready), or make them cheaper: many with \
         one call of torch or NumPy, not one by one in Python.",
        facts.sampled.mean
    )
    .into()
}
