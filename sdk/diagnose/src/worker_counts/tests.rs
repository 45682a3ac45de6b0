use super::*;

mod uneven;

const MS: u64 = 1_000_000;

fn costs(unhindered: u64, cpu: u64, cpus: u32) -> Costs<'static> {
    Costs {
        unhindered: Nanos::new(unhindered * MS),
        cpu: Nanos::new(cpu * MS),
        rest: Nanos::new(10 * MS),
        trainers: 1,
        takers: 1,
        cpus,
        taken: 0.0,
        least: 1.0,
        batches: 10_000,
        recorded: &[],
        short: None,
        turnover: None,
        queue: Queue::Shared(100),
        reading: None,
        reached: None,
    }
}

fn of_reached(workers: u64, step: Nanos) -> Reached {
    Reached {
        workers,
        step,
        least: Nanos::ZERO,
    }
}

fn steps(costs: Costs<'_>) -> Vec<u64> {
    let counts = costs.counts();
    counts
        .iter()
        .map(|count| count.predicted_step_ns / MS)
        .collect()
}

#[test]
fn workers_that_sleep_scale_until_the_rest_of_the_step_is_the_limit() {
    assert_eq!(steps(costs(40, 0, 4)), [40, 20, 13, 10, 10, 10, 10, 10]);
}

#[test]
fn workers_that_compute_scale_until_the_cpus_are_the_limit() {
    assert_eq!(steps(costs(40, 40, 2)), [40, 25, 25, 25]);
    let words = in_words(&costs(40, 40, 2).counts());
    assert_eq!(
        words,
        "1: 40.0 ms, 2 and more: 25.0 ms, then the CPUs are the limit"
    );
}

#[test]
fn each_of_several_trainers_has_workers_of_its_own_and_they_share_the_cpus() {
    let of = |trainers: u64, takers: u64| Costs {
        trainers,
        takers,
        ..costs(40, 40, 8)
    };
    assert_eq!(steps(of(1, 1))[3], 10);
    // Twice 50 ms of work on eight CPUs.
    assert_eq!(steps(of(2, 2))[3], 12);
    assert_eq!(steps(of(2, 1))[3], 10);
}

/// What is predicted of it, where so many workers did reach a step of so many milliseconds.
fn reached(workers: u64, step: u64, of: Costs<'_>) -> Vec<u64> {
    let step = Nanos::new(step * MS);
    steps(Costs {
        reached: Some(of_reached(workers, step)),
        ..of
    })
}

#[test]
fn with_the_workers_that_there_were_the_step_is_the_measured_one() {
    let contended = costs(40, 40, 2);
    assert_eq!(steps(contended), [40, 25, 25, 25]);
    // Faster than predicted, and more of them are no slower.
    assert_eq!(reached(2, 20, contended), [40, 20, 20, 20]);
    assert_eq!(reached(1, 30, contended), [30, 25, 25, 25]);
    // Slower: what is not known to go away stays.
    assert_eq!(reached(2, 28, contended), [43, 28, 28, 28]);
    // Who made batches in the step itself did not need more CPUs than there are.
    assert_eq!(reached(0, 22, contended), [22, 22, 22, 22]);
    // Fewer than those that were faster than predicted are so as well, as long as they keep up.
    assert_eq!(reached(4, 20, contended), [40, 20, 20, 20]);
    // Of three CPUs others keep one busy.
    let against = Costs {
        taken: 1.0,
        ..costs(40, 40, 3)
    };
    assert_eq!(reached(4, 20, against)[..4], [40, 25, 25, 20]);
    // More than are predicted otherwise.
    assert_eq!(reached(6, 26, contended), [41, 26, 26, 26, 26, 26]);
}

#[test]
fn cpus_that_others_keep_busy_do_not_count() {
    let taken = Costs {
        taken: 2.0,
        ..costs(40, 40, 4)
    };
    assert_eq!(steps(taken)[7], 25);
    let free = |of: Costs<'_>| -> Vec<u64> {
        let counts = of.counts_if_free().into_iter();
        counts.map(|count| count.predicted_step_ns / MS).collect()
    };
    assert_eq!(free(taken)[..4], steps(costs(40, 40, 4))[..4]);
    // 5 ms that are not explained with three workers stay.
    let step = Nanos::new(30 * MS);
    let reached = Some(of_reached(3, step));
    assert_eq!(free(Costs { reached, ..taken })[..4], [45, 25, 18, 17]);
    assert!(free(costs(40, 40, 4)).is_empty());
}

#[test]
fn the_least_number_of_workers_within_a_twentieth_of_the_best_is_advised() {
    let sleeps = costs(100, 0, 2);
    assert_eq!(steps(sleeps)[7..], [12, 11, 10]);
    assert_eq!(enough(&sleeps.counts()).map(|of| of.workers), Some(10));
    let costs = Costs {
        rest: Nanos::new(12 * MS),
        ..sleeps
    };
    assert_eq!(steps(costs)[6..], [14, 12, 12]);
    assert_eq!(enough(&costs.counts()).map(|of| of.workers), Some(8));
    // The table goes on to where it stays.
    assert!(in_words(&costs.counts()).contains("9 and more: 12.0 ms"));
}

/// Seven batches of 800 ms an epoch, or so many.
fn short(batches: u64) -> Costs<'static> {
    Costs {
        short: Some(batches),
        ..costs(800, 0, 16)
    }
}

#[test]
fn a_short_epoch_takes_as_many_rounds_as_its_workers_need() {
    let steps = steps(short(7));
    // 800 ms a round and 10 a step after the last one, over seven.
    assert_eq!(steps[..8], [801, 458, 344, 232, 231, 230, 124, 124]);
    assert_eq!(enough(&short(7).counts()).map(|of| of.workers), Some(7));
    assert_eq!(
        in_words(&short(7).counts()),
        "1: 801 ms, 2: 459 ms, 4: 233 ms, 7 and more: 124 ms"
    );
    // Of two trainers with workers of their own the rounds alone are known.
    let two = Costs {
        trainers: 2,
        takers: 2,
        ..short(7)
    };
    assert_eq!(two.counts()[3].predicted_step_ns / MS, 228);
}

#[test]
fn the_rounds_of_a_long_epoch_go_over_into_a_rate() {
    for (batches, near) in [(40, 0.30), (400, 0.05)] {
        let long = Costs {
            short: None,
            batches,
            ..short(0)
        };
        for (round, rate) in short(batches).counts().iter().zip(long.counts()).take(8) {
            let (round, rate) = (
                round.predicted_step_ns as f64,
                rate.predicted_step_ns as f64,
            );
            assert!(
                (1.0..1.0 + near).contains(&(round / rate)),
                "{round} {rate}"
            );
        }
    }
}

#[test]
fn more_workers_leave_the_first_batch_of_a_short_epoch_to_wait_for() {
    let step = Nanos::new(300 * MS);
    let reached = |least: u64| Costs {
        reached: Some(Reached {
            workers: 4,
            step,
            least: Nanos::new(least * MS),
        }),
        ..short(7)
    };
    // 67 ms that are not explained stay.
    assert_eq!(steps(reached(0))[3..8], [300, 298, 297, 191, 191]);
    assert_eq!(steps(reached(200))[3..8], [300, 298, 297, 200, 200]);
    assert_eq!(steps(reached(400))[3..8], [300; 5]);
    // On free CPUs too.
    let taken = Costs {
        taken: 1.0,
        ..reached(200)
    };
    assert_eq!(taken.counts_if_free()[6].predicted_step_ns / MS, 200);
}

#[test]
fn of_more_workers_than_are_predicted_nothing_is_said() {
    // A thousand of them would keep up.
    let far = costs(10_000, 0, 4).counts();
    assert_eq!(far.len(), MAX_WORKER_COUNTS as usize);
    assert!(is_cut_off(&far));
    let words = in_words(&far);
    assert!(words.ends_with(", 126: 79.4 ms"), "{words}");
    assert!(!is_cut_off(&costs(1_000, 0, 4).counts()));
    assert!(!is_cut_off(&[]));
}

#[test]
fn costs_as_large_as_they_can_be_are_counted() {
    let most = Nanos::new(u64::MAX);
    for taken in [0.0, 3.0] {
        let costs = Costs {
            unhindered: most,
            cpu: most,
            rest: most,
            taken,
            reached: Some(of_reached(u64::MAX, most)),
            ..costs(1, 1, u32::MAX)
        };
        let counts = costs.counts();
        assert_eq!(counts.len(), MAX_WORKER_COUNTS as usize);
        assert!(costs.counts_if_free().len() <= counts.len());
        assert!(!in_words(&counts).is_empty());
    }
}
