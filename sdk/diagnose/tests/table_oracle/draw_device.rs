//! Draws runs with devices.

use super::Span;
use super::device::{Call, Job, Kind, Op};
use super::tape::Tape;

/// Other calls.
const CALLS: &[&str] = &[
    "cudaStreamWaitEvent",
    "cudaMalloc",
    "cuModuleLoadData",
    "cudaFree",
    "cudaGetDevice",
];

pub fn job(tape: &mut Tape<'_>) -> Job {
    let mut job = Job {
        devices: tape.from(1, 2),
        ..Job::default()
    };
    let mut at = 5;
    for _ in 0..tape.from(1, 5) {
        let start = at;
        let wait = tape.pick(&[1, 4, 12]);
        job.waits.push((at, at + wait));
        at += wait;
        for _ in 0..tape.below(9) {
            at += tape.pick(&[0, 1, 2, 6]);
            let phase = tape.once_in(5).then_some(at);
            at += u64::from(phase.is_some());
            for _ in 0..tape.from(1, 3) {
                at = action(tape, &mut job, at) + tape.below(3);
            }
            if let Some(from) = phase {
                let name = tape.pick(&["forward", "metrics", "checkpoint"]);
                job.phases.push((name, (from, at + 1)));
                at += 1;
            }
        }
        at = at.max(start + wait) + 1;
        job.steps.push((start, at));
        at += tape.pick(&[0, 2]);
    }
    let ends = job.ops.iter().map(|op| op.span.1).max().unwrap_or(0);
    job.end = at.max(ends) + tape.below(9);
    one_copy_a_stall(&mut job);
    job
}

/// Makes a memset of a copy that follows another in one stall: what lies between two would be
/// staging.
fn one_copy_a_stall(job: &mut Job) {
    job.ops.sort_by_key(|op| op.span.0);
    for device in 0..job.devices {
        let mut copied = false;
        for op in job.ops.iter_mut().filter(|op| op.device == device) {
            match op.kind {
                Kind::Kernel => copied = false,
                Kind::Pageable | Kind::Pinned if copied => {
                    op.kind = Kind::Memset;
                    let call = job.calls.iter_mut().find(|call| call.id == op.id);
                    call.expect("a call").name = "cudaMemsetAsync";
                }
                Kind::Pageable | Kind::Pinned => copied = true,
                Kind::Collective | Kind::Memset => {}
            }
        }
    }
}

/// What the thread does next; when it has done it.
fn action(tape: &mut Tape<'_>, job: &mut Job, at: u64) -> u64 {
    let span = (at, at + tape.from(1, 4));
    let id = job.calls.len() as u64 + 1;
    let kind = match tape.below(10) {
        0..4 => Kind::Kernel,
        4 => Kind::Collective,
        5 => Kind::Pageable,
        6 => Kind::Pinned,
        7 => Kind::Memset,
        8 => {
            let name = tape.pick(CALLS);
            job.calls.push(Call { name, id, span });
            return span.1;
        }
        _ => return span.1,
    };
    let name = match kind {
        Kind::Kernel | Kind::Collective => "cudaLaunchKernel",
        Kind::Memset => "cudaMemsetAsync",
        Kind::Pageable | Kind::Pinned => "cudaMemcpyAsync",
    };
    let lane = tape.pick(&[7, 8]);
    if kind != Kind::Collective {
        let device = tape.below(job.devices);
        return submit(tape, job, (device, lane, kind), (name, span));
    }
    // All devices take part, one after the other on a stream, and are done at the same time.
    let lane = lane.max(8);
    let first = job.ops.len();
    let mut at = at;
    for device in 0..job.devices {
        at = submit(tape, job, (device, lane, kind), (name, (at, at + 1)));
    }
    let end = job.ops[first..].iter().map(|op| op.span.1).max();
    for op in &mut job.ops[first..] {
        op.span.1 = end.unwrap_or(op.span.1);
    }
    at
}

/// A call and the operation that it submits; when the call returns.
fn submit(
    tape: &mut Tape<'_>,
    job: &mut Job,
    (device, lane, kind): (u64, u64, Kind),
    (name, span): (&'static str, Span),
) -> u64 {
    let id = job.calls.len() as u64 + 1;
    job.calls.push(Call { name, id, span });
    let stream = 10 * device + lane;
    let of = job.ops.iter().filter(|op| op.device == device);
    let before = of.clone().filter(|op| op.stream == stream);
    let free = before.map(|op| op.span.1).max().unwrap_or(0);
    let mut start = free.max(span.0 + tape.pick(&[1, 2, 3, 8]));
    // No two operations of a device begin at once.
    while of.clone().any(|op| op.span.0 == start) {
        start += 1;
    }
    let run = (start, start + tape.from(1, 9));
    job.ops.push(Op {
        kind,
        device,
        stream,
        id,
        span: run,
    });
    span.1
}
