//! Putting planned stalls into the trace: slices and arrows.

use super::place::track;
use super::plan::{Arg, Drawn, FlowTarget};
use gpustall_trace::vocab::cat;
use gpustall_trace::{
    Flow, FlowEnd, Interval, Nanos, Slice, Symbol, Trace, TraceTime, TrackId, Value,
};
use std::collections::BTreeMap;

/// Name of the arrows.
const ARROW: &str = "starved by";

/// Draws them.
pub(super) fn draw(trace: &mut Trace, stalls: &[Drawn]) {
    let finding = trace.strings.intern(cat::FINDING);
    let arrow = trace.strings.intern(ARROW);
    let several = stalls.iter().any(|stall| stall.device != stalls[0].device);
    let mut tracks: BTreeMap<usize, TrackId> = BTreeMap::new();
    let mut arrows = Vec::new();
    for stall in stalls {
        let known = tracks.get(&stall.device).copied();
        let Some(track) = known.or_else(|| track(trace, stall, several)) else {
            return;
        };
        tracks.insert(stall.device, track);
        push(trace, track, finding, &stall.name, stall.span, &stall.args);
        arrows.extend(stall.launch.and_then(|to| ends(track, stall.span, to)));
        arrows.extend(
            stall
                .kernel
                .map(|kernel| to_kernel(track, stall.span, kernel)),
        );
        for (i, piece) in stall.pieces.iter().enumerate() {
            push(trace, track, finding, &piece.name, piece.span, &piece.args);
            let first_of_worker = i == 0
                && piece
                    .target
                    .zip(stall.wait)
                    .is_none_or(|(to, wait)| to.track != wait.track);
            let wait = if first_of_worker { stall.wait } else { None };
            let targets = piece.target.into_iter().chain(wait).chain(piece.off);
            arrows.extend(targets.filter_map(|to| ends(track, piece.span, to)));
        }
    }
    for (id, (from, to)) in (1..).zip(arrows) {
        trace.flows.push(Flow {
            id,
            name: arrow,
            cat: finding,
            from,
            to,
        });
    }
}

/// An arrow's two ends: one moment, just after the piece begins, that lies inside both slices.
fn ends(track: TrackId, piece: Interval, to: FlowTarget) -> Option<(FlowEnd, FlowEnd)> {
    let both = piece.intersection(to.span);
    let inside = both.start + Nanos::new(1);
    let at: TraceTime = if both.contains(inside) {
        inside
    } else {
        both.start
    };
    let ends = (
        FlowEnd { track, at },
        FlowEnd {
            track: to.track,
            at,
        },
    );
    both.contains(at).then_some(ends)
}

/// An arrow from the last moment of a stall to the start of the kernel that ended it.
fn to_kernel(track: TrackId, stall: Interval, kernel: FlowTarget) -> (FlowEnd, FlowEnd) {
    let last = TraceTime::from_nanos(stall.end.as_nanos().saturating_sub(1));
    (
        FlowEnd { track, at: last },
        FlowEnd {
            track: kernel.track,
            at: kernel.span.start,
        },
    )
}

fn push(
    trace: &mut Trace,
    track: TrackId,
    cat: Symbol,
    name: &str,
    span: Interval,
    args: &[(&'static str, Arg)],
) {
    let strings = &mut trace.strings;
    let args = args.iter().map(|(key, value)| {
        let key = strings.intern(key);
        let value = match value {
            Arg::Number(n) => Value::U64(*n),
            Arg::Share(share) => Value::F64(crate::stats::round_share(*share)),
            Arg::Text(text) => Value::Str(strings.intern(text)),
        };
        (key, value)
    });
    let args = args.collect();
    let name = strings.intern(name);
    trace.slices.push(Slice {
        track,
        name,
        cat,
        span,
        args,
    });
}
