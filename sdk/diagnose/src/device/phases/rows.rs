//! How long devices worked for each phase.

use super::{Asker, Devices, askers};
use crate::device::ops::{Op, OpKind};
use crate::report::DeviceTime;
use crate::timeline::Timeline;
use gpustall_trace::{Interval, Nanos, Symbol};
use std::collections::HashMap;

/// What devices did for the phases, in the stretch that is judged.
#[derive(Debug, Default)]
pub(crate) struct PhaseRows {
    /// By the name of the phase.
    pub(crate) phases: HashMap<Symbol, DeviceTime>,
    /// For threads that were in no phase.
    pub(crate) outside: DeviceTime,
    /// For several phases at once.
    pub(crate) several: DeviceTime,
    /// It is not known for whom.
    pub(crate) unknown: DeviceTime,
}

/// Sums it up. `None` without phases or devices.
pub(crate) fn rows(
    timeline: &Timeline<'_>,
    devices: &Devices,
    judged: Interval,
) -> Option<PhaseRows> {
    let mut sums: HashMap<Asker, Sum> = HashMap::new();
    let askers = askers(timeline, devices)?;
    for (device, askers) in devices.list.iter().zip(&askers) {
        for (op, asker) in device.ops.iter().zip(askers) {
            let span = op.span.intersection(judged);
            if !span.is_empty() {
                sums.entry(*asker).or_default().add(op, span);
            }
        }
        // Devices work side by side: each has a union of its own.
        sums.values_mut().for_each(|sum| sum.until = None);
    }
    let mut windows = windows(timeline, judged);
    if devices.is_empty() && windows.is_empty() {
        return None;
    }
    let mut rows = PhaseRows::default();
    for (asker, Sum { mut time, .. }) in sums {
        match asker {
            Asker::Phase(name) => {
                time.window_ns = windows.remove(&name);
                rows.phases.insert(name, time);
            }
            Asker::Outside => rows.outside = time,
            Asker::Several => rows.several = time,
            Asker::Unknown => rows.unknown = time,
        }
    }
    for (name, window) in windows {
        rows.phases.entry(name).or_default().window_ns = Some(window);
    }
    Some(rows)
}

#[derive(Default)]
struct Sum {
    time: DeviceTime,
    /// Until when the device has worked so far; its operations come by their starts.
    until: Option<gpustall_trace::TraceTime>,
}

impl Sum {
    fn add(&mut self, op: &Op, span: Interval) {
        let from = self.until.map_or(span.start, |until| until.max(span.start));
        if from < span.end {
            let more = span.end.since(from).get();
            self.time.total_ns = self.time.total_ns.saturating_add(more);
            self.until = Some(span.end);
        }
        match op.kind {
            OpKind::Kernel | OpKind::Communication => self.time.kernels += 1,
            OpKind::Copy { .. } => self.time.copies += 1,
            OpKind::Set => self.time.memsets += 1,
        }
    }
}

/// What the framework measured around each phase, nanoseconds.
fn windows(timeline: &Timeline<'_>, judged: Interval) -> HashMap<Symbol, u64> {
    let mut windows: HashMap<Symbol, u64> = HashMap::new();
    let Some(category) = timeline.names.cat.device_window else {
        return windows;
    };
    let slices = timeline.trace.slices.iter();
    for slice in slices.filter(|slice| slice.cat == category) {
        let length: Nanos = slice.span.intersection(judged).len();
        let window = windows.entry(slice.name).or_default();
        *window = window.saturating_add(length.get());
    }
    windows
}
