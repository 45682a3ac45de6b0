//! Which traces are of the ranks of one job.

use gpustall_trace::{DistributedInfo, MonoTime, Trace};
use std::collections::BTreeSet;

/// How far the wall clocks of two machines may be apart, and how long one rank's recording may begin after
/// another one's end, nanoseconds.
const SLACK_NS: i128 = 1_000_000_000;

/// The ranks that a trace is of.
pub(crate) fn ranks(trace: &Trace) -> Vec<DistributedInfo> {
    let members = trace.meta.members.iter();
    let own = trace
        .meta
        .distributed
        .filter(|_| trace.meta.members.is_empty());
    members.filter_map(|of| of.distributed).chain(own).collect()
}

/// Groups traces, by their positions: other ranks of one job are together, each of the rest is alone. In
/// the order of the first of each group.
pub(crate) fn groups(traces: &[&Trace]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (at, trace) in traces.iter().enumerate() {
        let fits = |group: &&mut Vec<usize>| {
            let mut others = group.iter().filter_map(|&of| traces.get(of));
            others.all(|other| together(other, trace))
        };
        match groups.iter_mut().find(fits) {
            Some(group) => group.push(at),
            None => groups.push(vec![at]),
        }
    }
    groups
}

/// Whether two traces are of different ranks of one job, at one time.
fn together(a: &Trace, b: &Trace) -> bool {
    let (ours, theirs) = (ranks(a), ranks(b));
    let size = |ranks: &[DistributedInfo]| ranks.iter().map(|of| of.world_size).max();
    let numbers =
        |ranks: &[DistributedInfo]| -> BTreeSet<u32> { ranks.iter().map(|of| of.rank).collect() };
    let one_size = size(&ours) == size(&theirs) && size(&ours).is_some_and(|size| size > 1);
    let (one, other) = (&a.meta.job, &b.meta.job);
    let one_job = one == other || one.is_empty() || other.is_empty();
    one_size && one_job && numbers(&ours).is_disjoint(&numbers(&theirs)) && at_one_time(a, b)
}

fn at_one_time(a: &Trace, b: &Trace) -> bool {
    let (a, b) = (&a.meta, &b.meta);
    let clockless = MonoTime::default();
    let shared = a.boot == b.boot && a.start_mono != clockless && b.start_mono != clockless;
    let (start_a, start_b) = match shared {
        true => (a.start_mono.as_nanos(), b.start_mono.as_nanos()),
        false => (a.start_unix_ns, b.start_unix_ns),
    };
    let span = |start: u64, end: u64| (i128::from(start), i128::from(start) + i128::from(end));
    let (a, b) = (
        span(start_a, a.end.as_nanos()),
        span(start_b, b.end.as_nanos()),
    );
    start_a > 0 && start_b > 0 && a.0.max(b.0) <= a.1.min(b.1) + SLACK_NS
}

/// What the ranks of several traces are called together: what their names have in common.
pub(crate) fn name(names: &[&str]) -> String {
    let first = names.first().copied().unwrap_or_default();
    let common = |with: &str| {
        let same = first.chars().zip(with.chars()).take_while(|(a, b)| a == b);
        same.map(|(a, _)| a.len_utf8()).sum::<usize>()
    };
    let length = names.iter().map(|name| common(name)).min().unwrap_or(0);
    if names.iter().all(|name| *name == first) {
        return first.to_owned();
    }
    let between = |c: char| "-_. ".contains(c) || c.is_ascii_digit();
    let stem = first
        .get(..length)
        .unwrap_or_default()
        .trim_end_matches(between);
    let stem = stem
        .strip_suffix("rank")
        .or(stem.strip_suffix("worker"))
        .unwrap_or(stem);
    match stem.trim_end_matches(between) {
        "" => "job".to_owned(),
        stem => stem.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpustall_trace::TraceTime;

    fn trace(rank: u32, world_size: u32, start_s: u64) -> Trace {
        let mut trace = Trace::default();
        trace.meta.distributed = Some(DistributedInfo { rank, world_size });
        trace.meta.start_unix_ns = 1_700_000_000_000_000_000 + start_s * 1_000_000_000;
        trace.meta.end = TraceTime::from_nanos(5_000_000_000);
        trace
    }

    #[test]
    fn other_ranks_at_one_time_are_one_job() {
        let of = |list: &[Trace]| groups(&list.iter().collect::<Vec<_>>());
        let alone = Trace::default();
        let list = [trace(0, 2, 0), alone, trace(1, 2, 1), trace(0, 2, 3)];
        assert_eq!(of(&list), [vec![0, 2], vec![1], vec![3]]);
        // Another size, another time, and no time at all.
        let mut clockless = trace(1, 2, 0);
        clockless.meta.start_unix_ns = 0;
        let list = [trace(0, 2, 0), trace(1, 4, 0), trace(1, 2, 60), clockless];
        assert_eq!(of(&list).len(), 4);
        let mut other = trace(1, 2, 0);
        other.meta.job = "b:1".into();
        let mut first = trace(0, 2, 0);
        first.meta.job = "a:1".into();
        assert_eq!(of(&[first, other]).len(), 2);
    }

    #[test]
    fn a_job_is_called_by_what_the_names_have_in_common() {
        assert_eq!(name(&["ddp-rank0", "ddp-rank1"]), "ddp");
        assert_eq!(name(&["train", "train"]), "train");
        assert_eq!(name(&["node1_71", "node2_72"]), "node");
        assert_eq!(name(&["a", "b"]), "job");
    }
}
