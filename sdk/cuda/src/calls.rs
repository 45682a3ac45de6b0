//! The calls of the driver that are recorded: those that the diagnosis uses, and no others, for
//! each recorded call costs time.

use std::collections::HashMap;

/// Beginnings of the names of functions that are recorded.
const RECORDED: [&str; 27] = [
    // What puts work on a device.
    "cuLaunch",
    "cuGraphLaunch",
    "cuMemcpy",
    "cuMemset",
    "cuMemPrefetch",
    // What waits for a device.
    "cuCtxSynchronize",
    "cuStreamSynchronize",
    "cuEventSynchronize",
    "cuStreamWaitEvent",
    // What allocates and frees.
    "cuMemAlloc",
    "cuMemFree",
    "cuMemHostAlloc",
    "cuMemHostRegister",
    "cuMemHostUnregister",
    "cuMemCreate",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemRelease",
    "cuMemSetAccess",
    "cuMemAddress",
    "cuMemPoolCreate",
    "cuMemPoolTrim",
    "cuArrayCreate",
    // What compiles and loads device code.
    "cuModuleLoad",
    "cuLibraryLoad",
    "cuLink",
    "cuGraphInstantiate",
];

/// Whether calls of the function `name` are recorded.
pub(crate) fn is_recorded(name: &str) -> bool {
    RECORDED.iter().any(|head| name.starts_with(head))
}

/// The recorded functions by CUPTI's numbers.
#[derive(Debug, Default)]
pub(crate) struct Calls(HashMap<u32, String>);

impl Calls {
    /// Of all functions that CUPTI can report.
    pub(crate) fn of(all: Vec<(u32, String)>) -> Self {
        Self(all.into_iter().filter(|(_, n)| is_recorded(n)).collect())
    }

    /// The name of a recorded function. The runtime calls the variants for the per-thread default
    /// stream (`_ptsz`), which are the same to a reader.
    pub(crate) fn name(&self, number: u32) -> Option<&str> {
        let name = self.0.get(&number)?;
        let plain = name.strip_suffix("_ptsz").or(name.strip_suffix("_ptds"));
        Some(plain.unwrap_or(name))
    }

    /// The numbers of the recorded functions.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.0.keys().copied()
    }

    /// Whether CUPTI named any: without them no call is recorded.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_to_launch_are_recorded_and_queries_are_not() {
        for name in [
            "cuLaunchKernel",
            "cuLaunchKernelEx_ptsz",
            "cuGraphLaunch",
            "cuMemcpyHtoDAsync_v2",
            "cuMemsetD8Async",
            "cuMemFreeHost",
            "cuLibraryLoadData",
        ] {
            assert!(is_recorded(name), "{name}");
        }
        for name in ["cuEventQuery", "cuCtxGetCurrent", "cuStreamGetCaptureInfo"] {
            assert!(!is_recorded(name), "{name}");
        }
    }

    #[test]
    fn the_per_thread_variants_have_the_plain_name() {
        let all = vec![(7, "cuLaunchKernel_ptsz".to_owned()), (8, "cuInit".into())];
        let calls = Calls::of(all);
        assert_eq!(calls.name(7), Some("cuLaunchKernel"));
        assert_eq!(calls.name(8), None);
    }
}
