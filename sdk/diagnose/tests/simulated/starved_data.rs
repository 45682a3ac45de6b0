//! Programs whose device waits for data, or for the copy of it.

use super::Program;
use super::torch::{MULTI, PAGEABLE, PINNED, SINGLE};

pub const DATA: [Program; 10] = [
    ("batches made in process", "data", |m| {
        m.steps(|m, _| {
            m.load(SINGLE, 25_000.0);
            m.upload(PAGEABLE, 38.0, true);
            m.light();
        });
    }),
    ("two workers that are too few", "data", |m| {
        m.steps(|m, number| {
            m.pins(3_000.0);
            let waits = if number % 2 == 0 { 30_000.0 } else { 900.0 };
            m.load(MULTI, waits);
            m.upload(PINNED, 38.0, false);
            m.light();
        });
    }),
    ("operators within the loader", "data", |m| {
        m.steps(|m, _| {
            m.next(SINGLE, |m| {
                for _ in 0..64 {
                    m.op("aten::div", |m| m.spend(150.0));
                    m.spend(60.0);
                }
                m.op("aten::stack", |m| m.spend(900.0));
            });
            m.upload(PAGEABLE, 5.0, true);
            m.light();
            m.item();
        });
    }),
    ("a loader that is the user's own", "data", |m| {
        m.steps(|m, _| {
            m.load("train_loader_next", 15_000.0);
            m.light();
        });
    }),
    ("the trainer of Lightning", "data", |m| {
        m.steps(|m, _| {
            m.annotate(
                "[pl][profile][_TrainingEpochLoop].train_dataloader_next",
                |m| {
                    m.load(MULTI, 15_000.0);
                },
            );
            m.annotate("[pl][profile]run_training_batch", |m| {
                m.annotate(
                    "[pl][profile][Strategy]SingleDeviceStrategy.training_step",
                    |m| {
                        m.light();
                    },
                );
            });
        });
    }),
    ("a stateful loader", "data", |m| {
        m.steps(|m, _| {
            let name = "enumerate(DataLoader)#_StatefulMultiProcessingDataLoaderIter.__next__";
            m.load(name, 15_000.0);
            m.light();
        });
    }),
    ("data for a graph", "data", |m| {
        m.steps(|m, _| {
            m.load(MULTI, 12_000.0);
            m.copy(PINNED, 8.0, 50.0);
            m.graph(60, 90.0);
        });
    }),
    ("one batch for four steps of accumulation", "data", |m| {
        m.steps(|m, number| {
            if number % 4 == 0 {
                m.load(SINGLE, 90_000.0);
            }
            m.light();
        });
    }),
    ("a rank whose loader is slow", "data", |m| {
        m.ranks = Some((0, 2));
        m.steps(|m, _| {
            m.load(SINGLE, 20_000.0);
            m.forward(10, 200.0);
            m.backward_ddp(10, 200.0, 5, 300.0);
            m.optimizer(4, 60.0);
        });
    }),
    ("a slow loader of validation data", "data", |m| {
        m.steps(|m, _| {
            m.light();
            m.annotate("validation", |m| {
                for _ in 0..3 {
                    m.next("[pl][profile][_EvaluationLoop].val_next", |m| {
                        m.spend(4_000.0)
                    });
                    m.forward(10, 120.0);
                    m.item();
                }
            });
        });
    }),
];

pub const COPIES: [Program; 6] = [
    ("a large pageable copy", "transfer.pageable", |m| {
        m.steps(|m, _| {
            m.load(MULTI, 60.0);
            m.upload(PAGEABLE, 200.0, true);
            m.light();
        });
    }),
    (
        "a pageable copy that should not block",
        "transfer.pageable",
        |m| {
            m.steps(|m, _| {
                m.load(MULTI, 60.0);
                m.upload(PAGEABLE, 120.0, false);
                m.light();
            });
        },
    ),
    (
        "a large pinned copy on the stream of the model",
        "transfer.bandwidth",
        |m| {
            m.steps(|m, _| {
                m.load(MULTI, 60.0);
                m.upload(PINNED, 600.0, true);
                m.light();
            });
        },
    ),
    (
        "copies ahead that are longer than the step",
        "transfer.bandwidth",
        |m| {
            let mut ready = m.ahead(900.0);
            m.steps(|m, _| {
                m.wait_for(ready);
                m.load(MULTI, 60.0);
                m.light();
                ready = m.ahead(900.0);
            });
        },
    ),
    (
        "outputs fetched to pageable memory",
        "transfer.pageable",
        |m| {
            m.steps(|m, _| {
                m.annotate("model_inference", |m| m.forward(20, 200.0));
                m.op("aten::to", |m| {
                    m.copy("DtoH (Device -> Pageable)", 90.0, 6.0)
                });
            });
        },
    ),
    (
        "parameters that live on the host",
        "transfer.bandwidth",
        |m| {
            m.steps(|m, _| {
                for _ in 0..12 {
                    m.upload(PINNED, 120.0, false);
                    m.forward(1, 400.0);
                }
            });
        },
    ),
];
