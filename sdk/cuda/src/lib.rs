//! What CUDA devices did, captured with CUPTI and written as events of a gpustall trace.
//!
//! [`Capture`] finds libcupti, switches it on, and hands every kernel, copy, memset, call of the
//! driver and synchronisation to an [`EventSink`] in the form that `gpustall_trace::vocab`
//! describes, on the clock of the trace. The SDK runs it inside a trainer, `gpustall-inject` in
//! programs that know nothing of gpustall.
//!
//! Nothing here panics or blocks in the program's threads, memory is bounded
//! ([`MAX_BUFFERS`] of [`BUFFER_BYTES`] for operations, a ring for the calls of each thread), and what is lost
//! is counted in the trace. Where CUPTI
//! cannot be used, [`CaptureError`] says in one sentence why, and what to do.

mod api;
mod backlog;
mod buffers;
mod calls;
mod capture;
mod config;
mod devices;
mod discovery;
mod elapsed;
mod emit;
mod error;
mod governor;
mod host_calls;
mod layout;
mod missing;
mod names;
#[cfg(feature = "nvml")]
mod nvml;
mod price;
mod recent;
mod record;
mod switch;
mod timed;
mod tracks;
mod windows;

pub use buffers::{BUFFER_BYTES, MAX_BUFFERS};
pub use capture::{Capture, FLUSH_INTERVAL, LOSS_SOURCE};
pub use config::{BUDGET_VARIABLE, Config, KINDS_VARIABLE, WHOLE_VARIABLE};
pub use devices::devices;
pub use discovery::CUPTI_VARIABLE;
pub use emit::{Counts, EventSink};
pub use error::CaptureError;
pub use governor::{CALL_COST, DEFAULT_BUDGET, DEFAULT_WHOLE, OPERATION_COST, WINDOW};
#[cfg(feature = "nvml")]
pub use nvml::{NVML_INTERVAL, Sampler, nvml_devices, visible_devices};
pub use price::{ENOUGH_WINDOWS, MeasuredCost};
pub use timed::{OperationKind, TimedOperation, TimedOperations};

/// To be called in a forked child before anything else: CUDA, and so the capture, does not go on
/// there. Only stores a flag, so that it may stand in a handler of `pthread_atfork`.
pub fn forked() {
    buffers::close_in_child();
}
