//! What CUPTI records, switched on and off: the window's own order of doing so.

use crate::CaptureError;
use crate::api::{Cupti, Subscription};
use crate::calls::Calls;
use crate::{host_calls, layout};

/// Kinds that are recorded whenever a window is open, beside kernels and calls. Graphs are recorded
/// node by node, since the kind that records them whole is not among these.
const KINDS: [u32; 4] = [
    layout::CONTEXT,
    layout::MEMCPY,
    layout::PEER_COPY,
    layout::MEMSET,
];

/// Kinds that say which stream waits for which. They cost most of what CUPTI costs beyond its
/// operations, and say nothing of a job with one stream, so they are recorded from the second on.
const WAITS: [u32; 2] = [layout::CUDA_EVENT, layout::SYNCHRONIZATION];

/// Kinds that no finding needs.
const EXTRA: [u32; 1] = [layout::OVERHEAD];

/// What is asked for while a window is open.
#[derive(Debug)]
pub(crate) struct Switch {
    /// While a window is open: calls are reported.
    calls: Option<Subscription>,
    /// The runtime's launches are asked for, too: the driver's do not show them.
    runtime_launches: bool,
    /// It is recorded which stream waits for which.
    waits: bool,
    /// Every kind was asked for.
    every_kind: bool,
}

impl Switch {
    /// Off; with `every_kind` also what no finding needs is recorded.
    pub(crate) fn new(every_kind: bool) -> Self {
        Self {
            calls: None,
            runtime_launches: false,
            waits: every_kind,
            every_kind,
        }
    }

    /// Whether it is on: CUPTI is held, and another profiler cannot have it.
    pub(crate) fn is_on(&self) -> bool {
        self.calls.is_some()
    }

    /// Switches on, with these calls, or off.
    ///
    /// In this order. Where CUPTI lost its subscriber while kernels were recorded, a Burn program on an H200
    /// had no kernels in any later window, while CUPTI said of each call that it had succeeded.
    pub(crate) fn set(
        &mut self,
        cupti: &Cupti,
        calls: &Calls,
        on: bool,
    ) -> Result<(), CaptureError> {
        if on {
            host_calls::window_opens();
            // Nothing is switched on where another profiler has subscribed: what it would record would be
            // taken for that one's.
            let subscription = cupti.subscribe()?;
            subscription.report(calls.functions(self.runtime_launches));
            self.calls = Some(subscription);
        }
        let kernels = cupti.set(layout::KERNEL, on);
        let waits = WAITS.iter().filter(|_| self.waits);
        let extra = EXTRA.iter().filter(|_| self.every_kind);
        for &kind in KINDS.iter().chain(waits).chain(extra) {
            // What a CUPTI does not have is done without.
            let _ = cupti.set(kind, on);
        }
        if !on {
            self.calls = None;
        } else if kernels.is_err() {
            let _ = self.set(cupti, calls, false);
        }
        kernels
    }

    /// Records from now on which stream waits for which.
    pub(crate) fn record_waits(&mut self, cupti: &Cupti) {
        if !std::mem::replace(&mut self.waits, true) && self.is_on() {
            for kind in WAITS {
                let _ = cupti.set(kind, true);
            }
        }
    }

    /// Whether the runtime's launches are asked for.
    pub(crate) fn has_runtime_launches(&self) -> bool {
        self.runtime_launches
    }

    /// Asks for the runtime's launches, too.
    pub(crate) fn record_runtime_launches(&mut self, calls: &Calls) {
        self.runtime_launches = true;
        if let Some(subscription) = &self.calls {
            subscription.report(calls.functions(true));
        }
    }
}
