//! What capturing costs the job, measured on the job's own steps.
//!
//! Windows open and close while the job repeats its steps, so each window is an experiment: the steps
//! inside it against those just before and after it. [`Price`] compares them, window by window, with what
//! the model of [`OPERATION_COST`](crate::OPERATION_COST) says of the same window, and gives the factor by
//! which the model is to be multiplied. It reads no clock and touches no device.
//!
//! - A comparison uses the steps on both sides, so a job whose steps grow slowly is not taken for a costly
//!   capture; where the sides differ much, the job did something else and the window tells nothing.
//! - How far single windows are apart tells how much their mean can be trusted. Until there are enough, and
//!   for as long as the steps are too noisy to tell, the model stands: what is believed starts from it and
//!   moves with the evidence.
//! - The factor is the upper end of what is believed, since the budget is a promise.

use gpustall_trace::{MonoTime, Nanos};
use std::collections::VecDeque;
use std::fmt;

/// Windows that must have been compared before they count.
pub const ENOUGH_WINDOWS: usize = 5;

/// Windows that are remembered: a job may change.
const REMEMBERED: usize = 40;

/// Steps that are remembered. Those of a second, where they take a millisecond, on both sides of a window.
const STEPS: usize = 4096;

/// Steps on one side of a window at most: those that are nearest to it.
const NEAREST: usize = 256;

/// Steps inside a window, and on each side of it, at least.
const FEWEST: usize = 8;

/// A step inside a window begins at least so long after it was opened.
const SETTLED: u64 = 2_000_000;

/// A step after a window begins at least so long after it was closed: until then its records are written.
const RESTED: u64 = 300_000_000;

/// Steps of the two sides differ at most by this factor in one experiment.
const SAME: f64 = 1.2;

/// What is believed of the factor before anything is measured: mean and standard deviation. Measured on an
/// H200, an operation costs 1 to 10 us, and the model reckons with 10; the upper end is the model.
const BEFORE: (f64, f64) = (0.5, 0.5 / UPPER_END);

/// Standard deviations from the mean to the upper end, which the cost is above once in twenty times.
const UPPER_END: f64 = 1.645;

/// Bounds of the factor.
const FACTORS: (f64, f64) = (0.05, 6.0);

/// What the steps say of the cost of capturing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredCost {
    /// Windows that were compared with the steps around them.
    pub windows: usize,
    /// By how much steps in a window were longer than those around it, as a share of these: mean over the
    /// windows. May come out below 0 where it is too small to be seen.
    pub slowdown: f64,
    /// Standard error of it.
    pub error: f64,
    /// By what the model of the cost is multiplied.
    pub factor: f64,
}

impl fmt::Display for MeasuredCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Steps while the devices were captured were {:.1} % longer than those just before and after \
             (standard error {:.1} %, {} windows).",
            100.0 * self.slowdown,
            100.0 * self.error,
            self.windows
        )
    }
}

/// Compares steps, and keeps what came of it.
#[derive(Debug, Default)]
pub(crate) struct Price {
    steps: VecDeque<Step>,
    window: Option<Window>,
    /// Of each window: by how much its steps were longer, and that as a multiple of the model.
    compared: VecDeque<(f64, f64)>,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    /// Which loop's.
    of: u32,
    start: u64,
    end: u64,
}

/// The last window.
#[derive(Debug, Clone, Copy)]
struct Window {
    /// When the one before it was closed.
    before: Option<u64>,
    opened: u64,
    closed: Option<u64>,
    /// Cost by the model, of everything until it was opened.
    modelled: Nanos,
}

impl Price {
    /// A step of the loop `of` is over. Steps of one loop come in order.
    pub(crate) fn step(&mut self, of: u32, start: MonoTime, end: MonoTime) {
        let (start, end) = (start.as_nanos(), end.as_nanos());
        if end <= start {
            return;
        }
        if self.steps.len() == STEPS {
            self.steps.pop_front();
        }
        self.steps.push_back(Step { of, start, end });
    }

    /// A window opens; `modelled` is the cost so far by the model. The one before it is judged now: its
    /// records have come.
    pub(crate) fn opened(&mut self, now: MonoTime, modelled: Nanos) {
        self.judge(now, modelled);
        self.window = Some(Window {
            before: self.window.and_then(|before| before.closed),
            opened: now.as_nanos(),
            closed: None,
            modelled,
        });
    }

    /// The window closes.
    pub(crate) fn closed(&mut self, now: MonoTime) {
        if let Some(window) = &mut self.window {
            window.closed = Some(now.as_nanos());
        }
    }

    /// Compares the steps of the last window, once it is closed, with those around it; `modelled` is the
    /// cost so far by the model.
    pub(crate) fn judge(&mut self, now: MonoTime, modelled: Nanos) {
        let Some(window) = self.window else { return };
        let Some(closed) = window.closed else { return };
        let length = closed.saturating_sub(window.opened) as f64;
        let modelled = modelled.get().saturating_sub(window.modelled.get()) as f64;
        // Nothing happened in it, or nothing that costs anything.
        if length == 0.0 || modelled < 1e-4 * length {
            return;
        }
        if let Some(slowdown) = self.slowdown(&window, closed, now.as_nanos()) {
            if self.compared.len() == REMEMBERED {
                self.compared.pop_front();
            }
            // Shares of the window's length, both of them.
            let (measured, modelled) = (slowdown / (1.0 + slowdown), modelled / length);
            let factor = (measured / modelled).clamp(-FACTORS.1, 2.0 * FACTORS.1);
            self.compared.push_back((slowdown, factor));
        }
        // Once.
        self.window = Some(Window {
            modelled: Nanos::new(u64::MAX),
            ..window
        });
    }

    /// By how much the steps in the window were longer than those around it, as a share.
    fn slowdown(&self, window: &Window, closed: u64, now: u64) -> Option<f64> {
        let of = self.loop_in(window.opened, closed)?;
        let within = |from: u64, to: u64| {
            let steps = self.steps.iter().copied();
            steps.filter(move |step| step.of == of && step.start >= from && step.end <= to)
        };
        let inside: Vec<Step> = within(window.opened.saturating_add(SETTLED), closed).collect();
        let count = inside.len().min(NEAREST);
        let rest = |before: u64| before.saturating_add(RESTED);
        let mut before: Vec<Step> = within(window.before.map_or(0, rest), window.opened).collect();
        before.drain(..before.len().saturating_sub(count));
        let after: Vec<Step> = within(rest(closed), now).take(count).collect();
        let [(when, inside), before, after] =
            [typical(&inside)?, typical(&before)?, typical(&after)?];
        if before.1.max(after.1) > SAME * before.1.min(after.1) {
            return None;
        }
        // What steps would have taken at the time of the window, on the line through its sides.
        let along = ((when - before.0) / (after.0 - before.0)).clamp(0.0, 1.0);
        let expected = before.1 + along * (after.1 - before.1);
        Some(inside / expected - 1.0)
    }

    /// The loop with the most steps inside.
    fn loop_in(&self, from: u64, to: u64) -> Option<u32> {
        let mut counts: Vec<(u32, usize)> = Vec::new();
        let inside = |step: &&Step| step.start >= from && step.end <= to;
        for step in self.steps.iter().filter(inside) {
            match counts.iter_mut().find(|(of, _)| *of == step.of) {
                Some((_, count)) => *count += 1,
                None => counts.push((step.of, 1)),
            }
        }
        counts
            .into_iter()
            .max_by_key(|&(_, count)| count)
            .map(|(of, _)| of)
    }

    /// By what the cost of the model is to be multiplied: 1 until something else is known.
    pub(crate) fn factor(&self) -> f64 {
        let factors = self.compared.iter().map(|&(_, factor)| factor);
        let Some((mean, error)) = mean_and_error(factors) else {
            return 1.0;
        };
        // What was believed and what was measured, each weighed by its certainty.
        let (weight, before) = (error.powi(-2), BEFORE.1.powi(-2));
        let sum = weight + before;
        let believed = (weight * mean + before * BEFORE.0) / sum;
        (believed + UPPER_END / sum.sqrt()).clamp(FACTORS.0, FACTORS.1)
    }

    /// What was measured, once enough was.
    pub(crate) fn measured(&self) -> Option<MeasuredCost> {
        let slowdowns = self.compared.iter().map(|&(slowdown, _)| slowdown);
        let (slowdown, error) = mean_and_error(slowdowns)?;
        Some(MeasuredCost {
            windows: self.compared.len(),
            slowdown,
            error,
            factor: self.factor(),
        })
    }
}

/// When the steps were, in the mean, and the mean of their lengths, each drawn to within five typical
/// deviations of the median: a checkpoint or a pause of the machine is not what is measured. `None` for too
/// few.
fn typical(steps: &[Step]) -> Option<(f64, f64)> {
    if steps.len() < FEWEST {
        return None;
    }
    let count = steps.len() as f64;
    let when = steps.iter().map(|step| step.start as f64).sum::<f64>() / count;
    let lengths = || steps.iter().map(|step| (step.end - step.start) as f64);
    let median = median(lengths().collect());
    let deviations = lengths().map(|length| (length - median).abs()).collect();
    let reach = 5.0 * self::median(deviations).max(0.02 * median);
    let drawn = lengths().map(|length| length.clamp(median - reach, median + reach));
    Some((when, drawn.sum::<f64>() / count))
}

fn median(mut values: Vec<f64>) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// The mean and its standard error, once there are enough values; never certain beyond doubt.
fn mean_and_error(values: impl ExactSizeIterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    let count = values.len();
    if count < ENOUGH_WINDOWS {
        return None;
    }
    let n = count as f64;
    let mean = values.clone().sum::<f64>() / n;
    let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
    // Few values seem closer together than they are: by Student's distribution, n - 3 of them. And the
    // steps between two windows are compared with both, so that their errors are two values'.
    let variance = 2.0 * squares / (n - 3.0);
    Some((mean, (variance / n).sqrt().max(1e-3)))
}

#[cfg(test)]
#[path = "price_tests.rs"]
mod tests;
