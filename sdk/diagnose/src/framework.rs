//! The framework that ran, in whose words a remedy is said.

use crate::timeline::Timeline;
use gpustall_trace::{Trace, vocab};

/// A framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framework {
    Burn,
    PyTorch,
}

/// Whether the hook for unchanged PyTorch programs marked its loaders.
pub(crate) fn marked(trace: &Trace) -> bool {
    let has = |text| trace.strings.find(text).is_some();
    has(vocab::arg::FRAMEWORK) && has(vocab::PYTORCH)
}

/// Whether the program marks what it does with the SDK: only then is it told to mark more with it. Jobs
/// under `gpustall run`, files of other profilers and the sidecar's alone do not.
pub(crate) fn uses_sdk(timeline: &Timeline<'_>) -> bool {
    const OTHERS: [&str; 4] = ["gpustall run", "gpustall-sidecar", "kineto", "chrome"];
    let mut recorders = timeline.trace.meta.recorder.split(" + ");
    let own = recorders.any(|of| !OTHERS.iter().any(|other| of.starts_with(other)));
    own && !timeline.foreign && !marked(timeline.trace)
}

impl Framework {
    /// PyTorch if its operators, steps, loaders, threads or kernels have names in the trace; else Burn, for
    /// which the SDK is made.
    pub(crate) fn of(trace: &Trace) -> Self {
        const HEADS: [&str; 5] = [
            "aten::",
            "ProfilerStep#",
            "enumerate(DataLoader)",
            "pt_autograd",
            "pt_data_worker",
        ];
        const KERNELS: &str = "at::native::";
        let is =
            |name: &str| HEADS.iter().any(|head| name.starts_with(head)) || name.contains(KERNELS);
        match marked(trace) || trace.strings.iter().any(is) {
            true => Framework::PyTorch,
            false => Framework::Burn,
        }
    }
}
