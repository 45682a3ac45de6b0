//! Where batches are uneven.

use super::*;
use crate::disk::{Disk, Made};
use proptest::prelude::*;

/// What batches take that block, in milliseconds.
fn blocking(ms: impl IntoIterator<Item = u64>) -> Vec<Making> {
    let ms = ms.into_iter().map(|ms| (ms * MS) as f64);
    ms.map(|blocked| Making { blocked, cpu: 0.0 }).collect()
}

/// Of a loader of PyTorch, 5 ms a step.
fn uneven(recorded: &[Making]) -> Costs<'_> {
    let mean = recorded.iter().map(|of| of.blocked).sum::<f64>() / recorded.len() as f64;
    Costs {
        unhindered: Nanos::new(mean as u64),
        rest: Nanos::new(5 * MS),
        recorded,
        queue: Queue::EachWorker(2),
        ..costs(1, 0, 64)
    }
}

#[test]
fn where_batches_are_uneven_more_workers_are_advised_than_their_mean_asks_for() {
    let bursts = blocking((0..400).map(|i| if i % 10 == 9 { 100 } else { 1 }));
    let alike = Costs {
        recorded: &[],
        ..uneven(&bursts)
    };
    assert_eq!(steps(alike)[..4], [10, 5, 5, 5]);
    assert_eq!(enough(&alike.counts()).map(|of| of.workers), Some(3));
    let counts = uneven(&bursts).counts();
    let found = |workers: usize| counts[workers - 1].predicted_step_ns as f64 / MS as f64;
    assert!((found(4) - 11.0).abs() < 0.3, "{}", found(4));
    assert!((found(8) - 6.0).abs() < 0.2, "{}", found(8));
    // Of ten one has all the slow ones: no reason to have nine.
    assert!(found(10) <= found(9), "{}", found(10));
    assert_eq!(enough(&counts).map(|of| of.workers), Some(11));
}

#[test]
fn as_many_workers_are_predicted_as_keep_up_with_the_slow_batches() {
    let half = blocking((0..400).map(|i| if i < 200 { 100 } else { 1 }));
    let few = Costs {
        cpus: 1,
        ..uneven(&half)
    };
    // They take 50.5 ms on average, for which 11 would do. With 19 a step takes 5.3 ms in the first half and
    // 5 ms in the other, less what they have ahead when the epoch begins.
    let counts = few.counts();
    assert_eq!(counts.len(), 20);
    let enough = enough(&counts).map(|of| of.workers);
    assert!(matches!(enough, Some(18 | 19)), "{enough:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn more_workers_are_no_slower_where_there_are_cpus_enough(
        ms in prop::collection::vec(1_u64..200, 20..80),
        ahead in 1_u64..4,
        burn in any::<bool>(),
    ) {
        let recorded = blocking(ms);
        let costs = Costs {
            batches: recorded.len() as u64,
            queue: if burn { Queue::Shared(100) } else { Queue::EachWorker(ahead) },
            cpus: 8,
            ..uneven(&recorded)
        };
        let mut before = u64::MAX;
        for count in costs.counts() {
            let step = count.predicted_step_ns;
            prop_assert!(step <= before, "{count:?} after {before}");
            prop_assert!(step >= costs.rest.get(), "{count:?}");
            prop_assert!(step >= costs.unhindered.get() / count.workers, "{count:?}");
            before = step;
        }
    }

    #[test]
    fn more_readers_and_more_batches_ahead_are_no_slower(
        ms in prop::collection::vec(1_u64..200, 20..80),
        have in 1_u64..6,
        slows in prop::sample::select(vec![(0.0, 1.0), (0.0, 0.2), (0.4, 0.7), (1.0, 1.0)]),
        read in 0.2_f64..1.0,
    ) {
        let recorded = blocking(ms);
        let costs = uneven(&recorded);
        let read = Nanos::new((costs.unhindered.get() as f64 * read) as u64);
        let reached = costs.count(have, costs.unhindered).predicted_step_ns;
        let reading = Reading {
            disk: Disk::seen(have as f64 * 0.8, slows),
            made: Made { workers: have, read, other: costs.unhindered - read },
            step: Some(Nanos::new(reached)),
            in_process: false,
        };
        let costs = Costs {
            batches: recorded.len() as u64,
            cpus: 8,
            reading: Some(reading),
            reached: Some(of_reached(have, Nanos::new(reached))),
            ..costs
        };
        let mut before = (u64::MAX, u64::MAX);
        for count in costs.counts() {
            let longest = count.at_most_step_ns.unwrap_or(count.predicted_step_ns);
            let step = (count.predicted_step_ns, longest);
            prop_assert!(step.0 <= before.0 && step.1 <= before.1, "{count:?} after {before:?}");
            before = step;
        }
        let mut before = Nanos::new(u64::MAX);
        for each in [2, 4, 8, 16, 32] {
            let step = costs.step_with_ahead(have, each);
            let step = step.expect("the step was reached");
            prop_assert!(step <= before, "{step} with {each} ahead, {before} with fewer");
            before = step;
        }
    }
}
