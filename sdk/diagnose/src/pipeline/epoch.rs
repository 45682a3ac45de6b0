//! One epoch, from one moment to the next at which somebody is done.

use super::{Order, Pipeline};
use crate::recorded::Making;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Does {
    /// It has no work, or its batch no room.
    Nothing,
    Blocked(f64),
    Computing(f64),
}

#[derive(Debug, Clone)]
struct Worker {
    does: Does,
    /// The batch that it makes, or made last.
    batch: usize,
    /// The next batch that is its own, and the end of its part.
    next: usize,
    end: usize,
}

/// Where an epoch stands.
pub(super) struct Epoch<'a> {
    pipeline: &'a Pipeline<'a>,
    batches: &'a [Making],
    order: Order,
    now: f64,
    /// Batches begun by workers, made, and taken by the trainer.
    begun: u64,
    made: u64,
    taken: u64,
    /// Which of them are made.
    is_made: Vec<bool>,
    workers: Vec<Worker>,
    /// What is left of the trainer's step, while it computes.
    step: Option<f64>,
}

/// When the first batch was there, when the first half of them was taken, and when the last step ended.
pub(super) struct Played {
    pub(super) first: f64,
    pub(super) half: f64,
    pub(super) end: f64,
}

impl<'a> Epoch<'a> {
    pub(super) fn new(
        pipeline: &'a Pipeline<'a>,
        batches: &'a [Making],
        order: Order,
        workers: usize,
    ) -> Self {
        // More than there are batches never get one.
        let count = workers.clamp(1, batches.len().max(1));
        // The first of the parts have one more where they are not of the same length.
        let (each, more) = (batches.len() / count, batches.len() % count);
        let begin = |i: usize| i * each + i.min(more);
        let worker = |i: usize| Worker {
            does: Does::Nothing,
            batch: 0,
            next: if order == Order::Parts { begin(i) } else { i },
            end: match order {
                Order::Parts => begin(i + 1),
                Order::Free | Order::Turns => batches.len(),
            },
        };
        Self {
            pipeline,
            batches,
            order,
            now: 0.0,
            begun: 0,
            made: 0,
            taken: 0,
            is_made: vec![false; batches.len()],
            workers: (0..count).map(worker).collect(),
            step: None,
        }
    }

    pub(super) fn play(mut self) -> Played {
        let batches = self.batches.len() as u64;
        let (mut first, mut half) = (0.0, 0.0);
        while self.taken < batches || self.step.is_some() {
            if self.taken == 0 {
                first = self.now;
            }
            if self.taken <= batches / 2 {
                half = self.now;
            }
            self.hand_out();
            if !self.advance() {
                break;
            }
        }
        Played {
            first,
            half,
            end: self.now,
        }
    }

    /// Gives the trainer a batch that is made, and idle workers the next ones.
    fn hand_out(&mut self) {
        let there = match self.order {
            Order::Turns => self.is_made.get(self.taken as usize) == Some(&true),
            Order::Free | Order::Parts => self.taken < self.made,
        };
        if self.step.is_none() && there {
            self.taken += 1;
            self.step = Some(self.pipeline.rest);
        }
        let queue = self.pipeline.queue.max(1);
        let count = self.workers.len();
        for worker in self.workers.iter_mut() {
            if worker.does != Does::Nothing {
                continue;
            }
            let (next, room) = match self.order {
                Order::Free => (self.begun as usize, self.begun - self.taken < queue),
                Order::Parts => (worker.next, self.begun - self.taken < queue),
                Order::Turns => (worker.next, (worker.next as u64) < self.taken + queue),
            };
            let own = room && next < worker.end;
            let Some(making) = self.batches.get(next).filter(|_| own) else {
                continue;
            };
            self.begun += 1;
            worker.batch = next;
            worker.next = match self.order {
                Order::Turns => next + count,
                Order::Free | Order::Parts => next + 1,
            };
            worker.does = Does::Blocked(making.blocked);
        }
    }

    /// Goes on to the next moment at which somebody is done; false if nobody does anything.
    fn advance(&mut self) -> bool {
        let computing = |worker: &&Worker| matches!(worker.does, Does::Computing(_));
        let wanted = self.workers.iter().filter(computing).count();
        let wanted = wanted + usize::from(self.step.is_some());
        let rate = (self.pipeline.cpus / wanted.max(1) as f64).min(1.0);
        let times = self.workers.iter().filter_map(|worker| match worker.does {
            Does::Nothing => None,
            Does::Blocked(left) => Some(left),
            Does::Computing(left) => Some(left / rate),
        });
        let times = times.chain(self.step.map(|left| left / rate));
        let Some(time) = times.reduce(f64::min) else {
            return false;
        };
        // Less than a nanosecond is nothing: sums of shares are not exact.
        const NOTHING: f64 = 0.5;
        self.now += time;
        for worker in &mut self.workers {
            worker.does = match worker.does {
                Does::Blocked(left) if left - time > NOTHING => Does::Blocked(left - time),
                Does::Blocked(_) => {
                    let making = self.batches.get(worker.batch);
                    Does::Computing(making.map_or(0.0, |making| making.cpu))
                }
                Does::Computing(left) if left - time * rate > NOTHING => {
                    Does::Computing(left - time * rate)
                }
                Does::Computing(_) => {
                    self.made += 1;
                    if let Some(is_made) = self.is_made.get_mut(worker.batch) {
                        *is_made = true;
                    }
                    Does::Nothing
                }
                Does::Nothing => Does::Nothing,
            };
        }
        self.step = self.step.map(|left| left - time * rate);
        self.step = self.step.filter(|left| *left > NOTHING);
        true
    }
}
