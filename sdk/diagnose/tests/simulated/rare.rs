//! Programs of rarer kinds, and such as lose time to two things.

use super::machine::{AUTOGRAD, Machine, PID};
use super::torch::{MULTI, PAGEABLE, PINNED, SINGLE};
use super::{NOTHING, Program};

pub const RARE: [Program; 20] = [
    (
        "an optimizer that computes on the host",
        "host.compute",
        |m| {
            m.steps(|m, _| {
                m.light();
                m.copy("DtoH (Device -> Pinned)", 60.0, 50.0);
                m.sync_stream();
                let name = "Optimizer.step#DeepSpeedCPUAdam.step";
                m.annotate(name, |m| m.spend(45_000.0));
                m.copy(PINNED, 60.0, 50.0);
            });
        },
    ),
    (
        "an optimizer that reads a number for each parameter",
        "sync.readback",
        |m| {
            m.steps(|m, _| {
                m.light();
                m.annotate("Optimizer.step#Adam.step", |m| {
                    for _ in 0..150 {
                        m.op("aten::add_", |m| {
                            m.kernel("vectorized_elementwise_kernel", 6.0)
                        });
                        m.item();
                    }
                });
            });
        },
    ),
    (
        "many small pageable copies",
        "transfer.pageable|sync.readback",
        |m| {
            m.steps(|m, _| {
                (0..200).for_each(|_| m.upload(PAGEABLE, 0.02, true));
                m.forward(10, 150.0);
            });
        },
    ),
    ("a loader that uses the device", "data", |m| {
        m.steps(|m, _| {
            m.next(SINGLE, |m| {
                for _ in 0..16 {
                    m.spend(700.0);
                    m.op("aten::flip", |m| m.kernel("flip_kernel", 40.0));
                }
            });
            m.light();
        });
    }),
    ("a number that a hook reads", "sync.readback", |m| {
        m.steps(|m, _| {
            m.forward(15, 120.0);
            m.on(AUTOGRAD, |m| {
                for _ in 0..30 {
                    m.op("MmBackward0", |m| m.kernel("sm90_xmma_gemm_dgrad", 100.0));
                    m.item();
                }
            });
            m.optimizer(4, 60.0);
        });
    }),
    (
        "functions that are loaded at their first use",
        "host.compile",
        |m| {
            m.steps(|m, number| {
                if number < 7 {
                    m.slow_launch("Lazy Function Loading", 180_000.0);
                }
                m.busy();
            });
        },
    ),
    (
        "a model that is compiled in the first step",
        "host.compile",
        |m| {
            m.steps(|m, number| {
                if number == 4 {
                    m.annotate("_compile.compile_inner (dynamo_timed)", |m| {
                        m.spend(900_000.0)
                    });
                }
                m.busy();
            });
        },
    ),
    (
        "a queue that a thread of the user's fills",
        "host.compute|data",
        |m| {
            m.steps(|m, _| {
                m.spend(16_000.0);
                m.light();
            });
        },
    ),
    ("a graph whose result is read", "sync.readback", |m| {
        m.steps(|m, _| {
            for _ in 0..10 {
                m.graph(60, 12.0);
                m.item();
                m.spend(250.0);
            }
        });
    }),
    ("a slow loader before tiny kernels", "data", |m| {
        m.steps(|m, _| {
            m.load(SINGLE, 9_000.0);
            m.forward(90, 4.0);
            m.backward(90, 4.0);
        });
    }),
    ("a loader that costs a little", "data", |m| {
        m.steps(|m, _| {
            m.load(SINGLE, 4_500.0);
            m.busy();
            m.item();
        });
    }),
    (
        "memory that is pinned in each step",
        "transfer.staging",
        |m| {
            m.steps(|m, _| {
                m.load(MULTI, 30.0);
                m.op("aten::pin_memory", |m| {
                    m.op("aten::_pin_memory", |m| {
                        m.op("aten::copy_", |m| m.spend(14_000.0))
                    });
                });
                m.upload(PINNED, 100.0, false);
                m.light();
            });
        },
    ),
    ("memory that the loader pins", "data", |m| {
        m.steps(|m, _| {
            m.next(SINGLE, |m| {
                m.spend(2_000.0);
                m.op("aten::pin_memory", |m| m.spend(9_000.0));
            });
            m.upload(PINNED, 100.0, false);
            m.light();
        });
    }),
    ("streams that compute side by side", NOTHING, |m| {
        m.steps(|m, _| {
            let ready = m.event();
            m.stream(21, |m| {
                m.wait_for(ready);
                m.forward(20, 500.0);
            });
            m.forward(20, 600.0);
            let done = m.stream(21, |m| m.event());
            m.wait_for(done);
            m.optimizer(4, 100.0);
        });
    }),
    ("a host that is kept one step ahead", NOTHING, |m| {
        let mut before = m.now;
        m.steps(|m, _| {
            m.load(MULTI, 60.0);
            m.busy();
            m.wait_on_host(before);
            before = m.event();
        });
    }),
    ("memory taken while the device works", NOTHING, |m| {
        m.steps(|m, _| {
            m.forward(30, 350.0);
            m.op("aten::empty", |m| m.call("cudaMalloc", 900.0));
            m.backward(30, 450.0);
            m.optimizer(6, 150.0);
        });
    }),
    ("a trainer that is not the main thread", "data", |m| {
        on_a_thread(m)
    }),
    (
        "a checkpoint that nothing marks",
        "host.compute|transfer.pageable",
        |m| {
            m.steps(|m, number| {
                m.light();
                if number % 3 == 0 {
                    (0..20).for_each(|_| m.copy("DtoH (Device -> Pageable)", 2.0, 6.0));
                    m.spend(50_000.0);
                }
            });
        },
    ),
    (
        "a stage of a pipeline that waits for the one before",
        "comm.exposed",
        |m| {
            m.ranks = Some((1, 4));
            m.steps(|m, _| {
                for _ in 0..8 {
                    let there = m.stream(24, |m| {
                        m.exchange(
                            "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
                            1_500.0,
                        );
                        m.event()
                    });
                    m.wait_for(there);
                    m.forward(4, 250.0);
                }
            });
        },
    ),
    (
        "memory freed before tiny kernels",
        "alloc.device|host.launch-bound",
        |m| {
            m.steps(|m, _| {
                m.forward(60, 5.0);
                m.backward(60, 5.0);
                (0..6).for_each(|_| m.free(300.0));
                (0..6).for_each(|_| m.call("cudaMalloc", 400.0));
            });
        },
    ),
];

fn on_a_thread(m: &mut Machine) {
    m.thread = PID + 7;
    m.steps(|m, _| {
        m.load(MULTI, 15_000.0);
        m.upload(PAGEABLE, 5.0, true);
        m.light();
    });
}
