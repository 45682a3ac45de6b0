//! The numbers that prove a finding of a device.

use crate::advice::Signs;
use crate::charge::{Account, Stall};
use crate::framework::uses_sdk;
use crate::piece::PieceKind;
use crate::stats::Distribution;
use crate::tally::Tally;
use crate::timeline::Timeline;
use gpustall_trace::{Nanos, Slice};
use std::collections::BTreeSet;

/// Where no pinned copy shows what the link reaches, it is taken to reach this many times what the
/// best pageable copy did.
pub const PINNED_OVER_PAGEABLE: f64 = 2.5;

/// What the copies of a finding moved.
#[derive(Debug, Clone, Copy, Default)]
struct Copies {
    count: u64,
    bytes: u64,
    /// How many of them say their bytes, and the smallest and the largest of these.
    sized: u64,
    sizes: Option<(u64, u64)>,
    time: Nanos,
    to_host: Nanos,
    on_device: Nanos,
}

/// Numbers by kind of piece.
#[derive(Debug, Default)]
pub(crate) struct Proof {
    copies: Copies,
    best_pageable: Option<f64>,
    best_pinned: Option<f64>,
    gaps: Distribution,
    kernels: Distribution,
}

impl Proof {
    /// The numbers of the stalls that `tally` has, over the devices that they are of.
    pub(crate) fn of_stalls(
        timeline: &Timeline<'_>,
        accounts: &[Account],
        devices: &BTreeSet<usize>,
        tally: &Tally,
    ) -> Self {
        let mut proof = Self::default();
        for (_, sum) in tally.largest(|kind| kind == PieceKind::Copy) {
            for slice in sum
                .operations
                .iter()
                .filter_map(|&i| timeline.trace.slices.get(i))
            {
                proof.add_copy(timeline, slice);
            }
        }
        let facts = devices
            .iter()
            .filter_map(|&i| accounts.get(i)?.device.as_ref());
        for (_, facts) in facts {
            let better = |best: Option<f64>, rate: Option<&f64>| match (best, rate) {
                (Some(a), Some(&b)) => Some(a.max(b)),
                (a, b) => a.or(b.copied()),
            };
            proof.best_pageable = better(proof.best_pageable, facts.best.get(&true));
            proof.best_pinned = better(proof.best_pinned, facts.best.get(&false));
            // Of several devices the one with the most launches stands for all.
            if facts.gaps.count > proof.gaps.count || proof.kernels.count == 0 {
                proof.gaps = facts.gaps;
                proof.kernels = facts.kernels;
            }
        }
        proof
    }

    fn add_copy(&mut self, timeline: &Timeline<'_>, slice: &Slice) {
        let key = timeline.names.key.bytes;
        let length = slice.span.len();
        let name = timeline.trace.text(slice.name);
        let copies = &mut self.copies;
        copies.count += 1;
        if let Some(bytes) = crate::names::integer(&slice.args, key) {
            copies.bytes = copies.bytes.saturating_add(bytes);
            let (least, most) = copies.sizes.unwrap_or((bytes, bytes));
            copies.sizes = Some((least.min(bytes), most.max(bytes)));
            copies.sized += 1;
        }
        copies.time += length;
        if name.contains("DtoH") {
            copies.to_host += length;
        } else if !name.contains("HtoD") {
            copies.on_device += length;
        }
    }

    fn rate(&self) -> Option<f64> {
        let Copies { bytes, time, .. } = self.copies;
        (bytes > 0 && time > Nanos::ZERO).then(|| bytes as f64 / time.get() as f64)
    }

    /// Mean time that the copies of one step take at the least, and the GB/s behind it: what the
    /// best pinned copy reached, else a multiple of what the best pageable one did.
    pub(crate) fn least_copy_time(&self, steps: u64) -> Option<(Nanos, f64, bool)> {
        let half = Nanos::new(self.copies.time.get() / 2);
        if steps == 0 || self.copies.bytes == 0 || self.copies.on_device > half {
            return None;
        }
        let assumed = || {
            self.best_pageable
                .or(self.rate())
                .map(|r| r * PINNED_OVER_PAGEABLE)
        };
        let rate = self
            .best_pinned
            .or_else(assumed)
            .filter(|rate| *rate > 0.0)?;
        let bytes = self.copies.bytes as f64 / steps as f64;
        let least = Nanos::new((bytes / rate) as u64);
        Some((least, rate, self.best_pinned.is_some()))
    }

    /// What the advice depends on; `stalls` are those of the finding.
    pub(crate) fn signs(&self, timeline: &Timeline<'_>, stalls: &[&Stall], loader: bool) -> Signs {
        let half = Nanos::new(self.copies.time.get() / 2);
        let most = |part: Nanos| self.copies.count > 0 && part > half;
        Signs {
            sdk: uses_sdk(timeline),
            to_host: most(self.copies.to_host),
            on_device: most(self.copies.on_device),
            loader,
            graphs: replayed(timeline, stalls),
        }
    }

    /// By name; the unit ends the name.
    pub(crate) fn numbers(&self) -> Vec<(&'static str, f64)> {
        let mut numbers = Vec::new();
        if self.copies.count > 0 {
            numbers.push(("copies", self.copies.count as f64));
            numbers.push(("copied_bytes", self.copies.bytes as f64));
            numbers.extend(self.rate().map(|rate| ("copy_gb_s", rate)));
            numbers.extend(self.best_pageable.map(|rate| ("best_pageable_gb_s", rate)));
            numbers.extend(self.best_pinned.map(|rate| ("best_pinned_gb_s", rate)));
        }
        if self.kernels.count > 0 {
            numbers.push(("kernels", self.kernels.count as f64));
            numbers.push(("kernel_mean_ns", self.kernels.mean_ns as f64));
            numbers.push(("kernel_p50_ns", self.kernels.p50_ns as f64));
        }
        if self.gaps.count > 0 {
            numbers.push(("launch_gap_mean_ns", self.gaps.mean_ns as f64));
            numbers.push(("launch_gap_p50_ns", self.gaps.p50_ns as f64));
            numbers.push(("launch_gap_p95_ns", self.gaps.p95_ns as f64));
        }
        numbers
    }

    /// The numbers that stand at a link of this kind, of a finding with so many stalls.
    pub(crate) fn of(&self, kind: PieceKind, stalls: u64) -> String {
        let time = Nanos::new;
        match kind {
            PieceKind::Copy if self.copies.count > 0 => {
                let mut proof = self.copies.in_words();
                if let Some(rate) = self.rate() {
                    proof += &format!(", {rate:.1} GB/s");
                }
                if let Some(best) = self.best_pinned {
                    proof += &format!(", pinned ones reach {best:.1}");
                } else if let Some(best) = self.best_pageable {
                    proof += &format!(", the best one {best:.1}");
                }
                proof
            }
            PieceKind::BetweenLaunches if self.kernels.count > 0 => format!(
                "nothing was queued at {stalls} of {} kernels; a kernel has p50 {}, the gap \
                 between launches p50 {}, p95 {}",
                self.kernels.count,
                time(self.kernels.p50_ns),
                time(self.gaps.p50_ns),
                time(self.gaps.p95_ns),
            ),
            PieceKind::NoLaunch if self.gaps.count > 0 => {
                format!("the p95 gap between launches is {}", time(self.gaps.p95_ns))
            }
            _ => String::new(),
        }
    }
}

impl Copies {
    /// `one of 67.1 MB`, `24 copies of 204.0 MB each`, `69 copies of 77.2 MB on average`; `24 copies` where
    /// none says its bytes.
    fn in_words(&self) -> String {
        if self.sized == 0 {
            return match self.count {
                1 => "one copy".to_owned(),
                n => format!("{n} copies"),
            };
        }
        let mean = self.bytes as f64 / self.sized as f64;
        let size = match mean {
            m if m >= 1e9 => format!("{:.1} GB", m / 1e9),
            m if m >= 1e6 => format!("{:.1} MB", m / 1e6),
            m if m >= 1e3 => format!("{:.1} kB", m / 1e3),
            m => format!("{m:.0} B"),
        };
        let equal = self.sizes.is_some_and(|(least, most)| least == most);
        match (self.count, equal) {
            (1, _) => format!("one of {size}"),
            (n, true) => format!("{n} copies of {size} each"),
            (n, false) => format!("{n} copies of {size} on average"),
        }
    }
}

/// Whether most of the time was lost before kernels that replays of graphs launched.
fn replayed(timeline: &Timeline<'_>, stalls: &[&Stall]) -> bool {
    let (mut known, mut replayed) = (Nanos::ZERO, Nanos::ZERO);
    for stall in stalls {
        let call = stall.launch.and_then(|at| timeline.trace.slices.get(at));
        let Some(call) = call.map(|call| timeline.trace.text(call.name)) else {
            continue;
        };
        known += stall.lost;
        if call.contains("GraphLaunch") {
            replayed += stall.lost;
        }
    }
    replayed > Nanos::new(known.get() / 2)
}
