#![doc = include_str!("../README.md")]

mod attribute {
    // `instrument` is both our module and `tracing`'s attribute. A glob carries the attribute
    // into the macro namespace without colliding with the module of the same name.
    pub use tracing::instrument;
}
#[cfg(feature = "burn-cuda")]
mod burn_cuda;
#[cfg(feature = "tracing-chrome")]
pub mod chrome;
#[cfg(feature = "cuda")]
mod cuda;
mod error;
mod fields;
pub mod instrument;
mod layer;
#[cfg(feature = "burn-train")]
mod learner;
#[cfg_attr(
    not(feature = "burn"),
    allow(dead_code, reason = "the events of the data pipeline come from Burn")
)]
mod recorder;
mod session;
mod sidecar;
mod span;
mod subscriber;

#[doc(no_inline)]
pub use attribute::*;
pub use error::SessionError;
pub use gpustall_diagnose::Report;
pub use gpustall_trace as trace;
pub use layer::layer;
pub use recorder::open::OPEN_INTERVAL;
pub use recorder::ring::DEFAULT_RING_RECORDS;
pub use recorder::writer::{DEFAULT_MAX_EVENTS, DRAIN_INTERVAL, FLUSH_INTERVAL};
pub use session::{Session, SessionBuilder, Summary, session};
pub use sidecar::{SIDECAR_END_WITHIN, SIDECAR_START_WITHIN, Sidecar};
pub use span::{SpanGuard, counter, instant, span};
