//! Calls that were taken from the rings of their threads and are not written yet.
//!
//! To write a call takes longer than to make one that does nothing, and a ring holds few. So rings are emptied
//! between a few calls written and a few more, and what comes faster waits here, in bounded memory.

use crate::host_calls::{self, Call};
use std::collections::VecDeque;

/// Calls that wait, at most: 40 MB, or three seconds of launches of empty kernels at full speed of which none
/// is written.
const MOST: usize = 1 << 20;

/// Calls that are written before rings are looked after again: a few milliseconds.
pub(crate) const AT_ONCE: usize = 4096;

/// The calls, in the order in which they were taken.
#[derive(Debug, Default)]
pub(crate) struct Backlog(VecDeque<Call>);

impl Backlog {
    /// Empties the rings. Returns how many calls were lost since the last time.
    pub(crate) fn take(&mut self) -> u64 {
        let mut beyond = 0;
        let lost = host_calls::drain(|call| {
            if self.0.len() < MOST {
                self.0.push_back(call);
            } else {
                beyond += 1;
            }
        });
        lost + beyond
    }

    /// Calls that wait.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The `most` first ones, or all.
    pub(crate) fn first(&mut self, most: usize) -> impl Iterator<Item = Call> + '_ {
        let most = most.min(self.0.len());
        self.0.drain(..most)
    }
}
