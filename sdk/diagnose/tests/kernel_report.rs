//! What a report says of threads, of what was lost, and in whose words.

mod common;

use common::kernel::{Off, blocked, preempted};
use common::planted::{END, PLANT, START, STEP, STEPS, WAIT, one_step, run};
use common::{Builder, V};
use gpustall_diagnose::diagnose;
use gpustall_trace::vocab::{arg, cat, totals};

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
        report.ended.ends_with(
            "the kernel killed it for want of memory (give the job more memory, or let it use less)"
        ),
        "{report}"
    );
}

#[test]
fn the_worst_stall_says_what_the_scheduler_saw() {
    let report = run(2, |b, (from, to)| {
        b.off(101, preempted("spinner", 900), (from, to - 2_000));
        let lock = blocked("futex", "futex_wait_queue").woken_by("main", 100);
        b.off(101, lock, (to - 2_000, to));
    });
    let finding = &report.findings[0];
    assert_eq!(finding.cause.id(), "data.contended", "{report}");
    let worst = &finding.worst[0];
    let states: Vec<_> = worst
        .states
        .iter()
        .map(|of| (of.what.as_str(), of.ns))
        .collect();
    assert_eq!(states, [("ready to run, without a CPU", 6_000_000)]);
    assert_eq!(
        worst.states[0].evidence,
        "CPU 0 held by spinner 100 %; preempted"
    );
    assert_eq!(worst.pieces[0].on_cpu, Some(0.0), "{worst:?}");
    let text = report.to_string().replace("\n     ", " ");
    let line =
        "the scheduler: dataloader-0 ready to run, without a CPU 100 % (CPU 0 held by spinner";
    assert!(text.contains(line), "{report}");
    let of_lock = report.findings.iter().find(|f| f.cause.id() == "data.lock");
    let worst = &of_lock.expect("a finding").worst[0];
    let what = &worst.states[0].what;
    assert_eq!(what, "blocked in futex (futex_wait_queue)");
    assert_eq!(
        worst.states.iter().map(|of| of.ns).sum::<u64>(),
        worst.lost_ns
    );
}

#[test]
fn one_stage_has_one_share_of_a_cpu() {
    // The stages say 95 % of themselves, the scheduler a third of the finding's time.
    let mut b = Builder::new();
    b.trace.meta.cpus = 2;
    let main = b.thread(100, "main");
    let worker = b.thread(101, "dataloader-0");
    for step in 0..40u64 {
        let at = 100_000 + step * 20_000;
        b.step("train", 0, step + 1, 100, (at, at + 20_000));
        b.wait(
            main,
            "train",
            (0, step + 1),
            Some((step, 101)),
            (at, at + 12_000),
        );
        let get = (at - 8_000, at + 12_000);
        b.stage(worker, cat::DATA_GET, step, Some(19_000), get);
        b.off(
            101,
            blocked("sleep", "hrtimer_nanosleep"),
            (at + 4_000, at + 12_000),
        );
        b.off(100, blocked("futex", "futex_wait"), (at, at + 12_000));
    }
    for tid in [100, 101] {
        b.watch(tid, (0, 900_000), &[]);
    }
    let report = diagnose(&b.build(900_000));
    for finding in &report.findings {
        let stated = finding
            .chain
            .iter()
            .filter(|link| link.evidence.contains("on a CPU for"));
        assert_eq!(stated.count(), 0, "{report}");
        let running = finding.chain.iter().find(|link| link.what == "running");
        let running = running.map_or(0.0, |link| link.share);
        assert!(
            (finding.evidence["get_cpu_share"] - running).abs() < 1e-6,
            "{report}"
        );
    }
}
