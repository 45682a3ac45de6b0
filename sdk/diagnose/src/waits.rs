//! Each moment of each wait, charged by the table of waits.

use crate::cause::Cause;
use crate::chain::wait_pieces;
use crate::cover::Cover;
use crate::events::{LoaderKey, Role, Wait};
use crate::job;
use crate::piece::{Piece, PieceKind};
use crate::report::Worker;
use crate::rules::{MIN_FREE_CPUS, Place, ThreadState, WORKERS_BUSY_SHARE, WaitMoment, judge_wait};
use crate::timeline::Timeline;
use crate::wait_cause::wait_causes;
use crate::window::{Window, total};
use crate::workers::{CONTENDED_MIN_RUNNABLE_SHARE, Hand, together};
use gpustall_trace::vocab::host;
use gpustall_trace::{Interval, Nanos, TraceTime};
use std::collections::HashMap;

/// What is known about the waits of a trace.
pub(crate) struct Waits {
    /// Of each, without the scheduler.
    pub(crate) causes: Vec<Cause>,
    /// The workers of each loader.
    crews: HashMap<LoaderKey, Crew>,
    /// CPUs that were free on average; `None` if it is not known how many there are.
    pub(crate) free_cpus: Option<f64>,
    /// CPUs that others than the job's watched threads kept busy; `None` where it was not counted.
    pub(crate) taken_cpus: Option<f64>,
    /// How long a wait that did not end goes on at least to be a hang.
    hang: Nanos,
}

/// Workers of one loader, shares summed up over them.
#[derive(Debug, Clone, Copy, Default)]
struct Crew {
    /// How many there were at the same time.
    workers: usize,
    /// Share of the window in which the loader was looped over: they have nothing to do in the rest.
    looped: f64,
    /// Of the window, in get or collate.
    busy: f64,
    /// Of that, what is known of the scheduler's states, and what they waited for a CPU.
    known: f64,
    waited: f64,
}

impl Crew {
    fn add(&mut self, worker: &Worker) {
        self.busy += worker.busy_share;
        if let Some(share) = worker.runnable_share {
            self.known += worker.busy_share;
            self.waited += worker.busy_share * share;
        }
    }

    fn is_busy(self) -> bool {
        let most = self.workers as f64 * self.looped;
        self.workers > 0 && self.busy >= WORKERS_BUSY_SHARE * most
    }

    /// Whether they have too few CPUs already.
    fn is_short(self) -> bool {
        self.known > 0.0 && self.waited >= CONTENDED_MIN_RUNNABLE_SHARE * self.known
    }
}

impl Waits {
    /// Those of a trace, from the rows of its workers in the window.
    pub(crate) fn of(timeline: &Timeline<'_>, window: &Window, workers: &[Hand]) -> Self {
        let mut crews: HashMap<LoaderKey, Crew> = HashMap::new();
        for hand in workers {
            if let Some(loader) = hand.loader {
                crews.entry(loader).or_default().add(&hand.row);
            }
        }
        for (&loader, crew) in &mut crews {
            crew.looped = looped(timeline, window, loader);
            crew.workers = together(workers.iter().filter(|hand| hand.loader == Some(loader)));
        }
        let own = own_cpus(timeline, window.span);
        let counted = used_cpus(timeline, window.span);
        let used = counted.unwrap_or(0.0).max(own);
        let cpus = timeline.trace.meta.cpus;
        let known = cpus > 0 && !window.span.is_empty();
        Self {
            causes: wait_causes(timeline),
            crews,
            free_cpus: known.then(|| (f64::from(cpus) - used).max(0.0)),
            taken_cpus: counted.map(|_| used - own),
            hang: job::hang(timeline),
        }
    }

    /// Share of the window in which a loader that has workers was looped over.
    pub(crate) fn looped(&self, loader: Option<LoaderKey>) -> Option<f64> {
        self.crews.get(&loader?).map(|crew| crew.looped)
    }

    /// Charges `part` of the wait at this position: disjoint, in order, covering it.
    pub(crate) fn cut(
        &self,
        timeline: &Timeline<'_>,
        at: usize,
        part: Interval,
        mut each: impl FnMut(Interval, Cause),
    ) {
        let otherwise = self.causes.get(at).copied().unwrap_or(Cause::Data);
        let wait = timeline.waits.get(at);
        let Some(wait) = wait.filter(|_| !timeline.kernel.is_empty()) else {
            return each(part, otherwise);
        };
        let mut last: Option<(Interval, Cause)> = None;
        let mut push = |span: Interval, cause: Cause| match &mut last {
            Some((whole, of)) if *of == cause && whole.end == span.start => whole.end = span.end,
            last => {
                if let Some((span, cause)) = last.replace((span, cause)) {
                    each(span, cause);
                }
            }
        };
        let crew = self.crews.get(&wait.loader).copied().unwrap_or_default();
        let free = self.free_cpus.map(|free| free >= MIN_FREE_CPUS);
        let mut moment = WaitMoment {
            startup: otherwise == Cause::DataStartup,
            place: Place::Waiting,
            state: ThreadState::Unknown,
            memory: false,
            workers_busy: crew.is_busy(),
            cpu_free: free.map(|free| free && !crew.is_short()),
            hangs: wait.unfinished && wait.span.len() >= self.hang,
            otherwise,
        };
        for piece in wait_pieces(timeline, wait, &[part]) {
            moment.place = place(wait, &piece);
            let lane = timeline.lane(piece.track.unwrap_or(wait.track));
            let Some(lane) = lane.filter(|_| !moment.startup) else {
                moment.state = ThreadState::Unknown;
                push(piece.span, judge_wait(&moment).1);
                continue;
            };
            let mut until = piece.span.start;
            for stretch in lane.during(piece.span) {
                moment.state = stretch.state;
                moment.memory = stretch.memory;
                push(stretch.span, judge_wait(&moment).1);
                until = stretch.span.end;
            }
            // A stall may reach beyond what is laid out.
            let rest = Interval::new(until, piece.span.end);
            if !rest.is_empty() {
                moment.state = ThreadState::Unknown;
                moment.memory = false;
                push(rest, judge_wait(&moment).1);
            }
        }
        if let Some((span, cause)) = last {
            each(span, cause);
        }
    }
}

/// Share of the window in which somebody was in a step or a call of this loader.
fn looped(timeline: &Timeline<'_>, window: &Window, loader: LoaderKey) -> f64 {
    let steps = timeline.steps.iter().filter(|step| step.loader == loader);
    let waits = timeline.waits.iter().filter(|wait| wait.loader == loader);
    let steps = steps.map(|step| step.span);
    let spans: Vec<Interval> = steps.chain(waits.map(|wait| wait.span)).collect();
    let covered = Cover::of(&window.parts, &spans).covered();
    total(&covered).share_of(window.len())
}

/// Where the thread of a piece of a wait is.
fn place(wait: &Wait, piece: &Piece) -> Place {
    use PieceKind::{Collate, EarlierCollate, EarlierGet, Get, Idle, LaterCollate, LaterGet};
    use PieceKind::{Next, Sampler};
    let own = piece.track == Some(wait.track);
    match piece.kind {
        _ if wait.role != Role::Batch => Place::Waiting,
        Sampler => Place::InProcess,
        Get | Collate | EarlierGet | EarlierCollate | Next if own => Place::InProcess,
        Get | Collate | EarlierGet | EarlierCollate | LaterGet | LaterCollate => Place::Stage,
        Idle => Place::BetweenStages,
        _ => Place::Waiting,
    }
}

/// CPUs that the job's watched threads ran on in `window`, on average.
fn own_cpus(timeline: &Timeline<'_>, window: Interval) -> f64 {
    let lanes = timeline.kernel.iter();
    let ran: Nanos = lanes.map(|(_, lane)| lane.running(window)).sum();
    ran.share_of(window.len())
}

/// CPUs that anything ran on, where it was counted for those of the job and for no others.
fn used_cpus(timeline: &Timeline<'_>, window: Interval) -> Option<f64> {
    let same = machine(timeline) == u64::from(timeline.trace.meta.cpus);
    same.then(|| busy_cpus(timeline, window)).flatten()
}

/// How many CPUs of the machine have a counter.
fn machine(timeline: &Timeline<'_>) -> u64 {
    let trace = timeline.trace;
    let of_one = |name: &str| {
        let number = name.strip_prefix(host::CPU_BUSY);
        number.is_some_and(|number| number.trim_start().parse::<u32>().is_ok())
    };
    let series = trace.counter_series.iter();
    series
        .filter(|series| of_one(trace.text(series.name)))
        .count() as u64
}

/// CPUs of the machine that were busy on average, where it was counted. A sample is of the time
/// since the one before it.
fn busy_cpus(timeline: &Timeline<'_>, window: Interval) -> Option<f64> {
    let trace = timeline.trace;
    let name = trace.strings.find(host::CPUS_BUSY)?;
    let series = trace
        .counter_series
        .iter()
        .position(|series| series.name == name)?;
    let series = u32::try_from(series).ok()?;
    let mut before: Option<TraceTime> = None;
    let (mut area, mut covered) = (0.0, Nanos::ZERO);
    for sample in trace
        .counters
        .iter()
        .filter(|sample| sample.series == series)
    {
        if let Some(before) = before {
            let length = Interval::new(before, sample.at).intersection(window).len();
            area += sample.value.clamp(0.0, 1e6) * length.get() as f64;
            covered += length;
        }
        before = Some(sample.at);
    }
    let mean = area / covered.get().max(1) as f64;
    (covered > Nanos::ZERO && mean.is_finite()).then_some(mean)
}
