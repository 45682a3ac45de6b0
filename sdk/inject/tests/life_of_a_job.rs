//! The library in a job, with a stand-in for CUPTI: every way that a process ends leaves a trace that
//! can be read, and ends as it would have done.

mod job;

use gpustall_trace::vocab::cat;
use job::{kernels, start, start_with};
use std::os::unix::process::ExitStatusExt;

#[test]
fn a_job_that_ends_has_its_last_records_written() {
    // Nothing has come by then but what the end asks for.
    let (status, trace) = start(0, "sys.exit(3)").end();
    assert_eq!(status.code(), Some(3));
    assert!(kernels(&trace) > 0);
    assert_eq!(trace.lost_by_source().get("CUPTI"), Some(&3));
}

#[test]
fn a_job_of_which_nothing_is_captured_whole_gets_a_window() {
    let variables = [("GPUSTALL_CUDA_WHOLE", "0"), ("GPUSTALL_CUDA_BUDGET", "5")];
    let job = start_with(&variables, 0, "ready(); time.sleep(600)");
    job.wait_for_kernels();
    job.signal("-TERM");
    let (_, trace) = job.end();
    assert!(kernels(&trace) > 0);
}

#[test]
fn each_window_has_kernels() {
    let variables = [
        ("GPUSTALL_CUDA_WHOLE", "0"),
        ("GPUSTALL_CUDA_BUDGET", "0.0005"),
    ];
    let python = "def until(subscribers):\n    \
                      deadline = time.monotonic() + 120\n    \
                      while of('subscribers').value != subscribers:\n        \
                          assert time.monotonic() < deadline\n        \
                          time.sleep(0.002)\n\
                  for window in range(3):\n    \
                      open(os.environ['GPUSTALL_OUTPUT'] + '/capture-now', 'w').close()\n    \
                      until(1)\n    \
                      opened = time.monotonic_ns()\n    \
                      until(0)\n    \
                      assert not of('silent').value\n\
                  open(os.environ['GPUSTALL_OUTPUT'] + '/opened', 'w').write(str(opened))";
    let mut job = start_with(&variables, 0, python);
    assert!(job.child.wait().expect("it was started here").success());
    let opened = std::fs::read_to_string(job.folder.path().join("opened"));
    let opened: u64 = opened.expect("the job wrote it").parse().expect("a number");
    let (_, trace) = job.end();
    let kernel = trace.strings.find(cat::KERNEL);
    let begun = trace.meta.start_mono.as_nanos();
    let last = trace.slices.iter().filter(|s| Some(s.cat) == kernel);
    let last = last.map(|slice| begun + slice.span.start.as_nanos()).max();
    assert!(last > Some(opened), "the last window has kernels");
}

#[test]
fn a_flush_that_waits_for_the_job_costs_the_job_nothing() {
    let variables = [
        ("GPUSTALL_CUDA_WHOLE", "0.5"),
        ("GPUSTALL_CUDA_BUDGET", "1"),
    ];
    // A flush every 100 ms, of which it waits 50.
    let python = "deadline = time.monotonic() + 120\n\
                  while of('flushes').value < 1: time.sleep(0.002)\n\
                  of('waits').value = 50\n\
                  begun = of('flushes').value\n\
                  while of('flushes').value < begun + 20:\n    \
                      assert time.monotonic() < deadline and of('subscribers').value == 1\n    \
                      time.sleep(0.002)\n\
                  of('waits').value = 0";
    let (status, trace) = start_with(&variables, 0, python).end();
    assert!(status.success(), "the window was closed");
    let pause = trace.strings.find(cat::PAUSE);
    let pauses = trace.slices.iter().filter(|s| Some(s.cat) == pause);
    assert_eq!(pauses.count(), 0);
}

#[test]
fn a_job_that_ends_before_its_first_window_says_so() {
    // A budget with which the first window opens after an hour.
    let variables = [
        ("GPUSTALL_CUDA_WHOLE", "0"),
        ("GPUSTALL_CUDA_BUDGET", "0.0005"),
    ];
    let (status, trace) = start_with(&variables, 0, "sys.exit(0)").end();
    assert!(status.success());
    assert_eq!(kernels(&trace), 0);
    let notes = &trace.meta.notes;
    assert!(
        notes.len() == 1 && notes[0].contains("GPUSTALL_CUDA_WHOLE"),
        "{notes:?}"
    );
}

#[test]
fn sigterm_ends_a_job_as_it_would_have_and_leaves_a_trace() {
    let job = start(0, "ready(); time.sleep(600)");
    job.wait_for_kernels();
    job.signal("-TERM");
    let (status, trace) = job.end();
    assert_eq!(status.signal(), Some(15));
    assert!(kernels(&trace) > 0);
}

#[test]
fn a_job_that_handles_sigterm_goes_on_to_do_so() {
    let python = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(4)); ready(); time.sleep(600)";
    let job = start(0, python);
    job.wait_for_kernels();
    job.signal("-TERM");
    let (status, _) = job.end();
    assert_eq!(status.code(), Some(4));
}

#[test]
fn a_killed_job_leaves_what_was_flushed() {
    let job = start(0, "ready(); time.sleep(600)");
    job.wait_for_kernels();
    job.signal("-KILL");
    let (status, trace) = job.end();
    assert_eq!(status.signal(), Some(9));
    assert!(kernels(&trace) > 0);
}

#[test]
fn a_forked_child_ends_at_once_and_leaves_no_file() {
    let python = "pid = os.fork()\n\
                  if pid == 0: sys.exit(5)\n\
                  code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n\
                  ready(); sys.exit(code)";
    let (status, trace) = start(0, python).end();
    assert_eq!(status.code(), Some(5));
    assert!(kernels(&trace) > 0);
}

#[test]
fn beside_another_profiler_there_is_one_note_and_nothing_else() {
    let (status, trace) = start(39, "sys.exit(0)").end();
    assert!(status.success());
    assert_eq!(kernels(&trace), 0);
    let notes = &trace.meta.notes;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("another profiler"), "{notes:?}");
}
