//! How fast workers and a trainer are together: played through, batch by batch.
//!
//! Workers run ahead of the trainer until the queue is full. While they do, they compete with it
//! for the CPUs, and whoever computes gets an equal share of them. An epoch shorter than the queue
//! is over before that ends, so the average cost of a batch and of a step do not say how long it
//! takes.

/// What takes part, all times in nanoseconds and alike for all batches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pipeline {
    /// Batches of one epoch.
    pub(crate) batches: u64,
    /// Time of a batch in which its worker needs no CPU; comes first.
    pub(crate) blocked: f64,
    /// CPU time of a batch.
    pub(crate) cpu: f64,
    /// CPU time of the rest of a step.
    pub(crate) rest: f64,
    /// CPUs for all of them.
    pub(crate) cpus: f64,
    /// Batches that may wait for the trainer.
    pub(crate) queue: u64,
}

/// Batches of an epoch that are played through; a longer one goes on as it ended.
const MOST_BATCHES: u64 = 400;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Worker {
    /// It has no work, or its batch no room.
    Idle,
    Blocked(f64),
    Computing(f64),
}

/// Where an epoch stands.
struct Epoch {
    now: f64,
    /// Batches handed to workers, made, and taken by the trainer.
    begun: u64,
    made: u64,
    taken: u64,
    workers: Vec<Worker>,
    /// What is left of the trainer's step, while it computes.
    step: Option<f64>,
}

impl Pipeline {
    /// The mean step of an epoch with so many workers, nanoseconds, without the wait for its first
    /// batch.
    pub(crate) fn step(&self, workers: usize) -> f64 {
        self.play(workers).0
    }

    /// The same with that wait.
    pub(crate) fn step_with_first(&self, workers: usize) -> f64 {
        let (step, first) = self.play(workers);
        step + first / self.batches.max(1) as f64
    }

    /// The mean step after the wait for the first batch, and that wait.
    fn play(&self, workers: usize) -> (f64, f64) {
        let batches = self.batches.clamp(1, MOST_BATCHES);
        let mut epoch = Epoch {
            now: 0.0,
            begun: 0,
            made: 0,
            taken: 0,
            // More than there are batches never get one.
            workers: vec![Worker::Idle; workers.clamp(1, batches as usize)],
            step: None,
        };
        let (mut first, mut second_half) = (0.0, 0.0);
        while epoch.taken < batches || epoch.step.is_some() {
            if epoch.taken == 0 {
                first = epoch.now;
            }
            if epoch.taken <= batches / 2 {
                second_half = epoch.now;
            }
            self.hand_out(&mut epoch, batches);
            if !self.advance(&mut epoch) {
                break;
            }
        }
        let step = match self.batches > MOST_BATCHES {
            // What is after the first half goes on like that.
            true => (epoch.now - second_half) / (batches - batches / 2) as f64,
            false => (epoch.now - first) / batches as f64,
        };
        (step, first)
    }

    /// Gives the trainer a batch that is made, and idle workers the next ones.
    fn hand_out(&self, epoch: &mut Epoch, batches: u64) {
        if epoch.step.is_none() && epoch.taken < epoch.made {
            epoch.taken += 1;
            epoch.step = Some(self.rest);
        }
        for worker in &mut epoch.workers {
            let room = epoch.begun - epoch.taken < self.queue.max(1);
            if *worker == Worker::Idle && epoch.begun < batches && room {
                epoch.begun += 1;
                *worker = Worker::Blocked(self.blocked);
            }
        }
    }

    /// Goes on to the next moment at which somebody is done; false if nobody does anything.
    fn advance(&self, epoch: &mut Epoch) -> bool {
        let computing = |worker: &&Worker| matches!(worker, Worker::Computing(_));
        let wanted = epoch.workers.iter().filter(computing).count();
        let wanted = wanted + usize::from(epoch.step.is_some());
        let rate = (self.cpus / wanted.max(1) as f64).min(1.0);
        let times = epoch.workers.iter().filter_map(|worker| match worker {
            Worker::Idle => None,
            Worker::Blocked(left) => Some(*left),
            Worker::Computing(left) => Some(left / rate),
        });
        let times = times.chain(epoch.step.map(|left| left / rate));
        let Some(time) = times.reduce(f64::min) else {
            return false;
        };
        // Less than a nanosecond is nothing: sums of shares are not exact.
        const NOTHING: f64 = 0.5;
        epoch.now += time;
        for worker in &mut epoch.workers {
            *worker = match *worker {
                Worker::Blocked(left) if left - time > NOTHING => Worker::Blocked(left - time),
                Worker::Blocked(_) => Worker::Computing(self.cpu),
                Worker::Computing(left) if left - time * rate > NOTHING => {
                    Worker::Computing(left - time * rate)
                }
                Worker::Computing(_) => {
                    epoch.made += 1;
                    Worker::Idle
                }
                Worker::Idle => Worker::Idle,
            };
        }
        epoch.step = epoch.step.map(|left| left - time * rate);
        epoch.step = epoch.step.filter(|left| *left > NOTHING);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;

    fn pipeline(blocked: f64, cpu: f64, rest: f64, cpus: f64) -> Pipeline {
        Pipeline {
            batches: 10_000,
            blocked: blocked * MS,
            cpu: cpu * MS,
            rest: rest * MS,
            cpus,
            queue: 100,
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
}
