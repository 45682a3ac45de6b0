use super::*;
use crate::recording::{Faults, Waker};

fn at(us: u64) -> TraceTime {
    TraceTime::from_nanos(us * 1000)
}

fn span(from: u64, to: u64) -> Interval {
    Interval::new(at(from), at(to))
}

fn wait(class: WaitClass) -> Wait {
    Wait {
        class,
        function: String::new(),
        stack: vec![],
    }
}

fn waits() -> Vec<Wait> {
    [
        WaitClass::Read,
        WaitClass::Write,
        WaitClass::Futex,
        WaitClass::Other,
    ]
    .map(wait)
    .to_vec()
}

/// Thread `thread` blocked from `from` to `to` microseconds in the wait number `wait`.
fn blocked(thread: u32, (from, to): (u64, u64), wait: u32, iowait: bool) -> OffCpuInterval {
    OffCpuInterval {
        thread,
        out: at(from),
        woken: Some(at(to)),
        back: at(to + 5),
        why: Why::Uninterruptible,
        iowait,
        truncated: false,
        inferred: false,
        unfinished: false,
        cpu_out: None,
        cpu_in: None,
        waker: Waker::Device,
        taker: None,
        giver: None,
        wait: Some(WaitId(wait)),
        faults: Faults::default(),
    }
}

fn request(thread: Option<u32>, kind: RequestKind, (from, to): (u64, u64)) -> Request {
    Request {
        thread,
        submitter: OtherId(7),
        stands_in: false,
        kind,
        bytes: 4096,
        disk: "disk".into(),
        span: span(from, to),
        unfinished: false,
    }
}

/// Thread that the request is charged to, and whether another handed it in.
fn charged(request: Request, intervals: &[OffCpuInterval]) -> Option<(u32, bool)> {
    let all = charge(&[request], intervals, &waits());
    all.first().map(|io| (io.thread, io.submitter.is_some()))
}

#[test]
fn who_handed_a_request_in_and_waited_for_it_is_charged() {
    let own = blocked(1, (20, 90), 0, true);
    // Another waits longer, but for what it handed in itself.
    let other = blocked(2, (0, 100), 0, true);
    let read = request(Some(1), RequestKind::Read, (10, 89));
    assert_eq!(charged(read, &[own, other]), Some((1, false)));
}

#[test]
fn a_request_that_only_another_thread_waited_for_is_charged_to_that() {
    let read = || request(Some(1), RequestKind::Read, (10, 89));
    // The one that handed it in waits on a lock meanwhile.
    let lock = blocked(1, (20, 90), 2, false);
    let reader = blocked(2, (30, 90), 0, true);
    assert_eq!(charged(read(), &[lock, reader]), Some((2, true)));
    // Read ahead: nobody waits, or not to the end, or to write.
    assert_eq!(charged(read(), &[lock]), Some((1, false)));
    let early = blocked(2, (0, 20), 0, true);
    let read_long_after = request(Some(1), RequestKind::Read, (10, 900));
    assert_eq!(charged(read_long_after, &[early]), Some((1, false)));
    let writer = blocked(2, (30, 90), 1, true);
    assert_eq!(charged(read(), &[writer]), Some((1, false)));
}

#[test]
fn a_request_of_the_kernel_is_kept_only_when_a_thread_waited_for_it() {
    let of_kernel = |kind| request(None, kind, (10, 89));
    let reader = blocked(2, (5, 90), 0, true);
    let unnamed = blocked(3, (15, 90), 3, true);
    assert_eq!(
        charged(of_kernel(RequestKind::Read), &[reader]),
        Some((2, true))
    );
    assert_eq!(charged(of_kernel(RequestKind::Write), &[reader]), None);
    assert_eq!(
        charged(of_kernel(RequestKind::Write), &[unnamed]),
        Some((3, true))
    );
    let idle = blocked(4, (5, 90), 3, false);
    assert_eq!(charged(of_kernel(RequestKind::Read), &[idle]), None);
}

#[test]
fn operations_have_their_names() {
    let kind = RequestKind::of_code;
    assert_eq!(kind(0, 512), RequestKind::Read);
    assert_eq!(kind(1, 512), RequestKind::Write);
    assert_eq!(kind(1, 0), RequestKind::Flush);
    assert_eq!(kind(2, 0), RequestKind::Flush);
    assert_eq!(kind(3, 512), RequestKind::Discard);
    // Write zeroes; what a driver reads by a command of its own.
    assert_eq!(kind(9, 512), RequestKind::Write);
    assert_eq!(kind(34, 512), RequestKind::Read);
}
