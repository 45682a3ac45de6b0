//! The tables of `docs/causes.md` once more, asked of every unit of time on its own.
//!
//! Written from the tables by someone who had not read the engine. A timeline is drawn as a plain
//! model, of which the trace is made, and of which the oracle is asked: which row matches now?
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "each half of the oracle uses its part"
)]

pub mod device;
pub mod devices;
pub mod draw_device;
pub mod draw_host;
pub mod host;
pub mod scheduler;
pub mod tape;
pub mod trainers;
pub mod waits;

use std::collections::BTreeMap;

/// From when to when, in units.
pub type Span = (u64, u64);

/// Nanoseconds by cause.
pub type Charges = BTreeMap<String, u64>;

/// Whether the span holds this unit.
pub fn holds(span: Span, t: u64) -> bool {
    span.0 <= t && t < span.1
}
