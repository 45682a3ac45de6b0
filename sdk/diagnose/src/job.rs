//! What the job itself did in the window: phases, faults, and what never ended.

use crate::device::phases::PhaseRows;
use crate::events::Role;
use crate::framework::Framework;
use crate::names::{flag, text};
use crate::report::{Fault, Phase, Report, Unfinished};
use crate::stages::{Stage, StageKind};
use crate::stats::mean;
use crate::timeline::Timeline;
use crate::window::Trainer;
use gpustall_trace::{
    Instant, Interval, Nanos, Pid, Slice, Symbol, Trace, TraceTime, TrackId, TrackKind,
};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// A wait that had not ended is a hang if it went on for at least this long,
pub const HANG_MIN: Nanos = Nanos::new(1_000_000_000);

/// and for this many times the longest wait that did end.
pub const HANG_FACTOR: u64 = 3;

/// The source of events of loaders and steps, where some were lost.
const PIPELINE: &str = "data pipeline";

/// What follows from an exception that ended the run.
pub(crate) const ENDED: &str = "the run ended with it";

/// No more unfinished slices than this are listed, and no more faults but for what ended the run.
pub const MAX_LISTED: usize = 20;

/// The phases on the trainers' threads in `judged`, and those of others that a device worked for, the
/// longest in total first.
pub(crate) fn phases(
    timeline: &Timeline<'_>,
    trainers: &[Trainer],
    judged: Interval,
    devices: Option<&PhaseRows>,
) -> Vec<Phase> {
    let threads = tracks(trainers);
    let device = |name: &Symbol| devices.and_then(|rows| rows.phases.get(name).copied());
    let mut sums: HashMap<Symbol, (u64, Nanos)> = HashMap::new();
    for phase in timeline
        .phases
        .iter()
        .filter(|phase| threads.contains(&phase.track) || device(&phase.name).is_some())
    {
        let length = phase.span.intersection(judged).len();
        if length > Nanos::ZERO {
            let sum = sums.entry(phase.name).or_default();
            sum.0 += 1;
            sum.1 += length;
        }
    }
    let row = |(name, (count, total)): (Symbol, (u64, Nanos))| Phase {
        name: timeline.trace.text(name).to_owned(),
        count,
        total_ns: total.get(),
        mean_ns: mean(total, count).get(),
        device: device(&name),
    };
    let mut phases: Vec<Phase> = sums.into_iter().map(row).collect();
    phases.sort_by(|a, b| (Reverse(a.total_ns), &a.name).cmp(&(Reverse(b.total_ns), &b.name)));
    phases
}

fn tracks(trainers: &[Trainer]) -> HashSet<TrackId> {
    trainers
        .iter()
        .filter_map(|trainer| trainer.track)
        .collect()
}

/// The faults of the whole recording, in the order of time. Of many those are left out that came last, but not
/// what ended the run, nor the very last one.
pub(crate) fn faults(timeline: &Timeline<'_>, trainers: &[Trainer]) -> Vec<Fault> {
    let instants = timeline.trace.instants.iter();
    let mut faults: Vec<&Instant> = instants
        .filter(|instant| {
            let cat = Some(instant.cat);
            cat == timeline.names.cat.fault || cat == timeline.names.cat.oom_kill
        })
        .collect();
    faults.sort_by_key(|instant| instant.at);
    let last = timeline.waits.iter().map(|wait| wait.span.start);
    let last = last.chain(timeline.steps.iter().map(|step| step.span.start));
    let ends = Ends {
        timeline,
        threads: tracks(trainers),
        last: last.max(),
        told: (faults.iter())
            .filter(|instant| flag(&instant.args, timeline.names.key.ended_run))
            .filter_map(|instant| Some(timeline.trace.track(instant.track)?.pid))
            .collect(),
    };
    let count = faults.len();
    let kept = |(i, instant): (usize, &Instant)| i + 1 == count || ends.run(instant);
    let kept: Vec<bool> = (faults.iter().copied().enumerate()).map(kept).collect();
    let mut room = MAX_LISTED.saturating_sub(kept.iter().filter(|&&kept| kept).count());
    let mut listed = Vec::new();
    for (instant, kept) in faults.into_iter().zip(kept) {
        if !kept && room == 0 {
            continue;
        }
        room -= usize::from(!kept);
        listed.push(fault(&ends, instant));
    }
    listed
}

/// What it takes to say of a fault whether the run ended with it.
struct Ends<'a> {
    timeline: &'a Timeline<'a>,
    /// Those of the trainers.
    threads: HashSet<TrackId>,
    /// When the last call of those that train began.
    last: Option<TraceTime>,
    /// Processes of which it was recorded what ended them.
    told: HashSet<Pid>,
}

impl Ends<'_> {
    /// Whether the run ended with it. An exception in the last call of those that train, as an interrupt is one,
    /// is how the run ended, unless the process says that it was another one.
    fn run(&self, instant: &Instant) -> bool {
        // Whoever ends without an error went on after it.
        if self.timeline.trace.meta.exit_code == Some(0) {
            return false;
        }
        let trains = self.threads.contains(&instant.track);
        if Some(instant.cat) == self.timeline.names.cat.oom_kill {
            return trains;
        }
        let track = self.timeline.trace.track(instant.track);
        let told = track.is_some_and(|track| self.told.contains(&track.pid));
        let last = !told && trains && self.last.is_some_and(|last| instant.at >= last);
        flag(&instant.args, self.timeline.names.key.ended_run)
            || (last && stage_of(self.timeline, instant).is_none())
    }
}

/// The stage of a batch that a fault is of.
fn stage_of<'a>(timeline: &'a Timeline<'_>, instant: &Instant) -> Option<&'a Stage> {
    let own = timeline
        .stages
        .iter()
        .filter(|stage| stage.track == instant.track);
    let distance = |at: u64| at.abs_diff(instant.at.as_nanos());
    own.filter(|stage| stage.panicked || stage.span.contains(instant.at))
        .min_by_key(|stage| (!stage.panicked, distance(stage.span.end.as_nanos())))
}

fn fault(ends: &Ends<'_>, instant: &Instant) -> Fault {
    let timeline = ends.timeline;
    let name = timeline.thread_name(instant.track);
    let ended_run = ends.run(instant);
    if Some(instant.cat) == timeline.names.cat.oom_kill {
        return Fault {
            at_ns: instant.at.as_nanos(),
            thread: name,
            stage: None,
            message: "the kernel killed it for want of memory".to_owned(),
            consequence: "give the job more memory, or let it use less".to_owned(),
            ended_run,
        };
    }
    let stage = stage_of(timeline, instant);
    let trains = ends.threads.contains(&instant.track);
    let worker = !trains && (stage.is_some() || timeline.serves.contains_key(&instant.track));
    let message = match text(&instant.args, timeline.names.key.message) {
        Some(message) => timeline.trace.text(message),
        None => timeline.trace.text(instant.name),
    };
    Fault {
        at_ns: instant.at.as_nanos(),
        thread: name,
        stage: stage.map(|stage| stage_name(stage.kind).to_owned()),
        message: message.to_owned(),
        consequence: match worker && Framework::of(timeline.trace) == Framework::Burn {
            true => {
                "Burn ends the epoch early without an error; the next iter() over the loader panics"
            }
            false if ended_run => ENDED,
            false => "",
        }
        .to_owned(),
        ended_run,
    }
}

fn stage_name(kind: StageKind) -> &'static str {
    match kind {
        StageKind::Get => "get",
        StageKind::Collate => "collate",
    }
}

/// The slices of threads that had not ended when the recording did, the longest first.
pub(crate) fn unfinished(timeline: &Timeline<'_>, trainers: &[Trainer]) -> Vec<Unfinished> {
    let threads = tracks(trainers);
    // The end of what seems open may be among the events that were lost.
    let proven = !lost_pipeline(timeline.trace);
    let hang = hang(timeline);
    let trace = timeline.trace;
    let waits = timeline.waits.iter().filter(|wait| wait.unfinished);
    let waiting: HashSet<TrackId> = waits.map(|wait| wait.track).collect();
    let open = |slice: &&Slice| {
        let thread = trace
            .track(slice.track)
            .is_some_and(|t| t.kind == TrackKind::Thread);
        thread
            && flag(&slice.args, timeline.names.key.unfinished)
            && Some(slice.cat) != timeline.names.cat.finding
            && Some(slice.cat) != timeline.names.cat.step
            && !is_nobodys(timeline, slice, &waiting)
    };
    let mut open: Vec<&Slice> = trace.slices.iter().filter(open).collect();
    open.sort_by_key(|slice| slice.span.start);
    open.truncate(MAX_LISTED);
    let row = |slice: &Slice| {
        let length = timeline.clip(slice.span).len();
        // Where no step was complete nobody is known to train; who waits does.
        let trains = threads.is_empty() || threads.contains(&slice.track);
        let waits = timeline.role(slice.cat).is_some();
        Unfinished {
            thread: timeline.thread_name(slice.track),
            what: what(timeline, slice, waits),
            since_ns: slice.span.start.as_nanos(),
            for_ns: length.get(),
            hang: proven && waits && trains && length >= hang,
        }
    };
    open.into_iter().map(row).collect()
}

/// Whether it is a stage of a worker of whose batches nobody waits for any, as its loop is over or the job has ended:
/// it goes with its worker, which stops in the middle of whatever it is in. `waiting`: who still waits.
fn is_nobodys(timeline: &Timeline<'_>, slice: &Slice, waiting: &HashSet<TrackId>) -> bool {
    let cat = Some(slice.cat);
    let is_stage = cat == timeline.names.cat.data_get || cat == timeline.names.cat.data_collate;
    let serves = timeline.serves.get(&slice.track);
    is_stage && serves.is_some_and(|(_, taker)| !waiting.contains(taker))
}

/// How long a wait that did not end goes on at least to be a hang.
pub(crate) fn hang(timeline: &Timeline<'_>) -> Nanos {
    let ended = timeline.waits.iter().filter(|wait| !wait.unfinished);
    let longest = ended.map(|wait| wait.span.len()).max().unwrap_or_default();
    HANG_MIN.max(Nanos::new(longest.get().saturating_mul(HANG_FACTOR)))
}

/// Whether events of loaders and steps were lost.
pub(crate) fn lost_pipeline(trace: &Trace) -> bool {
    let lost = trace.lost_by_source();
    lost.get(PIPELINE).is_some_and(|&total| total > 0)
}

fn what(timeline: &Timeline<'_>, slice: &Slice, waits: bool) -> String {
    let cat = Some(slice.cat);
    let starts = timeline.role(slice.cat) == Some(Role::EpochStart);
    let call = if starts { "iter()" } else { "next()" };
    let loader = text(&slice.args, timeline.names.key.loader);
    match loader.map(|name| timeline.trace.text(name)) {
        Some(loader) if waits => format!("{call} of `{loader}`"),
        _ if waits => call.to_owned(),
        _ if cat == timeline.names.cat.data_get => "get".to_owned(),
        _ if cat == timeline.names.cat.data_collate => "collate".to_owned(),
        _ => format!("`{}`", timeline.trace.text(slice.name)),
    }
}

/// A wait that never ended is mended by finding out what it waits for, not by faster batches, and
/// nothing can be said of what that is worth.
pub(crate) fn advise_on_hang(report: &mut Report) {
    let Some(hang) = report.unfinished.iter().find(|open| open.hang) else {
        return;
    };
    // Whoever was still at work on a batch is what the waiting thread waits for.
    let stages = [StageKind::Get, StageKind::Collate].map(stage_name);
    let mut working = report.unfinished.iter();
    let at = working.find(|open| stages.contains(&open.what.as_str()));
    let at = at.unwrap_or(hang);
    let remedy = format!(
        "find what {} has been doing in {} since {}: it had not come back {} later, when the \
         recording ended",
        at.thread,
        at.what,
        Nanos::new(at.since_ns),
        Nanos::new(at.for_ns)
    );
    for finding in &mut report.findings {
        if finding.cause.is_data() && finding.worst.first().is_some_and(|worst| worst.unfinished) {
            finding.remedy.clone_from(&remedy);
            finding.predicted_step_ns = None;
            finding.step_ns = None;
            finding.assumption = String::new();
            finding.step_without_loss_ns = None;
            finding.without_loss_assumption = String::new();
            finding.worker_counts = Vec::new();
            finding.worker_counts_assume = String::new();
        }
    }
}
