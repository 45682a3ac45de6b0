//! What to change where the scheduler names the cause.

use crate::cause::Cause;
use crate::culprits::{Culprit, Kind, culprits};
use crate::disk::{Disk, Known, Source};
use crate::framework::Framework::{self, Burn, PyTorch};
use crate::framework::uses_sdk;
use crate::links::percent;
use crate::rules::BlockedOn;
use crate::threads::StateSums;
use crate::timeline::Timeline;
use gpustall_trace::Nanos;
use gpustall_trace::vocab::waker;

/// Workers that had the CPU for at least this share of the time for which a thread waited for one
/// are why it waited.
const OWN_MIN_SHARE: f64 = 0.5;

/// Another one is named that had the CPU for at least this share of that time.
const HOLDER_MIN_SHARE: f64 = 0.25;

/// The class of a wait for no more than time to pass.
const SLEEP: &str = "sleep";

/// What the kernel's evidence of a finding says that the advice depends on.
#[derive(Debug, Clone, Default)]
pub(crate) struct KernelSigns {
    /// Who of others than the job had the CPU for most of the time that was waited for one.
    holder: Option<(String, f64)>,
    /// Share of that time in which the job's own workers had it.
    own_workers: f64,
    /// Share of that time in which gpustall itself had it.
    recording: f64,
    /// Who ended most of the waits on locks.
    waker: Option<(String, f64)>,
    /// The same, if it is a thread or program that does something for who waits.
    waited_for: Option<String>,
    /// Most of the waits on locks ended since their time was over.
    timed_out: bool,
    /// What most of the blocked time was for.
    blocked: Option<BlockedOn>,
    /// Whether that is sleep.
    sleeps: bool,
    /// Whether the kernel freed memory for the threads, rather than only mapping it.
    reclaims: bool,
    /// The program's own words for a mark that names a place in the next recording.
    mark: Option<&'static str>,
    /// The disk, or the other end of a connection, where batches wait for one.
    pub(crate) disk: Option<Disk>,
}

impl KernelSigns {
    /// From the states of a finding's threads.
    pub(crate) fn of(timeline: &Timeline<'_>, states: &StateSums) -> Self {
        let held_by = culprits(timeline, &states.held_by);
        let share = |kind: Kind| {
            let of_kind = held_by.iter().filter(|of| of.kind == kind);
            let ns: Nanos = of_kind.map(|of| of.ns).sum();
            ns.share_of(states.waiting)
        };
        // Nobody is told to stop his own job, nor the recorder that it runs under.
        let holder = held_by.iter().find(|of| of.kind == Kind::Program);
        let most = states.blocked.iter().max_by_key(|&(_, ns)| ns);
        let locks = states.blocked_in(|on| on == BlockedOn::Lock);
        let wakers = culprits(timeline, &states.woken_by);
        let reclaims = states
            .tids
            .iter()
            .filter_map(|&tid| timeline.kernel.get(tid));
        Self {
            holder: holder.map(|of| (of.name.clone(), of.ns.share_of(states.waiting))),
            own_workers: share(Kind::Worker),
            recording: share(Kind::Recording),
            waker: wakers
                .first()
                .map(|of| (of.name.clone(), of.ns.share_of(locks))),
            waited_for: wakers
                .first()
                .filter(|of| !matches!(of.kind, Kind::Kernel | Kind::Recording))
                .filter(|of| of.ns.share_of(locks) >= HOLDER_MIN_SHARE)
                .map(introduced),
            timed_out: wakers.first().is_some_and(|of| {
                of.kind == Kind::Kernel
                    && of.name == waker::TIMER
                    && of.ns.share_of(locks) >= HOLDER_MIN_SHARE
            }),
            blocked: most.map(|((on, ..), _)| *on),
            sleeps: most.is_some_and(|((_, class, _), _)| timeline.trace.text(*class) == SLEEP),
            reclaims: reclaims.into_iter().any(|lane| !lane.memory.is_empty()),
            mark: match uses_sdk(timeline) {
                true => Some("instrument::phase"),
                // Another profiler records these; gpustall run does not.
                false => (timeline.foreign && Framework::of(timeline.trace) == PyTorch)
                    .then_some("torch.profiler.record_function"),
            },
            disk: None,
        }
    }

    /// Whether more readers get no more of it.
    pub(crate) fn disk_is_limit(&self) -> bool {
        let known = self.disk.map(|disk| disk.known());
        matches!(known, Some(Known::HeldBack | Known::AtLimit))
    }

    /// Whether the job's own workers are who had the CPU.
    pub(crate) fn by_own_workers(&self) -> bool {
        self.own_workers >= OWN_MIN_SHARE
    }

    /// Whether gpustall is who had the CPU, more than any other program and the job's workers.
    pub(crate) fn by_recording(&self) -> bool {
        let other = self.holder.as_ref().map_or(0.0, |&(_, share)| share);
        let most = self.recording >= other && self.recording >= HOLDER_MIN_SHARE;
        most && !self.by_own_workers()
    }

    /// Who had the CPU, if it was neither the job's workers nor gpustall.
    pub(crate) fn foreign_holder(&self) -> Option<&str> {
        let holder = self.holder.as_ref().filter(|_| !self.by_own_workers())?;
        if self.by_recording() {
            return None;
        }
        (holder.1 >= HOLDER_MIN_SHARE).then_some(holder.0.as_str())
    }
}

/// What is known of the workers that may have the CPUs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Workers {
    /// Fewer of them that do as well.
    pub(crate) fitting: Option<u64>,
    pub(crate) have: u64,
    /// Whether fewer are predicted to be slower.
    pub(crate) fewer_are_slower: bool,
    /// How much of the CPUs others keep busy, in words, where that matters.
    pub(crate) others: Option<String>,
}

/// What to change; empty for causes that have advice of their own.
pub(crate) fn advice(
    cause: Cause,
    framework: Framework,
    signs: &KernelSigns,
    workers: &Workers,
) -> String {
    match cause {
        Cause::DataIo => io(framework, signs),
        Cause::DataMemory => memory(framework, signs),
        Cause::DataLock => lock(framework, signs),
        Cause::HostPreempted => preempted(framework, signs, workers),
        Cause::HostBlocked => blocked(framework, signs),
        _ => String::new(),
    }
}

fn io(framework: Framework, signs: &KernelSigns) -> String {
    if signs.blocked == Some(BlockedOn::Peer) {
        let is_peer = signs.disk.is_some_and(|of| of.source == Source::Peer);
        if is_peer && signs.disk_is_limit() {
            return "more workers do not help: the other end of the connection is at its limit, and more workers at \
                    once get no more of it. Have more of it (another process or host that serves), give it less to \
                    do for an item, ask for a whole batch at once, or keep what it sends on a local disk or in \
                    memory."
                .to_owned();
        }
        let more = match framework {
            Burn => ".num_workers(n)",
            PyTorch => "num_workers and prefetch_factor",
        };
        return format!(
            "whoever makes batches waits for the other end of a connection: keep what it sends on a \
             local disk or in memory, ask for a whole batch at once, or raise {more}: who waits \
             needs no CPU, and more of them get more if the other end serves several at once."
        );
    }
    let keep = match framework {
        Burn => "keep the items in memory (InMemDataset)",
        PyTorch => "keep the data in memory",
    };
    let disk = signs.disk.filter(|of| of.source == Source::Disk);
    let more = match (disk.map(|disk| disk.known()), framework) {
        (Some(Known::HeldBack), _) => {
            return format!(
                "more workers do not help: something holds the reads back before they reach the disk, as a \
                 limit on the I/O of the control group does (io.max). Raise it, or {keep}; larger reads \
                 help where the limit is on their number."
            );
        }
        (Some(Known::AtLimit), _) => {
            return format!(
                "more workers do not help: the disk is at its limit, and more readers at once get no more \
                 of it. Put the data on a faster disk, or {keep}; where the limit is not the bytes but the \
                 reads, read a whole batch in one piece, in the order of the file."
            );
        }
        (_, Burn) => {
            "more workers, .num_workers(n), overlap their reads, since who waits for a disk needs \
                 no CPU; or keep the items in memory (InMemDataset)"
        }
        (_, PyTorch) => {
            "more workers, num_workers=n, overlap their reads, since who waits for a disk needs \
                    no CPU, and prefetch_factor reads further ahead; or keep the data in memory"
        }
    };
    format!(
        "{more}. Read a whole batch in one piece, in the order of the file, so that the kernel reads \
         ahead, and put the data on a faster disk where it does not fit in memory."
    )
}

fn memory(framework: Framework, signs: &KernelSigns) -> String {
    if signs.reclaims {
        let fewer = match framework {
            Burn => "fewer workers hold fewer batches",
            PyTorch => "a smaller prefetch_factor and fewer workers hold fewer batches",
        };
        return format!(
            "the kernel frees memory before it gives any: raise the memory limit of the job (memory.max \
             of its control group), or use less: {fewer}."
        );
    }
    let buffers = match framework {
        Burn => {
            "keep the buffers of a batch and fill them again, instead of a new Vec for each item"
        }
        PyTorch => {
            "fill buffers that are kept (torch.stack(..., out=...)), instead of new arrays for each item"
        }
    };
    format!(
        "{buffers}: pages that are given back are faulted in anew. Without a change of the program: huge \
         pages (transparent_hugepage=always) make 512 faults one, and \
         MALLOC_MMAP_THRESHOLD_=1073741824 with MALLOC_TRIM_THRESHOLD_=1073741824 (glibc), or another \
         allocator, keep freed memory."
    )
}

fn lock(framework: Framework, signs: &KernelSigns) -> String {
    let who = signs.waker.as_ref().map_or(String::new(), |(name, share)| {
        format!(" ({name} ended {} of the waits)", percent(*share))
    });
    let own = match framework {
        Burn => "a reader for each worker thread, or one lock for each file",
        PyTorch => "a handle for each worker, opened in worker_init_fn",
    };
    format!(
        "batches are made one after the other{who}: hold the lock only to take what is needed and work \
         outside of it, or split it: {own}. More workers do not help."
    )
}

/// What to do where gpustall is who had the CPU.
const RECORDING: &str = "gpustall itself has its CPU: that is the cost of recording, and the job by itself \
    does not pay it, so nothing in the job is to be changed for it. `gpustall run --no-sidecar` records \
    without the sidecar, and shows what the job takes without it; or give the sidecar another CPU.";

/// The same, within what is said to workers that are short of CPUs.
pub(crate) const RECORDING_BESIDE: &str = " gpustall itself had the CPU for much of that: it is the cost of \
    recording, which `gpustall run --no-sidecar` or another CPU for the sidecar avoids.";

fn preempted(framework: Framework, signs: &KernelSigns, workers: &Workers) -> String {
    if signs.by_own_workers() {
        let have = workers.have;
        let fewer = match (workers.fitting, framework) {
            (Some(n), Burn) => {
                format!(".num_workers({n}) instead of {have} leaves the trainer a CPU")
            }
            (Some(n), PyTorch) => {
                format!("num_workers={n} instead of {have} leaves the trainer a CPU")
            }
            (None, _) if workers.fewer_are_slower => {
                let others = workers.others.as_ref();
                let others = others.map_or(String::new(), |keep| format!(" ({keep})"));
                let fewer = match have {
                    1 => "the loader's own worker has its CPU",
                    _ => {
                        "the loader's own workers have its CPU, and fewer of them are not predicted to make a \
                         step shorter"
                    }
                };
                return format!(
                    "{fewer}: give the job more CPUs{others}, or make batches cheaper."
                );
            }
            (None, _) => "fewer workers leave the trainer a CPU".to_owned(),
        };
        return format!(
            "the loader's own workers have its CPU: {fewer}; or give the job more CPUs."
        );
    }
    if signs.by_recording() {
        return RECORDING.to_owned();
    }
    let who = match signs.foreign_holder() {
        Some(name) => format!("{name} has its CPU: stop it or move it elsewhere"),
        None => "others have its CPU: see what else runs".to_owned(),
    };
    format!(
        "{who}, or give the job CPUs of its own (taskset, cpuset, a CPU request of the container)."
    )
}

/// Who is waited for, and what that is to the job.
fn introduced(of: &Culprit) -> String {
    // A thread whose process is not known counts as another program.
    match of.kind {
        Kind::Job => format!("{}, another thread of the job,", of.name),
        _ => of.name.clone(),
    }
}

fn blocked(framework: Framework, signs: &KernelSigns) -> String {
    let what = match signs.blocked {
        // CPython's threads wait for its interpreter 5 ms at a time.
        Some(BlockedOn::Lock) if signs.timed_out && framework == PyTorch => {
            "it asks for a lock and times out, again and again, as a thread of Python does while another \
             thread of the process runs Python code and keeps the interpreter (GIL): give that thread less \
             to do, or make it a process (multiprocessing)"
                .to_owned()
        }
        Some(BlockedOn::Lock) => match &signs.waited_for {
            Some(name) => format!(
                "{name} is who it waits for: give it less to do, or do not wait for it in the step"
            ),
            None => "find the lock or the channel that it waits for, and do not wait in the step"
                .to_owned(),
        },
        Some(BlockedOn::File) => {
            "move reading and writing of files (logs, samples, checkpoints) to a thread of its own"
                .to_owned()
        }
        Some(BlockedOn::Memory) => {
            "give the job more memory (memory.max of its control group), or let it use less"
                .to_owned()
        }
        Some(BlockedOn::Peer) => {
            "talk to the other end on a thread of its own, not in the step".to_owned()
        }
        _ if signs.sleeps => {
            let sleep = match framework {
                Burn => "std::thread::sleep",
                PyTorch => "time.sleep",
            };
            format!(
                "find the call in which it sleeps ({sleep}, or a client that tries again after a while or keeps \
                 to a rate), and do not make it in the step"
            )
        }
        _ => "find what it waits for".to_owned(),
    };
    let mark = signs.mark.map_or(String::new(), |mark| {
        format!(" Mark the place ({mark}), so that the next recording names it.")
    });
    format!("{what}.{mark}")
}
