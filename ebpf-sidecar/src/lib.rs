//! What the threads of a job do when they do not run, recorded by eBPF.
//!
//! [`Recorder`] loads the probes, tracks processes with everything they fork, and ends in a
//! [`Recording`]: for each thread where its time went, and every stretch off CPU above a threshold
//! with who took the CPU, who woke it and what it waited for. [`Recording::to_trace`] makes a
//! [`gpustall_trace::Trace`] of it, and a [`PartialRecording`] keeps it in a file while it grows. [`serve`] gives the same to sessions of the SDK as it happens, each its
//! own. [`check`] says what a recording needs and what is missing.
//!
//! ```no_run
//! use gpustall_sidecar::{Options, Recorder};
//! use std::time::Duration;
//!
//! let mut recorder = Recorder::start(&Options::default())?;
//! recorder.track_process(std::process::id())?;
//! for _ in 0..50 {
//!     std::thread::sleep(Options::DRAIN_EVERY);
//!     recorder.drain();
//! }
//! let recording = recorder.finish();
//! println!("{} intervals off CPU", recording.intervals.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bitmap;
mod btf;
mod charge;
pub mod check;
mod close;
mod cuda;
mod disk;
mod error;
mod event;
mod give_up;
mod host;
mod kernel;
mod mapped;
mod memory;
mod partial;
mod people;
mod privilege;
mod probes;
mod procfs;
mod programs;
mod recorder;
mod recording;
mod run;
mod runs;
pub mod serve;
mod state;
mod symbols;
mod to_trace;
mod tracepoints;
mod view;
mod wait;
mod waits;

pub use btf::BtfError;
pub use cuda::{CudaCall, CudaClass, CudaFunction};
pub use disk::{BlockIo, RequestKind};
pub use error::{SetupError, TrackError};
pub use host::HostSample;
pub use memory::{MemoryWork, MemoryWorkKind, OomKill};
pub use partial::{DEFAULT_MAX_EVENTS, FinishError, PartialRecording, WrittenPartial};
pub use probes::Options;
pub use recorder::{Progress, Recorder};
pub use recording::{
    CpuSample, Faults, OffCpuInterval, Other, OtherId, Recording, RunId, ThreadRecord, Totals,
    WaitId, Waker, Why,
};
pub use run::{Run, RunClass};
pub use wait::{Wait, WaitClass};
