//! The chain of a finding: from the device to the stage that it waited for.

use crate::cause::Cause;
use crate::device_chain;
use crate::device_proof::Proof;
use crate::finding_place::SMALLEST_RANK;
use crate::piece::{Edge, PieceKind};
use crate::ranks::{self, Lateness};
use crate::report::Link;
use crate::stages::Stage;
use crate::state_links;
use crate::stats::{Distribution, mean, round_share};
use crate::tally::{Sum, Tally, on_worker};
use crate::timeline::Timeline;
use crate::user_spans;
use gpustall_trace::Nanos;

pub(crate) use crate::group::group;

/// What the link of those that made the batches says.
pub(crate) const MAKING: &str = "making the batch";
/// Who made batches of which it is not known who did.
pub(crate) const UNKNOWN_WORKER: &str = "unknown worker";

/// A mean over at least this share of the batches is one over all.
const ALL_BATCHES: f64 = 0.95;

/// What a chain is made from.
pub(crate) struct Chain<'a> {
    pub(crate) timeline: &'a Timeline<'a>,
    pub(crate) tally: &'a Tally,
    /// Threads that stalled.
    pub(crate) trainers: Vec<String>,
    /// Where: `in next() of ...`, `in phase ...`, `blocked`.
    pub(crate) place: String,
    /// Share of the waits for the loader that this is.
    pub(crate) of_waits: Option<f64>,
    /// Whether the cause is that a thread was held up, whatever it was in.
    pub(crate) held_up: bool,
    pub(crate) in_process: bool,
    pub(crate) stalls: Distribution,
    /// How many of the stalls are waits for the end of an epoch.
    pub(crate) ends: u64,
    /// Batches that were taken in the window: of the loader, or of all.
    pub(crate) batches: u64,
    pub(crate) lost: Nanos,
    /// The devices, where they were recorded, and the cause.
    pub(crate) devices: Option<(Vec<String>, Cause, Proof)>,
    /// Who was late, of a finding about that.
    pub(crate) lateness: Option<Lateness>,
    /// Whether the launch of each kernel that ended a stall was recorded.
    pub(crate) launches_known: bool,
}

impl Chain<'_> {
    /// The links, the device's thread first.
    pub(crate) fn links(&self) -> Vec<Link> {
        let Some((names, cause, proof)) = &self.devices else {
            return self.host_links();
        };
        let mut links = vec![device_chain::device(names, *cause, &self.stalls, self.lost)];
        let late = self.lateness.as_ref().map(|of| of.links(self.lost));
        if let Some(below) = late.filter(|below| !below.is_empty()) {
            links.extend(below);
            return links;
        }
        if self.place.is_empty() {
            let below = device_chain::links(
                self.timeline,
                self.tally,
                (self.lost, self.stalls.count),
                (proof, self.held_up),
            );
            links.extend(below);
            return links;
        }
        for mut link in self.host_links() {
            link.depth += 1;
            if link.depth == 1 {
                // How often and how long stands at the device.
                let of_waits = match self.of_waits {
                    Some(share) if share < 0.995 => {
                        format!("; this is {} of all these waits", percent(share))
                    }
                    _ => String::new(),
                };
                link.evidence = format!("and so did not launch the next kernel{of_waits}");
                if !self.launches_known {
                    link.edge = Edge::Inferred;
                }
            }
            links.push(link);
        }
        links
    }

    fn host_links(&self) -> Vec<Link> {
        let s = &self.stalls;
        let of_waits = match self.of_waits {
            Some(share) if share < 0.995 => format!("; {} of all these waits", percent(share)),
            _ => String::new(),
        };
        let mut links = vec![self.link(
            0,
            group(&self.trainers),
            self.place.clone(),
            self.lost,
            Edge::Observed,
            times(s) + &self.of_ends() + &of_waits,
        )];
        let worker = |kind| on_worker(kind) && !self.in_process;
        let made = self.tally.total(worker);
        if made > Nanos::ZERO {
            links.push(self.workers(made, worker));
            for (kind, sum) in self.tally.largest(worker) {
                links.push(self.piece(2, kind, sum));
                let below = self.states(3, &links, sum);
                links.extend(below);
            }
        }
        for (kind, sum) in self.tally.largest(|kind| !worker(kind)) {
            // Those say no more than the link of the thread.
            use PieceKind::{Blocked, Phase, Preempted, Unmarked};
            let depth = match kind {
                Phase | Preempted | Blocked | Unmarked => 1,
                _ => {
                    links.push(self.piece(1, kind, sum));
                    2
                }
            };
            if self.states_told(kind) {
                let below = self.states(depth, &links, sum);
                links.extend(below);
            }
        }
        links
    }

    /// How many of the waits are not for a batch.
    fn of_ends(&self) -> String {
        match self.ends {
            0 => String::new(),
            all if all == self.stalls.count => String::new(),
            1 => "; one of them ended an epoch".to_owned(),
            n => format!("; {n} of them ended an epoch"),
        }
    }

    /// Whether what the kernel says of pieces of this kind says more than the kind: a thread that
    /// waits for another one's batch is asleep.
    fn states_told(&self, kind: PieceKind) -> bool {
        use PieceKind::{EpochEnd, EpochStart, HandOff, UnknownWorker};
        !matches!(kind, HandOff | UnknownWorker | EpochEnd | EpochStart) || self.held_up
    }

    /// The kernel's links under the last one.
    fn states(&self, depth: u32, links: &[Link], sum: &Sum) -> Vec<Link> {
        let who = links.last().map_or("", |link| link.who.as_str());
        state_links::links(self.timeline, &sum.states, (depth, who, sum.ns), self.lost)
    }

    fn workers(&self, made: Nanos, worker: impl Fn(PieceKind) -> bool) -> Link {
        let threads = self.tally.threads(&worker);
        let counts = threads.iter().filter(|&&(_, ns)| self.counts(ns, made));
        let mut names: Vec<String> = counts.map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        let part = |(name, ns): &(String, Nanos)| format!("{name} {}", percent(ns.share_of(made)));
        let evidence = match threads.len() {
            0 | 1 => String::new(),
            n => {
                let mut parts: Vec<String> = threads.iter().take(4).map(part).collect();
                if n > 4 {
                    parts.push(format!("{} more", n - 4));
                }
                parts.join(", ")
            }
        };
        let sums = self.tally.largest(worker);
        let seen = sums.iter().any(|(_, sum)| sum.edge() == Edge::Observed);
        let edge = if seen { Edge::Observed } else { Edge::Inferred };
        self.link(1, group(&names), MAKING.to_owned(), made, edge, evidence)
    }

    fn piece(&self, depth: u32, kind: PieceKind, sum: &Sum) -> Link {
        let threads = sum.by_thread.iter();
        let counts = threads.filter(|&(_, &ns)| self.counts(ns, sum.ns));
        let names: Vec<String> = counts.map(|(name, _)| name.clone()).collect();
        let who = match kind {
            PieceKind::UnknownWorker => UNKNOWN_WORKER.to_owned(),
            _ => group(&names),
        };
        let what = match kind {
            PieceKind::UnknownWorker => MAKING.to_owned(),
            _ => format!("{kind}{}", user_spans::named(self.timeline, sum)),
        };
        self.link(depth, who, what, sum.ns, sum.edge(), self.proof(kind, sum))
    }

    /// Whether a thread is named that has so much of the time. Of several ranks each has a little of
    /// everything.
    fn counts(&self, ns: Nanos, of: Nanos) -> bool {
        !ranks::in_lockstep(self.timeline.trace) || ns.share_of(of) >= SMALLEST_RANK
    }

    /// Mean length of the stages, what an item costs, and how much of it was computing.
    fn proof(&self, kind: PieceKind, sum: &Sum) -> String {
        let stages = sum
            .stages
            .iter()
            .filter_map(|&stage| self.timeline.stages.get(stage));
        let stages: Vec<&Stage> = stages.filter(|stage| stage.whole).collect();
        let mut proof = Vec::new();
        if kind == PieceKind::Sampler {
            proof.push(
                "on the thread that takes the batches, with any number of workers".to_owned(),
            );
        }
        if !stages.is_empty() {
            let count = stages.len() as u64;
            let total: Nanos = stages.iter().map(|stage| stage.span.len()).sum();
            let mean_length = mean(total, count);
            // Of a stage only what was waited for is lost, and of that only what has this cause.
            let full = match mean_length > Nanos::new(self.stalls.max_ns) {
                true => " in full",
                false => "",
            };
            let some = match (count as f64) < ALL_BATCHES * self.batches as f64 {
                true => format!(" ({count} of {} batches)", self.batches),
                false => String::new(),
            };
            proof.push(format!("mean {mean_length} a batch{full}{some}"));
            let items = stages.iter().filter_map(|stage| stage.items);
            let items = items.fold(0u64, u64::saturating_add);
            if items > 0 {
                proof.push(format!("{} an item", mean(total, items)));
            }
        }
        // Where the scheduler was recorded, the links below say it.
        let shares = match sum.is_watched() {
            true => (None, None),
            false => (sum.cpu_share(), sum.runnable_share()),
        };
        match shares {
            (Some(share), Some(waited)) => proof.push(format!(
                "on a CPU for {}, waiting for one for {}",
                percent(share),
                percent(waited)
            )),
            (Some(share), None) => proof.push(format!("on a CPU for {} of it", percent(share))),
            (None, _) => {}
        }
        proof.join(", ")
    }

    fn link(
        &self,
        depth: u32,
        who: String,
        what: String,
        ns: Nanos,
        edge: Edge,
        evidence: String,
    ) -> Link {
        let share = round_share(ns.share_of(self.lost));
        Link {
            depth,
            who,
            what,
            ns: ns.get(),
            share,
            edge,
            evidence,
        }
    }
}

/// How often and how long: `30 times, p50 64.6 ms, p95 115 ms, max 128 ms`.
pub(crate) fn times(of: &Distribution) -> String {
    let [p50, p95, max] = [of.p50_ns, of.p95_ns, of.max_ns].map(Nanos::new);
    match of.count {
        1 => format!("once, {max}"),
        2 => format!("twice, {p50} and {max}"),
        n => format!("{n} times, p50 {p50}, p95 {p95}, max {max}"),
    }
}

/// A share as people read it: `71 %`, `4.2 %`, `0.3 %`.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let near = |whole: f64| (percent - whole).abs() < 0.05;
    if percent >= 9.95 || near(0.0) {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_printed_with_two_digits() {
        for (share, text) in [
            (0.0, "0 %"),
            (0.0042, "0.4 %"),
            (0.0499, "5.0 %"),
            (0.713, "71 %"),
        ] {
            assert_eq!(percent(share), text);
        }
    }
}
