//! Waits that the end of the run, or an exception, cut off: how a run ends is no cause of what it waited for.

use crate::charge::{Source, Stall};
use crate::finding::Run;
use gpustall_trace::Nanos;

impl Run<'_> {
    /// Share of the device time that is waits which were cut off.
    pub(crate) fn cut_off(&self) -> f64 {
        let stalls = self.accounts.iter().flat_map(|account| &account.stalls);
        let cut = stalls.filter(|stall| self.was_cut_off(stall));
        cut.map(|stall| stall.lost)
            .sum::<Nanos>()
            .share_of(self.device)
    }

    /// Whether a stall is a wait that the end of the run, or an exception, cut off, and no hang.
    pub(crate) fn was_cut_off(&self, stall: &Stall) -> bool {
        let wait = match stall.source {
            Source::Wait(i) => self.timeline.waits.get(i),
            _ => None,
        };
        wait.is_some_and(|wait| {
            let hangs = wait.unfinished && wait.span.len() >= self.hang;
            wait.failed || (wait.unfinished && !hangs)
        })
    }
}
