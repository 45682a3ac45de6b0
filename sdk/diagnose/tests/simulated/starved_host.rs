//! Programs whose device waits for the host, or for other devices.

use super::Program;
use super::torch::MULTI;

pub const HOST: [Program; 20] = [
    (
        "a loss that is read in each small step",
        "sync.readback",
        |m| {
            m.steps(|m, _| {
                for _ in 0..8 {
                    m.forward(10, 100.0);
                    m.item();
                    m.spend(300.0);
                }
            });
        },
    ),
    (
        "indices that are counted on the host",
        "sync.readback",
        |m| {
            m.steps(|m, _| {
                for _ in 0..30 {
                    m.forward(2, 90.0);
                    m.op("aten::nonzero", |m| {
                        m.kernel("DeviceReduceSingleTileKernel", 8.0);
                        m.copy("DtoH (Device -> Pinned)", 0.000_008, 1.0);
                        m.sync_stream();
                    });
                }
            });
        },
    ),
    ("a norm that is checked on the host", "sync.readback", |m| {
        m.steps(|m, _| {
            m.forward(8, 70.0);
            m.backward(8, 70.0);
            for _ in 0..10 {
                m.op("aten::linalg_vector_norm", |m| {
                    m.kernel("reduce_kernel", 12.0)
                });
                m.item();
            }
            m.optimizer(4, 60.0);
        });
    }),
    (
        "a device that is waited for after each layer",
        "sync.readback",
        |m| {
            m.steps(|m, _| {
                for _ in 0..25 {
                    m.forward(1, 150.0);
                    m.sync_device();
                    m.spend(60.0);
                }
            });
        },
    ),
    ("tiny kernels", "host.launch-bound", |m| {
        m.steps(|m, _| {
            m.load(MULTI, 20.0);
            m.forward(120, 3.0);
            m.backward(120, 3.0);
            m.optimizer(40, 4.0);
        });
    }),
    (
        "an optimizer of a kernel for each parameter",
        "host.launch-bound",
        |m| {
            m.steps(|m, _| {
                m.forward(15, 40.0);
                m.backward(15, 40.0);
                m.optimizer(900, 2.0);
            });
        },
    ),
    ("Python between the launches", "host.launch-bound", |m| {
        m.steps(|m, _| {
            for _ in 0..60 {
                m.forward(1, 90.0);
                m.spend(250.0);
            }
        });
    }),
    ("memory of the device in each step", "alloc.device", |m| {
        m.steps(|m, _| {
            m.forward(10, 200.0);
            m.backward(10, 200.0);
            m.optimizer(3, 60.0);
            for _ in 0..12 {
                m.free(350.0);
            }
            for _ in 0..12 {
                m.op("aten::empty", |m| m.call("cudaMalloc", 600.0));
            }
        });
    }),
    (
        "an allocator that frees and tries again",
        "alloc.device",
        |m| {
            m.steps(|m, _| {
                for _ in 0..6 {
                    m.forward(4, 300.0);
                    m.op("aten::empty", |m| {
                        m.call("cudaMalloc", 200.0);
                        m.sync_device();
                        (0..8).for_each(|_| m.free(300.0));
                        m.call("cudaMalloc", 1_500.0);
                    });
                }
            });
        },
    ),
    ("work of the host in each step", "host.compute", |m| {
        m.steps(|m, _| {
            m.light();
            m.item();
            m.spend(14_000.0);
        });
    }),
    ("work of the host that has a name", "host.compute", |m| {
        m.steps(|m, _| {
            m.annotate("tokenize", |m| m.spend(9_000.0));
            m.light();
            m.item();
        });
    }),
    ("a checkpoint in every third step", "host.checkpoint", |m| {
        m.steps(|m, number| {
            m.light();
            if number % 3 == 0 {
                m.annotate("checkpoint", |m| {
                    m.copy("DtoH (Device -> Pageable)", 20.0, 9.0);
                    m.spend(60_000.0);
                });
            }
        });
    }),
    (
        "a checkpoint under a name of its own",
        "host.checkpoint",
        |m| {
            m.steps(|m, number| {
                m.light();
                if number % 3 == 0 {
                    m.annotate("save_checkpoint", |m| m.spend(60_000.0));
                }
            });
        },
    ),
    (
        "the callback of Lightning that saves",
        "host.checkpoint",
        |m| {
            m.steps(|m, _| {
                m.light();
                let name =
                    "[pl][profile][Callback]ModelCheckpoint{'monitor': None}.on_train_batch_end";
                m.annotate(name, |m| m.spend(20_000.0));
            });
        },
    ),
    ("metrics of the host", "host.metrics", |m| {
        m.steps(|m, _| {
            m.light();
            m.item();
            m.annotate("compute_metrics", |m| m.spend(12_000.0));
        });
    }),
    (
        "a model that is compiled again and again",
        "host.compile",
        |m| {
            m.steps(|m, _| {
                m.annotate("Torch-Compiled Region: 0/3", |m| {
                    m.annotate("_compile.compile_inner (dynamo_timed)", |m| {
                        m.annotate("compile_fx_inner (dynamo_timed)", |m| m.spend(60_000.0));
                    });
                    (0..20).for_each(|_| m.triton("triton_poi_fused_relu_1", 200.0));
                });
            });
        },
    ),
    ("modules that are loaded", "host.compile", |m| {
        m.steps(|m, _| {
            m.light();
            m.item();
            (0..4).for_each(|_| m.call("cuModuleLoadData", 3_000.0));
        });
    }),
    ("a graph of tiny kernels", "gpu.launch-latency", |m| {
        m.steps(|m, _| {
            for _ in 0..10 {
                m.graph(150, 1.5);
            }
        });
    }),
    ("an exchange that nothing hides", "comm.exposed", |m| {
        m.ranks = Some((3, 8));
        m.steps(|m, _| {
            m.forward(10, 300.0);
            m.backward_ddp(10, 300.0, 5, 3_000.0);
            m.optimizer(4, 100.0);
        });
    }),
    (
        "parameters gathered when they are needed",
        "comm.exposed",
        |m| {
            m.ranks = Some((0, 2));
            m.steps(|m, _| {
                for _ in 0..16 {
                    let ready = m.gather(900.0);
                    m.wait_for(ready);
                    m.forward(2, 300.0);
                }
            });
        },
    ),
];
