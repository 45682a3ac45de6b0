//! PyTorch programs of several ranks or devices.

mod common;

use common::pytorch::{Spelling, Torch};
use common::pytorch_steps::{MULTI, assert_causes, busy, steps};

/// A rank of several: the gradients of each bucket are exchanged while the rest is computed.
fn ddp(bucket_us: f64, last_us: f64) -> Torch {
    let mut torch = steps(Spelling::Cuda, |t, _| {
        t.data(MULTI, 30.0);
        for bucket in 0..5 {
            t.model(2, 500.0);
            let us = if bucket == 4 { last_us } else { bucket_us };
            t.collective("ncclDevKernel_AllReduce_Sum_f32_RING_LL", us);
        }
        t.wait_for_collectives();
        t.optimizer(300.0);
    });
    torch.distributed = Some((1, 8));
    torch
}

#[test]
fn gradients_that_are_exchanged_behind_the_backward_pass_cost_nothing() {
    assert_causes(&ddp(1_500.0, 50.0), &[]);
}

#[test]
fn an_exchange_that_the_optimizer_waits_for_is_exposed() {
    assert_causes(&ddp(500.0, 6_000.0), &["comm.exposed"]);
}

#[test]
fn parameters_that_are_gathered_before_each_layer_are_exposed() {
    let torch = steps(Spelling::Cuda, |t, _| {
        for _ in 0..8 {
            t.collective("ncclDevKernel_AllGather_RING_LL", 600.0);
            t.wait_for_collectives();
            t.model(1, 400.0);
        }
    });
    assert_causes(&torch, &["comm.exposed"]);
}

#[test]
fn a_device_of_two_that_is_left_alone_is_idle() {
    let torch = steps(Spelling::Cuda, |t, _| {
        t.device = 1;
        t.model(1, 50.0);
        t.device = 0;
        busy(t);
    });
    let report = torch.report();
    assert_eq!(report.devices.len(), 2);
    assert!(
        report.devices[1].idle > 0.9 && report.devices[0].idle < 0.1,
        "{report}"
    );
}
