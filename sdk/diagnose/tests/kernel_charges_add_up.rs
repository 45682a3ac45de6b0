//! Every moment of a thread that trains is charged once, to what the tables say: random timelines
//! with the scheduler's events against an oracle that asks for each moment.

mod common;
mod state_oracle;

use common::{Builder, V};
use gpustall_diagnose::diagnose;
use gpustall_trace::vocab::{arg, cat};
use proptest::prelude::*;
use state_oracle::{Kernel, On, State, TIDS, kernel};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Nanoseconds of one moment: a sample stands for five of them on either side.
const UNIT: u64 = 1_000_000;
const END: u64 = 300;

/// What lies on the trainer's thread.
#[derive(Debug, Clone, Copy, PartialEq)]
enum What {
    /// A wait for the batch of this number, made by the worker of the same parity.
    Worker {
        step: u64,
        batch: u64,
    },
    InProcess,
    Untagged {
        step: u64,
    },
    EpochStart,
    EpochEnd,
    Metrics,
    Checkpoint,
    Forward,
    Backward,
}

type Event = (What, u64, u64);

fn event() -> impl Strategy<Value = Event> {
    let what = prop_oneof![
        6 => (0u64..4, 0u64..6).prop_map(|(step, batch)| What::Worker { step, batch }),
        2 => Just(What::InProcess),
        1 => (0u64..3).prop_map(|step| What::Untagged { step }),
        1 => Just(What::EpochStart),
        1 => Just(What::EpochEnd),
        1 => Just(What::Metrics),
        1 => Just(What::Checkpoint),
        2 => Just(What::Forward),
        2 => Just(What::Backward),
    ];
    (what, 0u64..END, 1u64..80).prop_map(|(what, start, len)| (what, start, start + len))
}

/// Whether it is a phase that stands for no cause.
fn phase(what: What) -> bool {
    matches!(what, What::Forward | What::Backward)
}

/// Worker (1 or 2), batch, from, to.
type Stage = (usize, u64, u64, u64);

fn stage() -> impl Strategy<Value = Stage> {
    (0u64..6, 0u64..END, 1u64..70)
        .prop_map(|(batch, start, len)| (worker_of(batch), batch, start, (start + len).min(END)))
}

fn worker_of(batch: u64) -> usize {
    1 + (batch % 2) as usize
}

struct Run<'a> {
    kernel: &'a Kernel,
    stages: &'a [Stage],
    events: &'a [Event],
    cpus: u32,
}

impl Run<'_> {
    fn in_stage(&self, worker: usize, t: u64) -> bool {
        self.stages
            .iter()
            .any(|&(of, _, from, to)| of == worker && from <= t && t < to)
    }

    /// Workers that made a batch which was waited for, and how busy they were.
    fn workers(&self) -> Vec<(f64, Option<f64>)> {
        let served = |worker: usize| {
            self.events.iter().any(|&(what, ..)| match what {
                What::Worker { batch, .. } => self
                    .stages
                    .iter()
                    .any(|&(of, b, ..)| of == worker && b == batch),
                _ => false,
            })
        };
        let round = |share: f64| (share * 1e6).round() / 1e6;
        let row = |worker: usize| {
            let busy: Vec<u64> = (0..END).filter(|&t| self.in_stage(worker, t)).collect();
            let is = |want: State| {
                busy.iter()
                    .filter(|&&t| self.kernel.state(worker, t) == want)
                    .count()
            };
            let known = busy.len() - is(State::Unknown);
            let covered = known > 0 && known * 10 >= busy.len() * 9;
            let waited = covered.then(|| round(is(State::Waits) as f64 / known as f64));
            (round(busy.len() as f64 / END as f64), waited)
        };
        [1, 2].into_iter().filter(|&w| served(w)).map(row).collect()
    }

    /// How many of so many workers count: those that are there together for less than a tenth of the time
    /// in which any is, from its first stage to its last one, follow each other.
    fn together(&self, workers: usize) -> f64 {
        let there = |worker: usize, t: u64| {
            let own = || self.stages.iter().filter(|&&(of, ..)| of == worker);
            let from = own().map(|&(.., from, _)| from).min();
            let to = own().map(|&(.., to)| to).max();
            from.zip(to).is_some_and(|(from, to)| from <= t && t < to)
        };
        let with = |least: usize| {
            let count = |t: &u64| [1, 2].iter().filter(|&&w| there(w, *t)).count() >= least;
            (0..END).filter(count).count()
        };
        match workers == 2 && with(2) * 10 < with(1) {
            true => 1.0,
            false => workers as f64,
        }
    }

    fn limits(&self) -> (bool, Option<bool>) {
        let workers = self.workers();
        let busy: f64 = workers.iter().map(|&(busy, _)| busy).sum();
        let is_busy = !workers.is_empty() && busy >= 0.7 * self.together(workers.len());
        let known: f64 = workers.iter().filter(|w| w.1.is_some()).map(|w| w.0).sum();
        let waited: f64 = workers
            .iter()
            .filter_map(|&(busy, w)| Some(busy * w?))
            .sum();
        let short = known > 0.0 && waited >= 0.2 * known;
        let ran = (0..TIDS.len())
            .flat_map(|thread| (0..END).map(move |t| (thread, t)))
            .filter(|&(thread, t)| self.kernel.state(thread, t) == State::Running)
            .count();
        let free = (f64::from(self.cpus) - ran as f64 / END as f64).max(0.0) >= 0.25;
        (is_busy, (self.cpus > 0).then_some(free && !short))
    }

    /// Whether a moment is in no phase of a step that has a forward and a backward.
    fn unmarked(&self, t: u64) -> bool {
        let step = t / 50;
        let begins = |want: What| {
            self.events
                .iter()
                .any(|&(what, from, _)| what == want && from / 50 == step)
        };
        let inside = |&(what, from, to): &Event| phase(what) && from <= t && t < to;
        begins(What::Forward) && begins(What::Backward) && !self.events.iter().any(inside)
    }

    /// The cause of a moment in a wait.
    fn wait(&self, what: What, t: u64, (busy, free): (bool, Option<bool>)) -> &'static str {
        let startup = match what {
            What::EpochStart => true,
            What::Worker { step, .. } | What::Untagged { step } => step == 0,
            _ => false,
        };
        if startup {
            return "data.startup";
        }
        let (thread, makes, stage) = match what {
            What::Worker { batch, .. } => {
                let worker = worker_of(batch);
                let own = self.stages.iter().filter(|&&(_, of, ..)| of == batch);
                let made = own.map(|&(.., to)| to).max();
                if made.is_some_and(|made| t >= made) {
                    (0, false, false)
                } else {
                    (worker, true, self.in_stage(worker, t))
                }
            }
            What::InProcess => (0, true, true),
            _ => (0, false, false),
        };
        let state = self.kernel.state(thread, t);
        let memory = self.kernel.at_memory(thread, t) || state == State::Blocked(On::Memory);
        let own_work = matches!(state, State::Running | State::Blocked(On::OwnThread));
        match state {
            State::Unknown => "data",
            State::Waits if thread == 0 => "host.preempted",
            State::Waits => "data.contended",
            _ if makes && memory => "data.memory",
            State::Blocked(On::File) if makes => "data.io",
            State::Blocked(On::Peer) if stage => "data.io",
            State::Blocked(On::Lock) if stage => "data.lock",
            _ if thread != 0 && stage && busy && (!own_work || free == Some(true)) => {
                "data.worker-limit"
            }
            _ if stage && own_work && (thread == 0 || free.is_some()) => "data.compute",
            _ => "data",
        }
    }

    fn charges(&self) -> BTreeMap<String, u64> {
        let mut charges = BTreeMap::from([("compute".to_owned(), 0)]);
        let limits = self.limits();
        for t in 0..END {
            let winner = self
                .events
                .iter()
                .filter(|&&(what, from, to)| !phase(what) && from <= t && t < to);
            let rank = |what| u8::from(!matches!(what, What::Metrics | What::Checkpoint));
            let winner =
                winner.max_by_key(|&&(what, from, to)| (rank(what), from, Reverse(to.min(END))));
            let own = self.kernel.state(0, t);
            let cause = match winner.map(|&(what, ..)| what) {
                Some(What::Metrics | What::Checkpoint) | None if own == State::Waits => {
                    "host.preempted"
                }
                Some(What::Metrics) => "host.metrics",
                Some(What::Checkpoint) => "host.checkpoint",
                Some(what) => self.wait(what, t, limits),
                None if Kernel::holds_up(own) => "host.blocked",
                None if self.unmarked(t) => "host.compute",
                None => "compute",
            };
            *charges.entry(cause.to_owned()).or_insert(0) += UNIT;
        }
        charges
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_moment_is_charged_once_and_to_what_the_tables_say(
        events in prop::collection::vec(event(), 0..10),
        stages in prop::collection::vec(stage(), 0..14),
        kernel in kernel(END, UNIT),
        cpus in 0u32..5,
    ) {
        let (mut events, mut stages, mut kernel) = (events, stages, kernel);
        events.sort_by_key(|&(_, from, to)| (from, to.min(END)));
        events.dedup_by_key(|&mut (_, from, to)| (from, to.min(END)));
        stages.retain(|&(_, _, from, to)| from < to);
        kernel.makers = stages.iter().map(|&(worker, ..)| worker).collect();

        let mut b = Builder::new();
        b.unit = UNIT;
        b.trace.meta.cpus = cpus;
        let tracks = ["main", "dataloader-0", "dataloader-1", "helper"];
        let tracks: Vec<_> = TIDS.iter().zip(tracks).map(|(&tid, name)| b.thread(tid, name)).collect();
        for step in 0..6 {
            b.step("train", 0, step, 100, (step * 50, step * 50 + 50));
        }
        for &(what, from, to) in &events {
            let (main, span) = (tracks[0], (from, to));
            let args = [(arg::LOADER, V::S("train")), (arg::EPOCH, V::N(0))];
            match what {
                What::Worker { step, batch } => {
                    let made = (batch, TIDS[worker_of(batch)]);
                    b.wait(main, "train", (0, step), Some(made), span);
                }
                What::InProcess => b.wait(main, "train", (0, 1), Some((99, 100)), span),
                What::Untagged { step } => b.wait(main, "train", (0, step), None, span),
                What::EpochStart => b.slice(main, cat::EPOCH_START, "start", span, &args),
                What::EpochEnd => b.slice(main, cat::EPOCH_END, "end", span, &args),
                What::Metrics => b.phase(main, "metrics", span),
                What::Checkpoint => b.phase(main, "checkpoint", span),
                What::Forward => b.phase(main, "forward", span),
                What::Backward => b.phase(main, "backward", span),
            }
        }
        for &(worker, batch, from, to) in &stages {
            b.stage(tracks[worker], cat::DATA_GET, batch, None, (from, to));
        }
        kernel.draw(&mut b, [tracks[0], tracks[1], tracks[2], tracks[3]]);
        let report = diagnose(&b.build(END));

        let run = Run { kernel: &kernel, stages: &stages, events: &events, cpus };
        prop_assert_eq!(&report.charges_ns, &run.charges());
        prop_assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
        for finding in &report.findings {
            let below: u64 = finding.chain.iter().filter(|l| l.depth == 1).map(|l| l.ns).sum();
            let adds_up = below == finding.lost_ns || !finding.cause.id().starts_with("data");
            prop_assert!(adds_up, "{}", report);
            for stall in &finding.worst {
                let pieces: u64 = stall.pieces.iter().map(|piece| piece.ns).sum();
                prop_assert_eq!(pieces + stall.unlisted_ns, stall.lost_ns);
            }
            for (i, link) in finding.chain.iter().enumerate() {
                let below = finding.chain[i + 1..].iter().take_while(|of| of.depth > link.depth);
                let below: Vec<u64> = below.filter(|of| of.depth == link.depth + 1).map(|of| of.ns).collect();
                let sum: u64 = below.iter().sum();
                let held_up = link.depth == 0 && finding.cause.id().starts_with("host");
                prop_assert!(below.is_empty() || sum == link.ns || held_up, "{}", report);
            }
        }
    }
}
