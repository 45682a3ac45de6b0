//! Kinds of PyTorch traces that others have: each is played through and must be told right.

mod common;

use common::pytorch::{Copy, Spelling, Torch};
use gpustall_diagnose::Report;

const SINGLE: &str = "_SingleProcessDataLoaderIter";
const MULTI: &str = "_MultiProcessingDataLoaderIter";
const EVERY: [Spelling; 4] = [
    Spelling::Cuda,
    Spelling::Hip,
    Spelling::Of2021,
    Spelling::Xpu,
];

/// Twelve steps.
fn steps(spelling: Spelling, step: impl Fn(&mut Torch, u64)) -> Torch {
    let mut torch = Torch::new(spelling);
    for number in 3..15 {
        torch.step(number, |t| step(t, number));
    }
    torch
}

fn causes(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|f| f.cause.id()).collect()
}

#[track_caller]
fn assert_causes(torch: &Torch, expected: &[&str]) -> Report {
    let report = torch.report();
    assert_eq!(causes(&report), expected, "{report}");
    report
}

/// A model that keeps the device busy.
fn busy(t: &mut Torch) {
    t.model(10, 400.0);
    t.optimizer(300.0);
}

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
fn accumulated_gradients_are_no_stall() {
    let torch = steps(Spelling::Cuda, |t, number| {
        t.data(MULTI, 20.0);
        t.model(8, 400.0);
        if number % 4 == 0 {
            t.optimizer(2_000.0);
        }
    });
    assert_causes(&torch, &[]);
}

#[test]
fn a_graph_that_fills_the_device_is_no_stall_and_the_host_between_two_is() {
    let busy = steps(Spelling::Cuda, |t, _| t.graph(40, 200.0));
    assert_causes(&busy, &[]);
    let torch = steps(Spelling::Cuda, |t, _| {
        t.graph(40, 200.0);
        t.synchronize();
        t.spend(15_000.0);
    });
    let report = assert_causes(&torch, &["host.compute"]);
    assert!(report.breakdown["host.compute"] > 0.6, "{report}");
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

#[test]
fn a_model_that_is_compiled_again_in_each_step_is_told_so() {
    let torch = steps(Spelling::Cuda, |t, _| {
        t.op("_compile.compile_inner (dynamo_timed)", |t| {
            t.spend(40_000.0)
        });
        t.op("aten::empty", |t| t.call("ModuleLoadData", 300.0));
        busy(t);
        t.item();
    });
    assert_causes(&torch, &["host.compile"]);
}

#[test]
fn stacks_of_python_change_nothing() {
    let torch = |stacks: bool| {
        steps(Spelling::Cuda, move |t, _| {
            let work = |t: &mut Torch| {
                t.data(SINGLE, 5_000.0);
                busy(t);
                t.item();
            };
            match stacks {
                true => t.python("train.py(12): main", |t| {
                    t.python("train.py(40): step", work)
                }),
                false => work(t),
            }
        })
    };
    let (with, without) = (torch(true).report(), torch(false).report());
    assert_eq!(with.charges_ns, without.charges_ns);
}

#[test]
fn the_thread_that_pins_memory_is_no_trainer() {
    let torch = steps(Spelling::Cuda, |t, _| {
        let at = t.now;
        t.thread = 4_321;
        t.op("aten::pin_memory", |t| t.call("HostAlloc", 400.0));
        t.spend(5_000.0);
        t.thread = common::pytorch::PID;
        t.now = at;
        t.data(MULTI, 8_000.0);
        t.copy(Copy::ToDevice { pinned: true }, 20.0);
        busy(t);
        t.item();
    });
    let report = torch.report();
    assert_eq!(causes(&report)[0], "data", "{report}");
    assert_eq!(report.loaders.len(), 1);
}

#[test]
fn inference_that_fetches_each_result_is_a_readback() {
    let torch = steps(Spelling::Cuda, |t, _| {
        t.annotate("model_inference", |t| {
            for _ in 0..10 {
                t.op("aten::linear", |t| t.kernel("sgemm", 100.0));
            }
        });
        t.op("aten::to", |t| t.copy(Copy::ToHost, 10.0));
    });
    let report = torch.report();
    let fetches = ["transfer.pageable", "sync.readback"];
    assert!(fetches.contains(&causes(&report)[0]), "{report}");
}

#[test]
fn without_steps_nothing_finer_than_the_host_is_said() {
    let mut torch = Torch::new(Spelling::Cuda);
    for _ in 0..50 {
        torch.model(3, 100.0);
        torch.spend(2_000.0);
    }
    assert_causes(&torch, &["host"]);
}

#[test]
fn a_file_with_operators_only_tells_of_the_loader() {
    let torch = steps(Spelling::Cuda, |t, _| {
        t.data(SINGLE, 6_000.0);
        t.op("aten::linear", |t| t.spend(4_000.0));
    });
    let report = assert_causes(&torch, &["data"]);
    assert!(
        report
            .evidence
            .missing
            .iter()
            .any(|of| of.what == "device activity")
    );
}

#[test]
fn without_a_device_what_no_operator_fills_is_the_hosts() {
    let torch = steps(Spelling::Cuda, |t, _| {
        // A queue that another thread of the user's fills.
        t.spend(14_000.0);
        t.op("aten::linear", |t| t.spend(9_000.0));
    });
    let report = assert_causes(&torch, &["host.compute"]);
    assert!(
        report.verdict.contains("outside of the operators"),
        "{report}"
    );
    let compiled = steps(Spelling::Cuda, |t, _| {
        t.annotate("Torch-Compiled Region: 0/0", |t| t.spend(14_000.0));
        t.op("aten::linear", |t| t.spend(9_000.0));
    });
    assert_causes(&compiled, &[]);
}

#[test]
fn work_of_the_users_between_steps_is_the_hosts() {
    let mut torch = Torch::new(Spelling::Cuda);
    for number in 3..15 {
        torch.step(number, |t| {
            busy(t);
            t.item();
            t.annotate("log and plot", |t| t.spend(9_000.0));
        });
    }
    let report = assert_causes(&torch, &["host.compute"]);
    let text = report.to_string();
    assert!(text.contains("log and plot"), "{text}");
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

/// The backward pass on the thread of autograd.
fn backward(t: &mut Torch, layers: u32, us: f64) {
    t.thread = common::pytorch::PID + 25;
    for _ in 0..layers {
        t.op("autograd::engine::evaluate_function: AddmmBackward0", |t| {
            t.kernel("sgemm_backward", us);
        });
    }
    t.thread = common::pytorch::PID;
}

#[test]
fn the_thread_of_autograd_launches_and_the_one_that_trains_waits() {
    let healthy = steps(Spelling::Cuda, |t, _| {
        t.data(MULTI, 30.0);
        t.model(4, 400.0);
        backward(t, 8, 400.0);
        t.optimizer(300.0);
    });
    assert_causes(&healthy, &[]);
    let starved = steps(Spelling::Cuda, |t, _| {
        t.data(SINGLE, 9_000.0);
        t.model(4, 200.0);
        backward(t, 8, 200.0);
        t.item();
    });
    let report = assert_causes(&starved, &["data"]);
    assert_eq!(report.findings[0].evidence["in_process"], 1.0);
    let slow = steps(Spelling::Cuda, |t, _| {
        t.model(4, 4.0);
        backward(t, 120, 4.0);
    });
    assert_eq!(causes(&slow.report())[0], "host.launch-bound");
}

#[test]
fn an_event_that_is_waited_for_in_each_step_is_a_readback() {
    let torch = steps(Spelling::Cuda, |t, _| {
        t.model(10, 100.0);
        t.synchronize();
        t.spend(900.0);
        t.kernel("clip_grad_norm", 50.0);
        t.synchronize();
        t.spend(300.0);
    });
    let report = torch.report();
    assert_eq!(causes(&report)[0], "sync.readback", "{report}");
}

#[test]
fn validation_beside_training_is_no_step_of_it() {
    let mut torch = Torch::new(Spelling::Cuda);
    for number in 3..15 {
        torch.step(number, |t| {
            t.data(MULTI, 20.0);
            busy(t);
        });
    }
    torch.annotate("[pl][profile][_EvaluationLoop].val_next", |t| {
        t.spend(50_000.0)
    });
    let report = torch.report();
    assert!(report.findings.is_empty(), "{report}");
}

#[test]
fn a_file_of_one_step_or_of_none_is_too_little_to_judge() {
    let mut one = Torch::new(Spelling::Cuda);
    one.step(3, |t| t.model(2, 50.0));
    for torch in [&one, &Torch::new(Spelling::Of2021)] {
        let report = torch.report();
        assert!(report.findings.is_empty(), "{report}");
        assert!(report.verdict.contains("too little to judge"), "{report}");
    }
}
