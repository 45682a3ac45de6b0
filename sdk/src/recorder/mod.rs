//! Recording: from the instrumented thread to the file, without ever making the thread wait.
//!
//! ```text
//! thread A ── ring ──┐
//! thread B ── ring ──┼── writer thread ── x.json.partial
//! thread C ── ring ──┘
//! ```
//!
//! Each thread owns one wait-free single-producer ring ([`ring`]); the writer thread drains them
//! all ten times a second, and sooner when one is half full, and appends to the crash-safe partial file ([`writer`]). A full
//! ring drops the event and counts it. Whether anything is recorded at all is one relaxed load
//! ([`gate`]).

pub(crate) mod batches;
pub(crate) mod emit;
pub(crate) mod gate;
pub(crate) mod names;
pub(crate) mod open;
pub(crate) mod reading;
pub(crate) mod record;
pub(crate) mod ring;
pub(crate) mod writer;

pub(crate) use record::{Args, Category, Record, Text};
