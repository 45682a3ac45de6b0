//! What of a trace tells its story: tracks, a stall, and the time around it.

use gpustall_trace::vocab::cat;
use gpustall_trace::{Interval, Trace, TraceTime, TrackId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Streams that are pinned, where no producers of batches are.
const STREAMS: usize = 2;

/// Steps that are shown around a stall.
const STEPS: u64 = 8;

/// How a trace is shown at first.
#[derive(Debug, Default)]
pub(super) struct View {
    /// Names of tracks as viewers write them, from top to bottom: effects before causes.
    pub(super) pins: Vec<String>,
    /// The time that is shown.
    pub(super) shown: Option<Interval>,
    /// A slice that is selected, so that its arrows are drawn.
    pub(super) selected: Option<Interval>,
}

/// The view of `trace`.
pub(super) fn of(trace: &Trace) -> View {
    let stall = typical_stall(trace);
    View {
        pins: pins(trace),
        shown: stall.and_then(|stall| around(trace, stall)),
        selected: stall,
    }
}

/// Not more than Perfetto shows without scrolling: a thread takes two tracks there, and a title.
fn pins(trace: &Trace) -> Vec<String> {
    let mut tracks = Vec::new();
    tracks.extend(busiest(trace, usize::MAX, |of| of == cat::FINDING));
    tracks.extend(busiest(trace, usize::MAX, |of| of == cat::DEVICE_STATE));
    let producer = busiest(trace, 1, |of| {
        of == cat::DATA_GET || of == cat::DATA_COLLATE
    });
    if producer.is_empty() {
        tracks.extend(busiest(trace, STREAMS, |of| of == cat::KERNEL));
    }
    let mut trainer = busiest(trace, 1, |of| of == cat::DATA_WAIT);
    if trainer.is_empty() {
        trainer = busiest(trace, 1, |of| {
            of == cat::PHASE || of == cat::CUDA_RUNTIME || of == cat::CUDA_DRIVER
        });
    }
    tracks.extend(trainer);
    tracks.extend(producer);
    let mut names = Vec::new();
    for track in tracks
        .into_iter()
        .filter_map(|track| trace.tracks.get(track.index()))
    {
        let name = format!("{} {}", trace.text(track.name), track.tid.0);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The tracks on which slices of these categories take the most time, at most `most`, in that order.
fn busiest(trace: &Trace, most: usize, is: impl Fn(&str) -> bool) -> Vec<TrackId> {
    let mut times: BTreeMap<usize, (TrackId, u64)> = BTreeMap::new();
    for slice in trace
        .slices
        .iter()
        .filter(|slice| is(trace.text(slice.cat)))
    {
        let (_, time) = times.entry(slice.track.index()).or_insert((slice.track, 0));
        *time += slice.span.len().get();
    }
    let mut times: Vec<(TrackId, u64)> = times.into_values().collect();
    times.sort_by_key(|(_, time)| Reverse(*time));
    times
        .into_iter()
        .take(most)
        .map(|(track, _)| track)
        .collect()
}

/// Of the cause that starves most, the stall in the middle of the lost time: half of that was lost in
/// stalls that are no longer.
fn typical_stall(trace: &Trace) -> Option<Interval> {
    let mut causes: BTreeMap<&str, Vec<Interval>> = BTreeMap::new();
    for slice in trace
        .slices
        .iter()
        .filter(|slice| trace.text(slice.cat) == cat::FINDING)
    {
        let mut words = trace.text(slice.name).split(' ');
        if let (Some("starved:"), Some(cause)) = (words.next(), words.next()) {
            causes.entry(cause).or_default().push(slice.span);
        }
    }
    let lost =
        |stalls: &Vec<Interval>| -> u64 { stalls.iter().map(|stall| stall.len().get()).sum() };
    let mut stalls = causes.into_values().max_by_key(lost)?;
    let half = lost(&stalls) / 2;
    stalls.sort_by_key(|stall| stall.len());
    let mut sum = 0;
    stalls.into_iter().find(|stall| {
        sum += stall.len().get();
        sum >= half
    })
}

/// Some steps around `stall`, within the trace.
fn around(trace: &Trace, stall: Interval) -> Option<Interval> {
    let mut steps: Vec<u64> = trace
        .slices
        .iter()
        .filter(|slice| trace.text(slice.cat) == cat::STEP)
        .map(|slice| slice.span.len().get())
        .collect();
    steps.sort_unstable();
    let step = steps.get(steps.len() / 2).copied().unwrap_or_default();
    let margin = (STEPS * step / 2).max(2 * stall.len().get());
    let first = trace.slices.iter().map(|slice| slice.span.start).min()?;
    let last = trace.slices.iter().map(|slice| slice.span.end).max()?;
    let start = TraceTime::from_nanos(stall.start.as_nanos().saturating_sub(margin)).max(first);
    let end = TraceTime::from_nanos(stall.end.as_nanos().saturating_add(margin)).min(last);
    Some(Interval::new(start, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpustall_trace::{Args, Pid, Slice, Tid, Track, TrackKind};

    /// A trace of one thread, on whose track these slices lie: category, name, start, end.
    fn trace(slices: &[(&str, &str, u64, u64)]) -> Trace {
        let mut trace = Trace::default();
        let name = trace.strings.intern("main");
        trace.tracks.push(Track {
            pid: Pid(1),
            tid: Tid(7),
            name,
            sort: 0,
            kind: TrackKind::Thread,
        });
        for &(cat, name, start, end) in slices {
            let (cat, name) = (trace.strings.intern(cat), trace.strings.intern(name));
            let span = Interval::new(TraceTime::from_nanos(start), TraceTime::from_nanos(end));
            trace.slices.push(Slice {
                track: TrackId(0),
                name,
                cat,
                span,
                args: Args::default(),
            });
        }
        trace
    }

    #[test]
    fn the_stall_in_the_middle_of_the_time_that_the_first_cause_took_is_shown() {
        let view = of(&trace(&[
            (cat::STEP, "step", 0, 1_000),
            (cat::FINDING, "starved: data 1 us", 10, 11),
            (cat::FINDING, "starved: data 1 us", 20, 21),
            (cat::FINDING, "starved: data 1 us", 30, 31),
            (cat::FINDING, "starved: data 40 us", 2_000, 2_040),
            (cat::FINDING, "starved: data 50 us", 3_000, 3_050),
            (cat::FINDING, "starved: host 70 us", 4_000, 4_070),
            (cat::FINDING, "get on dataloader-0", 4_000, 90_000),
        ]));
        let span =
            |start, end| Interval::new(TraceTime::from_nanos(start), TraceTime::from_nanos(end));
        assert_eq!(view.selected, Some(span(3_000, 3_050)));
        // Four steps before it would be before the first event.
        assert_eq!(view.shown, Some(span(0, 7_050)));
        assert_eq!(view.pins, ["main 7"]);
    }

    #[test]
    fn a_trace_without_steps_and_findings_has_its_busiest_launching_thread_on_top() {
        let view = of(&trace(&[(cat::CUDA_RUNTIME, "cudaLaunchKernel", 5, 9)]));
        assert_eq!((view.selected, view.shown), (None, None));
        assert_eq!(view.pins, ["main 7"]);
    }
}
