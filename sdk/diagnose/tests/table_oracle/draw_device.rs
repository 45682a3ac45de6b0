//! Draws runs with devices.

use super::Span;
use super::device::{Call, Job, Kind, MAIN, Op, RUNNER};
use super::draw_host::{SOURCES, make, watch};
use super::host::{Call as Loader, Run, Step, Thread, Trainer, Wait};
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
        runner: tape.once_in(2),
        host: Run {
            cpus: tape.pick(&[0, 2, 4, 12]) as u32,
            ..Run::default()
        },
        ..Job::default()
    };
    let mut of = Trainer {
        tid: MAIN,
        loader: "train",
        steps: Vec::new(),
        waits: Vec::new(),
        phases: Vec::new(),
    };
    let source = tape.pick(SOURCES);
    let mut batch = 0;
    let mut at = 5;
    for step in 0..tape.from(1, 5) {
        let (start, wait) = (at, tape.pick(&[1, 4, 12]));
        let span = (start, start + wait);
        of.waits.push(Wait {
            span,
            epoch: 0,
            call: Loader::Next(step),
            batch: make(
                tape,
                &mut job.host,
                (source, false),
                (MAIN, span),
                &mut batch,
            ),
            cpu: None,
            unfinished: false,
        });
        // Who only launches does so while the other one waits, too.
        at = if job.runner {
            start + tape.below(wait + 1)
        } else {
            span.1
        };
        for _ in 0..tape.below(9) {
            at += tape.pick(&[0, 1, 2, 6]);
            let phase = (tape.once_in(5) && at >= span.1).then_some(at);
            at += u64::from(phase.is_some());
            for _ in 0..tape.from(1, 3) {
                at = action(tape, &mut job, at) + tape.below(3);
            }
            if let Some(from) = phase {
                let name = tape.pick(&["forward", "metrics", "checkpoint"]);
                of.phases.push((name, (from, at + 1)));
                at += 1;
            }
        }
        at = at.max(span.1) + 1;
        of.steps.push(Step {
            span: (start, at),
            epoch: 0,
            step,
            unfinished: false,
        });
        at += tape.pick(&[0, 2]);
    }
    let ends = job.ops.iter().map(|op| op.span.1).max().unwrap_or(0);
    let made = job.host.stages.iter().map(|stage| stage.span.1).max();
    job.host.end = at.max(ends).max(made.unwrap_or(0)) + tape.below(9);
    job.host.trainers.push(of);
    threads(tape, &mut job);
    forget_launches(tape, &mut job);
    job
}

/// What the scheduler says of the threads; in one job of three nothing.
fn threads(tape: &mut Tape<'_>, job: &mut Job) {
    // Who launches is known from the first kernel of a device on.
    let has = |device: u64, kernel: bool| {
        let mut ops = job.ops.iter().filter(|op| op.device == device);
        ops.any(|op| !kernel || op.kind == Kind::Kernel)
    };
    job.runner &= (0..job.devices).all(|device| !has(device, false) || has(device, true));
    let mut tids = vec![MAIN, RUNNER, 120, 121];
    tids.extend(job.host.stages.iter().map(|stage| stage.tid));
    let waits = job.host.trainers.iter().flat_map(|trainer| &trainer.waits);
    tids.extend(waits.filter_map(|wait| wait.batch).map(|batch| batch.1));
    if tape.once_in(3) {
        tids.sort_unstable();
        tids.dedup();
        let unwatched = |tid| Thread {
            tid,
            ..Thread::default()
        };
        job.host.threads = tids.into_iter().map(unwatched).collect();
        return;
    }
    watch(tape, &mut job.host, tids);
    // A sample stands for more time than such a run takes.
    job.host
        .threads
        .iter_mut()
        .for_each(|thread| thread.samples.clear());
}

/// Some launches were not recorded; of the first kernel of a device it is.
fn forget_launches(tape: &mut Tape<'_>, job: &mut Job) {
    let mut kernels: Vec<&Op> = job
        .ops
        .iter()
        .filter(|op| op.kind == Kind::Kernel)
        .collect();
    kernels.sort_by_key(|op| (op.device, op.span.0));
    let mut device = None;
    let mut forgotten = Vec::new();
    for kernel in kernels {
        if device.replace(kernel.device) == Some(kernel.device) && tape.once_in(6) {
            forgotten.push(kernel.id);
        }
    }
    job.calls.retain(|call| !forgotten.contains(&call.id));
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
