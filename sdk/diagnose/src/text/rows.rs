//! Rows of the tables, and the line of a device.

use super::wrap::{MAX_CELL, cut_in_the_middle, paragraph};
use crate::links::percent;
use crate::report::{CudaCall, Device, Loader, Rank, Usage, Worker};
use crate::state_links::bytes;
use gpustall_trace::Nanos;
use std::fmt;

/// How a device spent the window, or a thread that stands for one its account.
pub(super) fn fmt_device(f: &mut String, device: &Device) -> fmt::Result {
    let parts = [
        ("compute", Some(device.compute)),
        (
            "exposed communication",
            device.exposed_comm.filter(|&share| share > 0.0),
        ),
        ("exposed copies", device.exposed_copy),
        ("idle", Some(device.idle)),
    ];
    let shown = parts
        .iter()
        .filter_map(|&(what, share)| Some((what, share?)));
    let shown: Vec<String> = shown
        .map(|(what, share)| format!("{what} {:.1} %", share * 100.0))
        .collect();
    let head = format!("{:<7} ", device.name);
    paragraph(f, &head, "        ", &shown.join(", "))
}

pub(super) fn call_row(call: &CudaCall) -> Vec<String> {
    let time = |ns| Nanos::new(ns).to_string();
    vec![
        call.name.clone(),
        call.count.to_string(),
        time(call.total_ns),
        time(call.p50_ns),
        time(call.p99_ns),
        time(call.max_ns),
        call.p99_over_p50
            .map_or(String::new(), |ratio| format!("{ratio:.1}")),
    ]
}

pub(super) fn loader_row(loader: &Loader) -> Vec<String> {
    let time = |ns| Nanos::new(ns).to_string();
    let made = match loader.in_process {
        Some(true) => ", in process",
        _ => "",
    };
    let of_kind = |made: &str| match loader.name == loader.kind {
        true => (loader.name.as_str(), made.to_owned()),
        false => (loader.name.as_str(), format!(" ({}{made})", loader.kind)),
    };
    let queue = loader.queue.map(|queue| {
        let empty = percent(queue.empty);
        format!("{:.1}, {empty} empty", queue.mean)
    });
    // What is made in process has no queue: where the name is long, that column says it.
    let (name, kind) = of_kind(made);
    let fits = name.chars().count() + kind.chars().count() <= MAX_CELL;
    let (kind, queue) = match (fits, &queue, loader.in_process) {
        (false, None, Some(true)) => (of_kind("").1, "in process".to_owned()),
        _ => (kind, queue.unwrap_or_default()),
    };
    let room = MAX_CELL.saturating_sub(kind.chars().count());
    let name = format!("{}{kind}", cut_in_the_middle(name, room));
    vec![
        name,
        loader.batches.to_string(),
        time(loader.wait.p50_ns),
        time(loader.wait.p95_ns),
        time(loader.wait.max_ns),
        loader.wait_share.map_or(String::new(), percent),
        queue,
    ]
}

pub(super) fn worker_row(worker: &Worker) -> Vec<String> {
    let time = |ns: Option<u64>| ns.map_or(String::new(), |ns| Nanos::new(ns).to_string());
    vec![
        worker.name.clone(),
        worker.batches.to_string(),
        time(worker.get_mean_ns),
        time(worker.collate_mean_ns),
        percent(worker.busy_share),
        worker.cpu_share.map_or(String::new(), percent),
        worker.runnable_share.map_or(String::new(), percent),
        worker.blocked_share.map_or(String::new(), percent),
        worker.loader.clone().unwrap_or_default(),
    ]
}

pub(super) fn rank_row(rank: &Rank) -> Vec<String> {
    let time = |ns: u64| match ns {
        0 => String::new(),
        ns => Nanos::new(ns).to_string(),
    };
    let number = |device: &String| device.split(" (").next().unwrap_or_default().to_owned();
    let devices: Vec<String> = rank.devices.iter().map(number).collect();
    let most = rank.late_by_ns.iter().max_by_key(|&(_, ns)| *ns);
    let p50 = match rank.steps.count {
        0 => String::new(),
        _ => Nanos::new(rank.steps.p50_ns).to_string(),
    };
    vec![
        rank.rank
            .map_or(format!("process {}", rank.pid), |of| format!("rank {of}")),
        devices.join(", "),
        rank.steps.count.to_string(),
        p50,
        match rank.collectives {
            0 => String::new(),
            all => format!("{} of {all}", rank.last_in),
        },
        time(rank.waits_ns),
        time(rank.waited_for_ns),
        most.map_or(String::new(), |(cause, _)| cause.clone()),
    ]
}

pub(super) fn usage_row(name: String, worst: Option<u64>, usage: &Usage) -> Vec<String> {
    let watched = Nanos::new(usage.watched_ns);
    let share = |ns: u64| percent(Nanos::new(ns).share_of(watched));
    let number = |n: Option<u64>| n.map_or(String::new(), |n| n.to_string());
    let switches = usage.voluntary_switches.zip(usage.preemptions);
    let faults = usage.minor_faults.zip(usage.major_faults);
    vec![
        name,
        share(usage.on_cpu_ns),
        share(usage.runnable_ns),
        share(usage.blocked_ns),
        worst.map_or(String::new(), |ns| Nanos::new(ns).to_string()),
        number(switches.map(|(voluntary, preempted)| voluntary.saturating_add(preempted))),
        number(usage.preemptions),
        number(faults.map(|(minor, major)| minor.saturating_add(major))),
        match usage.disk_read_bytes {
            0 => String::new(),
            n => bytes(n),
        },
    ]
}
