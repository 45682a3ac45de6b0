//! Calls as CUPTI reports them, on threads of the tests. They share the rings, so one test runs at a time.

use super::*;
use crate::backlog::{AT_ONCE, Backlog};
use std::sync::Mutex as TestMutex;

static TURN: TestMutex<()> = TestMutex::new(());

const LAUNCH: u32 = 307;
const MALLOC: u32 = 20;

fn report(api: Api, callback: u32, site: u32, correlation: u32, returned: u32) {
    let data = CallbackData::of(site, correlation, &returned);
    // SAFETY: what CUPTI passes, for the time of the call.
    unsafe { called(std::ptr::null_mut(), api as u32, callback, &raw const data) };
}

fn calls(api: Api, callback: u32, correlation: u32) {
    report(api, callback, ENTER, correlation, 0);
    report(api, callback, EXIT, correlation, 0);
}

fn taken() -> (Vec<Call>, u64) {
    let mut all = Vec::new();
    let lost = drain(|call| all.push(call));
    (all, lost)
}

#[test]
fn calls_come_with_their_thread_times_and_result() {
    let _turn = TURN.lock();
    let _ = taken();
    let before = MonotonicClock::read().as_nanos();
    let thread = std::thread::spawn(|| {
        // The driver's call within that of the runtime: one correlation.
        report(Api::Runtime, MALLOC, ENTER, 7, 0);
        report(Api::Driver, 243, ENTER, 7, 0);
        report(Api::Driver, 243, EXIT, 7, 2);
        report(Api::Runtime, MALLOC, EXIT, 7, 2);
        // SAFETY: a plain call.
        unsafe { libc::gettid() }.cast_unsigned()
    });
    let thread = thread.join().expect("it ends");
    let after = MonotonicClock::read().as_nanos();
    let (all, lost) = taken();
    assert_eq!(lost, 0);
    let [inner, outer] = all.as_slice() else {
        panic!("two calls: {all:?}");
    };
    assert_eq!((inner.api, inner.callback), (Api::Driver, 243));
    assert_eq!((outer.api, outer.callback), (Api::Runtime, MALLOC));
    for call in [inner, outer] {
        assert_eq!(
            (call.thread, call.correlation, call.returned),
            (thread, 7, 2)
        );
        assert!(before <= call.span.0 && call.span.0 <= call.span.1 && call.span.1 <= after);
    }
    assert!(outer.span.0 <= inner.span.0 && inner.span.1 <= outer.span.1);
    assert!(!has_calls());
    assert!(
        rings()
            .iter()
            .all(|ring| !ring.ended.load(Ordering::Acquire)),
        "its ring is gone"
    );
}

#[test]
fn what_a_window_saw_in_part_is_left_out() {
    let _turn = TURN.lock();
    let _ = taken();
    window_opens();
    report(Api::Driver, LAUNCH, EXIT, 1, 0);
    calls(Api::Driver, LAUNCH, 2);
    report(Api::Driver, LAUNCH, ENTER, 3, 0);
    window_opens();
    calls(Api::Driver, LAUNCH, 4);
    let numbers: Vec<u32> = taken().0.iter().map(|call| call.correlation).collect();
    assert_eq!(numbers, [2, 4]);
    // However many ends are missed.
    for correlation in 10..30 {
        report(Api::Driver, LAUNCH, ENTER, correlation, 0);
    }
    calls(Api::Driver, LAUNCH, 40);
    assert_eq!(taken().0.len(), 1);
}

#[test]
fn calls_that_do_not_fit_are_counted() {
    let _turn = TURN.lock();
    let _ = taken();
    let more = 10;
    let all = RING_CALLS + more;
    let thread = std::thread::spawn(move || {
        for correlation in 0..all {
            calls(Api::Driver, LAUNCH, correlation as u32);
        }
    });
    thread.join().expect("it ends");
    let (taken, lost) = taken();
    assert_eq!((taken.len(), lost), (RING_CALLS, more as u64));
    let first = taken.iter().take(3).map(|call| call.correlation);
    assert!(first.eq(0..3), "in their order");
}

#[test]
fn nothing_is_lost_while_the_reader_keeps_up() {
    let _turn = TURN.lock();
    let _ = taken();
    let done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3_u32)
        .map(|writer| {
            std::thread::spawn(move || {
                for number in 0..20_000 {
                    calls(Api::Driver, writer, number);
                }
            })
        })
        .collect();
    let reader = std::thread::spawn({
        let done = done.clone();
        move || {
            let (mut all, mut lost) = (Vec::new(), 0);
            loop {
                let last = done.load(Ordering::Acquire);
                lost += drain(|call| all.push((call.callback, call.correlation)));
                if last {
                    return (all, lost);
                }
                std::thread::yield_now();
            }
        }
    });
    for writer in writers {
        writer.join().expect("it ends");
    }
    done.store(true, Ordering::Release);
    let (all, lost) = reader.join().expect("it ends");
    assert_eq!(lost, 0);
    for writer in 0..3 {
        let own = all
            .iter()
            .filter(|call| call.0 == writer)
            .map(|call| call.1);
        assert!(
            own.eq(0..20_000),
            "each thread's calls, once and in their order"
        );
    }
}

#[test]
fn calls_that_come_faster_than_they_are_written_wait_and_none_is_lost_uncounted() {
    const CALLS: u32 = 300_000;
    let _turn = TURN.lock();
    let _ = taken();
    let caller = std::thread::spawn(|| {
        for n in 0..CALLS {
            calls(Api::Driver, LAUNCH, n);
        }
    });
    let mut backlog = Backlog::default();
    let (mut lost, mut written, mut last) = (0, 0, None);
    loop {
        let over = caller.is_finished();
        lost += backlog.take();
        for call in backlog.first(AT_ONCE) {
            assert!(last < Some(call.correlation), "in their order");
            last = Some(call.correlation);
            written += 1;
        }
        if over && backlog.len() == 0 {
            break;
        }
    }
    assert_eq!(lost + written, u64::from(CALLS));
    assert!(written >= RING_CALLS as u64);
}
