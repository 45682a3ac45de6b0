//! The calls that are recorded: those that the diagnosis uses, and no others, for each recorded
//! call costs time.
//!
//! Newer runtimes reach the driver by a way that CUPTI does not report as calls of the driver, so
//! calls of both are recorded. Where a call of the runtime makes one of the driver that is
//! reported, the one lies inside the other in the trace, with one correlation.

use std::collections::HashMap;

/// Beginnings of the names of functions of the driver that are recorded, without `cu`.
const DRIVER: [&str; 27] = [
    // What puts work on a device.
    "Launch",
    "GraphLaunch",
    "Memcpy",
    "Memset",
    "MemPrefetch",
    // What waits for a device.
    "CtxSynchronize",
    "StreamSynchronize",
    "EventSynchronize",
    "StreamWaitEvent",
    // What allocates and frees.
    "MemAlloc",
    "MemFree",
    "MemHostAlloc",
    "MemHostRegister",
    "MemHostUnregister",
    "MemCreate",
    "MemMap",
    "MemUnmap",
    "MemRelease",
    "MemSetAccess",
    "MemAddress",
    "MemPoolCreate",
    "MemPoolTrim",
    "ArrayCreate",
    // What compiles and loads device code.
    "ModuleLoad",
    "LibraryLoad",
    "Link",
    "GraphInstantiate",
];

/// The same of the runtime, without `cuda`.
const RUNTIME: [&str; 17] = [
    "Launch",
    "GraphLaunch",
    "Memcpy",
    "Memset",
    "MemPrefetch",
    "DeviceSynchronize",
    "StreamSynchronize",
    "EventSynchronize",
    "StreamWaitEvent",
    "Malloc",
    "Free",
    "HostAlloc",
    "HostRegister",
    "HostUnregister",
    "MemPool",
    "LibraryLoad",
    "GraphInstantiate",
];

/// Whose function a call is of, with CUPTI's number of the domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Api {
    /// `CUPTI_CB_DOMAIN_DRIVER_API`.
    Driver = 1,
    /// `CUPTI_CB_DOMAIN_RUNTIME_API`.
    Runtime = 2,
}

/// Whether calls of the function `name` are recorded.
pub(crate) fn is_recorded(api: Api, name: &str) -> bool {
    let (prefix, list) = match api {
        Api::Driver => ("cu", &DRIVER[..]),
        Api::Runtime => ("cuda", &RUNTIME[..]),
    };
    name.strip_prefix(prefix)
        .is_some_and(|rest| list.iter().any(|head| rest.starts_with(head)))
}

/// The functions that CUPTI can report, by its numbers.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    recorded: HashMap<(Api, u32), String>,
    others: Vec<(Api, u32)>,
}

impl Calls {
    /// Adds all functions that CUPTI can report.
    pub(crate) fn add(&mut self, api: Api, all: Vec<(u32, String)>) {
        for (number, name) in all {
            match is_recorded(api, &name) {
                true => {
                    let name = plain(api, &name).to_owned();
                    self.recorded.insert((api, number), name);
                }
                false => self.others.push((api, number)),
            }
        }
    }

    /// The name of a recorded function.
    pub(crate) fn name(&self, api: Api, number: u32) -> Option<&str> {
        self.recorded.get(&(api, number)).map(String::as_str)
    }

    /// The numbers of the functions that are not recorded.
    pub(crate) fn others(&self, api: Api) -> impl Iterator<Item = u32> {
        let own = self.others.iter().filter(move |(of, _)| *of == api);
        own.map(|(_, number)| *number)
    }
}

/// The name without what tells apart variants that are the same to a reader: those for the default
/// stream of each thread (`_ptsz`), and versions of the runtime (`cudaLaunchKernel_v7000`).
fn plain(api: Api, name: &str) -> &str {
    let name = name.strip_suffix("_ptsz").unwrap_or(name);
    let name = name.strip_suffix("_ptds").unwrap_or(name);
    match (api, name.rsplit_once("_v")) {
        (Api::Runtime, Some((plain, version))) if version.parse::<u32>().is_ok() => plain,
        _ => name,
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
            assert!(is_recorded(Api::Driver, name), "{name}");
        }
        for name in [
            "cudaLaunchKernel_v7000",
            "cudaLaunchKernelExC_v11060",
            "cudaMemcpyAsync_v3020",
            "cudaStreamSynchronize_v3020",
        ] {
            assert!(is_recorded(Api::Runtime, name), "{name}");
        }
        for name in ["cuEventQuery", "cuCtxGetCurrent", "cuStreamGetCaptureInfo"] {
            assert!(!is_recorded(Api::Driver, name), "{name}");
        }
        for name in ["cudaGetDevice_v3020", "cudaPeekAtLastError_v3020"] {
            assert!(!is_recorded(Api::Runtime, name), "{name}");
        }
    }

    #[test]
    fn variants_have_the_plain_name() {
        let mut calls = Calls::default();
        let names = [
            (7, "cuLaunchKernel_ptsz"),
            (8, "cuInit"),
            (9, "cuMemAlloc_v2"),
        ];
        calls.add(Api::Driver, names.map(|(n, s)| (n, s.to_owned())).into());
        calls.add(Api::Runtime, vec![(7, "cudaMalloc_v3020".to_owned())]);
        assert_eq!(calls.name(Api::Driver, 7), Some("cuLaunchKernel"));
        assert_eq!(calls.name(Api::Driver, 8), None);
        assert_eq!(calls.others(Api::Driver).collect::<Vec<_>>(), [8]);
        assert_eq!(calls.name(Api::Driver, 9), Some("cuMemAlloc_v2"));
        assert_eq!(calls.name(Api::Runtime, 7), Some("cudaMalloc"));
    }
}
