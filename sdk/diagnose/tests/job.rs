//! What the report says of the job and of the recording itself.

mod common;

use common::{Builder, V, with_workers};
use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::vocab::{self, QUEUE_DEPTH, arg, cat, kind};
use gpustall_trace::{Pid, State, TrackId, TrackKind};

fn steps(b: &mut Builder, count: u64) -> TrackId {
    let main = b.thread(100, "main");
    for step in 0..count {
        let at = step * 10_000;
        b.step("train", 0, step, 100, (at, at + 10_000));
        b.wait(main, "train", (0, step), Some((step, 101)), (at, at + 2000));
    }
    main
}

#[test]
fn a_worker_that_panicked_is_named_with_its_stage_and_what_follows() {
    let mut b = Builder::new();
    steps(&mut b, 10);
    let worker = b.thread(101, "dataloader-0");
    b.stage(worker, cat::DATA_GET, 3, None, (20_000, 30_000));
    let panicked = [(arg::PANICKED, V::B(true))];
    b.slice(worker, cat::DATA_GET, "get", (40_000, 45_000), &panicked);
    b.fault(worker, 45_000, "index out of bounds");
    let report = diagnose(&b.build(100_000));
    let fault = &report.faults[0];
    assert_eq!(fault.thread, "dataloader-0");
    assert_eq!(fault.stage.as_deref(), Some("get"));
    assert_eq!(fault.message, "index out of bounds");
    assert_eq!(fault.at_ns, 45_000_000);
    assert!(
        fault
            .consequence
            .contains("ends the epoch early without an error")
    );
    let verdict = "dataloader-0: index out of bounds; 18 % of the window is data wait";
    assert!(report.verdict.contains(verdict), "{report}");
    assert!(
        report
            .to_string()
            .contains("dataloader-0 in get at 45.0 ms: index out of bounds")
    );
}

#[test]
fn lost_events_make_the_window_incomplete() {
    let mut b = Builder::new();
    steps(&mut b, 10);
    b.lose("dataloader-0", 50_000, 10);
    b.lose("dataloader-0", 90_000, 42);
    b.lose("main", 90_000, 0);
    let report = diagnose(&b.build(100_000));
    assert_eq!(
        report.lost_events.iter().collect::<Vec<_>>(),
        [(&"dataloader-0".to_owned(), &42)]
    );
    let note = report
        .notes
        .iter()
        .find(|note| note.contains("42 from dataloader-0"));
    assert!(note.is_some_and(|note| note.contains("the window is incomplete")));
}

#[test]
fn lost_spans_of_the_user_leave_the_charges_complete() {
    let mut b = Builder::new();
    steps(&mut b, 10);
    b.lose("user spans", 50_000, 10);
    let report = diagnose(&b.build(100_000));
    assert!(report.notes[0].contains("are complete"), "{report}");
}

#[test]
fn a_worker_that_never_came_back_is_what_to_look_at() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let worker = b.thread(101, "dataloader-0");
    for step in 0..10 {
        let at = step * 10_000;
        b.step("train", 0, step, 100, (at, at + 10_000));
        b.wait(main, "train", (0, step), Some((step, 101)), (at, at + 2000));
        let cpu = Some(2_000_000);
        b.stage(worker, cat::DATA_GET, step, cpu, (at, at + 2000));
    }
    let open = [(arg::UNFINISHED, V::B(true))];
    b.slice(worker, cat::DATA_GET, "get", (100_000, 5_000_000), &open);
    let wait = [
        (arg::LOADER, V::S("train")),
        (arg::KIND, V::S("train")),
        (arg::EPOCH, V::N(0)),
        (arg::STEP, V::N(10)),
        (arg::UNFINISHED, V::B(true)),
    ];
    b.slice(
        main,
        cat::DATA_WAIT,
        "data wait",
        (100_000, 5_000_000),
        &wait,
    );
    let report = diagnose(&b.build(5_000_000));
    assert!(
        report.verdict.contains("main had been in next()"),
        "{report}"
    );
    let finding = &report.findings[0];
    let advice = "find what dataloader-0 has been doing in get since 100 ms";
    assert!(finding.remedy.starts_with(advice), "{report}");
    assert_eq!(finding.predicted_step_ns, None);
    // 2 ms of each of ten reads were on a CPU; nothing is known of the one that hangs.
    assert_eq!(report.workers[0].cpu_share, None);
    assert!(!report.to_string().contains("on a CPU for"), "{report}");
}

#[test]
fn a_pause_is_cut_out_of_the_window() {
    let mut b = Builder::new();
    let main = steps(&mut b, 10);
    b.slice(main, cat::PAUSE, "paused", (31_000, 55_000), &[]);
    let report = diagnose(&b.build(100_000));
    assert_eq!(report.window_ns, 76_000_000);
    assert_eq!(report.paused_ns, 24_000_000);
    // Steps 3, 4 and 5 are cut; of the waits of 2 ms, one loses half and one all.
    assert_eq!(report.steps.count + report.first_steps.length.count, 7);
    let waited = report.charges_ns["data"] + report.charges_ns["data.startup"];
    assert_eq!(waited, 15_000_000);
}

#[test]
fn a_pause_of_one_of_two_processes_without_ranks_is_its_own() {
    let report = |both: bool| {
        let mut b = Builder::new();
        let other = b.track(Pid(200), 201, "other", TrackKind::Thread);
        steps(&mut b, 10);
        for step in 0..(if both { 10 } else { 0 }) {
            let at = step * 10_000;
            b.step("other", 0, step, 201, (at, at + 10_000));
        }
        let pause = [(arg::PROCESS, V::N(200))];
        b.slice(other, cat::PAUSE, "paused", (50_000, 100_000), &pause);
        diagnose(&b.build(100_000))
    };
    let two = report(true);
    assert_eq!((two.window_ns, two.paused_ns), (100_000_000, 0));
    assert_eq!(two.device_ns, 100_000_000 + 50_000_000);
    // Of the other process no steps were seen: the pause is that of the recording.
    let one = report(false);
    assert_eq!((one.window_ns, one.paused_ns), (50_000_000, 50_000_000));
}

#[test]
fn a_wait_that_an_interrupt_cut_off_ends_the_window_of_a_marked_program() {
    let mut b = Builder::new();
    let main = steps(&mut b, 10);
    let wait = [
        (arg::LOADER, V::S("train")),
        (arg::KIND, V::S(kind::TRAIN)),
        (arg::FRAMEWORK, V::S(vocab::PYTORCH)),
        (arg::UNFINISHED, V::B(true)),
    ];
    let span = (100_000, 130_000);
    b.slice(main, cat::DATA_WAIT, "data wait", span, &wait);
    let report = diagnose(&b.build(900_000));
    assert_eq!(report.window_start_ns + report.window_ns, 130_000_000);
    assert_eq!(report.unfinished[0].for_ns, 30_000_000);
    assert!(report.faults.is_empty());
}

#[test]
fn the_queue_is_averaged_over_time_and_looked_at_when_a_wait_begins() {
    let mut b = Builder::new();
    steps(&mut b, 10);
    b.counter(&format!("{QUEUE_DEPTH} train"), &[(0, 0.0), (50_000, 4.0)]);
    let report = diagnose(&b.build(100_000));
    let queue = report.loaders[0].queue.expect("there is a counter");
    assert_eq!((queue.mean, queue.min, queue.empty), (2.0, 0.0, 0.5));
}

#[test]
fn threads_of_one_name_that_serve_one_loader_are_one_row() {
    let mut b = Builder::new();
    steps(&mut b, 10);
    for (epoch, tid) in [(0u64, 101), (1, 201)] {
        let worker = b.thread(tid, "dataloader-0");
        for i in 0..5 {
            let at = (epoch * 5 + i) * 10_000;
            b.stage(
                worker,
                cat::DATA_GET,
                epoch * 5 + i,
                Some(1000),
                (at, at + 4000),
            );
            b.stage(
                worker,
                cat::DATA_COLLATE,
                epoch * 5 + i,
                Some(1000),
                (at + 4000, at + 5000),
            );
        }
    }
    let report = diagnose(&b.build(100_000));
    assert_eq!(report.workers.len(), 1);
    let worker = &report.workers[0];
    assert_eq!(
        (worker.threads, worker.batches, worker.tid),
        (2, 10, Some(201))
    );
    assert_eq!(
        (worker.get_mean_ns, worker.collate_mean_ns),
        (Some(4_000_000), Some(1_000_000))
    );
    assert_eq!((worker.busy_share, worker.cpu_share), (0.5, Some(0.4)));
    assert_eq!(worker.loader.as_deref(), Some("train"));
}

#[test]
fn what_was_not_measured_is_absent() {
    let mut b = Builder::new();
    steps(&mut b, 10);
    let report = diagnose(&b.build(100_000));
    assert!(report.workers.is_empty());
    assert_eq!(report.loaders[0].queue, None);
    assert_eq!(report.evidence.level, "spans");
    let missing: Vec<&str> = report
        .evidence
        .missing
        .iter()
        .map(|m| m.what.as_str())
        .collect();
    assert!(missing.contains(&"scheduler events") && missing.contains(&"device activity"));
    let json = serde_json::to_value(&report).expect("a report is JSON");
    assert!(json["devices"][0]["exposed_comm"].is_null());
}

#[test]
fn a_report_survives_json() {
    for trace in [
        with_workers(50, 7000, 12_345),
        common::in_process(33, 6789, 97),
    ] {
        let report = diagnose(&trace);
        let json = serde_json::to_string(&report).expect("a report is JSON");
        let back: Report = serde_json::from_str(&json).expect("its own JSON");
        assert_eq!(back, report);
        assert_eq!(back.to_string(), report.to_string());
    }
}

#[test]
fn a_partial_recording_says_so_before_anything_else() {
    let mut trace = with_workers(50, 7000, 12_000);
    trace.meta.state = State::Partial;
    let report = diagnose(&trace);
    assert!(!report.finished);
    assert!(
        report
            .to_string()
            .contains("\npartial: the recording was not finished")
    );
}

#[test]
fn a_usual_report_fits_one_screen() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let workers: Vec<_> = (0..4)
        .map(|i| b.thread(101 + i, &format!("dataloader-{i}")))
        .collect();
    for step in 0..40u64 {
        let (at, worker) = (step * 20_000, workers[(step % 4) as usize]);
        b.step("train", 0, step, 100, (at, at + 20_000));
        b.wait(
            main,
            "train",
            (0, step),
            Some((step, 101 + (step % 4) as u32)),
            (at, at + 12_000),
        );
        b.stage(
            worker,
            cat::DATA_GET,
            step,
            Some(1000),
            (at.saturating_sub(40_000), at + 10_000),
        );
        b.stage(
            worker,
            cat::DATA_COLLATE,
            step,
            Some(1800),
            (at + 10_000, at + 11_900),
        );
        b.phase(main, "forward", (at + 12_000, at + 16_000));
        b.phase(main, "backward", (at + 16_000, at + 20_000));
    }
    b.counter(&format!("{QUEUE_DEPTH} train"), &[(0, 0.0)]);
    let text = diagnose(&b.build(800_000)).to_string();
    assert!(text.lines().count() <= 44, "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let first = "mlp: 58 % of the window is data wait; main waits for 4 threads dataloader-*,";
    assert_eq!(text.lines().next(), Some(first));
}

#[test]
fn what_is_open_is_no_hang_where_its_end_may_have_been_lost() {
    for (source, hangs) in [("user events", true), ("data pipeline", false)] {
        let mut b = Builder::new();
        let main = steps(&mut b, 10);
        let open = [(arg::LOADER, V::S("train")), (arg::UNFINISHED, V::B(true))];
        b.slice(main, cat::DATA_WAIT, "wait", (100_000, 9_000_000), &open);
        b.lose(source, 90_000, 3);
        let report = diagnose(&b.build(9_000_000));
        assert_eq!(report.unfinished.len(), 1);
        assert_eq!(report.unfinished[0].hang, hangs);
        assert_eq!(report.verdict.contains("had been in next()"), hangs);
        let text = report.to_string();
        assert!(
            text.contains("main was still in next() of `train`"),
            "{text}"
        );
        assert_eq!(text.contains("may have ended"), !hangs, "{text}");
    }
}

#[test]
fn a_stall_of_which_every_piece_is_tiny_ends_in_no_colon() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    for step in 0..10 {
        let at = step * 10_000;
        b.step("train", 0, step, 100, (at, at + 10_000));
        b.wait(main, "train", (0, step), Some((step, 100)), (at, at + 9000));
        for i in 0..1000 {
            let stage = at + i * 9;
            b.stage(main, cat::DATA_GET, step, Some(4), (stage, stage + 4));
        }
    }
    let text = diagnose(&b.build(100_000)).to_string();
    let worst = text.lines().find(|line| line.contains("worst: "));
    assert!(worst.is_some_and(|line| !line.ends_with(':')), "{text}");
}
