//! Kinds of PyTorch programs that others have: each is played through and must be told right.

mod common;

use common::pytorch::{Copy, Spelling, Torch};
use common::pytorch_steps::{MULTI, SINGLE, assert_causes, busy, causes, steps};

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
