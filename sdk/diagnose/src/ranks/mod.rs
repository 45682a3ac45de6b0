//! Several processes of one job: whose device is whose, when each was recorded, who came late to a
//! collective and why.

mod chain;
mod rows;
mod why;
mod windows;

pub(crate) use chain::{Lateness, lateness, remedy};
pub(crate) use rows::{notes, rows};
pub(crate) use why::{Waited, waited};
pub(crate) use windows::{common_pauses, windows};

use gpustall_trace::{Member, Pid, Trace};
use std::collections::HashMap;

/// The members of a trace that used a device.
fn users(trace: &Trace, device: u64) -> impl Iterator<Item = &Member> {
    let uses = move |member: &&Member| member.devices.iter().any(|&of| u64::from(of) == device);
    trace.meta.members.iter().filter(uses)
}

/// The rank of each process, in a trace of several.
pub(crate) fn by_process(trace: &Trace) -> HashMap<Pid, u32> {
    let members = trace.meta.members.iter();
    let ranks = members.filter_map(|of| Some((of.pid, of.distributed?.rank)));
    let ranks: HashMap<Pid, u32> = ranks.collect();
    if ranks.len() < 2 {
        HashMap::new()
    } else {
        ranks
    }
}

/// What a device is called: its number, and the rank that used it.
pub(crate) fn device_name(trace: &Trace, device: u64) -> String {
    let ranks: Vec<String> = users(trace, device)
        .filter_map(|member| Some(member.distributed?.rank.to_string()))
        .collect();
    match ranks.as_slice() {
        [] => format!("GPU {device}"),
        [rank] => format!("GPU {device} (rank {rank})"),
        ranks => format!("GPU {device} (ranks {})", ranks.join(", ")),
    }
}

/// Whether the processes train one model together, so that a step of one takes as long as that of all.
pub(crate) fn in_lockstep(trace: &Trace) -> bool {
    let ranks = trace.meta.members.iter();
    ranks.filter(|member| member.distributed.is_some()).count() > 1
}
