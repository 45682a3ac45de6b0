//! Workers that by turns wait for a disk and do something else.

use super::rate::Rate;

/// Batches a nanosecond that so many workers make, where beside the disk a batch takes `other`
/// nanoseconds, and the workers meet at the disk as little as they can.
pub(super) fn batches(rate: &Rate, workers: f64, other: f64) -> f64 {
    // So many wait that those and the ones that do something else are all.
    let (mut few, mut many) = (0.0, workers);
    for _ in 0..50 {
        let wait = (few + many) / 2.0;
        match wait + rate.at(wait) * other < workers {
            true => few = wait,
            false => many = wait,
        }
    }
    rate.at(many)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(slows: f64) -> Rate {
        Rate {
            readers: 1.0,
            given: 0.1,
            slows,
            fewest: 0.0,
            most: 1.0,
        }
    }

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-3, "{found}");
    }

    #[test]
    fn a_disk_at_its_limit_gives_all_that_it_has_to_any_number() {
        for (workers, other) in [(1.0, 0.0), (2.0, 10.0), (40.0, 10.0)] {
            near(batches(&rate(1.0), workers, other), 0.1);
        }
    }

    #[test]
    fn readers_that_do_not_hold_each_other_up_are_as_fast_as_one_each() {
        // 10 ns at the disk and 10 ns beside it.
        for workers in [1.0, 2.0, 40.0] {
            near(batches(&rate(0.0), workers, 10.0), workers / 20.0);
        }
    }
}
