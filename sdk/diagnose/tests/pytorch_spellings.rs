//! One program as the traces of PyTorch for each kind of device spell it: it is told alike.

mod common;

use common::pytorch::{Copy, Spelling};
use common::pytorch_steps::{EVERY, MULTI, SINGLE, assert_causes, busy, causes, steps};

#[test]
fn a_busy_device_has_no_finding_however_the_file_spells_it() {
    for spelling in EVERY {
        let torch = steps(spelling, |t, _| {
            t.data(MULTI, 30.0);
            t.copy(Copy::ToDevice { pinned: true }, 0.5);
            busy(t);
        });
        assert_causes(&torch, &[]);
    }
}

#[test]
fn a_loader_that_is_waited_for_is_data_however_the_file_spells_it() {
    for spelling in EVERY {
        for (iterator, in_process) in [(SINGLE, true), (MULTI, false)] {
            let torch = steps(spelling, |t, _| {
                t.data(iterator, 12_000.0);
                t.copy(Copy::ToDevice { pinned: true }, 0.5);
                busy(t);
                t.item();
            });
            let report = assert_causes(&torch, &["data"]);
            assert_eq!(report.loaders[0].in_process, Some(in_process));
        }
    }
}

#[test]
fn a_readback_in_each_layer_is_one_however_the_file_spells_it() {
    for spelling in EVERY {
        let torch = steps(spelling, |t, _| {
            for _ in 0..12 {
                t.model(1, 60.0);
                t.item();
                t.spend(40.0);
            }
        });
        let report = torch.report();
        assert_eq!(causes(&report)[0], "sync.readback", "{spelling:?} {report}");
    }
}

#[test]
fn an_allocation_in_each_step_is_one_on_cuda_and_on_rocm() {
    for spelling in [Spelling::Cuda, Spelling::Hip, Spelling::Of2021] {
        let torch = steps(spelling, |t, _| {
            t.model(10, 150.0);
            t.item();
            t.op("aten::empty", |t| t.call("Malloc", 900.0));
            t.op("aten::empty", |t| t.call("Free", 600.0));
        });
        let report = torch.report();
        assert_eq!(causes(&report)[0], "alloc.device", "{spelling:?} {report}");
    }
}

#[test]
fn tiny_kernels_are_launch_bound_on_every_device() {
    for spelling in EVERY {
        let torch = steps(spelling, |t, _| {
            t.model(60, 4.0);
            t.optimizer(10.0);
        });
        let report = torch.report();
        assert_eq!(
            causes(&report)[0],
            "host.launch-bound",
            "{spelling:?} {report}"
        );
    }
}

#[test]
fn pageable_copies_are_a_transfer() {
    for (spelling, cause) in [
        (Spelling::Cuda, "transfer.pageable"),
        (Spelling::Of2021, "transfer.pageable"),
        // These files do not say whether memory was pinned.
        (Spelling::Hip, "transfer.bandwidth"),
        (Spelling::Xpu, "transfer.bandwidth"),
    ] {
        let torch = steps(spelling, |t, _| {
            t.copy(Copy::ToDevice { pinned: false }, 80.0);
            t.model(10, 200.0);
        });
        let report = torch.report();
        assert_eq!(causes(&report)[0], cause, "{spelling:?} {report}");
    }
}

#[test]
fn kernels_of_triton_are_launched_by_the_driver() {
    for spelling in [Spelling::Cuda, Spelling::Hip] {
        let healthy = steps(spelling, |t, _| {
            t.op("Torch-Compiled Region: 0/0", |t| {
                for _ in 0..20 {
                    t.triton("triton_poi_fused_add_relu_0", 300.0);
                }
            });
        });
        assert_causes(&healthy, &[]);
        let tiny = steps(spelling, |t, _| {
            for _ in 0..150 {
                t.triton("triton_poi_fused_add_relu_0", 3.0);
                t.spend(25.0);
            }
        });
        assert_causes(&tiny, &["host.launch-bound"]);
    }
}
