//! Loops whose steps nothing marks: a profiler without a schedule writes such files.

use super::torch::{MULTI, PAGEABLE, PINNED, SINGLE};
use super::{NOTHING, Program};

pub const UNMARKED: [Program; 7] = [
    ("a busy loop", NOTHING, |m| {
        m.unmarked(|m, _| {
            m.load(MULTI, 60.0);
            m.upload(PINNED, 8.0, false);
            m.busy();
        });
    }),
    ("a loop that makes its batches", "data", |m| {
        m.unmarked(|m, _| {
            m.load(SINGLE, 15_000.0);
            m.upload(PAGEABLE, 5.0, true);
            m.light();
            m.item();
        });
    }),
    ("a loop of two loaders", "data", |m| {
        m.unmarked(|m, _| {
            m.load(MULTI, 6_000.0);
            m.load(MULTI, 9_000.0);
            m.light();
            m.item();
        });
    }),
    ("a loop of tiny kernels", "host.launch-bound", |m| {
        m.unmarked(|m, _| {
            m.load(MULTI, 20.0);
            m.forward(120, 3.0);
            m.backward(120, 3.0);
            m.optimizer(40, 4.0);
        });
    }),
    ("inference", "data", |m| {
        m.unmarked(|m, _| {
            m.load(MULTI, 12_000.0);
            m.forward(20, 200.0);
            m.item();
        });
    }),
    (
        "inference in which each answer is read",
        "sync.readback",
        |m| {
            m.unmarked(|m, _| {
                m.load(MULTI, 20.0);
                for _ in 0..16 {
                    m.forward(3, 120.0);
                    m.item();
                    m.spend(120.0);
                }
            });
        },
    ),
    ("a loop with work of the host", "host.compute", |m| {
        m.unmarked(|m, _| {
            m.load(MULTI, 20.0);
            m.light();
            m.item();
            m.spend(14_000.0);
        });
    }),
];
