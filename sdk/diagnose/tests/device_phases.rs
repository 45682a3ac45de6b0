//! Device time of phases: by the thread that calls, or by the marks in a runner's queue.

mod common;

use common::device::Stream;
use common::{Builder, V};
use gpustall_diagnose::{DeviceTime, Report, annotate, diagnose};
use gpustall_trace::vocab::{arg, cat};
use gpustall_trace::{Instant, Trace, TrackId, Value};

const STEPS: u64 = 10;
const LENGTH: u64 = 1000;

/// A trainer on thread 100 whose runner, thread 200, calls the driver later than it is asked, for a
/// worker too.
struct Job {
    b: Builder,
    main: TrackId,
    runner: TrackId,
    stream: Stream,
    workers: Stream,
    id: u64,
    launches: u64,
    marks: u64,
}

impl Job {
    fn new() -> Self {
        let mut b = Builder::new();
        Self {
            main: b.thread(100, "main"),
            runner: b.thread(200, "DSD-0-0"),
            stream: b.stream(0, 13),
            workers: b.stream(0, 14),
            b,
            id: 0,
            launches: 40,
            marks: 7,
        }
    }

    /// A mark of the trainer that the runner comes to at `at`.
    fn mark(&mut self, at: u64, phase: Option<&str>) {
        let number = self.marks;
        self.marks += 1;
        self.mark_of(at, phase, (1, number, self.launches));
    }

    fn mark_of(&mut self, at: u64, phase: Option<&str>, (queue, mark, launches): (u64, u64, u64)) {
        let strings = &mut self.b.trace.strings;
        let mut args = vec![
            (strings.intern(arg::THREAD), Value::U64(100)),
            (strings.intern(arg::QUEUE), Value::U64(queue)),
            (strings.intern(arg::MARK), Value::U64(mark)),
            (strings.intern(arg::LAUNCHES), Value::U64(launches)),
        ];
        if let Some(phase) = phase {
            args.push((
                strings.intern(arg::PHASE),
                Value::Str(strings.intern(phase)),
            ));
        }
        let (name, cat) = (strings.intern("mark"), strings.intern(cat::PHASE_MARK));
        self.b.trace.instants.push(Instant {
            track: self.runner,
            name,
            cat,
            at: gpustall_trace::TraceTime::from_nanos(at * 1000),
            args: args.into(),
        });
    }

    /// The runner launches at `at`; the kernel runs 20 later, for `length`.
    fn launch(&mut self, on: Stream, at: u64, length: u64) {
        self.id += 1;
        let run = (at + 20, at + 20 + length);
        self.b.launch(self.runner, on, self.id, (at, at + 4), run);
    }

    fn asked(&mut self, at: u64, length: u64) {
        self.launches += 1;
        self.launch(self.stream, at, length);
    }

    fn copy(&mut self, on: Stream, at: u64, length: u64) {
        self.id += 1;
        self.b
            .call(self.runner, "cuMemcpyHtoDAsync_v2", self.id, (at, at + 4));
        let run = (at + 20, at + 20 + length);
        self.b.copy(on, common::device::PINNED, self.id, 1024, run);
    }

    /// What the trainer asks for in one step, the runner 300 behind it; and a copy of a worker's.
    fn step(&mut self, number: u64) {
        let start = number * LENGTH;
        self.b
            .step("train", 0, number, 100, (start, start + LENGTH));
        self.b
            .phase(self.main, "forward", (start + 50, start + 100));
        self.b
            .phase(self.main, "backward", (start + 110, start + 160));
        let at = start + 350;
        self.mark(at, Some("forward"));
        self.copy(self.stream, at + 5, 10);
        self.asked(at + 10, 30);
        self.copy(self.workers, at + 15, 7);
        self.asked(at + 50, 40);
        self.mark(at + 100, None);
        self.mark(at + 110, Some("backward"));
        for n in 0..3 {
            self.asked(at + 120 + n * 50, 50);
        }
        self.mark(at + 270, None);
        self.asked(at + 280, 5);
    }

    fn build(mut self) -> Trace {
        self.mark(STEPS * LENGTH - 1, None);
        self.b.build(STEPS * LENGTH)
    }
}

fn device(report: &Report, phase: &str) -> DeviceTime {
    let row = report.phases.iter().find(|row| row.name == phase);
    row.and_then(|row| row.device).unwrap_or_default()
}

fn untied(report: &Report) -> u64 {
    report.untied.map_or(0, |time| time.operations())
}

#[test]
fn what_a_runner_launches_belongs_to_the_phase_that_asked() {
    let mut job = Job::new();
    (0..STEPS).for_each(|step| job.step(step));
    let report = diagnose(&job.build());
    let forward = device(&report, "forward");
    assert_eq!((forward.kernels, forward.copies), (20, 10), "{report}");
    // The copy takes 10, and 5 of them beside the first kernel.
    assert_eq!(forward.total_ns, STEPS * 75 * 1000, "{report}");
    let backward = device(&report, "backward");
    assert_eq!((backward.kernels, backward.copies), (30, 0));
    assert_eq!(backward.total_ns, STEPS * 150 * 1000);
    let outside = report.outside_phases.expect("there are phases");
    assert_eq!(
        (outside.kernels, outside.copies),
        (10, 10),
        "the worker's copies too"
    );
    assert_eq!(untied(&report), 0);
}

#[test]
fn what_was_done_for_several_phases_at_once_is_of_none_and_yet_known() {
    let mut job = Job::new();
    (0..STEPS).for_each(|step| job.step(step));
    let mut trace = job.build();
    let (several, phase) = [arg::SEVERAL, arg::PHASE]
        .map(|key| trace.strings.intern(key))
        .into();
    let marked = |instant: &&mut Instant| instant.args.iter().all(|(key, _)| *key != phase);
    for instant in trace.instants.iter_mut().filter(marked) {
        let mut args = instant.args.to_vec();
        args.push((several, Value::Bool(true)));
        instant.args = args.into();
    }
    let report = diagnose(&trace);
    let time = report.several_phases.expect("there are phases");
    assert_eq!((time.kernels, time.total_ns), (STEPS, STEPS * 5_000));
    assert_eq!(report.outside_phases.map(|time| time.kernels), Some(0));
    assert_eq!(
        (untied(&report), device(&report, "forward").kernels),
        (0, 20)
    );
    let text = report.to_string();
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = "for several phases at once device";
    assert!(words.join(" ").contains(line), "{report}");
}

#[test]
fn an_interval_with_another_number_of_launches_is_not_tied_and_the_next_one_is() {
    let mut job = Job::new();
    for step in 0..STEPS {
        if step == 4 {
            // One launch was asked for and never made.
            job.launches += 1;
        }
        job.step(step);
    }
    let report = diagnose(&job.build());
    assert_eq!(device(&report, "forward").kernels, 20, "{report}");
    assert_eq!(device(&report, "backward").kernels, 30);
    // What came between two steps: that one launch after the backward of step 3.
    assert_eq!(untied(&report), 1);
}

#[test]
fn what_lies_around_a_lost_mark_is_not_tied() {
    let mut job = Job::new();
    for step in 0..STEPS {
        job.step(step);
    }
    let mut trace = job.build();
    // The end of the forward of step 2, and with it what was launched from its beginning on.
    let lost = trace
        .instants
        .iter()
        .position(|instant| trace.arg_u64(&instant.args, arg::MARK) == Some(7 + 2 * 4 + 1));
    trace.instants.remove(lost.expect("it was marked"));
    let report = diagnose(&trace);
    assert_eq!(device(&report, "forward").kernels, 18, "{report}");
    assert_eq!(device(&report, "backward").kernels, 30);
    assert_eq!(untied(&report), 3, "two kernels and a copy");
}

#[test]
fn two_threads_with_one_stream_are_not_tied() {
    let mut job = Job::new();
    for step in 0..STEPS {
        // A second thread whose counts are those of the first, whichever stream it has.
        let launches = job.launches;
        let at = step * LENGTH + 350;
        for (number, (at, launches)) in [(at, 0), (at + 100, 2), (at + 110, 2), (at + 270, 5)]
            .into_iter()
            .enumerate()
        {
            let mark = step * 4 + number as u64;
            job.mark_of(at, Some("other"), (2, mark, launches + step * 6));
        }
        assert!(launches >= 40);
        job.step(step);
    }
    let report = diagnose(&job.build());
    assert_eq!(device(&report, "forward").kernels, 0, "{report}");
    assert_eq!(untied(&report), STEPS * 8);
}

#[test]
fn without_marks_the_calling_thread_says_the_innermost_phase() {
    let mut b = Builder::new();
    let (main, other) = (b.thread(100, "main"), b.thread(300, "autograd"));
    let stream = b.stream(0, 7);
    for step in 0..STEPS {
        let at = step * LENGTH;
        b.step("train", 0, step, 100, (at, at + LENGTH));
        b.phase(main, "train", (at + 10, at + 400));
        b.phase(main, "forward", (at + 20, at + 100));
        let launches = [
            (main, 30, (40, 140)),
            (main, 110, (140, 200)),
            (other, 120, (200, 230)),
            (main, 500, (510, 530)),
        ];
        for (id, (thread, call, run)) in (step * 10 + 1..).zip(launches) {
            let (call, run) = ((at + call, at + call + 4), (at + run.0, at + run.1));
            b.launch(thread, stream, id, call, run);
        }
    }
    let mut trace = b.build(STEPS * LENGTH);
    let report = diagnose(&trace);
    assert_eq!(
        device(&report, "forward").total_ns,
        STEPS * 100_000,
        "{report}"
    );
    assert_eq!(device(&report, "train").total_ns, STEPS * 60_000);
    assert_eq!(
        report.outside_phases.map(|time| time.total_ns),
        Some(STEPS * 20_000)
    );
    assert_eq!(
        report.untied.map(|time| time.total_ns),
        Some(STEPS * 30_000)
    );
    let text = report.to_string();
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = "forward 10 x 80.0 us (device 100 us)";
    assert!(words.join(" ").contains(line), "{report}");

    annotate(&mut trace, &report);
    let labels = |trace: &Trace| {
        let slices = trace.slices.iter();
        let labelled = slices.filter(|slice| trace.arg_str(&slice.args, arg::PHASE).is_some());
        labelled.count() as u64
    };
    assert_eq!(labels(&trace), STEPS * 2);
    annotate(&mut trace, &report);
    assert_eq!(labels(&trace), STEPS * 2);
    assert_eq!(
        diagnose(&trace).phases,
        report.phases,
        "labels change nothing"
    );
}

#[test]
fn windows_of_the_framework_are_shown_where_no_operation_was_recorded() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let windows = b.thread(900, "device, by Burn's profile");
    for step in 0..STEPS {
        let at = step * LENGTH;
        b.step("train", 0, step, 100, (at, at + LENGTH));
        b.phase(main, "forward", (at + 10, at + 100));
        b.slice(
            windows,
            cat::DEVICE_WINDOW,
            "forward",
            (at + 50, at + 250),
            &[("x", V::N(1))],
        );
    }
    let report = diagnose(&b.build(STEPS * LENGTH));
    assert_eq!(
        device(&report, "forward").window_ns,
        Some(STEPS * 200_000),
        "{report}"
    );
    assert!(
        report.to_string().contains("(device at most 200 us)"),
        "{report}"
    );
}
