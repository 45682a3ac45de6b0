//! Which program a thread is of that the recording only names: one that took a CPU, or ended a wait.

use super::read::{Off, Other};
use super::{Lane, Who};
use crate::id_map::IdMap;
use gpustall_trace::{Pid, Symbol, Tid, Trace, TraceTime};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The process that the sidecar names for threads of the kernel.
const KTHREADD: Pid = Pid(2);

/// How the names of threads begin that every kernel has.
const KERNEL_NAMES: [&str; 5] = ["kthreadd", "kworker/", "ksoftirqd/", "migration/", "rcu_"];

/// The threads of a process, under each name that they had, and when last.
type Names = BTreeMap<(Option<Tid>, Symbol), TraceTime>;

/// What a thread is of that is not watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// A process of the job.
    Job,
    /// The kernel itself.
    Kernel,
    /// The program of this name.
    Named(Symbol),
}

/// The processes of the threads that are named.
#[derive(Default)]
pub(crate) struct Programs {
    of_thread: HashMap<Who, Pid>,
    of_process: HashMap<Pid, Program>,
}

impl Programs {
    /// From the intervals of all threads.
    pub(super) fn of(trace: &Trace, by_tid: &IdMap<Tid, Lane>) -> Self {
        let own: HashSet<Pid> = by_tid.values().filter_map(|lane| lane.pid).collect();
        // The process of each thread under each of its names, and when it had that one last.
        let mut named: HashMap<Who, (Pid, TraceTime)> = HashMap::new();
        for off in by_tid.values().flat_map(|lane| &lane.off) {
            for (at, other) in others(off) {
                if let (Some(_), Some(pid)) = (other.tid, other.pid) {
                    let last = named.entry((other.name, other.tid)).or_insert((pid, at));
                    if at >= last.1 {
                        *last = (pid, at);
                    }
                }
            }
        }
        let mut names: HashMap<Pid, Names> = HashMap::new();
        for (&(name, tid), &(pid, at)) in &named {
            names.entry(pid).or_default().insert((tid, name), at);
        }
        let known = Known::of(&names);
        let mut of_process = HashMap::new();
        for (&pid, names) in &names {
            let program = match own.contains(&pid) {
                true => Some(Program::Job),
                false => program(trace, pid, names, &known),
            };
            of_process.extend(program.map(|program| (pid, program)));
        }
        let named = named.into_iter();
        Self {
            of_thread: named.map(|(who, (pid, _))| (who, pid)).collect(),
            of_process,
        }
    }

    /// The program of a thread; `None` where its process is not known.
    pub(crate) fn program(&self, who: Who) -> Option<Program> {
        let pid = self.of_thread.get(&who)?;
        self.of_process.get(pid).copied()
    }
}

/// Who is named in an interval, and when.
fn others(off: &Off) -> impl Iterator<Item = (TraceTime, Other)> {
    let named = [
        (off.span.start, off.displaced_by),
        (off.ready, off.waker),
        (off.span.end, off.gave_back),
    ];
    named.into_iter().filter_map(|(at, of)| Some((at, of?)))
}

/// What the first thread of a process was called last, where it is named at all: before that it may have
/// been another program.
fn own_name(pid: Pid, names: &Names) -> Option<Symbol> {
    let own = names
        .iter()
        .filter(|((tid, _), _)| *tid == Some(Tid(pid.0)));
    let last = own.max_by_key(|&(_, at)| at);
    last.map(|(&(_, name), _)| name)
}

/// What processes say of others whose first thread is not named.
struct Known {
    /// The names of programs.
    programs: HashSet<Symbol>,
    /// The program in most of whose processes there are threads of a name.
    by_thread: HashMap<Symbol, Symbol>,
}

impl Known {
    fn of(names: &HashMap<Pid, Names>) -> Self {
        let mut processes: HashMap<Symbol, BTreeMap<Symbol, u64>> = HashMap::new();
        let mut programs = HashSet::new();
        for (&pid, threads) in names {
            let Some(program) = own_name(pid, threads) else {
                continue;
            };
            programs.insert(program);
            for &(_, name) in threads.keys() {
                *processes
                    .entry(name)
                    .or_default()
                    .entry(program)
                    .or_default() += 1;
            }
        }
        let most = |programs: &BTreeMap<Symbol, u64>| {
            let most = programs.iter().max_by_key(|&(_, processes)| processes);
            most.map(|(&program, _)| program)
        };
        let by_thread = processes.iter();
        Self {
            by_thread: by_thread
                .filter_map(|(&name, programs)| Some((name, most(programs)?)))
                .collect(),
            programs,
        }
    }
}

/// A process goes by the name of its first thread. Where that one is not named, a thread helps that has
/// the name of a program, since threads begin with the name of who made them; then one of a name that
/// threads of another program have; else it is the first one that is named.
fn program(trace: &Trace, pid: Pid, names: &Names, known: &Known) -> Option<Program> {
    let all = || names.keys().map(|&(_, name)| name);
    let name = own_name(pid, names)
        .or_else(|| all().find(|name| known.programs.contains(name)))
        .or_else(|| all().find_map(|name| known.by_thread.get(&name).copied()))
        .or_else(|| all().next())?;
    let of_kernel = |name: Symbol| {
        let name = trace.text(name);
        KERNEL_NAMES.iter().any(|own| name.starts_with(own))
    };
    let kernel = pid == KTHREADD && (of_kernel(name) || all().any(of_kernel));
    Some(match kernel {
        true => Program::Kernel,
        false => Program::Named(name),
    })
}
