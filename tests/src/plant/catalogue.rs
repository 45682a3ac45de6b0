//! The plants: what each does and which cause it must be charged to.

use std::time::Duration;

/// What is planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// Nothing: a healthy run.
    Nothing,
    /// Nothing, and the steps are not divided into phases.
    NothingWithoutPhases,
    /// Nothing; a second loader validates after each epoch.
    NothingWithValidation,
    /// Nothing; the trainer takes much longer than the workers, which wait for room in the queue.
    NothingWithAFullQueue,
    /// The trainer itself makes expensive batches.
    Collate,
    /// One worker for batches that take three.
    FewWorkers,
    /// Three workers on one CPU.
    CrowdedWorkers,
    /// Another program spins on the trainer's CPU.
    Spinner,
    /// Items come from another process, which takes its time.
    SlowStore,
    /// Items are read from a disk past the page cache.
    DiskReads,
    /// Each item maps memory, touches it and unmaps it.
    PageFaults,
    /// Items are in a file that is mapped, in a memory cgroup that is too small for it.
    MemoryPressure,
    /// Items are read under a lock that another thread holds most of the time.
    Lock,
    /// The first batch of each epoch opens something slow.
    Startup,
    /// The metrics of a step go to a thread that is slow to take them.
    Metrics,
    /// The weights are written to the disk between steps.
    Checkpoint,
    /// Work between the marked phases of a step.
    Unmarked,
}

/// A training program.
#[derive(Debug, Clone, Copy)]
pub struct Plant {
    /// What the command line calls it.
    pub name: &'static str,
    /// What is planted in it.
    pub planted: Planted,
    /// The cause of the first finding; `None`: there must be no finding.
    pub cause: Option<&'static str>,
    /// How the true loss is known.
    pub truth: Truth,
    /// Workers of the loader.
    pub workers: usize,
    /// Steps in an epoch.
    pub steps: usize,
    /// Epochs.
    pub epochs: usize,
    /// CPU time of the model in one step.
    pub step: Duration,
    /// CPU time of making one batch, nothing planted.
    pub batch: Duration,
}

/// How the true loss is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// The plant's own clocks around what it does.
    OwnClock,
    /// The difference to the same run with nothing planted.
    PairedRun,
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

const HEALTHY: Plant = Plant {
    name: "healthy",
    planted: Planted::Nothing,
    cause: None,
    truth: Truth::OwnClock,
    workers: 1,
    steps: 60,
    epochs: 2,
    step: ms(10),
    batch: ms(2),
};

const fn plant(name: &'static str, planted: Planted, cause: &'static str) -> Plant {
    Plant {
        name,
        planted,
        cause: Some(cause),
        ..HEALTHY
    }
}

const fn healthy(name: &'static str, planted: Planted) -> Plant {
    Plant {
        name,
        planted,
        ..HEALTHY
    }
}

/// Every plant.
pub const PLANTS: &[Plant] = &[
    HEALTHY,
    Plant {
        step: ms(12),
        ..healthy("healthy-without-phases", Planted::NothingWithoutPhases)
    },
    healthy("healthy-with-validation", Planted::NothingWithValidation),
    // The queue holds a hundred batches: more than that must be left to make when it is full.
    Plant {
        steps: 260,
        epochs: 1,
        step: ms(6),
        batch: ms(1),
        ..healthy("healthy-with-a-full-queue", Planted::NothingWithAFullQueue)
    },
    Plant {
        workers: 0,
        batch: ms(8),
        ..plant("collate", Planted::Collate, "data.compute")
    },
    Plant {
        step: ms(4),
        batch: ms(12),
        ..plant("few-workers", Planted::FewWorkers, "data.worker-limit")
    },
    Plant {
        workers: 3,
        step: ms(4),
        batch: ms(12),
        ..plant("crowded-workers", Planted::CrowdedWorkers, "data.contended")
    },
    Plant {
        truth: Truth::PairedRun,
        ..plant("spinner", Planted::Spinner, "host.preempted")
    },
    Plant {
        step: ms(5),
        batch: ms(0),
        ..plant("slow-store", Planted::SlowStore, "data.io")
    },
    Plant {
        step: ms(1),
        batch: ms(0),
        ..plant("disk-reads", Planted::DiskReads, "data.io")
    },
    Plant {
        step: ms(5),
        batch: ms(0),
        workers: 0,
        steps: 24,
        ..plant("page-faults", Planted::PageFaults, "data.memory")
    },
    Plant {
        step: ms(3),
        batch: ms(0),
        workers: 0,
        truth: Truth::PairedRun,
        ..plant("memory-pressure", Planted::MemoryPressure, "data.memory")
    },
    Plant {
        step: ms(4),
        batch: ms(0),
        ..plant("lock", Planted::Lock, "data.lock")
    },
    Plant {
        steps: 12,
        epochs: 6,
        ..plant("startup", Planted::Startup, "data.startup")
    },
    plant("metrics", Planted::Metrics, "host.metrics"),
    Plant {
        steps: 40,
        ..plant("checkpoint", Planted::Checkpoint, "host.checkpoint")
    },
    plant("unmarked", Planted::Unmarked, "host.compute"),
];
