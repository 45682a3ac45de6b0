//! Threads and processes that begin and end while they are recorded.

use crate::harness::{Job, drain_until, record, turn};
use crate::totals::assert_adds_up;
use gpustall_sidecar::{Options, Recording, ThreadRecord};
use gpustall_trace::Nanos;

fn named<'a>(recording: &'a Recording, name: &str) -> Vec<&'a ThreadRecord> {
    let threads = recording.threads.iter();
    threads.filter(|t| t.name == name).collect()
}

#[test]
fn what_a_recorded_process_makes_is_recorded_from_its_start_to_its_end() {
    let Some(_turn) = turn() else { return };
    let mut job = Job::start("late");
    let mut recorder = record(job.pid(), &Options::default());
    job.go();
    let child: u32 = job.expect("child").parse().unwrap();
    job.expect("done");
    recorder.drain();
    let recording = recorder.finish();
    assert_adds_up(&recording);

    let [thread] = named(&recording, "renamed")[..] else {
        panic!("the thread is not there under its last name");
    };
    assert!(thread.ended && thread.pid.0 == job.pid());
    let maker = thread.parent.unwrap();
    assert!(
        recording
            .threads
            .iter()
            .any(|t| t.tid == maker && t.pid.0 == job.pid())
    );
    assert!(thread.totals.on_cpu + thread.totals.runnable() >= Nanos::new(29_000_000));
    assert!(thread.totals.sleeping >= Nanos::new(19_000_000));

    let [process] = named(&recording, "sleep")[..] else {
        panic!("the process is not there under the name of its program");
    };
    assert!(process.ended && process.pid.0 == child && process.tid.0 == child);
    assert!(process.totals.sleeping >= Nanos::new(49_000_000));
}

#[test]
fn a_process_that_becomes_another_program_by_a_thread_goes_on_under_its_id() {
    let Some(_turn) = turn() else { return };
    let mut job = Job::start("exec");
    let mut recorder = record(job.pid(), &Options::default());
    job.go();
    drain_until(&mut recorder, |recorder| recorder.progress().threads == 0);
    let recording = recorder.finish();
    assert_adds_up(&recording);
    let [program] = named(&recording, "sleep")[..] else {
        panic!("the program is not there");
    };
    assert!(program.ended && program.tid.0 == job.pid());
    assert!(program.totals.sleeping >= Nanos::new(199_000_000));
}
