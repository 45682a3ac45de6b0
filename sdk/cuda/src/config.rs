//! How much is captured, and the variables of the environment that say so.

use crate::governor::{DEFAULT_BUDGET, DEFAULT_WHOLE};
use gpustall_trace::Nanos;

/// What capturing may cost, percent of the time; `all` captures everything.
pub const BUDGET_VARIABLE: &str = "GPUSTALL_CUDA_BUDGET";

/// Seconds that are captured whole before the budget counts.
pub const WHOLE_VARIABLE: &str = "GPUSTALL_CUDA_WHOLE";

/// What is recorded: `all` for everything that CUPTI has of what a viewer can show, synchronisations
/// of jobs with one stream and the profiler's own time included.
pub const KINDS_VARIABLE: &str = "GPUSTALL_CUDA_KINDS";

/// How much is captured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Share of the time (0..1) that capturing may cost; `None` captures everything.
    pub budget: Option<f64>,
    /// How long a run is captured whole before the budget counts.
    pub whole: Nanos,
    /// Whether also to record what no finding needs.
    pub every_kind: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            budget: Some(DEFAULT_BUDGET),
            whole: DEFAULT_WHOLE,
            every_kind: false,
        }
    }
}

impl Config {
    /// From the variables of the environment, which `variable` looks up. What cannot be read in
    /// them is as without them: a typo must not make a job slow.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let mut config = Self::default();
        if let Some(budget) = variable(BUDGET_VARIABLE) {
            let percent = budget.trim().trim_end_matches('%').trim();
            match percent.parse::<f64>() {
                _ if percent.eq_ignore_ascii_case("all") => config.budget = None,
                Ok(percent) if percent.is_finite() && percent >= 0.0 => {
                    config.budget = Some(percent / 100.0);
                }
                _ => {}
            }
        }
        let whole = variable(WHOLE_VARIABLE).and_then(|text| text.trim().parse::<f64>().ok());
        if let Some(seconds) = whole.filter(|seconds| seconds.is_finite() && *seconds >= 0.0) {
            config.whole = Nanos::new((seconds * 1e9) as u64);
        }
        config.every_kind = variable(KINDS_VARIABLE).is_some_and(|kinds| kinds.trim() == "all");
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_percent_or_all() {
        let budget = |text: &str| {
            Config::of(|name| (name == BUDGET_VARIABLE).then(|| text.to_owned())).budget
        };
        assert_eq!(budget("2"), Some(0.02));
        assert_eq!(budget("0.5%"), Some(0.005));
        assert_eq!(budget("all"), None);
        assert_eq!(budget("much"), Some(DEFAULT_BUDGET));
    }

    #[test]
    fn kinds_are_what_findings_need_or_all() {
        let every = |text: &str| {
            Config::of(|name| (name == KINDS_VARIABLE).then(|| text.to_owned())).every_kind
        };
        assert!(every("all"));
        assert!(!every("some"));
    }

    #[test]
    fn the_beginning_is_given_in_seconds() {
        let whole =
            |text: &str| Config::of(|name| (name == WHOLE_VARIABLE).then(|| text.to_owned())).whole;
        assert_eq!(whole("1.5"), Nanos::new(1_500_000_000));
        assert_eq!(whole("-1"), DEFAULT_WHOLE);
    }
}
