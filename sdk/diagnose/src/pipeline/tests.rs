use super::*;

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
