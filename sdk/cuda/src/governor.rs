//! When to capture: so that what it costs stays under a budget.
//!
//! CUPTI costs some microseconds an operation, which is nothing to steps of 200 ms and a third of
//! steps of 2 ms. The governor lets the first stretch be captured whole, and from then on spends
//! a share of the time that passes: it opens a window when it has saved what one is expected to
//! cost, and closes it when that is used up. What it expects is what the windows before have cost, which it
//! is told: by a model, and as measured on the steps of the job (`price.rs`).
//! Where capturing costs less than the budget, the window stays open.

use gpustall_trace::{MonoTime, Nanos};

/// How long a run is captured whole before the budget counts.
pub const DEFAULT_WHOLE: Nanos = Nanos::new(20_000_000_000);

/// Share of the time that capturing may cost after that.
pub const DEFAULT_BUDGET: f64 = 0.01;

/// The shortest window. It is longer where capturing is cheap.
pub const WINDOW: Nanos = Nanos::new(100_000_000);

/// The window that is saved up for, at most, and the length of one that was asked for.
const LONGEST: f64 = 1e9;

/// What an operation on a device costs the job, its records and its call included: on an H200 (see
/// `docs/overhead.md`) about 1 us in a window that stays open, up to 5 us in short ones, in whose first and
/// last steps it is opened and closed. The governor reckons with twice that until it has measured.
pub const OPERATION_COST: Nanos = Nanos::new(10_000);

/// What a recorded call costs the job beyond that.
pub const CALL_COST: Nanos = Nanos::new(600);

/// The first window needs to be this long only, and is taken to cost this share of its length: it
/// shows what windows cost.
const FIRST: (Nanos, f64) = (Nanos::new(50_000_000), 0.4);

/// How far windows are apart where they are not of the shortest or longest kind, nanoseconds.
const PERIOD: f64 = 3e9;

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
    /// What windows have cost, as a share of their length; `None` until one has shown it.
    rate: Option<f64>,
    open_since: Option<MonoTime>,
    /// The open window was asked for.
    on_demand: bool,
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
            rate: None,
            open_since: open.then_some(now),
            on_demand: false,
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

    /// Whether a window is open that closes when its cost is used up: what was spent is to be
    /// known soon then.
    pub(crate) fn is_rationed(&self, now: MonoTime) -> bool {
        self.is_open() && self.budget.is_some() && now > self.whole_until
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
            return Decision::Stay;
        }
        let since = self.last.max(self.whole_until);
        let passed = now.as_nanos().saturating_sub(since.as_nanos()) as f64;
        let (shortest, price) = self.next_window(budget);
        // While a job is idle it saves for one window, not for a share of the time that it was idle.
        let most = price.max(budget * PERIOD);
        self.saved += passed * budget - spent.saturating_sub(self.last_spent) as f64;
        self.saved = self.saved.min(most);
        (self.last, self.last_spent) = (now, spent);
        match self.open_since {
            Some(opened) => {
                let length = now.as_nanos().saturating_sub(opened.as_nanos()) as f64;
                let least = if self.on_demand { LONGEST } else { shortest };
                if length < least || self.saved > 0.0 {
                    return Decision::Stay;
                }
                let cost = spent.saturating_sub(self.spent_at_open) as f64 / length;
                // Windows of one job differ: some hold an evaluation, or nothing.
                self.rate = Some(self.rate.map_or(cost, |before| (before + cost) / 2.0));
                (self.open_since, self.on_demand) = (None, false);
                Decision::Close
            }
            None if self.saved >= price || self.asked => {
                self.on_demand = std::mem::take(&mut self.asked);
                self.open_since = Some(now);
                self.spent_at_open = spent;
                Decision::Open
            }
            None => Decision::Stay,
        }
    }

    /// How long the next window is at least, and what is saved up for it, both in nanoseconds.
    fn next_window(&self, budget: f64) -> (f64, f64) {
        let shortest = WINDOW.get() as f64;
        match self.rate {
            None => (FIRST.0.get() as f64, FIRST.0.get() as f64 * FIRST.1),
            Some(rate) => {
                let affordable = budget * PERIOD / rate.max(1e-6);
                (shortest, rate * affordable.clamp(shortest, LONGEST))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 50_000_000;

    /// A job on a clock of its own: steps that take so long without capturing, each with so many
    /// operations, each of which takes `cost` longer in an open window.
    struct Job {
        step: u64,
        operations: u64,
        cost: u64,
    }

    /// What came of it, as shares of the time, and when windows opened (nanoseconds).
    struct Outcome {
        spent: f64,
        captured: f64,
        opened: Vec<u64>,
    }

    impl Job {
        fn run(&self, budget: Option<f64>, whole: Nanos, seconds: u64) -> Outcome {
            let mut governor = Governor::new(budget, whole, MonoTime::from_nanos(0));
            let (mut now, mut open_for, mut lost) = (0, 0, 0);
            let (mut seen, mut known, mut looked) = (0, 0, 0);
            let mut opened = Vec::new();
            while now < seconds * 1_000_000_000 {
                let length = if governor.is_open() {
                    seen += self.operations;
                    lost += self.operations * self.cost;
                    self.step + self.operations * self.cost
                } else {
                    self.step
                };
                open_for += if governor.is_open() { length } else { 0 };
                now += length;
                // Costs are known when records have come, which is not at once.
                if now / (2 * TICK) != looked / (2 * TICK) {
                    known = seen;
                }
                if now / TICK != looked / TICK {
                    let spent = Nanos::new(known * OPERATION_COST.get());
                    if governor.tick(MonoTime::from_nanos(now), spent) == Decision::Open {
                        opened.push(now);
                    }
                }
                looked = now;
            }
            Outcome {
                spent: lost as f64 / now as f64,
                captured: open_for as f64 / now as f64,
                opened,
            }
        }
    }

    /// Runs for so many seconds with operations that cost `rate` of an open window; returns the
    /// share of the time that was spent and that was captured.
    fn run(budget: Option<f64>, whole: Nanos, rate: f64, seconds: u64) -> (f64, f64) {
        let operations = (rate * 1e7 / OPERATION_COST.get() as f64) as u64;
        let cost = OPERATION_COST.get();
        let job = Job {
            step: 10_000_000 - operations * cost,
            operations,
            cost,
        };
        let outcome = job.run(budget, whole, seconds);
        (outcome.spent, outcome.captured)
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
    fn short_steps_are_seen_within_the_budget() {
        for ms in [1, 10, 50] {
            for operations in [10, 85, 400] {
                // The true cost is at most the one that is reckoned with.
                for cost in [6_000, 10_000] {
                    let job = Job {
                        step: ms * 1_000_000,
                        operations,
                        cost,
                    };
                    let text = format!("{ms} ms, {operations} operations of {cost} ns");
                    let outcome = job.run(Some(0.01), Nanos::ZERO, 120);
                    assert!(outcome.spent <= 0.0105, "{text}: {}", outcome.spent);
                    assert!(outcome.captured >= 0.006, "{text}: {}", outcome.captured);
                    let first = outcome.opened[0];
                    assert!(first <= 2_500_000_000, "{text}: {first}");
                    // Many short windows rather than few long ones, or one that stays open.
                    let windows = outcome.opened.len();
                    assert!(windows >= 6 || outcome.captured > 0.9, "{text}: {windows}");
                }
            }
        }
    }

    #[test]
    fn a_run_of_five_seconds_has_a_window() {
        let job = Job {
            step: 3_000_000,
            operations: 85,
            cost: 10_000,
        };
        let outcome = job.run(Some(0.01), Nanos::ZERO, 5);
        assert!(!outcome.opened.is_empty());
        assert!(outcome.spent <= 0.0125, "{}", outcome.spent);
    }

    #[test]
    fn a_slow_start_does_not_save_up_for_a_long_window() {
        let mut governor = Governor::new(Some(0.01), Nanos::ZERO, MonoTime::from_nanos(0));
        let (mut now, mut spent) = (0, 0);
        for _ in 0..2_000 {
            now += TICK;
            governor.tick(MonoTime::from_nanos(now), Nanos::ZERO);
        }
        assert!(governor.is_open(), "nothing happens, so nothing is spent");
        let began = now;
        while governor.is_open() {
            now += TICK;
            spent += TICK / 2;
            governor.tick(MonoTime::from_nanos(now), Nanos::new(spent));
        }
        assert!(now - began <= 200_000_000, "{}", now - began);
    }

    #[test]
    fn an_idle_job_saves_for_one_window() {
        let mut governor = Governor::new(Some(0.01), Nanos::ZERO, MonoTime::from_nanos(0));
        let (mut now, mut spent) = (0, 0);
        let mut tick = |spent: u64| {
            now += TICK;
            governor.tick(MonoTime::from_nanos(now), Nanos::new(spent));
            governor.is_open()
        };
        for _ in 0..2_000 {
            tick(spent);
        }
        // Then it works for 4 s, and capturing costs a third of it.
        for _ in 0..80 {
            spent += if tick(spent) { TICK / 3 } else { 0 };
        }
        let (window, share) = (budget_of(3_000), budget_of(4_000));
        assert!(spent <= window + share + 2 * TICK / 3, "{spent}");
    }

    /// A budget of 1 % of so many milliseconds.
    fn budget_of(milliseconds: u64) -> u64 {
        milliseconds * 10_000
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
        // And it stays for a while.
        let dear = Nanos::new(1_000_000_000);
        assert_eq!(governor.tick(at(12), dear), Decision::Stay);
        assert_eq!(governor.tick(at(23), dear), Decision::Close);
    }
}
