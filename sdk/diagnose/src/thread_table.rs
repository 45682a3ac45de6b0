//! Per thread and per process: where the time went, as the kernel saw it.

use crate::report::{Function, Process, Thread, Usage, WorstOff};
use crate::rules::ThreadState;
use crate::state_links::{MIN_SAMPLES, blocked_in};
use crate::stats::round_share;
use crate::threads::{Lane, Totals, Turn, tid_of};
use crate::timeline::Timeline;
use crate::window::Trainer;
use gpustall_trace::{Nanos, Pid, Symbol, Tid, TrackId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// No more threads than this are listed; processes sum up all of them.
pub const MAX_LISTED_THREADS: usize = 100;

/// How the title of the lane beside a thread ends; its name stands before that.
const LANE_SUFFIX: &str = " off CPU";

/// No more functions of a thread than this are listed.
const MAX_FUNCTIONS: usize = 5;

/// The watched threads, those that train first, then those that make batches, then the busiest;
/// and their processes, the busiest first.
pub(crate) fn tables(timeline: &Timeline<'_>, trainers: &[Trainer]) -> (Vec<Thread>, Vec<Process>) {
    let mut serves: HashMap<Tid, Vec<TrackId>> = HashMap::new();
    for &track in timeline.serves.keys() {
        if let Some(tid) = tid_of(timeline.trace, track) {
            serves.entry(tid).or_default().push(track);
        }
    }
    let mut threads = Vec::new();
    let mut processes: BTreeMap<Pid, Process> = BTreeMap::new();
    for (tid, lane) in timeline.kernel.iter() {
        for turn in lane.turns(timeline.end) {
            let mut thread = row(timeline, tid, (lane, &turn));
            thread.trains = trainers
                .iter()
                .any(|of| of.tid == tid && !of.span.intersection(turn.span).is_empty());
            let tracks = serves.get(&tid).into_iter().flatten();
            thread.worker_of = tracks
                .filter(|&&track| timeline.stages.works(track, turn.span))
                .find_map(|track| Some(timeline.loader_name(timeline.serves.get(track)?.0)))
                .map(str::to_owned);
            if let Some(pid) = thread.pid.map(Pid) {
                let process = processes.entry(pid).or_default();
                process.pid = pid.0;
                process.threads += 1;
                add(&mut process.usage, &thread.usage);
            }
            threads.push(thread);
        }
    }
    threads.sort_by_key(|thread| {
        let other = !thread.trains && thread.worker_of.is_none();
        (
            !thread.trains,
            other,
            Reverse(thread.usage.on_cpu_ns),
            (thread.tid, thread.since_ns),
        )
    });
    threads.truncate(MAX_LISTED_THREADS);
    for process in &timeline.trace.processes {
        if let Some(row) = processes.get_mut(&process.pid) {
            timeline.trace.text(process.name).clone_into(&mut row.name);
        }
    }
    let mut processes: Vec<Process> = processes.into_values().collect();
    processes.sort_by_key(|process| (Reverse(process.usage.on_cpu_ns), process.pid));
    (threads, processes)
}

fn row(timeline: &Timeline<'_>, tid: Tid, (lane, turn): (&Lane, &Turn<'_>)) -> Thread {
    let (name, pid) = identity(timeline, tid, (lane, turn));
    Thread {
        name,
        tid: tid.0,
        pid: pid.map(|pid| pid.0),
        since_ns: turn.totals.first().map(|of| of.watched.start.as_nanos()),
        trains: false,
        worker_of: None,
        usage: usage(lane, turn),
        blocked_ns_by_class: by_class(timeline, lane, turn),
        worst_off_cpu: worst(timeline, turn),
        functions: functions(timeline, turn),
    }
}

/// Name and process. Threads that had one id are told apart by the lanes beside them.
fn identity(
    timeline: &Timeline<'_>,
    tid: Tid,
    (lane, turn): (&Lane, &Turn<'_>),
) -> (String, Option<Pid>) {
    let own = turn.track.and_then(|track| timeline.trace.track(track));
    let own = own.and_then(|track| {
        let title = timeline.trace.text(track.name);
        Some((title.strip_suffix(LANE_SUFFIX)?, track.pid))
    });
    if let Some((name, pid)) = own.filter(|(name, _)| !name.is_empty()) {
        return (name.to_owned(), Some(pid));
    }
    let name = timeline
        .thread(tid)
        .map(|track| timeline.thread_name(track));
    (name.unwrap_or_else(|| format!("thread {tid}")), lane.pid)
}

/// From the totals; without any, from the intervals.
fn usage(lane: &Lane, turn: &Turn<'_>) -> Usage {
    let mut usage = Usage::default();
    for request in turn.requests() {
        let bytes = match request.reads {
            true => &mut usage.disk_read_bytes,
            false => &mut usage.disk_written_bytes,
        };
        *bytes = bytes.saturating_add(request.bytes);
    }
    for of in &turn.totals {
        let counted = Usage {
            watched_ns: watched(of).get(),
            preemptions: Some(of.preemptions),
            voluntary_switches: Some(of.waits),
            on_cpu_ns: of.on_cpu.get(),
            runnable_ns: (of.preempted + of.woken).get(),
            blocked_ns: of.blocked.get(),
            minor_faults: of.minor_faults,
            major_faults: of.major_faults,
            page_allocs: of.page_allocs,
            lost_intervals: of.lost,
            ..Usage::default()
        };
        add(&mut usage, &counted);
    }
    if turn.totals.is_empty() {
        for stretch in lane.during(turn.span) {
            let ns = stretch.span.len().get();
            let of = match stretch.state {
                ThreadState::Unknown => continue,
                ThreadState::Running => &mut usage.on_cpu_ns,
                ThreadState::WaitsForCpu => &mut usage.runnable_ns,
                ThreadState::Blocked(_) => &mut usage.blocked_ns,
            };
            *of = of.saturating_add(ns);
            usage.watched_ns = usage.watched_ns.saturating_add(ns);
        }
    }
    usage
}

/// How long a thread was watched: its totals add up to that, also where it began before the trace.
fn watched(of: &Totals) -> Nanos {
    match of.on_cpu + of.preempted + of.woken + of.blocked {
        Nanos::ZERO => of.watched.len(),
        all => all,
    }
}

/// Adds numbers; what one of both counted is what both counted.
pub(crate) fn add(to: &mut Usage, from: &Usage) {
    let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    };
    *to = Usage {
        watched_ns: to.watched_ns.saturating_add(from.watched_ns),
        preemptions: sum(to.preemptions, from.preemptions),
        voluntary_switches: sum(to.voluntary_switches, from.voluntary_switches),
        on_cpu_ns: to.on_cpu_ns.saturating_add(from.on_cpu_ns),
        runnable_ns: to.runnable_ns.saturating_add(from.runnable_ns),
        blocked_ns: to.blocked_ns.saturating_add(from.blocked_ns),
        minor_faults: sum(to.minor_faults, from.minor_faults),
        major_faults: sum(to.major_faults, from.major_faults),
        page_allocs: sum(to.page_allocs, from.page_allocs),
        disk_read_bytes: to.disk_read_bytes.saturating_add(from.disk_read_bytes),
        disk_written_bytes: to
            .disk_written_bytes
            .saturating_add(from.disk_written_bytes),
        lost_intervals: to.lost_intervals.saturating_add(from.lost_intervals),
    };
}

fn by_class(timeline: &Timeline<'_>, lane: &Lane, turn: &Turn<'_>) -> BTreeMap<String, u64> {
    let mut by_class: BTreeMap<Symbol, Nanos> = BTreeMap::new();
    for stretch in lane.during(turn.span) {
        if let ThreadState::Blocked(_) = stretch.state
            && let Some(off) = stretch.off.and_then(|at| lane.off.get(at))
        {
            *by_class.entry(off.class).or_default() += stretch.span.len();
        }
    }
    let named = by_class.into_iter();
    named
        .map(|(class, ns)| (timeline.trace.text(class).to_owned(), ns.get()))
        .collect()
}

fn worst(timeline: &Timeline<'_>, turn: &Turn<'_>) -> Option<WorstOff> {
    let worst = turn
        .off()
        .iter()
        .max_by_key(|off| (off.span.len(), Reverse(off.span.start)))?;
    let blocked = worst.ready.since(worst.span.start);
    let what = match blocked {
        Nanos::ZERO => "ready to run, without a CPU".to_owned(),
        _ => blocked_in(timeline, &(worst.on, worst.class, worst.function)),
    };
    Some(WorstOff {
        start_ns: worst.span.start.as_nanos(),
        length_ns: worst.span.len().get(),
        what,
    })
}

fn functions(timeline: &Timeline<'_>, turn: &Turn<'_>) -> Vec<Function> {
    if (turn.samples().len() as u64) < MIN_SAMPLES {
        return Vec::new();
    }
    let mut counts: BTreeMap<(Option<Symbol>, Symbol), u64> = BTreeMap::new();
    for sample in turn.samples() {
        *counts.entry((sample.class, sample.function)).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|&(key, n)| (Reverse(n), key));
    let all = turn.samples().len().max(1) as f64;
    let text = |symbol| timeline.trace.text(symbol).to_owned();
    let one = |((class, function), n): ((Option<Symbol>, Symbol), u64)| Function {
        name: text(function),
        class: class.map_or_else(String::new, text),
        share: round_share(n as f64 / all),
    };
    counts.into_iter().take(MAX_FUNCTIONS).map(one).collect()
}
