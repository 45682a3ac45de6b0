//! The calls that are recorded: those that the diagnosis uses, and no others, for each recorded
//! call costs time.
//!
//! The runtime makes its calls by the driver, and launches are most of all calls, so they are recorded
//! where the driver makes them, once. Of the other calls those of both are recorded, since a reader knows
//! `cudaMalloc`: the driver's lies inside the runtime's in the trace, with one correlation.

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

/// Beginnings of the names of functions of the runtime that launch, without `cuda`.
const RUNTIME_LAUNCH: &str = "Launch";

/// The same of the runtime's others that are recorded.
const RUNTIME: [&str; 16] = [
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

/// Why a function is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Always,
    /// A launch of the runtime: where the driver's launches do not show what it does.
    WhereDriverIsSilent,
}

/// Whether calls of the function `name` are recorded.
pub(crate) fn wanted(api: Api, name: &str) -> Option<Wanted> {
    let (prefix, list) = match api {
        Api::Driver => ("cu", &DRIVER[..]),
        Api::Runtime => ("cuda", &RUNTIME[..]),
    };
    let rest = name.strip_prefix(prefix)?;
    if list.iter().any(|head| rest.starts_with(head)) {
        return Some(Wanted::Always);
    }
    (api == Api::Runtime && rest.starts_with(RUNTIME_LAUNCH)).then_some(Wanted::WhereDriverIsSilent)
}

/// The functions that are recorded, by CUPTI's numbers.
#[derive(Debug, Default)]
pub(crate) struct Calls(HashMap<(Api, u32), (String, Wanted)>);

impl Calls {
    /// Chooses among all functions that CUPTI can report.
    pub(crate) fn add(&mut self, api: Api, all: Vec<(u32, String)>) {
        for (number, name) in all {
            if let Some(wanted) = wanted(api, &name) {
                let name = plain(api, &name).to_owned();
                self.0.insert((api, number), (name, wanted));
            }
        }
    }

    /// The name of a recorded function.
    pub(crate) fn name(&self, api: Api, number: u32) -> Option<&str> {
        self.0.get(&(api, number)).map(|(name, _)| name.as_str())
    }

    /// The functions to ask for; `all` with the launches of the runtime.
    pub(crate) fn functions(&self, all: bool) -> impl Iterator<Item = (Api, u32)> {
        let chosen = move |wanted: &Wanted| all || *wanted == Wanted::Always;
        let functions = self.0.iter();
        functions
            .filter(move |(_, (_, wanted))| chosen(wanted))
            .map(|(&function, _)| function)
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
    fn each_launch_is_asked_for_once_and_queries_are_not() {
        for name in [
            "cuLaunchKernel",
            "cuLaunchKernelEx_ptsz",
            "cuGraphLaunch",
            "cuMemcpyHtoDAsync_v2",
            "cuMemsetD8Async",
            "cuMemFreeHost",
            "cuLibraryLoadData",
        ] {
            assert_eq!(wanted(Api::Driver, name), Some(Wanted::Always), "{name}");
        }
        for name in [
            "cudaGraphLaunch_v10000",
            "cudaMemcpyAsync_v3020",
            "cudaStreamSynchronize_v3020",
        ] {
            assert_eq!(wanted(Api::Runtime, name), Some(Wanted::Always), "{name}");
        }
        for name in ["cudaLaunchKernel_v7000", "cudaLaunchKernelExC_v11060"] {
            let silent = Some(Wanted::WhereDriverIsSilent);
            assert_eq!(wanted(Api::Runtime, name), silent, "{name}");
        }
        for name in ["cuEventQuery", "cuCtxGetCurrent", "cuStreamGetCaptureInfo"] {
            assert_eq!(wanted(Api::Driver, name), None, "{name}");
        }
        for name in ["cudaGetDevice_v3020", "cudaPeekAtLastError_v3020"] {
            assert_eq!(wanted(Api::Runtime, name), None, "{name}");
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
        let names = [(7, "cudaMalloc_v3020"), (8, "cudaLaunchKernel_v7000")];
        calls.add(Api::Runtime, names.map(|(n, s)| (n, s.to_owned())).into());
        assert_eq!(calls.name(Api::Driver, 7), Some("cuLaunchKernel"));
        assert_eq!(calls.name(Api::Driver, 8), None);
        assert_eq!(calls.name(Api::Driver, 9), Some("cuMemAlloc_v2"));
        assert_eq!(calls.name(Api::Runtime, 7), Some("cudaMalloc"));
        assert_eq!(calls.functions(false).count(), 3);
        assert!(calls.functions(true).any(|of| of == (Api::Runtime, 8)));
    }
}
