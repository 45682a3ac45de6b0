//! Which evidence a recording has, and what the rest would add.

use crate::device::Devices;
use crate::events::Role;
use crate::framework::{Framework, marked, uses_sdk};
use crate::maker::{Maker, maker};
use crate::report::{Evidence, Loader, Missing};
use crate::threads::Lane;
use crate::timeline::Timeline;
use gpustall_trace::Pid;
use gpustall_trace::vocab::host;

/// The evidence in a recording.
pub(crate) fn evidence(timeline: &Timeline<'_>, devices: &Devices, loaders: &[Loader]) -> Evidence {
    let stages = timeline.stages.iter().next().is_some();
    let cpu = timeline.stages.iter().any(|stage| stage.cpu.is_some());
    let states = timeline.stages.iter().any(|stage| stage.runnable.is_some());
    let mut waits = timeline
        .waits
        .iter()
        .filter(|wait| wait.role == Role::Batch && !wait.unfinished);
    let untagged = waits.any(|wait| maker(timeline, wait) == Maker::Unknown);
    let queue = loaders.iter().any(|loader| loader.queue.is_some());
    let kernel = Kernel::of(timeline);
    let have = [
        (!timeline.steps.is_empty(), "steps"),
        (!timeline.waits.is_empty(), "data waits"),
        (stages, "get and collate of each batch"),
        (!timeline.serves.is_empty(), "the worker of each batch"),
        (cpu, "CPU time of get and collate"),
        (states, "time of get and collate that waited for a CPU"),
        (queue, "queue depth"),
        (!timeline.phases.is_empty(), "phases"),
        (!devices.is_empty(), "device operations"),
        (!devices.calls.is_empty(), "driver calls"),
        (
            timeline.trace.meta.members.len() > 1,
            "several processes of one job",
        ),
        (kernel.states, "scheduler events"),
        (kernel.samples, "samples of running threads"),
        (kernel.faults, "page faults"),
        (kernel.memory, "reclaim and compaction"),
        (kernel.disks, "disk requests"),
        (kernel.host, "counters of the machine"),
    ];
    let others = ["kineto", "chrome"];
    let recorder = timeline.trace.meta.recorder.as_str();
    let run = recorder.starts_with("gpustall run");
    let foreign = timeline.foreign
        || others.iter().any(|other| recorder.starts_with(other))
        || (timeline.steps.is_empty() && !devices.is_empty());
    let have = have.iter().filter(|(there, _)| *there);
    let hooked = marked(timeline.trace);
    let sdk = uses_sdk(timeline);
    let mut missing = Vec::new();
    let mut miss = |is: bool, what: &str, adds: &str, how: &str| {
        if is {
            missing.push(Missing {
                what: what.to_owned(),
                adds: adds.to_owned(),
                how: how.to_owned(),
            });
        }
    };
    miss(
        timeline.steps.is_empty() && !devices.is_empty(),
        "steps",
        "which causes lie on the thread that trains; until then they are `host` or `data`",
        match (sdk, Framework::of(timeline.trace)) {
            (_, Framework::PyTorch) => {
                "give the profiler a schedule and call its step() in every iteration"
            }
            (true, Framework::Burn) => "wrap the loader with instrument::loader",
            (false, Framework::Burn) => "",
        },
    );
    miss(
        !devices.is_empty() && devices.calls.is_empty(),
        "driver calls",
        "which thread launched each kernel, and when",
        "",
    );
    miss(
        sdk && !foreign && (untagged || (!stages && !timeline.waits.is_empty())),
        "batch tags",
        "which worker made each batch, and in which stage",
        "wrap the batcher with instrument::batcher and the data set with instrument::dataset",
    );
    miss(
        stages && !cpu && !kernel.states,
        "CPU time of get and collate",
        "whether a batch is computed or waited for",
        "",
    );
    miss(
        sdk && timeline.phases.is_empty() && !foreign,
        "phases",
        "which part of the step the rest is",
        "mark them: let _forward = instrument::phase(\"forward\")",
    );
    miss(
        !kernel.states,
        "scheduler events",
        match devices.is_empty() {
            true => {
                "whether a thread ran, waited for a CPU, or was blocked; until then compute is all \
                 time that nothing else accounts for"
            }
            false => "whether a thread ran, waited for a CPU, or was blocked",
        },
        "run gpustall-sidecar beside the job",
    );
    miss(
        kernel.states && !kernel.samples,
        "samples of running threads",
        "what running threads ran: the program's functions, page faults, copies",
        "",
    );
    miss(
        kernel.states && !kernel.trainers,
        "the scheduler events of the thread that trains",
        "when it waited for a CPU or was blocked; until then that counts as its own work",
        "record the process that trains, from before the first step",
    );
    miss(
        devices.is_empty(),
        "device activity",
        "when the device computed, copied or was idle",
        "",
    );
    let level = match (foreign, devices.is_empty()) {
        _ if run && hooked => "gpustall run with the Python hook",
        _ if run => "gpustall run",
        (true, _) => "foreign trace",
        (false, false) => "spans + device",
        (false, true) => "spans",
    };
    Evidence {
        level: match kernel.states {
            true => format!("{level} + sidecar"),
            false => level.to_owned(),
        },
        have: have.map(|(_, what)| (*what).to_owned()).collect(),
        missing,
    }
}

/// Which of the sidecar's evidence there is.
struct Kernel {
    states: bool,
    /// Whether every thread that runs steps was watched.
    trainers: bool,
    samples: bool,
    faults: bool,
    memory: bool,
    disks: bool,
    host: bool,
}

impl Kernel {
    fn of(timeline: &Timeline<'_>) -> Self {
        let any = |is: fn(&Lane) -> bool| timeline.kernel.iter().any(|(_, lane)| is(lane));
        let watched = |lane: &Lane| !lane.off.is_empty() || !lane.totals.is_empty();
        let mut trainers = timeline.steps.iter().filter_map(|step| step.thread);
        let mut series = timeline.trace.counter_series.iter();
        Self {
            states: any(|lane| !lane.off.is_empty() || !lane.totals.is_empty()),
            trainers: trainers.all(|tid| timeline.kernel.get(tid).is_some_and(watched)),
            samples: any(|lane| !lane.samples.is_empty()),
            faults: any(|lane| lane.totals.iter().any(|of| of.minor_faults.is_some())),
            memory: any(|lane| !lane.memory.is_empty()),
            disks: any(|lane| !lane.requests.is_empty()),
            host: series.any(|series| series.pid == Pid(host::PID)),
        }
    }
}
