//! Whether recordings belong together.

use super::{MergeError, Part};
use crate::{Meta, MonoTime, Pid, Trace, TrackKind};
use std::collections::BTreeSet;

/// How far the wall clock may have been set between two recordings of one boot, seconds.
const CLOCK_SET_S: u64 = 60;

/// Process ids that an error names, at most.
const NAMED: usize = 4;

pub(super) fn check(parts: &[Part]) -> Result<(), MergeError> {
    if parts.len() < 2 {
        return Err(MergeError::TooFew);
    }
    if let Some(part) = parts
        .iter()
        .find(|part| part.trace.meta.start_mono == MonoTime::default())
    {
        let label = part.label.clone();
        return Err(MergeError::NoClock { label });
    }
    for (n, part) in parts.iter().enumerate() {
        for other in &parts[..n] {
            pair(other, part)?;
        }
    }
    let mut ours = BTreeSet::new();
    for (n, part) in parts.iter().enumerate() {
        let theirs = pids(&part.trace);
        if n > 0 && ours.is_disjoint(&theirs) {
            return Err(MergeError::OtherJob {
                first: parts[0].label.clone(),
                second: part.label.clone(),
                ours: list(&ours),
                theirs: list(&theirs),
            });
        }
        ours.extend(theirs);
    }
    Ok(())
}

fn pair(one: &Part, other: &Part) -> Result<(), MergeError> {
    let (first, second) = (one.label.clone(), other.label.clone());
    let (a, b) = (&one.trace.meta, &other.trace.meta);
    let alike = a.start_mono == b.start_mono && a.recorder == b.recorder && a.pid == b.pid;
    // A partial file and the finished one of the same session differ in their ends.
    if alike {
        return Err(MergeError::Same { first, second });
    }
    within(one, other)?;
    if let Some((a, b)) = boot(a).zip(boot(b)) {
        let apart_s = a.abs_diff(b) / 1_000_000_000;
        if apart_s > CLOCK_SET_S {
            return Err(MergeError::OtherBoot {
                first,
                second,
                apart_s,
            });
        }
    }
    let span = |meta: &Meta| {
        let start = meta.start_mono.as_nanos();
        (start, start.saturating_add(meta.end.as_nanos()))
    };
    let (a, b) = (span(a), span(b));
    let gap = a.0.max(b.0).saturating_sub(a.1.min(b.1));
    if gap > 0 {
        let apart_ms = gap.div_ceil(1_000_000);
        return Err(MergeError::Apart {
            first,
            second,
            apart_ms,
        });
    }
    Ok(())
}

/// Refuses two recordings of one machine of which one holds the other: what it counted would count twice.
pub(super) fn within(one: &Part, other: &Part) -> Result<(), MergeError> {
    for (whole, part) in [(one, other), (other, one)] {
        if holds(&whole.trace.meta, &part.trace.meta) {
            return Err(MergeError::Within {
                whole: whole.label.clone(),
                part: part.label.clone(),
            });
        }
    }
    Ok(())
}

/// Whether a merged recording has one by the same recorders, of the same process, in its time.
fn holds(whole: &Meta, part: &Meta) -> bool {
    let recorders: Vec<&str> = whole.recorder.split(" + ").collect();
    let merged = recorders.len() > 1 || whole.members.len() > 1;
    let by_it = part.recorder.split(" + ").all(|of| recorders.contains(&of));
    let of_it = whole.pid == part.pid || whole.members.iter().any(|of| of.pid == part.pid);
    let in_it = whole.start_mono <= part.start_mono;
    merged && by_it && of_it && in_it && part.start_mono != MonoTime::default()
}

/// When `CLOCK_MONOTONIC` began, on the wall clock, if that is known.
fn boot(meta: &Meta) -> Option<u64> {
    (meta.start_unix_ns > 0).then(|| {
        meta.start_unix_ns
            .saturating_sub(meta.start_mono.as_nanos())
    })
}

/// The processes of which it has threads.
fn pids(trace: &Trace) -> BTreeSet<Pid> {
    let tracks = trace.tracks.iter();
    let threads = tracks.filter(|track| track.kind == TrackKind::Thread);
    let pids = threads.map(|track| track.pid).chain([trace.meta.pid]);
    pids.filter(|pid| pid.0 > 0 && !pid.is_synthetic())
        .collect()
}

fn list(pids: &BTreeSet<Pid>) -> String {
    let mut text: Vec<String> = pids.iter().take(NAMED).map(ToString::to_string).collect();
    if pids.len() > NAMED {
        text.push(format!("and {} more", pids.len() - NAMED));
    }
    match text.is_empty() {
        true => "none".into(),
        false => text.join(", "),
    }
}
