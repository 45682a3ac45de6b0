//! What scheduler lines say.

use super::tasks::Task;
use crate::{Symbol, TraceTime};

/// In which state a thread leaves a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It runs on somewhere; also the idle thread's.
    Runnable,
    Preempted,
    Sleeping,
    Uninterruptible,
    Stopped,
    Dead,
}

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    Switch {
        at: TraceTime,
        cpu: u32,
        prev: Task,
        state: State,
        next: Task,
    },
    Waking {
        at: TraceTime,
        /// CPU of the waker.
        cpu: u32,
        waker: Task,
        wakee: Task,
    },
    /// What a thread waited for that left its CPU at that time.
    Blocked {
        at: TraceTime,
        cpu: u32,
        task: Task,
        iowait: bool,
        function: Option<Symbol>,
    },
}
