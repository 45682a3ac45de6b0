//! Whether a kernel depended on a copy or a collective that ran before it.

use super::Host;
use super::calls::CallKind;
use super::ops::{Device, Op, OpKind};
use super::straggler::Late;
use crate::partition::Claim;
use crate::piece::Edge;
use crate::rules::{Activity, Operation};
use gpustall_trace::{Interval, TraceTime};

/// Something that the next kernel depends on, in the part of its time that counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dependency {
    pub(crate) claim: Claim,
    pub(crate) operation: Operation,
    /// Position of the operation.
    pub(crate) op: usize,
    pub(crate) edge: Edge,
}

/// A kernel that ended a stall, and what is known about its launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Next {
    /// Position of the kernel.
    pub(crate) op: usize,
    /// Position of the call that launched it.
    pub(crate) call: Option<usize>,
}

/// Adds what of the operation at `at` the next kernel depends on. `submitted` is when that
/// kernel's launch returned.
pub(crate) fn add(
    found: &mut Vec<Dependency>,
    (host, device, late): (&Host<'_>, &Device, &Late),
    at: usize,
    next: Option<Next>,
    (stall, submitted): (Interval, TraceTime),
) {
    let Some(op) = device.ops.get(at) else { return };
    let mut span = op.span.intersection(stall);
    let edge = match next {
        None => Some(Edge::Inferred),
        Some(next) => proof(host, device, op, next, stall),
    };
    let edge = match (edge, op.kind) {
        (Some(edge), _) => edge,
        (None, OpKind::Communication) => {
            span.start = span.start.max(submitted);
            Edge::Inferred
        }
        (None, _) => return,
    };
    if span.end <= span.start {
        return;
    }
    let mut push = |span: Interval, operation, rank| {
        if !span.is_empty() {
            found.push(Dependency {
                claim: Claim { span, rank },
                operation,
                op: at,
                edge,
            });
        }
    };
    match op.kind {
        OpKind::Kernel => {}
        OpKind::Copy { pageable: true, .. } => push(span, Operation::PageableCopy, 3),
        OpKind::Copy { .. } | OpKind::Set => push(span, Operation::Copy, 2),
        OpKind::Communication => {
            let last = late.get(&at).map_or(span.start, |last| last.at);
            let cut = last.clamp(span.start, span.end);
            let comm = |straggling| Operation::Communication { straggling };
            push(Interval::new(span.start, cut), comm(true), 1);
            push(Interval::new(cut, span.end), comm(false), 0);
        }
    }
}

/// Whether the kernel depends on `op`, and how that is known.
fn proof(host: &Host<'_>, device: &Device, op: &Op, next: Next, stall: Interval) -> Option<Edge> {
    let kernel = device.ops.get(next.op)?;
    if op.span.end > kernel.span.start {
        return None;
    }
    if op.stream == kernel.stream {
        return Some(Edge::Observed);
    }
    let launch = next.call?;
    let launched = host.calls.get(launch)?;
    let submit = op.call.and_then(|call| host.calls.get(call));
    let since = submit.map_or(stall.start, |submit| submit.span.start);
    let edge = host.event_wait_since(launch, since, (kernel.stream, op.stream));
    if edge.is_some() {
        return edge;
    }
    let threads = [Some(launched.track), host.feeder(launched.track)];
    let waited = threads.into_iter().flatten().any(|thread| {
        let blocking = submit.is_some_and(|submit| {
            submit.track == thread
                && matches!(
                    submit.activity,
                    Activity::WaitsForDevice | Activity::CopiesPageable
                )
                && submit.span.end >= op.span.end
                && submit.span.end <= launched.span.start
        });
        blocking || host.waited_for(thread, op.span.end, launched.span.start)
    });
    waited.then_some(Edge::Inferred)
}

/// Whether the stream of a kernel was told to wait for an event between the work submitted to it
/// before and the kernel.
pub(crate) fn event_wait(host: &Host<'_>, device: &Device, next: Next) -> bool {
    let Some(launch) = next.call else {
        return false;
    };
    // Streams of two devices may have one number.
    let Some(stream) = device.ops.get(next.op).map(|op| op.stream) else {
        return false;
    };
    let on_stream = Some((device.key, stream));
    host.calls_before(launch)
        .take(MAX_CALLS_BACK)
        .take_while(|call| !call.submits || call.stream != on_stream)
        .filter(|call| call.kind == CallKind::StreamWait)
        .any(|call| call.waits.is_none_or(|waits| waits.stream == stream))
}

/// No more calls than this are looked back.
const MAX_CALLS_BACK: usize = 64;
