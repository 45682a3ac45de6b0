//! Calls of a stand-in for the CUDA driver's library, compared with what its caller did.

use crate::cuda_job::{FLOOD, LIBRARY, ROUNDS, STREAM};
use crate::fake_cuda::FakeCuda;
use crate::harness::{Job, drain_until, record, thread, turn};
use gpustall_sidecar::{CudaCall, CudaClass, Options, Recording};
use gpustall_trace::Nanos;
use std::time::Duration;

fn start(workload: &str, library: &FakeCuda) -> Job {
    Job::start_on(workload, &[(LIBRARY, library.path().as_os_str())])
}

/// The calls of one function by one thread.
fn calls<'a>(recording: &'a Recording, tid: u32, name: &str) -> Vec<&'a CudaCall> {
    let of = |call: &&CudaCall| {
        recording.threads[call.thread as usize].tid.0 == tid && call.function.name() == name
    };
    recording.cuda_calls.iter().filter(of).collect()
}

fn total(calls: &[&CudaCall]) -> Nanos {
    calls.iter().map(|call| call.end.since(call.begin)).sum()
}

/// What a thread of `cuda_job::rounds` did.
struct Told {
    tid: u32,
    waited_ns: u64,
    copied_ns: u64,
}

/// Waits until both threads are done.
fn told(job: &mut Job) -> [Told; 2] {
    [0, 1].map(|_| {
        let line = job.expect("calls");
        let words: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let [tid, waited_ns, copied_ns] = words[..] else {
            panic!("{line}");
        };
        Told {
            tid: tid as u32,
            waited_ns,
            copied_ns,
        }
    })
}

fn assert_planted(recording: &Recording, told: &[Told]) {
    for thread in told {
        let of = |name: &str| {
            let calls = calls(recording, thread.tid, name);
            assert_eq!(calls.len() as u64, ROUNDS, "{name}");
            calls
        };
        let sync = of("cuStreamSynchronize");
        assert!(
            sync.iter()
                .all(|c| c.stream == Some(STREAM) && c.bytes.is_none())
        );
        assert_length("synchronise", total(&sync), 5 * ROUNDS, thread.waited_ns);

        let copies = of("cuMemcpyHtoD_v2");
        let inner = of("cuMemcpyHtoD_v2_ptds");
        assert_length("copy", total(&copies), 3 * ROUNDS, thread.copied_ns);
        assert_length("inner copy", total(&inner), 2 * ROUNDS, thread.copied_ns);
        for (n, (outer, inner)) in (0..).zip(copies.iter().zip(&inner)) {
            assert_eq!((outer.bytes, inner.bytes), (Some(4096 + n), Some(4096 + n)));
            assert_eq!((outer.depth, inner.depth), (0, 1));
            assert!(outer.begin <= inner.begin && inner.end <= outer.end);
        }
        let all = |name: &str, is: fn(&CudaCall) -> bool| {
            assert!(of(name).into_iter().all(is), "{name}: {:?}", of(name)[0]);
        };
        all("cuMemcpy2D_v2", |c| c.bytes == Some(700));
        all("cuMemsetD2D32Async", |c| {
            (c.bytes, c.stream) == (Some(120), Some(STREAM))
        });
        all("cuMemAlloc_v2", |c| {
            (c.bytes, c.result) == (Some(1 << 41), 2)
        });
        all("cuLaunchKernel", |c| c.stream == Some(STREAM));
        all("cuLaunchKernelEx", |c| {
            c.stream == Some(STREAM) && c.function.class() == CudaClass::Launch
        });
    }
}

/// Not shorter than was slept, and not longer than its caller saw it take.
fn assert_length(what: &str, recorded: Nanos, slept_ms: u64, seen_ns: u64) {
    let recorded = recorded.get();
    assert!(
        (slept_ms * 1_000_000..=seen_ns).contains(&recorded),
        "{what}: {recorded} ns recorded, {slept_ms} ms slept, {seen_ns} ns seen by the caller"
    );
}

fn until_a_call(recorder: &mut gpustall_sidecar::Recorder) {
    drain_until(recorder, |r| r.progress().cuda_calls > 0);
}

#[test]
fn calls_of_a_process_that_had_mapped_the_library_are_recorded_as_they_were_made() {
    let Some(_turn) = turn() else { return };
    let library = FakeCuda::new();
    let mut job = start("cuda early", &library);
    let mut other = start("cuda early", &library);
    let mut recorder = record(job.pid(), &Options::default());
    until_a_call(&mut recorder);
    other.go();
    job.go();
    let told = (told(&mut other), told(&mut job)).1;
    let recording = recorder.finish();
    assert_eq!(recording.lost_by_source(), Default::default());
    assert!(recording.threads.iter().all(|t| t.pid.0 == job.pid()));
    assert_planted(&recording, &told);
}

#[test]
fn a_library_that_is_mapped_during_the_recording_is_found() {
    let Some(_turn) = turn() else { return };
    let library = FakeCuda::new();
    let mut job = start("cuda late", &library);
    let mut recorder = record(job.pid(), &Options::default());
    crate::harness::drain_for(&mut recorder, Duration::from_millis(100));
    job.go();
    until_a_call(&mut recorder);
    job.go();
    let told = told(&mut job);
    let recording = recorder.finish();
    assert_planted(&recording, &told);
    let said = |note: &&String| note.contains("libcuda.so.1");
    let notes: Vec<_> = recording.notes.iter().filter(said).collect();
    assert_eq!(notes.len(), 1, "{:?}", recording.notes);
}

#[test]
fn calls_that_do_not_fit_into_the_ring_are_counted() {
    let Some(_turn) = turn() else { return };
    let library = FakeCuda::new();
    let mut job = start("cuda flood", &library);
    let mut recorder = record(
        job.pid(),
        &Options {
            ring_bytes: 16 << 10,
            sample_hz: 0,
            ..Options::default()
        },
    );
    // The first look finds the library; nobody drains after it.
    recorder.drain();
    job.go();
    job.expect("done");
    let recording = recorder.finish();
    let lost = recording.lost_by_source()["CUDA calls"];
    assert!(lost > 1000, "only {lost} lost");
    assert_eq!(recording.cuda_calls.len() as u64 + lost, FLOOD);
}

#[test]
fn a_call_that_hangs_is_there_without_its_end() {
    let Some(_turn) = turn() else { return };
    let library = FakeCuda::new();
    let mut job = start("cuda stuck", &library);
    let mut recorder = record(job.pid(), &Options::default());
    recorder.drain();
    job.go();
    job.expect("done");
    crate::harness::drain_for(&mut recorder, Duration::from_millis(300));
    let recording = recorder.finish();
    let [call] = recording.cuda_calls[..] else {
        panic!("{:?}", recording.cuda_calls);
    };
    assert_eq!(call.function.name(), "cuEventSynchronize");
    assert!(call.unfinished && call.end == recording.end);
    assert!(call.end.since(call.begin) > Nanos::new(200_000_000));
    let tid = job.threads("hanging")[0];
    assert_eq!(thread(&recording, tid).name, "hanging");
    assert_eq!(recording.threads[call.thread as usize].tid.0, tid);
}

#[test]
fn no_call_is_recorded_when_it_is_not_asked_for() {
    let Some(_turn) = turn() else { return };
    let library = FakeCuda::new();
    let mut job = start("cuda flood", &library);
    let options = Options {
        cuda_calls: false,
        ..Options::default()
    };
    let mut recorder = record(job.pid(), &options);
    recorder.drain();
    job.go();
    job.expect("done");
    recorder.drain();
    assert!(recorder.finish().cuda_calls.is_empty());
}
