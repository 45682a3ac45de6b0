//! Each cause that the scheduler names, planted in a timeline, and healthy runs beside them.

mod common;

use common::kernel::{Off, blocked, preempted};
use common::{Builder, V};
use gpustall_diagnose::{Cause, Report, diagnose};
use gpustall_trace::TrackId;
use gpustall_trace::vocab::{arg, cat, totals};

const START: u64 = 100_000;
const STEPS: u64 = 40;
const STEP: u64 = 20_000;
/// Of a step: the wait, and the part of it that the plant takes.
const WAIT: u64 = 12_000;
const PLANT: u64 = 8_000;
const END: u64 = START + STEPS * STEP;

/// Forty steps of 20 ms, of which the trainer waits 12 ms for the worker; `plant` says what that
/// one does in 8 ms of its get, the rest of which it runs. All are watched.
fn run(cpus: u32, mut plant: impl FnMut(&mut Builder, (u64, u64))) -> Report {
    let mut b = Builder::new();
    b.trace.meta.cpus = cpus;
    let main = b.thread(100, "main");
    let worker = b.thread(101, "dataloader-0");
    for step in 0..STEPS {
        let at = START + step * STEP;
        one_step(&mut b, (main, worker), step, (at, at + WAIT));
        plant(&mut b, (at + 2_000, at + 2_000 + PLANT));
    }
    for tid in [100, 101] {
        b.watch(tid, (0, END), &[]);
    }
    diagnose(&b.build(END))
}

/// The trainer waits in `wait`, and the worker is in get all the time.
fn one_step(b: &mut Builder, (main, worker): (TrackId, TrackId), step: u64, wait: (u64, u64)) {
    let at = wait.0;
    b.step("train", 0, step + 1, 100, (at, at + STEP));
    b.wait(main, "train", (0, step + 1), Some((step, 101)), wait);
    b.stage(worker, cat::DATA_GET, step, None, (at - 8_000, wait.1));
    b.off(100, blocked("futex", "futex_wait"), wait);
}

/// Share of the window that is charged to a cause.
fn share(report: &Report, cause: Cause) -> f64 {
    report.breakdown.get(cause.id()).copied().unwrap_or(0.0)
}

fn assert_planted(report: &Report, cause: Cause) {
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    let lost = report.charges_ns.get(cause.id()).copied().unwrap_or(0);
    assert_eq!(lost, STEPS * PLANT * 1000, "{report}");
    assert_eq!(report.findings[0].cause, cause, "{report}");
}

#[test]
fn a_worker_without_a_cpu_is_contended_and_who_had_it_is_named() {
    let report = run(2, |b, span| b.off(101, preempted("spinner", 900), span));
    assert_planted(&report, Cause::DataContended);
    let text = report.to_string();
    let proof = &report.findings[0].chain[3].evidence;
    assert_eq!(proof, "CPU 0 held by spinner 100 %; preempted");
    assert!(
        report
            .verdict
            .contains("short of CPUs (CPU 0 held by spinner"),
        "{text}"
    );
    // Who waits for CPUs has none free.
    assert_eq!(share(&report, Cause::DataCompute), 0.2);
    let finding = &report.findings[0];
    assert!(finding.remedy.contains("spinner had the CPU"), "{text}");
    assert_eq!(finding.evidence["share_of_waits"], 0.666667);
    let waited = report.workers[0].runnable_share.expect("it was watched");
    assert!((waited - 0.4).abs() < 0.01);
    let depths: Vec<u32> = finding.chain.iter().map(|link| link.depth).collect();
    assert_eq!(depths, [0, 1, 2, 3]);
}

#[test]
fn a_worker_that_was_woken_and_had_no_cpu_is_contended_from_its_wake_up_on() {
    let report = run(2, |b, (start, end)| {
        let slept = blocked("sleep", "hrtimer_nanosleep");
        let waits = slept.then_runnable(PLANT, "spinner", 900);
        b.off(101, waits, (start - 1_000, end));
    });
    assert_planted(&report, Cause::DataContended);
    assert!(report.to_string().contains("after wake-ups"), "{report}");
}

#[test]
fn a_worker_blocked_in_a_read_is_io_with_its_requests() {
    let report = run(2, |b, span| {
        b.request(101, 1 << 20, (span.0 - 5, span.1 - 10));
        b.off(101, blocked("file read", "folio_wait_bit_common"), span);
    });
    assert_planted(&report, Cause::DataIo);
    let link = report.findings[0].chain.last().expect("there are links");
    assert_eq!(link.what, "blocked in file read (folio_wait_bit_common)");
    assert_eq!(link.evidence, "40 requests, 41.9 MB on vda");
    assert!(
        report.findings[0].remedy.contains(".num_workers(n)"),
        "{report}"
    );
    assert!(
        report.verdict.contains("in get, blocked in file read"),
        "{report}"
    );
    assert_eq!(report.threads[1].usage.disk_read_bytes, STEPS << 20);
}

#[test]
fn a_page_that_is_read_from_a_file_is_io_and_one_from_swap_space_is_memory() {
    for (function, cause) in [
        ("filemap_fault", Cause::DataIo),
        ("do_swap_page", Cause::DataMemory),
    ] {
        let report = run(2, |b, span| {
            b.off(101, blocked("page fault", function), span)
        });
        assert_planted(&report, cause);
    }
}

#[test]
fn a_wait_that_only_the_kernel_calls_io_is_io() {
    let wait = Off {
        iowait: true,
        ..blocked("other", "mystery")
    };
    assert_planted(&run(2, |b, span| b.off(101, wait, span)), Cause::DataIo);
}

#[test]
fn samples_in_page_faults_make_the_running_time_before_them_memory() {
    let report = run(2, |b, span| {
        b.sample(101, "user", "decode", span.0);
        b.sample(101, "page fault", "exc_page_fault", span.0 + PLANT / 2);
        b.sample(101, "page fault", "exc_page_fault", span.1);
    });
    assert_planted(&report, Cause::DataMemory);
    let finding = &report.findings[0];
    let link = finding.chain.last().expect("there are links");
    assert_eq!(link.evidence, "exc_page_fault 100 % of 80 samples");
    assert!(finding.remedy.contains("huge pages"), "{report}");
    let ran = &report.threads[1].functions;
    assert_eq!(
        (ran[0].name.as_str(), ran[1].name.as_str()),
        ("exc_page_fault", "decode")
    );
}

#[test]
fn a_sample_stands_for_no_more_than_ten_milliseconds() {
    let report = run(2, |b, (start, _)| {
        b.sample(101, "user", "decode", start - 2_000);
        b.sample(101, "page fault", "exc_page_fault", start + 9_500);
    });
    // From 0.5 ms before the plant on; the sample before it lies further back.
    assert_eq!(report.charges_ns["data.memory"], STEPS * 10_000_000);
}

#[test]
fn reclaim_is_memory_whether_the_thread_runs_or_is_blocked_in_it() {
    let report = run(2, |b, span| {
        b.slice(TrackId(2), cat::RECLAIM, "cgroup reclaim", span, &[]);
        let half = (span.0 + PLANT / 2, span.1);
        b.off(101, blocked("file read", "folio_wait_bit_common"), half);
    });
    assert_planted(&report, Cause::DataMemory);
    assert!(report.findings[0].remedy.contains("memory.max"), "{report}");
}

#[test]
fn a_lock_in_get_is_a_lock_and_who_ended_the_wait_is_named() {
    let report = run(2, |b, span| {
        let lock = blocked("futex", "futex_wait_queue").woken_by("dataloader-1", 102);
        b.off(101, lock, span);
    });
    assert_planted(&report, Cause::DataLock);
    let finding = &report.findings[0];
    assert!(
        finding
            .remedy
            .contains("dataloader-1 ended 100 % of the waits"),
        "{report}"
    );
    assert!(
        finding.worker_counts.is_empty(),
        "more workers would wait too"
    );
}

#[test]
fn a_futex_that_helpers_of_the_process_end_is_their_work_for_the_thread() {
    let mut end = 0;
    let report = run(4, |b, span| {
        if end == 0 {
            b.thread(700, "rayon-0");
            b.watch(700, (0, END), &[]);
        }
        b.off(700, blocked("futex", "futex_wait"), (end, span.0));
        end = span.1;
        b.off(
            101,
            blocked("futex", "futex_wait_queue").woken_by("rayon-0", 700),
            span,
        );
    });
    assert!(!report.charges_ns.contains_key("data.lock"), "{report}");
    assert_eq!(share(&report, Cause::DataWorkerLimit), 0.6);
}

#[test]
fn busy_workers_with_free_cpus_are_too_few_and_the_number_is_predicted() {
    let report = run(4, |_, _| {});
    assert_eq!(share(&report, Cause::DataWorkerLimit), 0.6);
    let finding = &report.findings[0];
    assert!(
        finding.remedy.starts_with(".num_workers(3) instead of 1"),
        "{report}"
    );
    let steps: Vec<u64> = finding
        .worker_counts
        .iter()
        .map(|c| c.predicted_step_ns / 1000)
        .collect();
    // 20 ms to make, 8 ms the rest of a step; two of four CPUs would do.
    assert_eq!(
        steps,
        [20_000, 10_000, 8_000, 8_000, 8_000, 8_000, 8_000, 8_000]
    );
    assert!(
        report
            .to_string()
            .contains("1: 20.0 ms, 2: 10.0 ms, 3 and more: 8.00 ms")
    );
}

#[test]
fn busy_workers_without_a_free_cpu_are_the_work_itself() {
    // One CPU: the worker has it all the time.
    let report = run(1, |_, _| {});
    assert_eq!(share(&report, Cause::DataCompute), 0.6);
    assert!(report.findings[0].remedy.contains("cheaper"), "{report}");
    // Many CPUs, of which others keep all but a fifth of one busy.
    let mut counted = false;
    let report = run(3, |b, _| {
        if !counted {
            counted = true;
            b.machine(3, &[(0, 0.0), (END, 2.8)]);
        }
    });
    assert_eq!(share(&report, Cause::DataCompute), 0.6);
}

#[test]
fn a_trainer_without_a_cpu_is_preempted_outside_of_the_loader_and_in_marked_phases() {
    let report = run(2, |b, (start, _)| {
        let compute = start + WAIT;
        b.off(100, preempted("spinner", 900), (compute, compute + 3_000));
        b.phase(TrackId(1), "metrics", (compute + 2_000, compute + 5_000));
    });
    assert_eq!(report.charges_ns["host.preempted"], STEPS * 3_000_000);
    assert_eq!(report.charges_ns["host.metrics"], STEPS * 2_000_000);
    let finding = report
        .findings
        .iter()
        .find(|f| f.cause == Cause::HostPreempted);
    let finding = finding.expect("it is one");
    assert!(finding.remedy.contains("spinner has its CPU"), "{report}");
    assert_eq!(finding.loader, None);
}

#[test]
fn a_trainer_whose_cpu_its_own_workers_have_is_told_to_have_fewer() {
    let report = run(1, |b, (start, _)| {
        let compute = start + WAIT;
        b.off(
            100,
            preempted("dataloader-0", 101),
            (compute - 1_000, compute + 3_000),
        );
    });
    let finding = report
        .findings
        .iter()
        .find(|f| f.cause == Cause::HostPreempted);
    assert!(
        finding.is_some_and(|f| f.remedy.contains("own workers have its CPU")),
        "{report}"
    );
}

#[test]
fn a_trainer_that_is_blocked_outside_of_the_loader_is_blocked_unless_the_phase_is_marked() {
    let lock = blocked("futex", "futex_wait_queue").woken_by("logger", 800);
    let report = run(2, |b, (start, _)| {
        let compute = start + WAIT - 2_000;
        b.off(100, lock, (compute, compute + 5_000));
        b.phase(TrackId(1), "checkpoint", (compute + 3_000, compute + 5_000));
    });
    assert_eq!(report.charges_ns["host.blocked"], STEPS * 3_000_000);
    assert_eq!(report.charges_ns["host.checkpoint"], STEPS * 2_000_000);
    let finding = report
        .findings
        .iter()
        .find(|f| f.cause == Cause::HostBlocked);
    assert!(
        finding.is_some_and(|f| f.remedy.starts_with("logger is who")),
        "{report}"
    );
}

/// A healthy run: two workers, waits of 0.2 ms, a full queue.
fn healthy(mut more: impl FnMut(&mut Builder, u64)) -> Report {
    let mut b = Builder::new();
    b.trace.meta.cpus = 4;
    let main = b.thread(100, "main");
    let workers = [b.thread(101, "dataloader-0"), b.thread(102, "dataloader-1")];
    for step in 0..STEPS {
        let at = START + step * STEP;
        let (track, tid) = (workers[(step % 2) as usize], 101 + (step % 2) as u32);
        b.step("train", 0, step + 1, 100, (at, at + STEP));
        b.wait(
            main,
            "train",
            (0, step + 1),
            Some((step, tid)),
            (at, at + 200),
        );
        b.off(100, blocked("futex", "futex_wait_queue"), (at, at + 200));
        // Made two steps ahead; then the worker waits for room in the queue.
        let made = at - 2 * STEP;
        b.stage(track, cat::DATA_GET, step, None, (made - 5_000, made));
        b.off(
            tid,
            blocked("futex", "futex_wait_queue"),
            (made, made + 2 * STEP - 5_000),
        );
        more(&mut b, at);
    }
    for tid in [100, 101, 102] {
        b.watch(tid, (0, END), &[]);
    }
    diagnose(&b.build(END))
}

#[test]
fn workers_that_wait_for_room_in_the_queue_are_healthy() {
    let report = healthy(|_, _| {});
    assert!(report.findings.is_empty(), "{report}");
    assert!(!report.charges_ns.contains_key("data.lock"), "{report}");
    assert!(report.verdict.contains("healthy"));
}

#[test]
fn a_trainer_that_is_preempted_for_one_percent_is_healthy() {
    let report = healthy(|b, at| b.off(100, preempted("systemd", 1), (at + 5_000, at + 5_200)));
    assert!(report.findings.is_empty(), "{report}");
    assert_eq!(share(&report, Cause::HostPreempted), 0.01);
}

#[test]
fn a_trainer_whose_helpers_compute_for_it_computes() {
    let mut made = false;
    let report = healthy(|b, at| {
        if !made {
            made = true;
            b.thread(700, "rayon-0");
            b.watch(700, (0, END), &[]);
        }
        b.off(
            700,
            blocked("futex", "futex_wait"),
            (at - 5_000, at + 5_000),
        );
        let helped = blocked("futex", "futex_wait_queue").woken_by("rayon-0", 700);
        b.off(100, helped, (at + 5_000, at + 15_000));
    });
    assert!(report.findings.is_empty(), "{report}");
    assert!(!report.charges_ns.contains_key("host.blocked"), "{report}");
}

#[test]
fn in_process_the_wait_is_charged_to_the_states_of_the_trainer() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    for step in 0..STEPS {
        let at = START + step * STEP;
        b.step("train", 0, step, 100, (at, at + STEP));
        b.wait(
            main,
            "train",
            (0, step),
            Some((step, 100)),
            (at, at + 10_000),
        );
        b.stage(main, cat::DATA_GET, step, None, (at, at + 10_000));
        b.off(
            100,
            blocked("file read", "filemap_read"),
            (at + 1_000, at + 4_000),
        );
        b.off(100, preempted("spinner", 900), (at + 5_000, at + 7_000));
    }
    b.watch(100, (0, END), &[]);
    let report = diagnose(&b.build(END));
    let expected = [
        ("compute", 10),
        ("data.compute", 5),
        ("data.io", 3),
        ("host.preempted", 2),
    ];
    for (cause, ms) in expected {
        assert_eq!(report.charges_ns[cause], STEPS * ms * 1_000_000, "{report}");
    }
}

#[test]
fn waits_that_no_cause_alone_makes_a_finding_are_one_together() {
    let report = healthy(|b, at| {
        // A second loader, of which a third of each wait is a read, a lock, and no CPU.
        let main = TrackId(1);
        b.wait(
            main,
            "more",
            (0, at / STEP),
            Some((at, 101)),
            (at + 300, at + 1_800),
        );
        b.stage(TrackId(2), cat::DATA_GET, at, None, (at + 300, at + 1_800));
        b.off(
            101,
            blocked("file read", "filemap_read"),
            (at + 300, at + 800),
        );
        b.off(101, blocked("futex", "futex_wait"), (at + 800, at + 1_310));
        b.off(101, preempted("x", 9), (at + 1_310, at + 1_800));
    });
    let found: Vec<_> = report
        .findings
        .iter()
        .map(|f| (f.cause, f.loader.as_deref()))
        .collect();
    assert_eq!(found, [(Cause::DataLock, Some("more"))], "{report}");
}

#[test]
fn the_words_are_those_of_the_framework_that_ran() {
    let pytorch = |wait: Off<'static>| {
        run(2, move |b, span| {
            b.trace.strings.intern("aten::addmm");
            b.off(101, wait, span);
        })
    };
    for wait in [
        preempted("spinner", 900),
        blocked("file read", "filemap_read"),
        blocked("futex", "futex_wait"),
        blocked("socket", "tcp_recvmsg"),
        blocked("reclaim", "try_to_free_pages"),
    ] {
        let report = pytorch(wait);
        for finding in &report.findings {
            assert!(!finding.remedy.is_empty(), "{report}");
            assert!(!finding.remedy.contains(".num_workers("), "{report}");
            assert!(!finding.remedy.contains("InMemDataset"), "{report}");
        }
    }
}

#[test]
fn the_report_has_where_the_time_of_threads_and_processes_went() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    b.thread(200, "helper");
    for step in 0..STEPS {
        let at = START + step * STEP;
        b.step("train", 0, step, 100, (at, at + STEP));
        b.wait(main, "train", (0, step), None, (at, at + 10));
    }
    b.off(200, blocked("poll", "ep_poll"), (START, START + 30_000));
    b.off(200, preempted("x", 9), (START + 30_000, START + 30_500));
    let counts = [
        (totals::ON_CPU_NS, 700),
        (totals::PREEMPTED_NS, 20),
        (totals::WOKEN_NS, 30),
        (totals::SLEEPING_NS, 200),
        (totals::UNINTERRUPTIBLE_NS, 50),
        (totals::PREEMPTIONS, 3),
        (totals::WAITS, 4),
        (totals::MINOR_FAULTS, 5),
        (totals::MAJOR_FAULTS, 6),
        (totals::LOST, 1),
    ];
    b.watch(100, (0, END), &counts);
    b.watch(200, (0, END), &counts);
    let report = diagnose(&b.build(END));
    assert_eq!(report.evidence.level, "spans + sidecar");
    let [main, helper] = report.threads.as_slice() else {
        panic!("two threads: {report}");
    };
    assert!(main.trains && !helper.trains);
    let usage = helper.usage;
    assert_eq!(
        (usage.on_cpu_ns, usage.runnable_ns, usage.blocked_ns),
        (700, 50, 250)
    );
    assert_eq!(usage.page_allocs, None, "it was not counted");
    assert_eq!(helper.blocked_ns_by_class["poll"], 30_000_000);
    let worst = helper.worst_off_cpu.as_ref().expect("there is one");
    assert_eq!(
        (worst.length_ns, worst.what.as_str()),
        (30_000_000, "blocked in poll (ep_poll)")
    );
    let process = &report.processes[0];
    assert_eq!((process.threads, process.name.as_str()), (2, "trainer"));
    assert_eq!(process.usage.minor_faults, Some(10));
    assert_eq!(process.usage.lost_intervals, 2);
}

#[test]
fn a_finding_says_that_events_behind_it_were_lost() {
    let lossy = |lost_ns: u64| {
        let mut b = Builder::new();
        let (main, worker) = (b.thread(100, "main"), b.thread(101, "dataloader-0"));
        for step in 0..STEPS {
            let at = START + step * STEP;
            one_step(&mut b, (main, worker), step, (at, at + WAIT));
            b.off(101, preempted("x", 9), (at, at + PLANT));
        }
        b.lose("off-cpu intervals", END, 7);
        let lost = [(totals::LOST, 7), (totals::LOST_NS, lost_ns)];
        b.watch(101, (0, END), &lost);
        diagnose(&b.build(END))
    };
    let report = lossy(END * 1000 / 100);
    let caveat = &report.findings[0].caveat;
    assert!(
        caveat.starts_with("7 intervals off CPU of these threads were lost"),
        "{report}"
    );
    assert!(caveat.contains("7 from off-cpu intervals"), "{report}");
    // Beyond 1 % of its time a thread is not known to run, and the cause is coarser.
    assert!(report.charges_ns.contains_key("data.compute"));
    let report = lossy(END * 1000 / 100 + 1);
    assert!(report.charges_ns["data"] > 0);
    assert!(!report.charges_ns.contains_key("data.compute"), "{report}");
    assert_eq!(report.charges_ns["data.contended"], STEPS * PLANT * 1_000);
}

#[test]
fn an_oom_kill_is_a_fault_of_the_run() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    for step in 0..STEPS {
        b.step(
            "train",
            0,
            step,
            100,
            (START + step * STEP, START + (step + 1) * STEP),
        );
    }
    b.slice(
        main,
        cat::BLOCK_IO,
        "read",
        (0, 1),
        &[(arg::THREAD, V::N(100))],
    );
    b.fault(main, END - 10, "");
    let oom = b.trace.strings.intern(cat::OOM_KILL);
    b.trace.instants[0].cat = oom;
    let report = diagnose(&b.build(END));
    assert!(
        report.verdict.contains("killed it for want of memory"),
        "{report}"
    );
}

#[test]
fn work_between_marked_phases_is_the_hosts_and_its_functions_are_named() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    for step in 0..STEPS {
        let at = START + step * STEP;
        b.step("train", 0, step, 100, (at, at + STEP));
        b.phase(main, "forward", (at, at + 6_000));
        b.sample(100, "user", "augment", at + 10_000);
        b.phase(main, "backward", (at + 11_000, at + STEP));
    }
    // What follows, a validation that marks nothing, is none.
    b.watch(100, (0, END + 50_000), &[]);
    let report = diagnose(&b.build(END + 50_000));
    assert_eq!(report.charges_ns["host.compute"], STEPS * 5_000_000);
    let finding = &report.findings[0];
    assert_eq!(finding.chain[0].what, "between the marked phases");
    assert_eq!(finding.chain[1].evidence, "augment 100 % of 40 samples");
}

#[test]
fn memory_that_is_mapped_and_given_back_is_memory() {
    let report = run(2, |b, span| {
        b.sample(101, "system", "x64_sys_call", span.0);
        b.sample(101, "system", "__x64_sys_munmap", span.1);
    });
    assert_planted(&report, Cause::DataMemory);
}

#[test]
fn a_thread_that_always_runs_holds_the_lock_and_does_not_help() {
    let mut drawn = false;
    let report = run(4, |b, span| {
        if !drawn {
            drawn = true;
            b.thread(700, "cache");
            b.watch(700, (0, END), &[]);
        }
        let lock = blocked("futex", "futex_wait_queue");
        b.off(101, lock.woken_by("cache", 700), span);
    });
    assert_planted(&report, Cause::DataLock);
}
