//! The values of maps, as aya wants them.

#![allow(unsafe_code, reason = "aya's marker of plain data is an unsafe trait")]

use gpustall_wire::cuda::OpenCalls;
use gpustall_wire::record::BlockIo;
use gpustall_wire::thread::ThreadState;

/// A [`ThreadState`] in the map of threads.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct State(pub(crate) ThreadState);

// SAFETY: `ThreadState` is plain data without padding (`gpustall_wire::plain::Plain`).
unsafe impl aya::Pod for State {}

/// A [`BlockIo`] in the map of requests in flight.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct InFlight(pub(crate) BlockIo);

// SAFETY: `BlockIo` is plain data without padding (`gpustall_wire::plain::Plain`).
unsafe impl aya::Pod for InFlight {}

/// The [`OpenCalls`] of a thread in the map of calls.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Calls(pub(crate) OpenCalls);

// SAFETY: as `State`.
unsafe impl aya::Pod for Calls {}
