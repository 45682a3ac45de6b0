//! Loading the programs, and attaching them to the kernel.

use super::{Options, Probes};
use crate::bitmap::TrackedBitmap;
use crate::cuda::CudaPrograms;
use crate::error::SetupError;
use crate::kernel::{self, Offsets, RequestOffsets};
use crate::tracepoints::{self, Tracepoint};
use aya::maps::{HashMap, Map, PerCpuArray, RingBuf};
use aya::programs::BtfTracePoint;
use aya::programs::perf_event::{
    PerfEvent, PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent,
};
use aya::util::online_cpus;
use aya::{Btf, Ebpf, EbpfLoader};

/// The eBPF programs, built by `probes/build.sh`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../prebuilt/gpustall-probes.bpf.o");

/// Which of the two ways to hold registers the probes take.
static ARM64: u32 = cfg!(target_arch = "aarch64") as u32;

impl Probes {
    /// Loads the programs and attaches them.
    pub(crate) fn attach(options: &Options) -> Result<Self, SetupError> {
        let types = kernel::types()?;
        let offsets = Offsets::of(&types)?;
        let (threshold_ns, stack_ns) = (options.threshold.get(), options.stack_threshold.get());
        let btf = Btf::from_sys_fs().map_err(|e| Box::new(aya::EbpfError::from(e)))?;
        let mut loader = EbpfLoader::new();
        loader
            .btf(Some(&btf))
            .override_global("THRESHOLD_NS", &threshold_ns, true)
            .override_global("STACK_NS", &stack_ns, true)
            .map_max_entries("EVENTS", options.ring_bytes)
            .map_max_entries("THREADS", options.max_threads)
            .map_max_entries("CALLS", options.max_threads)
            .override_global("ARM64", &ARM64, true);
        for (name, value) in offsets.globals() {
            loader.override_global(name, value, true);
        }
        let requests = RequestOffsets::of(&types);
        for (name, value) in requests.iter().flat_map(RequestOffsets::globals) {
            loader.override_global(name, value, true);
        }
        let mut programs = loader.load(OBJECT).map_err(Box::new)?;
        let mut notes = Vec::new();
        if let Err(error) = &requests {
            notes.push(format!("{error}: {}", tracepoints::WITHOUT_REQUESTS));
        }
        for tracepoint in &tracepoints::wanted(&types, options.page_allocs) {
            let attached = tracepoints::has(&types, tracepoint)
                .and_then(|()| attach(&mut programs, tracepoint, &btf));
            match (attached, tracepoint.without) {
                (Ok(()), _) => {}
                (Err(error), None) => return Err(error),
                (Err(error), Some(missing)) => notes.push(format!("{error}: {missing}")),
            }
        }
        if options.sample_hz > 0
            && let Err(error) = sample(&mut programs, options.sample_hz)
        {
            notes.push(format!("{error}: what running threads ran is unknown"));
        }
        // Loaded before the maps are taken; attached when a library is found.
        let cuda = match options.cuda_calls {
            true => CudaPrograms::load(OBJECT, &mut programs)
                .inspect_err(|e| notes.push(format!("{e}: CUDA calls are not recorded")))
                .ok(),
            false => None,
        };
        let Map::Array(tracked) = take(&mut programs, "TRACKED")? else {
            return Err(map_error("TRACKED", "not an array"));
        };
        Ok(Self {
            tracked: TrackedBitmap::map(tracked.fd()).map_err(|e| map_error("TRACKED", e))?,
            threads: HashMap::try_from(take(&mut programs, "THREADS")?)
                .map_err(|e| map_error("THREADS", e))?,
            calls: HashMap::try_from(take(&mut programs, "CALLS")?)
                .map_err(|e| map_error("CALLS", e))?,
            events: RingBuf::try_from(take(&mut programs, "EVENTS")?)
                .map_err(|e| map_error("EVENTS", e))?,
            lost: PerCpuArray::try_from(take(&mut programs, "LOST")?)
                .map_err(|e| map_error("LOST", e))?,
            in_flight: HashMap::try_from(take(&mut programs, "IN_FLIGHT")?)
                .map_err(|e| map_error("IN_FLIGHT", e))?,
            max_threads: options.max_threads,
            programs: Some(programs),
            cuda,
            notes,
            untracked: Vec::new(),
        })
    }
}

fn attach(programs: &mut Ebpf, tracepoint: &Tracepoint, btf: &Btf) -> Result<(), SetupError> {
    let name = tracepoint.name;
    let program = programs
        .program_mut(name)
        .ok_or_else(|| map_error(name, "the object has no such program"))?;
    let mut load = || {
        let program: &mut BtfTracePoint = program.try_into()?;
        program.load(name, btf)?;
        program.attach()
    };
    match load() {
        Ok(_) => Ok(()),
        Err(source) => Err(SetupError::Program {
            name,
            source: Box::new(source),
        }),
    }
}

/// Attaches the sampling program to the clock of each CPU.
fn sample(programs: &mut Ebpf, hz: u32) -> Result<(), SetupError> {
    const NAME: &str = "cpu_clock";
    let program = programs
        .program_mut(NAME)
        .ok_or_else(|| map_error(NAME, "the object has no such program"))?;
    let cpus =
        online_cpus().map_err(|(file, error)| map_error(NAME, format!("{file}: {error}")))?;
    let mut attach = || {
        let program: &mut PerfEvent = program.try_into()?;
        program.load()?;
        for &cpu in &cpus {
            program.attach(
                PerfEventConfig::Software(SoftwareEvent::CpuClock),
                PerfEventScope::AllProcessesOneCpu { cpu },
                SamplePolicy::Frequency(hz.into()),
                false,
            )?;
        }
        Ok(())
    };
    attach().map_err(|source| SetupError::Program {
        name: NAME,
        source: Box::new(source),
    })
}

fn take(programs: &mut Ebpf, name: &'static str) -> Result<Map, SetupError> {
    programs
        .take_map(name)
        .ok_or_else(|| map_error(name, "the object does not have it"))
}

fn map_error(name: &'static str, why: impl ToString) -> SetupError {
    let why = why.to_string();
    SetupError::Map { name, why }
}
