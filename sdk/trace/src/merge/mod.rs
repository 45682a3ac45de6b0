//! Several recordings of one job as one.
//!
//! All clocks are `CLOCK_MONOTONIC`, so times are only moved to a common start, and what is known
//! under two names gets one: processes and threads are joined by their ids, what was made up in each
//! recording stays apart.

mod append;
mod check;
mod error;
mod job;
mod numbers;
mod order;
mod strip;
mod tables;

pub use error::MergeError;
pub use job::merge_job;

use crate::{Meta, MonoTime, Nanos, State, Trace, TraceTime};
use append::append;
use tables::Tables;

/// A recording to be merged.
#[derive(Debug, Clone)]
pub struct Part {
    /// What messages call it, such as the path of its file.
    pub label: String,
    /// The recording.
    pub trace: Trace,
}

/// Makes one trace of several recordings of one job on one machine: that of the SDK, say, and that
/// of the sidecar.
///
/// The first is the one that is diagnosed: the merged recording has its name, its process and its
/// end; of the others also what came later is kept. Batches, flows and async slices of different
/// recordings stay different, and so do losses: where two recordings call a source alike, the later
/// one's name is added. Findings and reports are left out; diagnose the result.
///
/// # Errors
///
/// [`MergeError`] when a recording does not say when it was made, or when two of them are not of one
/// time, one boot or one job, or are the same.
pub fn merge(parts: Vec<Part>) -> Result<Trace, MergeError> {
    check::check(&parts)?;
    let origin = parts.iter().map(|part| part.trace.meta.start_mono).min();
    let origin = origin.unwrap_or_default();
    let mut tables = Tables::default();
    for (number, mut part) in parts.into_iter().enumerate() {
        let emptied = strip::findings(&mut part.trace);
        let later = Nanos::new(part.trace.meta.start_mono.as_nanos() - origin.as_nanos());
        match number {
            0 => tables.trace.meta = first(&part.trace.meta, origin, later),
            _ => join(&mut tables.trace.meta, &part.trace.meta),
        }
        append(&mut tables, part, later, &emptied);
    }
    let mut trace = tables.finish();
    trace.sort();
    Ok(trace)
}

/// The merged meta so far: that of the first recording, `later` than `origin`.
fn first(meta: &Meta, origin: MonoTime, later: Nanos) -> Meta {
    Meta {
        start_mono: origin,
        start_unix_ns: meta.start_unix_ns.saturating_sub(later.get()),
        end: TraceTime::ZERO + later + Nanos::new(meta.end.as_nanos()),
        ..meta.clone()
    }
}

/// Adds what another recording says of itself.
fn join(meta: &mut Meta, other: &Meta) {
    if !meta
        .recorder
        .split(" + ")
        .any(|recorder| recorder == other.recorder)
    {
        meta.recorder = format!("{} + {}", meta.recorder, other.recorder);
    }
    if meta.cpus == 0 {
        meta.cpus = other.cpus;
    }
    if meta.distributed.is_none() {
        meta.distributed = other.distributed;
    }
    if other.state == State::Partial {
        meta.state = State::Partial;
    }
    for note in &other.notes {
        if !meta.notes.contains(note) {
            meta.notes.push(note.clone());
        }
    }
    for device in &other.devices {
        match meta.devices.iter_mut().find(|known| known.id == device.id) {
            None => meta.devices.push(device.clone()),
            // Its recorder did not say as much.
            Some(known) if known.multiprocessors == 0 => *known = device.clone(),
            Some(_) => {}
        }
    }
    // Of several ends, one with an error counts.
    meta.exit_code = meta.exit_code.max(other.exit_code);
    if meta.job.is_empty() {
        meta.job.clone_from(&other.job);
    }
    if meta.boot.is_empty() {
        meta.boot.clone_from(&other.boot);
    }
}
