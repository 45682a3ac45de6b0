//! When to capture: so that what it costs stays under a budget.
//!
//! CUPTI costs some microseconds an operation, which is nothing to steps of 200 ms and a third of
//! steps of 2 ms. The governor lets the first stretch be captured whole, and from then on spends
//! a share of the time that passes: it opens a window when it has saved what one costs, and closes
//! it when that is used up. Where capturing costs less than the budget, the window stays open.

use gpustall_trace::{MonoTime, Nanos};

/// How long a run is captured whole before the budget counts.
pub const DEFAULT_WHOLE: Nanos = Nanos::new(20_000_000_000);

/// Share of the time that capturing may cost after that.
pub const DEFAULT_BUDGET: f64 = 0.01;

/// Length of a window; it is longer where capturing is cheap.
pub const WINDOW: Nanos = Nanos::new(1_000_000_000);

/// What an operation on a device costs the job, its records included: measured on an H200, see
/// `docs/overhead.md`.
pub const OPERATION_COST: Nanos = Nanos::new(3_500);

/// What a recorded call costs the job.
pub const CALL_COST: Nanos = Nanos::new(600);

/// Share that capturing is taken to cost until a window has shown it.
const FIRST_GUESS: f64 = 0.3;

/// Windows that can be saved up, at most.
const MOST_SAVED: f64 = 3.0;

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    Stay,
    Open,
    Close,
}

/// Decides when windows open and close.
#[derive(Debug)]
pub(crate) struct Governor {
    /// `None`: everything is captured.
    budget: Option<f64>,
    whole_until: MonoTime,
    /// Costs that may still be spent, nanoseconds; negative when too much was spent.
    saved: f64,
    /// What a window is expected to cost, as a share of its length.
    rate: f64,
    open_since: Option<MonoTime>,
    spent_at_open: u64,
    last: MonoTime,
    last_spent: u64,
    asked: bool,
}

impl Governor {
    /// Starts with an open window if anything is captured whole, or without a budget.
    pub(crate) fn new(budget: Option<f64>, whole: Nanos, now: MonoTime) -> Self {
        let whole_until = MonoTime::from_nanos(now.as_nanos().saturating_add(whole.get()));
        let open = budget.is_none() || whole > Nanos::ZERO;
        Self {
            budget: budget.map(|share| share.clamp(1e-6, 1.0)),
            whole_until,
            saved: 0.0,
            rate: FIRST_GUESS,
            open_since: open.then_some(now),
            spent_at_open: 0,
            last: now,
            last_spent: 0,
            asked: false,
        }
    }

    /// Whether a window is open.
    pub(crate) fn is_open(&self) -> bool {
        self.open_since.is_some()
    }

    /// Opens a window at the next [`tick`](Self::tick), saved up for or not.
    pub(crate) fn ask(&mut self) {
        self.asked = true;
    }

    /// Decides; `spent` is what capturing has cost since the start.
    pub(crate) fn tick(&mut self, now: MonoTime, spent: Nanos) -> Decision {
        let Some(budget) = self.budget else {
            return Decision::Stay;
        };
        let spent = spent.get();
        if now <= self.whole_until {
            (self.last, self.last_spent) = (now, spent);
            self.learn(now, spent);
            return Decision::Stay;
        }
        let since = self.last.max(self.whole_until);
        let passed = now.as_nanos().saturating_sub(since.as_nanos()) as f64;
        self.saved += passed * budget - (spent - self.last_spent) as f64;
        (self.last, self.last_spent) = (now, spent);
        let window = WINDOW.get() as f64;
        match self.open_since {
            Some(opened) => {
                self.learn(now, spent);
                let length = now.as_nanos().saturating_sub(opened.as_nanos());
                if length < WINDOW.get() || self.saved > 0.0 {
                    return Decision::Stay;
                }
                self.open_since = None;
                Decision::Close
            }
            None => {
                let price = self.rate * window;
                self.saved = self.saved.min(price * MOST_SAVED);
                if self.saved < price && !self.asked {
                    return Decision::Stay;
                }
                self.asked = false;
                self.open_since = Some(now);
                self.spent_at_open = spent;
                Decision::Open
            }
        }
    }

    fn learn(&mut self, now: MonoTime, spent: u64) {
        if let Some(opened) = self.open_since {
            let length = now.as_nanos().saturating_sub(opened.as_nanos());
            if length >= WINDOW.get() / 2 {
                self.rate = (spent - self.spent_at_open) as f64 / length as f64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 50_000_000;

    /// Runs for so many seconds with operations that cost `rate` of an open window; returns the
    /// share of the time that was spent and that was captured.
    fn run(budget: Option<f64>, whole: Nanos, rate: f64, seconds: u64) -> (f64, f64) {
        let mut governor = Governor::new(budget, whole, MonoTime::from_nanos(0));
        let (mut spent, mut open) = (0.0, 0_u64);
        let ticks = seconds * 1_000_000_000 / TICK;
        for tick in 1..=ticks {
            if governor.is_open() {
                spent += rate * TICK as f64;
                open += 1;
            }
            governor.tick(MonoTime::from_nanos(tick * TICK), Nanos::new(spent as u64));
        }
        let length = (ticks * TICK) as f64;
        (spent / length, open as f64 / ticks as f64)
    }

    #[test]
    fn the_cost_stays_under_the_budget() {
        for rate in [0.02, 0.1, 0.3, 0.9] {
            let (spent, captured) = run(Some(0.01), Nanos::ZERO, rate, 600);
            assert!(spent <= 0.0101, "{rate}: {spent}");
            // And what there is, is used.
            assert!(captured * rate >= 0.007, "{rate}: {captured}");
        }
    }

    #[test]
    fn cheap_capturing_goes_on() {
        let (_, captured) = run(Some(0.01), Nanos::ZERO, 0.005, 600);
        assert!(captured > 0.9, "{captured}");
    }

    #[test]
    fn a_short_run_is_captured_whole() {
        let (_, captured) = run(Some(0.01), DEFAULT_WHOLE, 0.9, 20);
        assert_eq!(captured, 1.0);
    }

    #[test]
    fn without_a_budget_everything_is_captured() {
        let (_, captured) = run(None, Nanos::ZERO, 0.9, 60);
        assert_eq!(captured, 1.0);
    }

    #[test]
    fn a_window_that_is_asked_for_opens_at_once() {
        let mut governor = Governor::new(Some(0.01), Nanos::ZERO, MonoTime::from_nanos(0));
        let at = |ticks: u64| MonoTime::from_nanos(ticks * TICK);
        assert_eq!(governor.tick(at(1), Nanos::ZERO), Decision::Stay);
        governor.ask();
        assert_eq!(governor.tick(at(2), Nanos::ZERO), Decision::Open);
        assert!(governor.is_open());
    }
}
