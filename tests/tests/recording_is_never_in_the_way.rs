//! Bounded, lossy where it must be, and honest about it.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use gpustall_tests::{
    Collect, Numbers, alone, assert_well_formed, named, numbers_loader, record, slices,
};
use gpustall_trace::vocab::cat;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Records spans as fast as it can until `stop`; how many.
fn flood(stop: &AtomicBool) -> u64 {
    let mut spans = 0;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..1000 {
            drop(gpustall::span("flood"));
        }
        spans += 1000;
    }
    spans
}

#[test]
fn a_flood_of_spans_is_dropped_counted_and_pushes_out_no_pipeline_event() {
    let _alone = alone();
    let (trace, summary, (spans, taken)) = record("flood", || {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let flooder = scope.spawn(|| flood(&stop));
            // The trainer's own thread floods too, between its batches.
            let loader = numbers_loader("train", Numbers::slow(200, Duration::from_micros(500)), 2);
            let mut spans = 0;
            let mut taken = 0;
            for batch in loader.iter() {
                batch.unwrap();
                taken += 1;
                for _ in 0..10_000 {
                    drop(gpustall::span("flood"));
                }
                spans += 10_000;
            }
            stop.store(true, Ordering::Relaxed);
            (spans + flooder.join().unwrap(), taken)
        })
    });
    assert_eq!(taken, 50);
    assert_eq!(slices(&trace, cat::DATA_WAIT).len(), 50);
    assert_eq!(slices(&trace, cat::STEP).len(), 50);
    assert_eq!(slices(&trace, cat::DATA_GET).len(), 50);
    assert_eq!(slices(&trace, cat::DATA_COLLATE).len(), 50);
    assert_eq!(gpustall_tests::batch_flows(&trace).len(), 50);

    let kept = named(&trace, "flood").len() as u64;
    assert!(kept > 0, "what fits is kept");
    let lost = trace.lost_by_source()["user spans"];
    assert!(lost > 0, "more came than fits");
    assert_eq!(kept + lost, spans, "every span is kept or counted");
    assert_eq!(trace.lost_by_source().get("data pipeline"), None);
    let report = summary.report().unwrap();
    assert_eq!(report.lost_events["user spans"], lost);
    assert!(summary.to_string().contains("lost"), "{summary}");
    assert_well_formed(&trace);
}

/// Memory that this process holds, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

#[test]
fn memory_stays_bounded_however_much_is_recorded() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json");
    let session = gpustall::session("memory").output(&output).start().unwrap();
    let stop = AtomicBool::new(false);
    let grown = std::thread::scope(|scope| {
        let threads = [(); 2].map(|()| scope.spawn(|| flood(&stop)));
        // Rings and buffers are in place.
        std::thread::sleep(Duration::from_millis(300));
        let before = resident();
        std::thread::sleep(Duration::from_millis(800));
        let grown = resident().saturating_sub(before);
        stop.store(true, Ordering::Relaxed);
        let spans: u64 = threads.into_iter().map(|t| t.join().unwrap()).sum();
        assert!(spans > 200_000, "a flood: {spans} spans");
        grown
    });
    let partial = gpustall_trace::partial_path(&output);
    let written = std::fs::metadata(partial).unwrap().len();
    assert!(written > 4 << 20, "much was written: {written} bytes");
    assert!(grown < 16 << 20, "{grown} bytes more in memory");
    session.finish().unwrap();
}

#[test]
fn a_call_that_records_never_waits_for_the_writer() {
    let _alone = alone();
    record("latency", || {
        let begun = Instant::now();
        let calls = 2_000_000_u32;
        for _ in 0..calls {
            drop(gpustall::span("flood"));
        }
        // A call that waited for room in the ring would take the writer's 20 ms for every 3584
        // spans: 11 s for these.
        assert!(begun.elapsed() < Duration::from_secs(5));
    });
}

#[test]
fn slices_of_a_thread_are_in_order_and_nest() {
    let _alone = alone();
    let (trace, ..) = record("order", || {
        let nest = || {
            for _ in 0..200 {
                let _outer = tracing::info_span!("outer").entered();
                let _middle = gpustall::span("middle");
                drop(tracing::info_span!("inner").entered());
                drop(gpustall::span("inner"));
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(nest);
            }
        });
        numbers_loader("train", Numbers::new(100), 3)
            .iter()
            .for_each(drop);
    });
    assert_eq!(named(&trace, "inner").len(), 4 * 200 * 2);
    assert_well_formed(&trace);
}

#[test]
fn a_span_in_a_thread_that_ends_at_once_is_not_lost() {
    let _alone = alone();
    let threads = 200;
    let (trace, ..) = record("short", || {
        for _ in 0..threads {
            let thread = std::thread::spawn(|| drop(gpustall::span("short")));
            thread.join().unwrap();
        }
    });
    assert_eq!(named(&trace, "short").len(), threads);
    assert!(trace.lost_by_source().is_empty());
}

#[test]
fn threads_that_ended_make_room_for_new_ones() {
    let _alone = alone();
    // More than are recorded at one time.
    let threads = 1500;
    let (trace, ..) = record("many", || {
        for n in 0..threads {
            let thread = std::thread::spawn(|| drop(gpustall::span("short")));
            thread.join().unwrap();
            if n % 500 == 499 {
                // The writer looks after the rings of ended threads.
                std::thread::sleep(gpustall::DRAIN_INTERVAL * 10);
            }
        }
    });
    let kept = named(&trace, "short").len();
    assert_eq!(kept, threads, "lost: {:?}", trace.lost_by_source());
}

/// Records when its thread ends, when the recorder's own thread-local data may be gone.
struct Last;

impl Drop for Last {
    fn drop(&mut self) {
        drop(gpustall::span("last"));
        drop(gpustall::instrument::phase("last phase"));
        gpustall::instant("last instant");
        gpustall::counter("last counter", 1.0);
        // No span: `tracing_subscriber`'s registry itself takes none from a thread that is over.
        tracing::info!("last event");
        let batch = burn_core::data::dataloader::batcher::Batcher::batch(
            &gpustall::instrument::batcher(Collect::default()),
            vec![1],
            &burn_core::tensor::Device::flex(),
        );
        assert_eq!(batch.into_inner(), [1]);
        let loader = numbers_loader("train", Numbers::new(8), 0);
        assert_eq!(loader.iter().count(), 2);
    }
}

thread_local! {
    static EARLY: RefCell<Option<Last>> = const { RefCell::new(None) };
    static LATE: RefCell<Option<Last>> = const { RefCell::new(None) };
}

#[test]
fn events_from_destructors_of_thread_locals_do_not_panic() {
    let _alone = alone();
    let (trace, ..) = record("destructors", || {
        let run = || {
            // One is destroyed before the recorder's data, one after it.
            EARLY.with(|early| *early.borrow_mut() = Some(Last));
            drop(gpustall::span("first"));
            LATE.with(|late| *late.borrow_mut() = Some(Last));
        };
        // A panic in a destructor of a thread-local would abort the process.
        std::thread::spawn(run).join().unwrap();
    });
    assert_eq!(named(&trace, "first").len(), 1);
    let kept = named(&trace, "last").len() as u64;
    let lost = trace.lost_by_source().values().sum::<u64>();
    assert!(kept == 2 || lost > 0, "what is not kept is counted");
    assert_well_formed(&trace);
}
