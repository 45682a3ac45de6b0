//! Writes a trace for each cause, cut to what a picture of it shows: `cause_pictures FOLDER`.
//!
//! Recordings of `tests/fixtures` where there are some, else timelines that are made for it.
//! `docs/images/causes/make.sh` takes pictures of them in Perfetto.
#![allow(clippy::print_stdout, reason = "it tells what it wrote")]

#[path = "../tests/common/mod.rs"]
mod common;

use common::Builder;
use common::kernel::{Off, blocked, preempted};
use common::planted::{PLANT, START, STEP, trace};
use common::pytorch::{Spelling, Torch};
use gpustall_diagnose::{annotate, diagnose};
use gpustall_trace::vocab::cat;
use gpustall_trace::{Interval, Trace, TraceTime, read_any, write_finished};
use std::path::{Path, PathBuf};

/// From when to when a picture shows a trace.
#[derive(Clone, Copy)]
enum Shows {
    /// Microseconds.
    Time(u64, u64),
    /// So many milliseconds from just before the longest stall of the first finding of this cause on.
    Longest(u64),
    /// So many microseconds from about the middle of the window on.
    Middle(u64),
}

struct Picture {
    cause: &'static str,
    trace: Trace,
    shows: Shows,
}

fn main() {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.expect("usage: cause_pictures FOLDER");
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    for picture in recorded().into_iter().chain(played()).chain(watched()) {
        write(&folder, picture);
    }
}

/// Diagnoses the whole trace, and writes what the picture shows of it.
fn write(folder: &Path, mut picture: Picture) {
    let report = diagnose(&picture.trace);
    let cause = picture.cause;
    let found = report.findings.iter().find(|f| f.cause.id() == cause);
    let found = found.unwrap_or_else(|| panic!("{cause} is no finding: {report}"));
    annotate(&mut picture.trace, &report);
    let (from, to) = match picture.shows {
        Shows::Time(from, to) => (from * 1000, to * 1000),
        Shows::Longest(ms) => {
            let worst = found.worst.first().expect("a stall");
            let from = worst.start_ns.saturating_sub(ms * 1_000_000 / 6);
            (from, from + ms * 1_000_000)
        }
        Shows::Middle(us) => {
            let from = report.window_start_ns + report.window_ns * 3 / 7;
            (from, from + us * 1000)
        }
    };
    let time = TraceTime::from_nanos;
    cut(&mut picture.trace, Interval::new(time(from), time(to)));
    let path = folder.join(format!("{cause}.trace.json.gz"));
    write_finished(&path, &picture.trace).expect("it can be written");
    println!("{}", path.display());
}

/// Leaves what begins in `part`, and cuts off what lasts longer.
fn cut(trace: &mut Trace, part: Interval) {
    for slice in &mut trace.slices {
        if slice.span.start < part.start && slice.span.end > part.start {
            slice.span.start = part.start;
        }
        slice.span.end = slice.span.end.min(part.end);
    }
    trace
        .slices
        .retain(|slice| part.contains(slice.span.start) && !slice.span.is_empty());
    trace.instants.retain(|instant| part.contains(instant.at));
    trace.counters.clear();
    trace.async_slices.clear();
    trace
        .flows
        .retain(|flow| part.contains(flow.from.at) && part.contains(flow.to.at));
    trace.sort();
}

/// Recordings from an H200.
fn recorded() -> Vec<Picture> {
    let open = |(cause, file, shows): (&'static str, &str, Shows)| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
        let path = folder.join(file);
        let trace = read_any(&path).expect("the recording can be read").trace;
        Picture {
            cause,
            trace,
            shows,
        }
    };
    use Shows::{Longest, Middle};
    let planted = |name: &str| format!("kineto/planted/{name}.pt.trace.json.gz");
    let labelled = |name: &str| format!("kineto/{name}.pt.trace.json.gz");
    [
        ("data", labelled("loader_inprocess_cpu"), Longest(150)),
        ("transfer.pageable", labelled("h2d_pageable"), Longest(60)),
        ("transfer.bandwidth", planted("h2d_pinned"), Longest(20)),
        (
            "host.launch-bound",
            labelled("launch_bound_tiny_kernels"),
            Middle(400),
        ),
        (
            "host.compute",
            planted("host_compute_between_steps"),
            Longest(60),
        ),
        (
            "host.checkpoint",
            planted("checkpoint_marked"),
            Longest(900),
        ),
        (
            "sync.readback",
            planted("readback_every_layer"),
            Longest(12),
        ),
        ("alloc.device", planted("alloc_every_step"), Longest(4)),
        (
            "gpu.launch-latency",
            planted("cuda_graph_replay"),
            Middle(60),
        ),
        ("host", "cuda/mix.json.partial.gz".to_owned(), Longest(150)),
    ]
    .iter()
    .map(|(cause, file, shows)| open((cause, file, *shows)))
    .collect()
}

/// Twelve steps of a model that keeps its device busy, with something in each.
fn play(step: impl Fn(&mut Torch)) -> Trace {
    let mut torch = Torch::new(Spelling::Cuda);
    for number in 3..15 {
        torch.step(number, |t| {
            t.model(4, 400.0);
            step(t);
        });
    }
    torch.trace()
}

fn played() -> Vec<Picture> {
    let straggler = {
        let mut torch = Torch::new(Spelling::Cuda);
        for number in 3..15 {
            torch.step(number, |t| {
                t.device = 1;
                t.model(4, 700.0);
                t.device = 0;
                t.model(4, 300.0);
                t.exchange("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 200.0);
            });
        }
        torch.trace()
    };
    let comm = play(|t| {
        t.collective("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 2_000.0);
        t.wait_for_collectives();
    });
    let event = play(|t| {
        t.wait_for_event(2_000.0);
        t.kernel("sgemm", 400.0);
    });
    let compile = play(|t| {
        t.item();
        t.call("LibraryLoadData", 2_000.0);
    });
    let staging = play(|t| {
        t.item();
        t.annotate("staging", |t| t.spend(1_500.0));
        t.copy(common::pytorch::Copy::ToDevice { pinned: true }, 20.0);
    });
    [
        ("comm.exposed", comm, 12),
        ("comm.straggler", straggler, 12),
        ("gpu.dependency", event, 12),
        ("host.compile", compile, 12),
        ("transfer.staging", staging, 12),
    ]
    .map(|(cause, trace, ms)| Picture {
        cause,
        trace,
        shows: Shows::Longest(ms),
    })
    .into()
}

/// Three steps of a trainer and its worker, whose threads the sidecar watched.
fn watched() -> Vec<Picture> {
    const WORKER: u32 = 101;
    let on_own_cpu = |b: &mut Builder, off: Off<'_>, span| b.off_on(WORKER, off, span, (1, 1));
    let waits = |class: &'static str, function: &'static str| {
        trace(4, move |b, span| {
            on_own_cpu(b, blocked(class, function), span)
        })
    };
    let faults = trace(4, |b, (from, to)| {
        for at in (from..to).step_by(1_000) {
            b.sample(WORKER, "page fault", "clear_page", at);
        }
        b.sample(WORKER, "user", "decode", from - 3_000);
        b.sample(WORKER, "user", "decode", to + 3_000);
        let worker = common::planted::WORKER_TRACK;
        b.slice(
            worker,
            cat::RECLAIM,
            "direct reclaim",
            (from + 1_000, from + 4_000),
            &[],
        );
    });
    let three = |cause, trace| Picture {
        cause,
        trace,
        shows: Shows::Time(START + 10 * STEP, START + 13 * STEP),
    };
    vec![
        three("data.compute", trace(1, |_, _| {})),
        three(
            "data.contended",
            trace(4, |b, span| on_own_cpu(b, preempted("spinner", 900), span)),
        ),
        three("data.io", waits("file read", "folio_wait_bit_common")),
        three("data.memory", faults),
        three("data.lock", waits("futex", "futex_wait_queue")),
        three("data.worker-limit", waits("sleep", "hrtimer_nanosleep")),
        three(
            "host.preempted",
            of_trainer(|b, span| {
                b.off_on(100, preempted("spinner", 900), span, (0, 0));
            }),
        ),
        three(
            "host.blocked",
            of_trainer(|b, span| {
                b.off_on(100, blocked("futex", "futex_wait_queue"), span, (0, 0));
            }),
        ),
        Picture {
            cause: "data.startup",
            trace: epochs(),
            shows: Shows::Time(START + STEP, START + 5 * STEP),
        },
    ]
}

/// Forty steps in which something holds up the trainer between `forward` and `backward`.
fn of_trainer(held_up: impl Fn(&mut Builder, (u64, u64))) -> Trace {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    for step in 0..40 {
        let at = START + step * STEP;
        b.step("train", 0, step + 1, 100, (at, at + STEP));
        b.wait(main, "train", (0, step + 1), None, (at, at + 300));
        b.phase(main, "forward", (at + 300, at + 300 + PLANT + 3_000));
        b.phase(main, "backward", (at + 500 + PLANT + 3_000, at + STEP));
        held_up(&mut b, (at + 2_000, at + 2_000 + PLANT));
    }
    let end = START + 40 * STEP;
    b.watch(100, (0, end), &[]);
    b.build(end)
}

/// Ten epochs of two steps, of which the first waits for the workers to begin.
fn epochs() -> Trace {
    let mut b = Builder::new();
    b.trace.meta.cpus = 4;
    let main = b.thread(100, "main");
    let worker = b.thread(101, "dataloader-0");
    for epoch in 0..10 {
        let start = START + epoch * 2 * STEP;
        for step in 0..2 {
            let (at, batch) = (start + step * STEP, 2 * epoch + step);
            let wait = if step == 0 { 9_000 } else { 300 };
            b.step("train", epoch, step, 100, (at, at + STEP));
            b.wait(
                main,
                "train",
                (epoch, step),
                Some((batch, 101)),
                (at, at + wait),
            );
            b.phase(main, "forward", (at + wait, at + STEP));
            let made = start + 9_000 + step * 8_500;
            b.stage(worker, cat::DATA_GET, batch, None, (made - 8_500, made));
        }
    }
    b.build(START + 20 * STEP)
}
