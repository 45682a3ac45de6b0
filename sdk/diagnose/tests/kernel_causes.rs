//! Each cause of a wait that the scheduler names, planted in the worker of a timeline.

mod common;

use common::kernel::{Off, blocked, preempted};
use common::planted::{END, PLANT, STEPS, assert_planted, run, share};
use gpustall_diagnose::Cause;
use gpustall_trace::TrackId;
use gpustall_trace::vocab::cat;

#[test]
fn a_worker_without_a_cpu_is_contended_and_who_had_it_is_named() {
    let report = run(2, |b, span| b.off(101, preempted("spinner", 900), span));
    assert_planted(&report, Cause::DataContended);
    let text = report.to_string();
    let proof = &report.findings[0].chain[3].evidence;
    assert_eq!(proof, "CPU 0 held by spinner 100 %; preempted");
    let held = "short of CPUs: these are held by another program, spinner, for 100 % of that time";
    assert!(report.verdict.ends_with(held), "{text}");
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
        report.findings[0].remedy.contains(".num_workers(2)"),
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
fn samples_in_page_faults_make_the_running_time_around_them_memory() {
    let report = run(2, |b, span| {
        // Each stands for 4 ms, the first and the last one reach 2 ms out of the plant.
        b.sample(101, "user", "decode", span.0 - 2_000);
        b.sample(101, "page fault", "exc_page_fault", span.0 + 2_000);
        b.sample(101, "page fault", "exc_page_fault", span.0 + 6_000);
        b.sample(101, "user", "decode", span.1 + 2_000);
    });
    assert_planted(&report, Cause::DataMemory);
    let finding = &report.findings[0];
    let link = finding.chain.last().expect("there are links");
    assert_eq!(link.evidence, "exc_page_fault 100 % of 80 samples");
    assert!(finding.remedy.contains("huge pages"), "{report}");
    let ran = &report.threads[1].functions;
    assert_eq!((ran.len(), ran[0].share), (2, 0.5));
}

#[test]
fn a_sample_stands_for_no_more_than_five_milliseconds_of_running_on_either_side() {
    let report = run(2, |b, (start, _)| {
        b.sample(101, "page fault", "exc_page_fault", start + 4_000);
    });
    // From 1 ms before the plant to 1 ms after it.
    assert_eq!(report.charges_ns["data.memory"], STEPS * 10_000_000);
}

#[test]
fn the_tail_of_a_wait_after_its_last_sample_is_not_forgotten() {
    // Nothing but faults in all the plant, found by a clock of 5 ms that knows nothing of it.
    let mut next = common::planted::START;
    let report = run(2, |b, span| {
        while next < span.1 {
            if next >= span.0 {
                b.sample(101, "page fault", "exc_page_fault", next);
            } else {
                b.sample(101, "user", "decode", next);
            }
            next += 5_309;
        }
    });
    let (found, planted) = (report.charges_ns["data.memory"], STEPS * PLANT * 1000);
    assert!(
        found.abs_diff(planted) * 25 < planted,
        "{found} of {planted}"
    );
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
    // 20 ms to make, 8 ms the rest of a step. The epoch is shorter than the queue: while more workers
    // than there are CPUs beside the trainer's make it ahead, the trainer has less of a CPU.
    assert_eq!(steps[..3], [20_000, 10_000, 8_000]);
    assert!(steps[2..].is_sorted() && steps[7] > 10_000, "{steps:?}");
    assert!(
        report
            .to_string()
            .contains("1: 20.0 ms, 2: 10.0 ms, 3: 8.00 ms; more are slower")
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
fn memory_that_is_mapped_and_given_back_is_memory() {
    let report = run(2, |b, span| {
        b.sample(101, "system", "x64_sys_call", span.0 - 4_000);
        b.sample(101, "system", "__x64_sys_munmap", span.0 + 4_000);
        b.sample(101, "system", "x64_sys_call", span.1 + 4_000);
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
