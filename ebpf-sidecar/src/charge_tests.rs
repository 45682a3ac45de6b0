use super::*;
use gpustall_wire::record::Other;

const US: u64 = 1000;
const READ: u32 = 0;
const WRITE: u32 = 1;

fn wait(class: WaitClass, iowait: bool, (from, to): (u64, u64)) -> IoWait {
    let span = (from * US, to * US);
    IoWait::of(Why::Uninterruptible, Some(class), iowait, span).expect("for I/O")
}

/// A request that the thread `tid` hands in; a thread of the kernel, when there is none.
fn request(tid: Option<u32>, op: u32, (start, done): (u64, u64)) -> BlockIo {
    BlockIo {
        op,
        bytes: 4096,
        flags: match tid {
            Some(_) => 0,
            None => request_flag::KERNEL_THREAD,
        },
        submitter: Other {
            tid: tid.unwrap_or(99),
            ..Other::default()
        },
        start_ns: start * US,
        done_ns: done * US,
        ..BlockIo::default()
    }
}

fn charged(request: BlockIo, waits: &[(u32, IoWait)]) -> Option<u32> {
    let mut charges = Charges::default();
    for &(tid, wait) in waits {
        charges.wait(tid, wait);
    }
    charges.request(request, false);
    let all = charges.settle_all();
    assert_eq!(charges.held(), 0);
    all.first().map(|charge| charge.tid)
}

#[test]
fn who_handed_a_request_in_and_waited_for_it_is_charged() {
    let own = wait(WaitClass::Read, true, (20, 90));
    // Another waits longer, but for what it handed in itself.
    let other = wait(WaitClass::Read, true, (0, 100));
    let read = request(Some(1), READ, (10, 89));
    assert_eq!(charged(read, &[(1, own), (2, other)]), Some(1));
}

#[test]
fn a_request_that_only_another_thread_waited_for_is_charged_to_that() {
    let read = request(Some(1), READ, (10, 89));
    let reader = wait(WaitClass::Read, true, (30, 90));
    assert_eq!(charged(read, &[(2, reader)]), Some(2));
    // Read ahead: nobody waits, or not to the end, or to write.
    assert_eq!(charged(read, &[]), Some(1));
    let long = request(Some(1), READ, (10, 900));
    assert_eq!(charged(long, &[(2, reader)]), Some(1));
    let writer = wait(WaitClass::Write, true, (30, 90));
    assert_eq!(charged(read, &[(2, writer)]), Some(1));
}

#[test]
fn a_request_of_the_kernel_is_kept_only_when_a_thread_waited_for_it() {
    let reader = (2, wait(WaitClass::Read, true, (5, 90)));
    let unnamed = (3, wait(WaitClass::Other, true, (15, 90)));
    let span = (10, 89);
    assert_eq!(charged(request(None, READ, span), &[reader]), Some(2));
    assert_eq!(charged(request(None, WRITE, span), &[reader]), None);
    assert_eq!(charged(request(None, WRITE, span), &[unnamed]), Some(3));
    assert_eq!(
        charged(request(None, READ, span), &[unnamed, reader]),
        Some(2)
    );
}

#[test]
fn a_wait_for_anything_else_is_none_for_a_request() {
    let of = |why, class, iowait| IoWait::of(why, class, iowait, (0, 9));
    assert_eq!(of(Why::Sleeping, Some(WaitClass::Futex), false), None);
    assert_eq!(of(Why::Preempted, None, true), None);
    assert!(of(Why::Sleeping, None, true).is_some());
}

#[test]
fn a_request_is_held_until_the_wait_for_it_is_known() {
    let ms = |ms: u64| ms * 1_000_000;
    let mut charges = Charges::default();
    charges.request(request(Some(1), READ, (10, 89)), false);
    charges.request(request(None, READ, (10, 89)), false);
    assert_eq!(charges.settle(ms(500)), []);
    // The other one goes on being held: a wait for it may last.
    assert_eq!(charges.settle(ms(1100)).len(), 1);
    assert_eq!(charges.held(), 1);
    charges.wait(2, wait(WaitClass::Read, true, (5, 1_200_000)));
    let late = charges.settle(ms(1300));
    assert_eq!(late.first().map(|charge| charge.tid), Some(2));
    // Nobody comes for the next one.
    charges.request(request(None, WRITE, (10, 89)), false);
    assert_eq!(charges.settle(ms(20_000)), []);
    assert_eq!((charges.held(), charges.waits.len()), (0, 0));
}

#[test]
fn what_is_charged_to_a_thread_that_ends_is_not_held() {
    let mut charges = Charges::default();
    charges.wait(2, wait(WaitClass::Read, true, (5, 90)));
    charges.request(request(Some(1), WRITE, (10, 89)), false);
    charges.request(request(None, READ, (10, 89)), false);
    let of_thread = charges.settle_thread(2);
    assert_eq!(of_thread.len(), 1);
    assert_eq!(charges.held(), 1);
}

#[test]
fn of_requests_that_nobody_waits_for_the_latest_are_held() {
    let mut charges = Charges::default();
    charges.wait(2, wait(WaitClass::Read, true, (5, 90)));
    charges.request(request(None, READ, (10, 89)), false);
    for _ in 0..2 * MAX_UNCHARGED {
        charges.request(request(None, WRITE, (10, 89)), false);
    }
    assert_eq!(charges.settle(0), []);
    assert_eq!(charges.held(), MAX_UNCHARGED);
    assert_eq!(charges.settle_all().len(), 1);
}
