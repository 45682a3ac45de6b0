//! Devices: what ran on them, and what every moment in which they did not compute is charged to.

mod account;
mod calls;
mod depends;
mod engine;
mod facts;
mod host;
mod lanes;
mod loading;
mod ops;
pub(crate) mod phases;
mod pieces;
mod rest;
mod rhythm;
mod straggler;

pub(crate) use account::{Shares, State, states};
pub(crate) use calls::Call;
pub(crate) use facts::DeviceFacts;
pub(crate) use host::Host;
pub(crate) use ops::Device;
pub(crate) use straggler::Collectives;

use crate::charge::Account;
use crate::timeline::Timeline;
use crate::waits::Waits;
use crate::window::{Trainer, Window};
use gpustall_trace::Interval;

/// What a trace says about devices.
#[derive(Default)]
pub(crate) struct Devices {
    /// By their numbers.
    pub(crate) list: Vec<Device>,
    /// Calls of the CUDA runtime and driver, by start.
    pub(crate) calls: Vec<Call>,
}

impl Devices {
    /// Looks for them.
    pub(crate) fn of(timeline: &Timeline<'_>) -> Self {
        let mut list = match timeline.unseen.everywhere() {
            Some(_) => Vec::new(),
            None => ops::devices(timeline),
        };
        let mut calls = calls::calls(timeline);
        loading::find(timeline, &mut calls);
        calls::join(&mut calls, &mut list);
        calls::join_waits(timeline, &mut calls);
        Self { list, calls }
    }

    /// Whether nothing is known of what devices did.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// From the start of the first operation to the end of the last one; empty if there is none.
    pub(crate) fn span(&self) -> Interval {
        let ops = || self.list.iter().flat_map(|device| &device.ops);
        let start = ops().map(|op| op.span.start).min().unwrap_or_default();
        let end = ops().map(|op| op.span.end).max().unwrap_or_default();
        Interval::new(start, end)
    }

    /// Charges the window of every device, in their order.
    pub(crate) fn charge(
        &self,
        timeline: &Timeline<'_>,
        window: &Window,
        trainers: &[Trainer],
        (waits, collectives): (&Waits, &Collectives),
    ) -> Vec<Account> {
        let host = Host::of(timeline, &self.calls, trainers, waits);
        self.list
            .iter()
            .enumerate()
            .map(|(i, device)| {
                let (late, window) = (collectives.late.get(i), window.of_device(i));
                engine::Engine::new(timeline, &host, device, late, window, i).account()
            })
            .collect()
    }
}
