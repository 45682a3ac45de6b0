//! The line of the phases.

use super::MAX_ROWS;
use crate::report::{DeviceTime, Phase, Report};
use crate::text::wrap::paragraph;
use gpustall_trace::Nanos;
use std::fmt;

impl Report {
    /// Each phase, how often and how long on its thread, and how long devices worked for one.
    pub(super) fn fmt_phases(&self, f: &mut String) -> fmt::Result {
        let mut parts: Vec<String> = self.phases.iter().take(MAX_ROWS).map(part).collect();
        let rest = [
            ("in no phase", self.outside_phases),
            ("for several phases at once", self.several_phases),
            ("for a phase that is not known", self.untied),
        ];
        for (what, time) in rest {
            parts.extend(time.filter(|time| time.operations() > 0).map(|time| {
                let length = Nanos::new(time.total_ns);
                format!("{what} device {length} ({} operations)", time.operations())
            }));
        }
        match parts.is_empty() {
            true => Ok(()),
            false => paragraph(f, "phases  ", "        ", &parts.join(", ")),
        }
    }
}

fn part(phase: &Phase) -> String {
    let head = format!(
        "{} {} x {}",
        phase.name,
        phase.count,
        Nanos::new(phase.mean_ns)
    );
    let each = |ns: u64| Nanos::new(ns / phase.count.max(1));
    match phase.device {
        Some(DeviceTime {
            window_ns: Some(window),
            kernels: 0,
            copies: 0,
            memsets: 0,
            ..
        }) => format!("{head} (device at most {})", each(window)),
        Some(time) => format!("{head} (device {})", each(time.total_ns)),
        None => head,
    }
}
