//! Programs whose profiler was asked for stacks: what nobody marked is known by the function.

use super::torch::{MULTI, PINNED};
use super::{NOTHING, Program};

pub const FRAMES: [Program; 5] = [
    ("stacks of a busy loop", NOTHING, |m| {
        m.steps(|m, _| {
            m.frame("train.py(31): train", |m| {
                m.frame("torch/utils/data/dataloader.py(736): __next__", |m| {
                    m.load(MULTI, 60.0);
                });
                m.frame("torch/nn/modules/module.py(1783): _call_impl", |m| m.busy());
            });
        });
    }),
    (
        "an iterator of the user's that waits for a queue",
        "data",
        |m| {
            m.steps(|m, _| {
                let from = m.frame("prefetch.py(13): __next__", |m| {
                    m.frame("queue.py(154): get", |m| m.spend(16_000.0));
                });
                m.truth.waits.push(from);
                m.upload(PINNED, 8.0, false);
                m.light();
            });
        },
    ),
    ("an iterator and no marks of steps", "data", |m| {
        m.unmarked(|m, _| {
            let from = m.frame("ffcv/loader/epoch_iterator.py(160): __next__", |m| {
                m.spend(16_000.0);
            });
            m.truth.waits.push(from);
            m.light();
        });
    }),
    ("weights that are saved", "host.checkpoint", |m| {
        m.steps(|m, number| {
            m.light();
            if number % 3 == 0 {
                m.frame("train.py(77): keep", |m| {
                    m.frame("torch/serialization.py(945): save", |m| m.spend(60_000.0));
                });
            }
        });
    }),
    ("metrics of a library", "host.metrics", |m| {
        m.steps(|m, _| {
            m.light();
            m.item();
            m.frame(
                "sklearn/metrics/_classification.py(155): accuracy_score",
                |m| {
                    m.spend(12_000.0);
                },
            );
        });
    }),
];
