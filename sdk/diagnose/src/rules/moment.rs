//! The facts about one moment of a stall that the table asks for.

use super::ThreadState;
use crate::cause::Cause;

/// What a device operation that is no compute kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A copy from or to pageable memory.
    PageableCopy,
    /// A copy of pinned or device memory, or a memset.
    Copy,
    /// A kernel of NCCL.
    Communication {
        /// Whether the same collective has not yet begun on another device.
        straggling: bool,
    },
}

/// What a host thread is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// In a driver call that allocates or frees memory of the device, or pinned memory.
    Allocates,
    /// In a driver call that loads, links or compiles device code, in a compiler of such code, or in a
    /// phase so named.
    Compiles,
    /// In a driver call that waits for the device, a copy to the host included.
    WaitsForDevice,
    /// In a driver call that copies from pageable memory, or copies synchronously.
    CopiesPageable,
    /// Copying into pinned memory for a copy to the device that follows.
    Stages,
    /// In a wait for data, whose cause the chain of the wait says.
    WaitsForData(Cause),
    /// In a phase that the user marked, whose name stands for this cause.
    Marked(Cause),
    /// In an operator of the framework, or any other driver call.
    Dispatches,
}

/// The facts about a moment of a stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The operation that runs and that the next kernel depends on.
    pub depends_on: Option<Operation>,
    /// Whether the call that submitted the next kernel has returned.
    pub submitted: bool,
    /// Whether the next kernel's stream was told to wait for an event before that kernel.
    pub event_wait: bool,
    /// What the thread that submits the next kernel does; `None`: nothing recorded, so no work
    /// was asked of it, or it runs code that is not recorded.
    pub launcher: Option<Activity>,
    /// What the thread that gives the launcher its work does; `None` too if it is the launcher.
    pub feeder: Option<Activity>,
    /// What the scheduler says of the thread that does it: the launcher, and while nothing is asked
    /// of it, the feeder.
    pub state: ThreadState,
    /// Whether the moment lies in a stretch without a launch that stands out, and not in a call
    /// of the framework that this marked itself.
    pub stands_out: bool,
    /// Whether the host was ahead, gave that up by waiting for the device, and has not caught up.
    pub refills: bool,
    /// Whether a kernel follows in the recording.
    pub followed: bool,
    /// Whether the trace says what a step is.
    pub steps_known: bool,
}

impl Moment {
    /// What the host does: the launcher, and while nothing is asked of it, the feeder.
    pub fn host(&self) -> Option<Activity> {
        self.launcher.or(self.feeder)
    }
}
