use super::*;
use crate::governor::{Decision, Governor, OPERATION_COST};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// How often the governor is asked.
const TICK: u64 = 50_000_000;
const SECOND: u64 = 1_000_000_000;

/// A job on a clock of its own.
#[derive(Debug, Clone)]
struct Job {
    /// Length of a step without capturing, at a time, of the step with this number.
    step: fn(u64, u64) -> u64,
    operations: u64,
    /// What an operation really costs, nanoseconds.
    cost: u64,
    /// Steps differ by this share at random (standard deviation).
    noise: f64,
    seed: u64,
}

/// What came of it.
#[derive(Debug)]
struct Outcome {
    /// Share of the time that capturing cost, in the second half.
    spent: f64,
    /// Share of the time that was captured, in the second half.
    captured: f64,
    measured: Option<MeasuredCost>,
    factor: f64,
}

impl Job {
    fn of(step: fn(u64, u64) -> u64, operations: u64, cost: u64) -> Self {
        Self {
            step,
            operations,
            cost,
            noise: 0.01,
            seed: 7,
        }
    }

    /// A number around 0 with a standard deviation of 1, of which one in a hundred is far away.
    fn random(&mut self) -> f64 {
        let mut sum = 0.0;
        for _ in 0..12 {
            self.seed ^= self.seed << 13;
            self.seed ^= self.seed >> 7;
            self.seed ^= self.seed << 17;
            sum += (self.seed >> 11) as f64 / (1u64 << 53) as f64;
        }
        match self.seed % 100 {
            0 => 10.0 * (sum - 6.0).abs(),
            _ => sum - 6.0,
        }
    }

    /// Runs under the governor, which is told its cost by the model times the factor.
    fn run(mut self, seconds: u64) -> Outcome {
        let at = MonoTime::from_nanos;
        let mut governor = Governor::new(Some(0.01), Nanos::ZERO, at(0));
        let mut price = Price::default();
        let (mut now, mut steps, mut looked) = (0, 0, 0);
        let (mut modelled, mut priced) = (0, 0.0);
        let (mut half, mut spent, mut captured) = (0, 0, 0);
        while now < seconds * SECOND {
            let noise = (1.0 + self.noise * self.random()).max(0.3);
            let plain = ((self.step)(now, steps) as f64 * noise) as u64;
            let open = governor.is_open();
            let cost = if open { self.operations * self.cost } else { 0 };
            if open {
                let more = self.operations * OPERATION_COST.get();
                modelled += more;
                priced += more as f64 * price.factor();
            }
            price.step(1, at(now), at(now + plain + cost));
            now += plain + cost;
            steps += 1;
            if now >= seconds * SECOND / 2 {
                half += plain + cost;
                spent += cost;
                captured += if open { plain + cost } else { 0 };
            }
            if now / TICK != looked / TICK {
                match governor.tick(at(now), Nanos::new(priced as u64)) {
                    Decision::Open => price.opened(at(now), Nanos::new(modelled)),
                    Decision::Close => price.closed(at(now)),
                    Decision::Stay => {}
                }
            }
            looked = now;
        }
        Outcome {
            spent: spent as f64 / half as f64,
            captured: captured as f64 / half as f64,
            measured: price.measured(),
            factor: price.factor(),
        }
    }
}

#[test]
fn the_model_stands_until_windows_were_compared() {
    let mut price = Price::default();
    assert_eq!((price.factor(), price.measured()), (1.0, None));
    for n in 0..3 {
        let at = |ms: u64| MonoTime::from_nanos((n * 2_000 + ms) * 1_000_000);
        price.opened(at(500), Nanos::new(n * 1_000_000));
        price.closed(at(600));
    }
    assert_eq!((price.factor(), price.measured()), (1.0, None));
}

#[test]
fn what_operations_really_cost_is_found_and_the_budget_is_used() {
    for (ms, cost) in [(5, 1_500), (3, 1_000), (10, 6_000), (20, 3_000)] {
        let step: fn(u64, u64) -> u64 = match ms {
            3 => |_, _| 3_000_000,
            5 => |_, _| 5_000_000,
            10 => |_, _| 10_000_000,
            _ => |_, _| 20_000_000,
        };
        let outcome = Job::of(step, 120, cost).run(300);
        let text = format!("{ms} ms, {cost} ns: {outcome:?}");
        let truth = cost as f64 / OPERATION_COST.get() as f64;
        let slowdown = (120 * cost) as f64 / (f64::from(ms) * 1e6);
        assert!(outcome.factor >= truth, "{text}");
        assert!(outcome.factor <= truth + 0.15, "{text}");
        assert!(outcome.spent <= 0.01, "{text}");
        // Under the model alone it is this share of the budget.
        assert!(outcome.captured > 1.3 * 0.01 / slowdown * truth, "{text}");
        let measured = outcome.measured.expect("measured");
        let off = (measured.slowdown - slowdown).abs();
        assert!(off < 4.0 * measured.error + 0.003, "{text}");
    }
}

#[test]
fn a_job_whose_operations_cost_more_than_the_model_says_is_held_to_the_budget() {
    let job = Job::of(|_, _| 10_000_000, 100, 30_000);
    let outcome = job.run(300);
    assert!(outcome.factor >= 2.5, "{outcome:?}");
    assert!(outcome.spent <= 0.0115, "{outcome:?}");
}

#[test]
fn steps_that_grow_slowly_are_no_cost_of_capturing() {
    // Twice as long after three minutes.
    let growing = |now: u64, _| 5_000_000 + now / 36_000;
    let outcome = Job::of(growing, 120, 1_500).run(180);
    let truth = 0.15;
    assert!(
        (truth..truth + 0.2).contains(&outcome.factor),
        "{outcome:?}"
    );
    // And the other way round.
    let shrinking = |now: u64, _| 10_000_000 - now / 36_000;
    let outcome = Job::of(shrinking, 120, 1_500).run(180);
    assert!(
        (truth..truth + 0.2).contains(&outcome.factor),
        "{outcome:?}"
    );
}

#[test]
fn phases_and_steps_of_two_lengths_are_no_cost_of_capturing() {
    // Every 7 s the job does something else.
    let phases: fn(u64, u64) -> u64 =
        |now, _| [4_000_000, 9_000_000][(now / (7 * SECOND) % 2) as usize];
    // Every fourth step also updates the weights.
    let updates: fn(u64, u64) -> u64 =
        |_, n| [3_000_000, 9_000_000][usize::from(n.is_multiple_of(4))];
    for step in [phases, updates] {
        let outcome = Job::of(step, 120, 2_000).run(300);
        assert!((0.2..0.6).contains(&outcome.factor), "{outcome:?}");
        assert!(outcome.spent <= 0.01, "{outcome:?}");
    }
}

#[test]
fn steps_that_are_too_noisy_to_tell_leave_the_model() {
    for seed in [1, 2, 3, 4, 5, 6, 7, 8] {
        let job = Job {
            noise: 0.6,
            seed,
            ..Job::of(|_, _| 40_000_000, 100, 5_000)
        };
        let outcome = job.run(120);
        assert!((0.5..1.6).contains(&outcome.factor), "{outcome:?}");
    }
}

#[test]
fn validation_beside_training_does_not_count() {
    let mut price = Price::default();
    let at = MonoTime::from_nanos;
    let mut now = 0;
    for n in 0..20 {
        // Training steps of 2 ms; in the window, 2.2 ms. Another loop's steps are many and long outside.
        for part in 0..3 {
            let length = if part == 1 { 2_200_000 } else { 2_000_000 };
            if part == 1 {
                price.opened(at(now), Nanos::new(n * 20_000_000));
            }
            for _ in 0..50 {
                price.step(1, at(now), at(now + length));
                now += length;
            }
            if part == 1 {
                price.closed(at(now));
            }
            for _ in 0..100 {
                if part != 1 {
                    price.step(2, at(now), at(now + 5_000_000));
                    now += 5_000_000;
                }
            }
            // Until records were written.
            now += 400_000_000;
        }
    }
    let measured = price.measured().expect("measured");
    assert!((measured.slowdown - 0.1).abs() < 1e-6, "{measured:?}");
    // 10 ms of 110 ms, where the model says 20 ms.
    assert!((measured.factor - 0.5).abs() < 0.05, "{measured:?}");
}

proptest! {
    // The bound is one of chance, so the cases are the same in every run.
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::with_cases(24) })]

    /// Whatever the steps cost, and whatever they look like, the budget holds.
    #[test]
    fn the_budget_holds(
        ms in 1u64..60,
        operations in 20u64..400,
        cost in 300u64..15_000,
        noise in 0.0f64..0.3,
        seed in 1u64..,
    ) {
        // Lengths are taken from the seed, since a step is a plain function.
        let step: fn(u64, u64) -> u64 = match ms {
            0..3 => |_, _| 2_000_000,
            3..8 => |_, _| 5_000_000,
            8..20 => |_, _| 12_000_000,
            _ => |_, _| 45_000_000,
        };
        let outcome = Job { noise, seed, ..Job::of(step, operations, cost) }.run(120);
        prop_assert!(outcome.factor.is_finite());
        prop_assert!(outcome.spent <= 0.016, "{outcome:?}");
    }

    /// Steps and windows in any order and of any length are survived.
    #[test]
    fn nothing_that_is_told_breaks_it(
        told in proptest::collection::vec((0u8..4, any::<u64>(), any::<u64>()), 0..400),
    ) {
        let mut price = Price::default();
        for (what, a, b) in told {
            let at = MonoTime::from_nanos;
            match what {
                0 => price.step((b % 3) as u32, at(a), at(b)),
                1 => price.opened(at(a), Nanos::new(b)),
                2 => price.closed(at(a)),
                _ => price.judge(at(a), Nanos::new(b)),
            }
            prop_assert!((FACTORS.0..=FACTORS.1).contains(&price.factor()));
        }
    }
}
