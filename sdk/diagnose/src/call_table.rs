//! The calls of the CUDA runtime and driver, by name.

use crate::device::Call;
use crate::report::CudaCall;
use crate::stats::{Distribution, round_share};
use crate::timeline::Timeline;
use gpustall_trace::{Interval, Nanos, Symbol};
use std::cmp::Reverse;
use std::collections::HashMap;

/// The calls that began in `judged`, by name, the most time in total first.
pub(crate) fn call_table(
    timeline: &Timeline<'_>,
    calls: &[Call],
    judged: Interval,
) -> Vec<CudaCall> {
    let mut of: HashMap<Symbol, Vec<Nanos>> = HashMap::new();
    for call in calls.iter().filter(|call| judged.contains(call.span.start)) {
        of.entry(call.name).or_default().push(call.span.len());
    }
    let row = |(name, lengths): (Symbol, Vec<Nanos>)| {
        let total: Nanos = lengths.iter().copied().sum();
        let d = Distribution::of(lengths);
        CudaCall {
            name: timeline.trace.text(name).to_owned(),
            count: d.count,
            total_ns: total.get(),
            p50_ns: d.p50_ns,
            p99_ns: d.p99_ns,
            max_ns: d.max_ns,
            p99_over_p50: (d.p50_ns > 0).then(|| round_share(d.p99_ns as f64 / d.p50_ns as f64)),
        }
    };
    let mut rows: Vec<CudaCall> = of.into_iter().map(row).collect();
    rows.sort_by(|a, b| (Reverse(a.total_ns), &a.name).cmp(&(Reverse(b.total_ns), &b.name)));
    rows
}
