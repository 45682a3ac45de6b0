//! Why nothing can be captured, and what to do about it.

use std::path::PathBuf;

/// Why device operations cannot be captured. Each is one sentence that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The process has not loaded the CUDA driver, and the machine has none.
    #[error(
        "device operations were not recorded: there is no CUDA driver (libcuda.so.1); install the NVIDIA driver, or pass it into the container"
    )]
    NoDriver,
    /// CUPTI was not found anywhere.
    #[error(
        "device operations were not recorded: libcupti was not found on the loader's path, in CUDA_HOME, in /usr/local/cuda, or beside the CUDA libraries of the process; install it (`pip install nvidia-cuda-cupti`) or name it in GPUSTALL_CUPTI"
    )]
    NoCupti,
    /// Files that look like CUPTI could not be loaded.
    #[error("device operations were not recorded: {} cannot be loaded: {reason}", path.display())]
    Load {
        /// The last one tried.
        path: PathBuf,
        /// What the loader said.
        reason: String,
    },
    /// The library lacks a function.
    #[error(
        "device operations were not recorded: {} has no function {symbol}; use CUPTI of CUDA 12 or later, and name it in GPUSTALL_CUPTI", path.display()
    )]
    Symbol {
        /// The library.
        path: PathBuf,
        /// The function.
        symbol: &'static str,
    },
    /// Another profiler has subscribed.
    #[error(
        "device operations were not recorded: another profiler (nsys, torch.profiler...) holds CUPTI in this process; run one of them at a time"
    )]
    Held,
    /// The driver keeps its counters from users.
    #[error(
        "device operations were not recorded: the driver lets only root profile; run as root, or set NVreg_RestrictProfilingToAdminUsers=0 (https://developer.nvidia.com/ERR_NVGPUCTRPERM)"
    )]
    Privileges,
    /// CUPTI and the driver do not fit.
    #[error(
        "device operations were not recorded: {} does not fit the installed driver; use the CUPTI of the CUDA that the job uses, and name it in GPUSTALL_CUPTI", path.display()
    )]
    Incompatible {
        /// The library.
        path: PathBuf,
    },
    /// Anything else that CUPTI refused.
    #[error("device operations were not recorded: CUPTI refused {call} with {name} ({code})")]
    Refused {
        /// The function.
        call: &'static str,
        /// What CUPTI calls the error.
        name: String,
        /// Its number.
        code: u32,
    },
    /// This process captures already.
    #[error("device operations are recorded in this process already")]
    Running,
    /// A thread could not be started.
    #[error("device operations were not recorded: no thread could be started: {0}")]
    Thread(#[source] std::io::Error),
}
