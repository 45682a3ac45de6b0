//! The passes over one loader and its slices.

use parking_lot::Mutex;
use std::sync::Arc;

/// Counts the epochs of one loader. Its slices share the count: those that run side by side are
/// in one epoch.
#[derive(Debug, Default)]
pub(super) struct Epochs(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Passes that are not over.
    running: usize,
    /// The last epoch that began.
    latest: Option<u64>,
}

/// One pass over a loader or one of its slices; over when it is dropped.
#[derive(Debug)]
pub(super) struct Pass {
    epochs: Arc<Epochs>,
    pub(super) epoch: u64,
}

impl Epochs {
    /// A pass begins over the loader, or over a slice of it, whose next epoch is `own`. One that
    /// was never iterated over (`None`; some programs make new slices in every epoch) joins those
    /// that are being iterated over, or begins a new epoch if none is.
    pub(super) fn begin(self: &Arc<Self>, own: Option<u64>) -> Pass {
        let mut state = self.0.lock();
        let after = state.latest.map_or(0, |latest| latest + 1);
        let epoch = match own {
            None if state.running > 0 => after.saturating_sub(1),
            Some(own) if state.running > 0 => own,
            _ => after.max(own.unwrap_or(0)),
        };
        state.running += 1;
        state.latest = state.latest.max(Some(epoch));
        Pass {
            epochs: self.clone(),
            epoch,
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.epochs.0.lock().running -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_of_one_loader_follow_one_another() {
        let epochs = Arc::<Epochs>::default();
        assert_eq!(epochs.begin(None).epoch, 0);
        assert_eq!(epochs.begin(Some(1)).epoch, 1);
        assert_eq!(epochs.begin(Some(2)).epoch, 2);
    }

    #[test]
    fn slices_side_by_side_share_an_epoch_and_new_ones_begin_the_next() {
        let epochs = Arc::<Epochs>::default();
        for epoch in 0..3 {
            let (a, b) = (epochs.begin(None), epochs.begin(None));
            assert_eq!((a.epoch, b.epoch), (epoch, epoch));
        }
    }

    #[test]
    fn a_slice_that_is_ahead_is_in_its_own_epoch() {
        let epochs = Arc::<Epochs>::default();
        let (slow, fast) = (epochs.begin(None), epochs.begin(None));
        drop(fast);
        let fast = epochs.begin(Some(1));
        assert_eq!((slow.epoch, fast.epoch), (0, 1));
        drop(slow);
        assert_eq!(epochs.begin(Some(1)).epoch, 1, "the slow one catches up");
    }
}
