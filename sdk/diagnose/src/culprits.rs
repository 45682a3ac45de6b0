//! Who had a CPU, or ended a wait, told apart as a user would: the threads of the job one by one, each other
//! program as a whole; in words each kind of them together.

use crate::links::percent;
use crate::threads::{Program, Who, tid_of};
use crate::timeline::Timeline;
use gpustall_trace::vocab::waker;
use gpustall_trace::{Nanos, Pid, Tid};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// How the names of gpustall's own threads begin: of the sidecar, and of those in the job.
const OWN_NAMES: &str = "gpustall";

/// What ended a wait, where no thread did.
const NOBODY: [&str; 3] = [waker::TIMER, waker::DEVICE, waker::KERNEL];

/// Who had the CPUs for this share of the time is told; who had less, beside others:
const MOST: f64 = 0.5;

/// who had them for this, beside whoever had them for longer;
const MUCH: f64 = 0.25;

/// and not who had less than this.
const SOME: f64 = 0.1;

/// What a culprit is to the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A thread that makes batches.
    Worker,
    /// Another thread of the job.
    Job,
    /// gpustall, in the job and beside it.
    Recording,
    /// The kernel's own threads.
    Kernel,
    /// Another program.
    Program,
}

/// What is said of a program whose name a recording does not tell, and of a thread.
const NO_NAME: [&str; 2] = ["a program without a name", "a thread without a name"];

/// A thread of the job, or the threads of a program.
#[derive(Debug, Clone)]
pub(crate) struct Culprit {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    /// How many of its threads are named.
    threads: usize,
    pub(crate) ns: Nanos,
}

impl Culprit {
    /// `worker-0`, `rustc (4 threads)`.
    pub(crate) fn label(&self) -> String {
        match (self.kind, self.threads) {
            (Kind::Program, threads) if threads > 1 => format!("{} ({threads} threads)", self.name),
            _ => self.name.clone(),
        }
    }
}

/// All of them, the one with the most time first.
pub(crate) fn culprits(timeline: &Timeline<'_>, of: &BTreeMap<Who, Nanos>) -> Vec<Culprit> {
    let workers = Workers::of(timeline);
    let mut found: BTreeMap<(Kind, String), (BTreeSet<Who>, Nanos)> = BTreeMap::new();
    for (&who, &ns) in of {
        let identity = named(identity(timeline, &workers, who));
        let (threads, sum) = found.entry(identity).or_default();
        threads.insert(who);
        *sum += ns;
    }
    let culprit = |((kind, name), (threads, ns)): (_, (BTreeSet<Who>, Nanos))| {
        let known: BTreeSet<Tid> = threads.iter().filter_map(|of| of.1).collect();
        let unknown = threads.iter().filter(|of| of.1.is_none()).count();
        Culprit {
            kind,
            name,
            threads: known.len() + unknown,
            ns,
        }
    };
    let mut culprits: Vec<Culprit> = found.into_iter().map(culprit).collect();
    culprits.sort_by_key(|of| Reverse(of.ns));
    culprits
}

/// The threads that make batches, and processes that do nothing else.
struct Workers {
    threads: BTreeSet<Tid>,
    processes: BTreeSet<Pid>,
}

impl Workers {
    fn of(timeline: &Timeline<'_>) -> Self {
        let pid = |track| timeline.trace.track(track).map(|track| track.pid);
        let tracks = || timeline.serves.keys().copied();
        let train: BTreeSet<Pid> = (timeline.waits.iter())
            .filter_map(|wait| pid(wait.track))
            .collect();
        let processes = tracks().filter_map(pid);
        Self {
            threads: tracks()
                .filter_map(|track| tid_of(timeline.trace, track))
                .collect(),
            processes: processes.filter(|pid| !train.contains(pid)).collect(),
        }
    }

    /// Whether it is one of them, or a thread beside one in its process, as that which sends its batches.
    fn has(&self, timeline: &Timeline<'_>, tid: Tid) -> bool {
        let process = || {
            let track = timeline.thread(tid)?;
            Some(timeline.trace.track(track)?.pid)
        };
        self.threads.contains(&tid) || process().is_some_and(|pid| self.processes.contains(&pid))
    }
}

/// A culprit that a recording gives no name has one in words.
fn named((kind, name): (Kind, String)) -> (Kind, String) {
    let [program, thread] = NO_NAME;
    let name = match kind {
        _ if !name.trim().is_empty() => name,
        Kind::Program => program.to_owned(),
        _ => thread.to_owned(),
    };
    (kind, name)
}

/// What a thread is, and the name that it goes by.
fn identity(timeline: &Timeline<'_>, workers: &Workers, who: Who) -> (Kind, String) {
    let name = timeline.trace.text(who.0);
    if who.1.is_none() && NOBODY.contains(&name) {
        return (Kind::Kernel, name.to_owned());
    }
    let watched = who.1.filter(|&tid| timeline.kernel.get(tid).is_some());
    if let Some(tid) = watched {
        // The same name on several threads stands for all of them; a watched one has the name of its
        // track.
        let track = timeline.thread(tid);
        let name = track.map_or_else(|| name.to_owned(), |track| timeline.thread_name(track));
        let kind = match workers.has(timeline, tid) {
            _ if name.starts_with(OWN_NAMES) => Kind::Recording,
            true => Kind::Worker,
            false => Kind::Job,
        };
        return (kind, name);
    }
    if who.1.is_some_and(|tid| workers.threads.contains(&tid)) {
        return (Kind::Worker, name.to_owned());
    }
    let name = match timeline.kernel.programs.program(who) {
        Some(Program::Job) => return (Kind::Job, name.to_owned()),
        Some(Program::Kernel) => return (Kind::Kernel, "the kernel".to_owned()),
        Some(Program::Named(name)) => timeline.trace.text(name),
        None => name,
    };
    match name.starts_with(OWN_NAMES) {
        true => (Kind::Recording, name.to_owned()),
        false => (Kind::Program, name.to_owned()),
    }
}

/// Who had the CPUs that were waited for, in words, after `held by`: `another program, rustc (4 threads),
/// for 62 % of that time`. `None` where nothing is known of most of the time.
pub(crate) fn in_words(
    timeline: &Timeline<'_>,
    of: &BTreeMap<Who, Nanos>,
    whole: Nanos,
) -> Option<String> {
    let culprits = culprits(timeline, of);
    // Each kind as a whole: several small programs may have more of the CPUs than the workers, or less.
    let mut parts: BTreeMap<Kind, Vec<&Culprit>> = BTreeMap::new();
    for culprit in &culprits {
        parts.entry(culprit.kind).or_default().push(culprit);
    }
    let share = |part: &Vec<&Culprit>| part.iter().map(|of| of.ns).sum::<Nanos>().share_of(whole);
    let mut parts: Vec<(String, f64)> = parts.values().map(|of| (noun(of), share(of))).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (first, rest) = parts.split_first()?;
    let second = rest.first();
    let second = second.filter(|of| of.1 >= MUCH || (first.1 < MOST && of.1 >= SOME));
    let told = first.1 + second.map_or(0.0, |of| of.1);
    if told < MOST / 2.0 {
        return None;
    }
    let (who, share) = (&first.0, percent(first.1));
    Some(match second {
        None => format!("{who}, for {share} of that time"),
        Some((other, part)) => {
            format!(
                "{who}, for {share} of that time, and by {other}, for {}",
                percent(*part)
            )
        }
    })
}

/// `the loader's own workers, worker-0 and worker-1`.
fn noun(of: &[&Culprit]) -> String {
    let names: Vec<String> = of.iter().map(|of| of.label()).collect();
    let (listed, several) = match names.as_slice() {
        [] => return "others".to_owned(),
        [one] => (one.clone(), false),
        [one, two] => (format!("{one} and {two}"), true),
        [one, two, rest @ ..] => (format!("{one}, {two} and {} more", rest.len()), true),
    };
    match (of.first().map(|of| of.kind), several) {
        (Some(Kind::Worker), false) => format!("the loader's own worker, {listed}"),
        (Some(Kind::Worker), true) => format!("the loader's own workers, {listed}"),
        (Some(Kind::Job), false) => format!("another thread of the job, {listed}"),
        (Some(Kind::Job), true) => format!("other threads of the job, {listed}"),
        (Some(Kind::Recording), _) => "gpustall itself, as the cost of recording".to_owned(),
        (Some(Kind::Kernel), _) => "threads of the kernel".to_owned(),
        // Of another user the sidecar says no name.
        (Some(Kind::Program), false)
            if listed.starts_with("another ") || listed.starts_with(NO_NAME[0]) =>
        {
            listed
        }
        (Some(Kind::Program), true) => match most(of) {
            Some(name) => format!("other programs, most of all {name}"),
            None => format!("other programs, {listed}"),
        },
        (Some(Kind::Program) | None, _) => format!("another program, {listed}"),
    }
}

/// The one with more than half of what they have together; the first has the most.
fn most(of: &[&Culprit]) -> Option<String> {
    let all: Nanos = of.iter().map(|of| of.ns).sum();
    let first = of.first().filter(|first| first.ns.share_of(all) > MOST)?;
    Some(first.label())
}
