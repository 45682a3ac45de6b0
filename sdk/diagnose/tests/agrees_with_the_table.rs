//! The charges of random timelines equal those of an oracle that knows nothing but the tables.

mod common;
mod table_oracle;

use gpustall_diagnose::{Report, diagnose};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use table_oracle::tape::Tape;
use table_oracle::{Charges, draw_device, draw_host};

/// The causes to which anything is charged.
fn charged(report: &Report) -> Charges {
    let charges = report.charges_ns.iter().filter(|charge| *charge.1 > 0);
    charges.map(|(cause, &ns)| (cause.clone(), ns)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2 * ProptestConfig::default().cases,
        max_shrink_iters: 8_000,
        failure_persistence: None,
        // The same timelines every time; more of them with PROPTEST_CASES.
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn devices(draws in prop::collection::vec(any::<u16>(), 0..300)) {
        let job = draw_device::job(&mut Tape::new(&draws));
        prop_assume!(!job.ops.is_empty());
        let report = diagnose(&job.trace());
        prop_assert_eq!(charged(&report), job.charges(), "{:?}", job);
        prop_assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    }

    #[test]
    fn threads_that_train(draws in prop::collection::vec(any::<u16>(), 0..500)) {
        let run = draw_host::run(&mut Tape::new(&draws));
        let report = diagnose(&run.trace());
        prop_assert_eq!(charged(&report), run.charges(), "{:?}", run);
        prop_assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    }
}

/// What is not drawn is not tried.
#[test]
fn the_runs_that_are_drawn_have_nearly_every_cause() {
    let mut state = 1_u64;
    let mut number = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 48) as u16
    };
    let (mut devices, mut threads) = (Charges::new(), Charges::new());
    for _ in 0..300 {
        let draws: Vec<u16> = (0..300).map(|_| number()).collect();
        devices.extend(draw_device::job(&mut Tape::new(&draws)).charges());
        threads.extend(draw_host::run(&mut Tape::new(&draws)).charges());
    }
    let of_waits = [
        "data",
        "data.compute",
        "data.contended",
        "data.io",
        "data.lock",
        "data.memory",
        "data.startup",
        "data.worker-limit",
    ];
    let of_host = [
        "host.blocked",
        "host.checkpoint",
        "host.metrics",
        "host.preempted",
    ];
    let of_devices = [
        "alloc.device",
        "comm.exposed",
        "comm.straggler",
        "gpu.dependency",
        "gpu.launch-latency",
        "host.compile",
        "host.launch-bound",
        "transfer.bandwidth",
        "transfer.pageable",
        "transfer.staging",
        "unknown",
    ];
    for cause in of_waits.iter().chain(&of_host) {
        assert!(threads.contains_key(*cause), "{cause} on threads");
        assert!(devices.contains_key(*cause), "{cause} on devices");
    }
    for cause in of_devices {
        assert!(devices.contains_key(cause), "{cause} on devices");
    }
}
