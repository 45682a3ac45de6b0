use super::*;
use proptest::prelude::*;

const MS: f64 = 1e6;

fn pipeline(blocked: f64, cpu: f64, rest: f64, cpus: f64) -> Pipeline<'static> {
    Pipeline {
        batches: 10_000,
        blocked: blocked * MS,
        cpu: cpu * MS,
        rest: rest * MS,
        cpus,
        queue: 100,
        recorded: &[],
        order: Order::Free,
    }
}
fn near(found: f64, expected: f64) {
    let error = (found / MS - expected).abs() / expected;
    assert!(error < 0.03, "{} ms instead of {expected}", found / MS);
}

#[test]
fn in_the_long_run_the_slowest_part_decides() {
    // One worker, two, and as many as are needed.
    let sleepy = pipeline(40.0, 0.0, 10.0, 2.0);
    near(sleepy.step(1), 40.0);
    near(sleepy.step(2), 20.0);
    near(sleepy.step(8), 10.0);
    // The CPUs: 50 ms of work for each batch on two of them.
    near(pipeline(0.0, 40.0, 10.0, 2.0).step(4), 25.0);
}

#[test]
fn an_epoch_shorter_than_the_queue_is_run_ahead_of() {
    // Two workers make all 60 batches at 12 ms a pair while the trainer has two thirds of a
    // CPU: 360 ms, in which it takes 24 steps; the other 36 take 10 ms each.
    let short = Pipeline {
        batches: 60,
        ..pipeline(0.0, 8.0, 10.0, 2.0)
    };
    near(short.step(2), 12.0);
    near(short.step(1), 10.0);
}

#[test]
fn nothing_that_costs_nothing_goes_on_for_ever() {
    let nothing = pipeline(0.0, 0.0, 0.0, 1.0);
    assert!(nothing.step(3).abs() < MS);
}

/// So many batches, which block: what the i-th one takes, in milliseconds.
fn making(count: usize, ms: impl Fn(usize) -> f64) -> Vec<Making> {
    let blocks = |i| Making {
        blocked: ms(i) * MS,
        cpu: 0.0,
    };
    (0..count).map(blocks).collect()
}

/// Of such batches on CPUs enough, `ahead` of them for each worker in PyTorch's loader, 100 in Burn's.
fn uneven(recorded: &[Making], rest: f64, order: Order, queue: u64) -> Pipeline<'_> {
    let mean = recorded.iter().map(|of| of.blocked).sum::<f64>() / recorded.len() as f64;
    Pipeline {
        batches: recorded.len() as u64,
        recorded,
        order,
        queue,
        ..pipeline(mean / MS, 0.0, rest, 64.0)
    }
}

/// Every tenth batch takes 100 ms, the others 1 ms; 5 ms a step; two of them ahead for each worker.
fn bursts(workers: u64) -> f64 {
    let recorded = making(400, |i| if i % 10 == 9 { 100.0 } else { 1.0 });
    uneven(&recorded, 5.0, Order::Turns, 2 * workers).step(workers as usize)
}

#[test]
fn a_slow_batch_holds_up_those_behind_it_once_those_ahead_of_it_are_taken() {
    // On average a batch takes 10.9 ms, so that three workers would keep up. But with four of them a slow
    // batch is begun when the eighth one before it is taken, and needed 40 ms later: of every ten steps
    // one waits 60 ms.
    near(bursts(4), (10.0 * 5.0 + 60.0) / 10.0);
    // 50 ms later.
    near(bursts(5), (10.0 * 5.0 + 50.0) / 10.0);
    // With more than ten ahead the next slow one is begun before the wait for this one, which it is made
    // in too: two such waits are 30 ms together, and with eight workers 20 ms.
    near(bursts(7), (20.0 * 5.0 + 30.0) / 20.0);
    near(bursts(8), (20.0 * 5.0 + 20.0) / 20.0);
    // One worker is two ahead.
    near(bursts(1), (10.0 * 5.0 + 90.0) / 10.0);
    // Of ten workers one has all the slow ones, and makes one of them for ten steps.
    near(bursts(10), 10.0);
    near(bursts(11), 5.0);
}

#[test]
fn who_takes_batches_as_they_come_is_not_held_up_by_a_slow_one() {
    let recorded = making(400, |i| if i % 10 == 9 { 100.0 } else { 1.0 });
    // Of the 40 slow ones each of four workers has ten in its part: a second for 100 batches.
    near(uneven(&recorded, 5.0, Order::Parts, 100).step(4), 5.0);
    // One has 400 ms for each hundred beside them, and two of them half of that.
    near(uneven(&recorded, 0.1, Order::Parts, 100).step(1), 10.9);
    near(
        uneven(&recorded, 0.1, Order::Parts, 100).step(2),
        10.9 / 2.0,
    );
}

/// The first half of an epoch of 100 batches takes 20 ms each, the other one next to nothing.
fn cached(order: Order, rest: f64, workers: u64) -> f64 {
    let recorded = making(100, |i| if i < 50 { 20.0 } else { 0.001 });
    let queue = match order {
        Order::Turns => 2 * workers,
        Order::Free | Order::Parts => 100,
    };
    uneven(&recorded, rest, order, queue).step(workers as usize)
}

#[test]
fn what_is_fast_later_does_not_make_up_for_what_is_slow_before() {
    // On average 10 ms, as the rest of a step. But 49 steps wait for 20 ms each, and 51 take 10 ms.
    near(
        cached(Order::Turns, 10.0, 1),
        (49.0 * 20.0 + 51.0 * 10.0) / 100.0,
    );
    // Two workers make one in 10 ms.
    near(cached(Order::Turns, 10.0, 2), 10.0);
    // One in 10 ms, and then a step in 4 ms.
    near(
        cached(Order::Turns, 4.0, 2),
        (50.0 * 10.0 + 50.0 * 4.0) / 100.0,
    );
    // Of two parts one has all that is slow, 50 times 20 ms; meanwhile those of the other are taken.
    near(cached(Order::Parts, 4.0, 2), 50.0 * 20.0 / 100.0);
    near(cached(Order::Parts, 4.0, 4), 25.0 * 20.0 / 100.0);
}

#[test]
fn uneven_batches_that_compute_share_the_cpus() {
    let mut recorded = making(400, |i| if i % 10 == 9 { 100.0 } else { 1.0 });
    for making in &mut recorded {
        (making.blocked, making.cpu) = (0.0, making.blocked);
    }
    // 10.9 ms for a batch and 5 for a step, on one CPU.
    let one = Pipeline {
        blocked: 0.0,
        cpu: 10.9 * MS,
        cpus: 1.0,
        ..uneven(&recorded, 5.0, Order::Turns, 16)
    };
    near(one.step(8), 15.9);
}

#[test]
fn of_a_long_recording_the_whole_is_played_and_a_short_one_again() {
    // The slow half of an epoch of 20,000: 30 and 10 ms with one worker, where the rest is 10 ms.
    let long = making(20_000, |i| if i < 10_000 { 30.0 } else { 1.0 });
    near(uneven(&long, 10.0, Order::Turns, 2).step(1), 20.0);
    // Sixty batches of 10,000, and as many of an epoch of 150.
    let begun = making(60, |i| if i % 10 == 9 { 100.0 } else { 1.0 });
    for batches in [10_000, 150] {
        let pipeline = Pipeline {
            batches,
            ..uneven(&begun, 5.0, Order::Turns, 8)
        };
        near(pipeline.step(4), 11.0);
    }
    // Of several epochs the mean: a batch takes 40 ms in one and nothing in the next.
    let epochs = making(200, |i| if i < 100 { 40.0 } else { 0.001 });
    let pipeline = Pipeline {
        batches: 100,
        ..uneven(&epochs, 10.0, Order::Turns, 2)
    };
    near(pipeline.step(1), (99.0 * 40.0 + 101.0 * 10.0) / 200.0);
}

#[test]
fn in_any_order_batches_that_take_alike_are_as_fast() {
    for (order, queue) in [(Order::Turns, 8), (Order::Parts, 100)] {
        for rest in [1.0, 10.0, 11.0, 50.0] {
            let recorded = making(400, |_| 40.0);
            let found = uneven(&recorded, rest, order, queue).step(4);
            let alike = Pipeline {
                batches: 400,
                queue,
                ..pipeline(40.0, 0.0, rest, 64.0)
            };
            assert!(
                (found / alike.step(4) - 1.0).abs() < 0.01,
                "{order:?} {rest}"
            );
        }
    }
}

proptest! {
    #[test]
    fn a_step_is_no_shorter_than_its_parts_and_no_longer_with_a_multiple_of_the_workers(
        ms in prop::collection::vec(0.01_f64..100.0, 2..60),
        rest in 0.1_f64..50.0,
        ahead in 1_u64..4,
        workers in 1_u64..6,
        times in 1_u64..4,
    ) {
        let recorded = making(ms.len(), |i| ms[i]);
        let all = ms.iter().sum::<f64>() / ms.len() as f64;
        let step = |order, queue, workers: u64| {
            uneven(&recorded, rest, order, queue).step_with_first(workers as usize) / MS
        };
        let turns = |workers| step(Order::Turns, ahead * workers, workers);
        let parts = step(Order::Parts, 100, workers);
        for found in [turns(workers), parts] {
            prop_assert!(found * 1.001 >= rest, "{found}");
            prop_assert!(found * 1.001 >= all / workers as f64, "{found}");
            prop_assert!(found <= (rest + all) * 1.001, "{found}");
        }
        // Each of the workers has what one of them had before, or less.
        let more = turns(workers * times);
        prop_assert!(more <= turns(workers) * 1.001, "{more}");
    }
}
