//! Programs whose device is as busy as it can be: nothing is to be found.

use super::torch::{MULTI, PAGEABLE, PINNED, SINGLE};
use super::{NOTHING, Program};

pub const HEALTHY: [Program; 18] = [
    ("a large model", NOTHING, |m| m.steps(|m, _| m.busy())),
    ("a loader that keeps up", NOTHING, |m| {
        m.steps(|m, _| {
            m.pins(200.0);
            m.load(MULTI, 90.0);
            m.upload(PINNED, 38.0, false);
            m.busy();
        });
    }),
    ("a wait that queued work hides", NOTHING, |m| {
        m.steps(|m, _| {
            m.load(SINGLE, 12_000.0);
            m.upload(PINNED, 4.0, false);
            m.busy();
        });
    }),
    ("a small pageable copy", NOTHING, |m| {
        m.steps(|m, _| {
            m.load(SINGLE, 200.0);
            m.upload(PAGEABLE, 3.0, true);
            m.busy();
        });
    }),
    ("batches copied ahead on a stream", NOTHING, |m| {
        let mut ready = m.ahead(300.0);
        m.steps(|m, _| {
            m.wait_for(ready);
            m.load(MULTI, 60.0);
            ready = m.ahead(300.0);
            m.busy();
        });
    }),
    ("few huge kernels", NOTHING, |m| {
        m.steps(|m, _| m.forward(3, 42_000.0))
    }),
    ("graphs that fill the device", NOTHING, |m| {
        m.steps(|m, _| {
            m.load(MULTI, 40.0);
            m.copy(PINNED, 2.0, 50.0);
            m.graph(150, 260.0);
        });
    }),
    ("kernels of Triton", NOTHING, |m| {
        m.steps(|m, _| {
            m.annotate("Torch-Compiled Region: 0/0", |m| {
                m.annotate("## Call CompiledFxGraph fxyz ##", |m| {
                    (0..60).for_each(|_| m.triton("triton_per_fused_native_layer_norm_0", 320.0));
                });
            });
            m.optimizer(3, 400.0);
        });
    }),
    (
        "gradients exchanged behind the backward pass",
        NOTHING,
        |m| {
            m.ranks = Some((2, 8));
            m.steps(|m, _| {
                m.forward(20, 500.0);
                m.backward_ddp(20, 600.0, 5, 1_800.0);
                m.optimizer(4, 200.0);
            });
        },
    ),
    ("parameters gathered a layer ahead", NOTHING, |m| {
        m.ranks = Some((0, 2));
        m.steps(|m, _| {
            let mut ready = m.gather(500.0);
            for _ in 0..24 {
                let next = m.gather(500.0);
                m.wait_for(ready);
                m.forward(2, 700.0);
                ready = next;
            }
            m.optimizer(2, 300.0);
        });
    }),
    ("accumulated gradients", NOTHING, |m| {
        m.steps(|m, number| {
            m.load(MULTI, 60.0);
            m.forward(20, 350.0);
            m.backward(20, 450.0);
            if number % 4 == 0 {
                m.optimizer(6, 300.0);
                m.item();
            }
        });
    }),
    ("a scaler that reads one number in a step", NOTHING, |m| {
        m.steps(|m, _| {
            m.forward(30, 350.0);
            m.backward(30, 450.0);
            m.op("aten::_amp_foreach_non_finite_check_and_unscale_", |m| {
                m.kernel("multi_tensor_apply_kernel", 80.0);
            });
            m.item();
            m.optimizer(6, 150.0);
        });
    }),
    ("a program that times its steps", NOTHING, |m| {
        m.steps(|m, _| {
            m.busy();
            m.call("cudaEventRecord", 2.0);
            m.sync_device();
        });
    }),
    ("a log line while the device works", NOTHING, |m| {
        m.steps(|m, number| {
            m.busy();
            if number % 3 == 0 {
                m.annotate("log", |m| m.spend(6_000.0));
            }
        });
    }),
    ("a checkpoint that is rare", NOTHING, |m| {
        m.steps(|m, number| {
            m.busy();
            if number == 9 {
                m.annotate("save_checkpoint", |m| {
                    m.copy("DtoH (Device -> Pageable)", 40.0, 9.0);
                    m.spend(8_000.0);
                });
            }
        });
    }),
    ("transforms on the device", NOTHING, |m| {
        m.steps(|m, _| {
            m.next(SINGLE, |m| {
                m.op("aten::stack", |m| m.kernel("CatArrayBatchedCopy", 90.0));
                m.op("aten::flip", |m| m.kernel("flip_kernel", 60.0));
                m.spend(400.0);
            });
            m.busy();
        });
    }),
    ("a pass over validation data", NOTHING, |m| {
        m.steps(|m, number| {
            m.busy();
            if number % 6 == 0 {
                m.annotate("[pl][profile]run_validation", |m| {
                    for _ in 0..3 {
                        m.next("[pl][profile][_EvaluationLoop].val_next", |m| m.spend(50.0));
                        m.forward(30, 350.0);
                    }
                    m.item();
                });
            }
        });
    }),
    ("a host that is ahead of middling kernels", NOTHING, |m| {
        m.steps(|m, _| {
            m.forward(150, 30.0);
            m.backward(150, 35.0);
            m.optimizer(10, 60.0);
        });
    }),
];
