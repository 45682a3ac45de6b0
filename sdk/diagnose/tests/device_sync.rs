//! Waits of the host for the device, and the time until it has caught up.

mod common;

use common::device::{TO_HOST, charged, top};
use common::device_step::steps;

#[test]
fn a_device_that_runs_empty_while_the_host_waits_for_it_is_a_readback() {
    let report = steps(10_000, |s| {
        // The host is ahead: ten kernels of 500 us, launched in 200 us.
        for i in 0..10 {
            let (call, run) = (i * 20, i * 500);
            s.launch((call, call + 5), (run + 10, run + 510));
        }
        s.copy(TO_HOST, 4, (210, 5_060), (5_010, 5_012));
        // 900 us until the next launch: below what stands out.
        s.launch((5_960, 5_965), (5_970, 10_010));
    });
    let finding = top(&report, "sync.readback");
    // 48 us in the call after the copy, 900 us of refill and 5 us of the launch itself.
    assert_eq!(charged(&report, "sync.readback"), 10 * (48 + 905) * 1000);
    // Before the first kernel of the window there was no wait.
    assert_eq!(charged(&report, "host.launch-bound"), 5_000);
    assert!(finding.remedy.contains(".item()"));
    let links: Vec<&str> = finding
        .chain
        .iter()
        .map(|link| link.what.as_str())
        .collect();
    assert!(
        links.contains(&"launched again after it had waited for the device"),
        "{links:?}"
    );
}

#[test]
fn a_wait_for_an_empty_queue_is_not_why_the_device_is_idle() {
    let report = steps(2_600, |s| {
        for i in 0..50 {
            let call = i * 50;
            s.launch((call, call + 5), (call + 7, call + 12));
        }
        // Entered when everything had run.
        s.call("cudaDeviceSynchronize", (2_500, 2_510));
    });
    top(&report, "host.launch-bound");
    assert_eq!(charged(&report, "sync.readback"), 9 * 10_000);
}

#[test]
fn later_gaps_are_the_readbacks_until_the_lead_is_used_up() {
    // The host is 500 us ahead, waits, and launches short kernels then, 100 us apart.
    let report = steps(5_000, |s| {
        s.launch((0, 10), (10, 1_500));
        s.call("cudaStreamSynchronize", (1_000, 1_500));
        for i in 0..30 {
            let call = 1_500 + i * 100;
            s.launch((call, call + 10), (call + 10, call + 20));
        }
        s.launch((4_500, 4_510), (4_510, 5_010));
    });
    assert_eq!(charged(&report, "sync.readback"), 10 * 500_000);
    assert!(charged(&report, "host.launch-bound") > 10 * 2_000_000);
}

#[test]
fn data_that_is_waited_for_after_a_readback_is_still_data() {
    let report = steps(10_000, |s| {
        s.annotate("data_next", (0, 4_000));
        s.launch((4_000, 4_010), (4_010, 9_990));
        s.call("cudaStreamSynchronize", (4_020, 9_995));
    });
    top(&report, "data");
    // 5 us to the end of the wait, 5 us to the loader, 10 us of the launch; before the first step
    // there was no wait.
    assert_eq!(charged(&report, "sync.readback"), 9 * 20_000);
}
