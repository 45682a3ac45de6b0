//! Exact percentiles of lengths.

use gpustall_trace::Nanos;
use serde::{Deserialize, Serialize};

/// How a set of lengths is distributed. All times in nanoseconds; all 0 when `count` is 0.
///
/// A percentile is the nearest-rank one: `p` is the smallest value of the set such that at least
/// `p` percent of the set are not larger. It is always a value that occurred, never interpolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Distribution {
    /// How many lengths.
    pub count: u64,
    /// Their mean, rounded down.
    pub mean_ns: u64,
    /// Half of them are not larger.
    pub p50_ns: u64,
    /// 95 % of them are not larger.
    pub p95_ns: u64,
    /// 99 % of them are not larger.
    pub p99_ns: u64,
    /// The largest.
    pub max_ns: u64,
}

impl Distribution {
    /// The distribution of `lengths`, in any order.
    pub fn of(lengths: impl IntoIterator<Item = Nanos>) -> Self {
        let mut sorted: Vec<u64> = lengths.into_iter().map(Nanos::get).collect();
        sorted.sort_unstable();
        let Some(&max_ns) = sorted.last() else {
            return Self::default();
        };
        let sum: u128 = sorted.iter().map(|&ns| u128::from(ns)).sum();
        Self {
            count: sorted.len() as u64,
            mean_ns: u64::try_from(sum / sorted.len() as u128).unwrap_or(u64::MAX),
            p50_ns: nearest_rank(&sorted, 50),
            p95_ns: nearest_rank(&sorted, 95),
            p99_ns: nearest_rank(&sorted, 99),
            max_ns,
        }
    }
}

/// The nearest-rank percentile of a sorted, non-empty list; 0 for an empty one.
fn nearest_rank(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

/// Mean of `total` over `count`, rounded down; zero if there are none.
pub(crate) fn mean(total: Nanos, count: u64) -> Nanos {
    Nanos::new(total.get().checked_div(count).unwrap_or(0))
}

/// A share as it stands in a report: six decimals, so that it survives JSON unchanged.
pub(crate) fn round_share(share: f64) -> f64 {
    (share * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_percentile_is_the_smallest_value_that_enough_values_do_not_exceed(
            values in prop::collection::vec(0u64..50, 1..200),
        ) {
            let d = Distribution::of(values.iter().map(|&v| Nanos::new(v)));
            for (percent, got) in [(50, d.p50_ns), (95, d.p95_ns), (99, d.p99_ns), (100, d.max_ns)] {
                let enough = |limit: u64| {
                    values.iter().filter(|&&v| v <= limit).count() * 100 >= values.len() * percent
                };
                let expected = values.iter().copied().filter(|&v| enough(v)).min();
                prop_assert_eq!(Some(got), expected);
            }
        }
    }

    #[test]
    fn nothing_measured_has_no_percentiles() {
        assert_eq!(Distribution::of([]), Distribution::default());
        assert_eq!(mean(Nanos::new(5), 0), Nanos::ZERO);
    }
}
