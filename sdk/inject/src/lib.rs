//! The library that the CUDA driver loads into jobs without the gpustall SDK.
//!
//! When `CUDA_INJECTION64_PATH` names this library, the driver loads it as it is initialised and
//! calls `InitializeInjection`. Where [`OUTPUT_VARIABLE`] names a folder, the process from then on
//! records what its devices do into `NAME.PID.json.partial` there, from a thread of its own. A
//! process that uses no device leaves no file, and nothing that goes wrong here changes what the
//! job does: at worst the file says in one sentence why it holds no device operations.
//!
//! `gpustall run` sets the variables, and merges the files when the job has ended.

mod file;
mod lifecycle;
mod name;
mod python;
mod settings;
mod steps;
mod writer;

pub use gpustall_cuda::{BUDGET_VARIABLE, WHOLE_VARIABLE};
pub use name::{is_python, program_name};
pub use python::{PYTHON_HOOK, PYTHON_HOOK_LOADED};
pub use settings::{OUTPUT_VARIABLE, WINDOW_FILE};

/// Called by the CUDA driver, once in a process. Returns 1: the driver may go on.
#[expect(unsafe_code, reason = "the driver looks for a symbol of this name")]
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name is the driver's")]
pub extern "C" fn InitializeInjection() -> std::ffi::c_int {
    // A panic must not reach the driver.
    let _ = std::panic::catch_unwind(writer::start);
    1
}

/// Gives CUPTI up for good, since another profiler of this process is about to take it: CUPTI has one
/// subscriber. Returns once that is done, after a second at most; at once where nothing is captured. What is
/// captured when this was called before is nothing, and the file of the process says so.
#[expect(
    unsafe_code,
    reason = "the Python hook looks for a symbol of this name"
)]
#[unsafe(no_mangle)]
pub extern "C" fn gpustall_leave_cupti() {
    // A panic must not reach the program.
    let _ = std::panic::catch_unwind(lifecycle::leave);
}
