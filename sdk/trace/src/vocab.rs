//! The names that the recorder writes and the diagnosis reads.
//!
//! A slice's category says what kind of thing it is; its arguments join it to others. A batch is
//! followed by [`arg::BATCH`]: the [`cat::DATA_GET`] and [`cat::DATA_COLLATE`] slices on the
//! thread that made it, and the [`cat::DATA_WAIT`] slice on the thread that took it, carry the
//! same number. When the batch was made inside `next()` (no workers), its stages lie inside the
//! wait, on the same track.

/// Categories of slices, instants, flows and async slices.
pub mod cat {
    /// Slice on a synthetic track: one iteration of a loop over a loader. Arguments
    /// [`LOADER`](super::arg::LOADER), [`KIND`](super::arg::KIND), [`EPOCH`](super::arg::EPOCH),
    /// [`STEP`](super::arg::STEP), [`THREAD`](super::arg::THREAD).
    pub const STEP: &str = "step";
    /// Slice: a thread inside a loader's `next()` that returned a batch or an error. Arguments
    /// `loader`, `kind`, `epoch`, `step`, and where the batch is tagged `batch`, `worker`.
    pub const DATA_WAIT: &str = "data_wait";
    /// Slice: a loader's `iter()`, which starts workers and shuffles. Arguments `loader`, `kind`,
    /// `epoch`.
    pub const EPOCH_START: &str = "epoch_start";
    /// Slice: the `next()` that returned `None`; of a loop that was left before, the stopping of its workers. Arguments `loader`, `kind`, `epoch`.
    pub const EPOCH_END: &str = "epoch_end";
    /// Slice: items of one batch read from the data set. Arguments `batch`, `items`; or `error`.
    pub const DATA_GET: &str = "data_get";
    /// Slice: items made into one batch. Arguments `batch`, `items`.
    pub const DATA_COLLATE: &str = "data_collate";
    /// Slice: one sampled item read from the data set. Argument `index`.
    pub const DATA_ITEM: &str = "data_item";
    /// Slice: a part of the step that the user marked.
    pub const PHASE: &str = "phase";
    /// Instant on a thread that calls the driver for others, as Burn's runners do: from here on, what it
    /// does for the thread [`THREAD`](super::arg::THREAD) is what that one asked for in the phase
    /// [`PHASE`](super::arg::PHASE), or outside of phases where that is absent, or where
    /// [`UNKNOWN`](super::arg::UNKNOWN) is true it is not known what. Arguments
    /// [`QUEUE`](super::arg::QUEUE), [`MARK`](super::arg::MARK) and
    /// [`LAUNCHES`](super::arg::LAUNCHES) too.
    pub const PHASE_MARK: &str = "phase_mark";
    /// Slice on a synthetic track: between two points of a stream that enclose what a phase asked a
    /// device for, as the framework measured it. It is named by the phase, and may hold idle time.
    pub const DEVICE_WINDOW: &str = "device_window";
    /// Slice: a `tracing` span entered on one thread. Argument `target` and the span's fields.
    pub const SPAN: &str = "span";
    /// Instant: a `tracing` event. Arguments `target`, `level` and the event's fields.
    pub const EVENT: &str = "event";
    /// Slice on a synthetic track: recording was paused. Argument [`PROCESS`](super::arg::PROCESS) in a
    /// trace of several processes.
    pub const PAUSE: &str = "pause";
    /// Instant: something went wrong in the job (a worker panicked). Arguments `message`, and `ended_run` where
    /// it is known to have ended the run.
    pub const FAULT: &str = "fault";
    /// Flow from the stage that finished a batch to the wait that took it, and async slice of a
    /// batch from when it was made until it was taken. The id is the batch.
    pub const BATCH: &str = "batch";
    /// Instant in a partial file only: a slice that was still open when the file was flushed.
    pub const OPEN: &str = "open";
    /// Slice on a device's track: a kernel ran. Arguments [`DEVICE`](super::arg::DEVICE),
    /// [`STREAM`](super::arg::STREAM), [`CORRELATION`](super::arg::CORRELATION).
    pub const KERNEL: &str = "kernel";
    /// Slice on a device's track: a copy ran. Its name says from where to where, in the words of
    /// Kineto (`Memcpy HtoD (Pageable -> Device)`). Arguments as [`KERNEL`] and `bytes`.
    pub const GPU_MEMCPY: &str = "gpu_memcpy";
    /// Slice on a device's track: memory was set. Arguments as [`GPU_MEMCPY`].
    pub const GPU_MEMSET: &str = "gpu_memset";
    /// Slice on a thread: a call of the CUDA runtime. Argument `correlation`: that of the
    /// device operation it submitted, if any.
    pub const CUDA_RUNTIME: &str = "cuda_runtime";
    /// Slice on a thread: a call of the CUDA driver. Argument `correlation`; or, where the sidecar saw
    /// the call at the driver's library, [`BYTES`](super::arg::BYTES) and
    /// [`STREAM_HANDLE`](super::arg::STREAM_HANDLE) where its arguments have them,
    /// [`RESULT`](super::arg::RESULT) and [`UNFINISHED`](super::arg::UNFINISHED).
    pub const CUDA_DRIVER: &str = "cuda_driver";
    /// Slice: a stream, context or event was waited for, as the device saw it.
    pub const CUDA_SYNC: &str = "cuda_sync";
    /// Slice on a thread: an operator of the framework.
    pub const CPU_OP: &str = "cpu_op";
    /// Slice on a thread: the user, or the framework for him, named this stretch.
    pub const USER_ANNOTATION: &str = "user_annotation";
    /// Slice on a synthetic track beside a stream: from the first to the last device operation that
    /// was submitted inside a [`USER_ANNOTATION`].
    pub const GPU_USER_ANNOTATION: &str = "gpu_user_annotation";
    /// Slice on a thread: a Python function.
    pub const PYTHON_FUNCTION: &str = "python_function";
    /// Slice: the profiler took this time for itself.
    pub const OVERHEAD: &str = "overhead";
    /// Flow from an operator to the one that computes its gradient.
    pub const FWDBWD: &str = "fwdbwd";
    /// Flow from the call that submitted a device operation to the operation.
    pub const AC2G: &str = "ac2g";
    /// Slice on a synthetic track above the streams of a device: what the device did, by the account of
    /// the diagnosis: `compute`, `exposed communication`, `exposed copy` or `idle`.
    pub const DEVICE_STATE: &str = "device_state";
    /// Slice on the findings track.
    pub const FINDING: &str = "finding";
    /// Slice on a synthetic track beside a thread: a stretch of time that the thread was not on a
    /// CPU, named by what it waited for. Arguments [`THREAD`](super::arg::THREAD),
    /// [`STATE`](super::arg::STATE), [`RUNNABLE_NS`](super::arg::RUNNABLE_NS); where known
    /// [`WAIT`](super::arg::WAIT), [`FUNCTION`](super::arg::FUNCTION), [`STACK`](super::arg::STACK),
    /// [`WAKER`](super::arg::WAKER), [`DISPLACED_BY`](super::arg::DISPLACED_BY) and
    /// [`GAVE_BACK`](super::arg::GAVE_BACK) (each of these three also with `_tid` and `_pid`),
    /// [`CPU_OUT`](super::arg::CPU_OUT), [`CPU_IN`](super::arg::CPU_IN); and the flags
    /// [`IOWAIT`](super::arg::IOWAIT), [`TRUNCATED`](super::arg::TRUNCATED),
    /// [`INFERRED`](super::arg::INFERRED), [`UNFINISHED`](super::arg::UNFINISHED), present when true.
    pub const OFF_CPU: &str = "off_cpu";
    /// Instant on the same track: what the thread ran when the sampling clock of its CPU ticked, named
    /// by the function. Arguments [`THREAD`](super::arg::THREAD), [`RUNNING`](super::arg::RUNNING),
    /// [`FUNCTION`](super::arg::FUNCTION), [`CPU`](super::arg::CPU), where there are any
    /// [`STACK`](super::arg::STACK) (in the kernel) and [`USER_STACK`](super::arg::USER_STACK).
    pub const CPU_SAMPLE: &str = "cpu_sample";
    /// Instant on the same track at the end of the thread, or of the recording: where the time of
    /// the thread went, see [`totals`](super::totals). Argument [`THREAD`](super::arg::THREAD) too.
    pub const THREAD_TOTALS: &str = "thread_totals";
    /// Slice on a thread: the kernel freed memory before it gave the thread what it asked for. Named
    /// `direct reclaim` or `cgroup reclaim`. Argument [`RECLAIMED`](super::arg::RECLAIMED).
    pub const RECLAIM: &str = "reclaim";
    /// Slice on a thread: the kernel moved pages to make room for a large one. The pages it moves
    /// are [`MIGRATION`] inside it.
    pub const COMPACTION: &str = "compaction";
    /// Slice on a thread: the kernel moved pages to another place or node. Argument
    /// [`MOVED`](super::arg::MOVED).
    pub const MIGRATION: &str = "migration";
    /// Instant on the first thread of a process: the kernel killed it for want of memory. Argument
    /// [`WANTED_BY`](super::arg::WANTED_BY).
    pub const OOM_KILL: &str = "oom_kill";
    /// Slice on a synthetic track beside a thread: one request to a block device, from when it was
    /// handed to the block layer until it was done; those of one thread may overlap. Named `read`,
    /// `write`, `flush` or `discard`. Arguments [`THREAD`](super::arg::THREAD) (who waited for it, or
    /// handed it in when nobody did), [`BYTES`](super::arg::BYTES), [`DISK`](super::arg::DISK),
    /// [`SUBMITTER`](super::arg::SUBMITTER) when another thread handed it in.
    pub const BLOCK_IO: &str = "block_io";
}

/// Keys of arguments.
pub mod arg {
    /// Name of the loader. Text.
    pub const LOADER: &str = "loader";
    /// What the loader is for: [`TRAIN`](super::kind::TRAIN) or [`VALID`](super::kind::VALID).
    pub const KIND: &str = "kind";
    /// Epoch, from 0.
    pub const EPOCH: &str = "epoch";
    /// Step in the epoch, from 0.
    pub const STEP: &str = "step";
    /// Batch number, see [`BatchId`](crate::BatchId).
    pub const BATCH: &str = "batch";
    /// Items in the batch.
    pub const ITEMS: &str = "items";
    /// OS thread id of the thread that made the batch.
    pub const WORKER: &str = "worker";
    /// CPU time that the thread used inside the slice, nanoseconds of `CLOCK_THREAD_CPUTIME_ID`;
    /// optional, on [`DATA_GET`](super::cat::DATA_GET), [`DATA_COLLATE`](super::cat::DATA_COLLATE)
    /// and [`DATA_WAIT`](super::cat::DATA_WAIT).
    pub const CPU_NS: &str = "cpu_ns";
    /// Nanoseconds in which the thread was ready to run in the slice and waited for a CPU. With
    /// [`CPU_NS`], what is left of the slice is time in which it was blocked. Of an
    /// [`OFF_CPU`](super::cat::OFF_CPU) slice it is the last part, after the wake-up, or all of it.
    pub const RUNNABLE_NS: &str = "runnable_ns";
    /// Id of the process that a [`PAUSE`](super::cat::PAUSE) is of, in a trace of several; without it
    /// nothing was recorded of any.
    pub const PROCESS: &str = "process";
    /// Name of the phase that asked for an operation of a device; absent where none did, or where that
    /// is not known. Text.
    pub const PHASE: &str = "phase";
    /// Number of the queue of a thread that asks, in the framework's counting.
    pub const QUEUE: &str = "queue";
    /// True on a mark after which a thread is served for several phases at once.
    pub const SEVERAL: &str = "several";
    /// True on a mark after which a thread is served for an unknown phase.
    pub const UNKNOWN: &str = "unknown";
    /// Number of a mark among those of its thread, so that one that was lost is missed.
    pub const MARK: &str = "mark";
    /// Launches that a thread had asked for, on the same queue, since the process started.
    pub const LAUNCHES: &str = "launches";
    /// Which framework's loader it is, where not the SDK wrapped it: [`PYTORCH`](super::PYTORCH).
    pub const FRAMEWORK: &str = "framework";
    /// True where the loader keeps its workers from one epoch to the next, as it was told to.
    pub const PERSISTENT: &str = "persistent_workers";
    /// True where an epoch is the first over a loader that was made for it: it has no workers to keep.
    pub const NEW_LOADER: &str = "new_loader";
    /// Workers that the loader has, as it was told: more than make batches where an epoch has fewer.
    pub const NUM_WORKERS: &str = "num_workers";
    /// Batches that each worker of the loader may have ahead of the trainer, as it was told.
    pub const PREFETCH: &str = "prefetch_factor";
    /// True where the loader's data set is iterated, not indexed: each worker iterates a copy of it.
    pub const ITERABLE: &str = "iterable";
    /// OS thread id of the thread that runs the loop.
    pub const THREAD: &str = "thread";
    /// Position of the item in the data set.
    pub const INDEX: &str = "index";
    /// Number of the device.
    pub const DEVICE: &str = "device";
    /// Number of the stream on its device.
    pub const STREAM: &str = "stream";
    /// What joins a call to the device operation that it submitted; unique in a process.
    pub const CORRELATION: &str = "correlation";
    /// Bytes moved or set.
    pub const BYTES: &str = "bytes";
    /// What a copy reached, 10^9 bytes a second.
    pub const BANDWIDTH: &str = "memory bandwidth (GB/s)";
    /// What joins operators, calls and device operations of one operator, in Kineto's traces.
    pub const EXTERNAL_ID: &str = "External id";
    /// What was waited for, on [`CUDA_SYNC`](super::cat::CUDA_SYNC): `Event Sync`,
    /// `Stream Wait Event`, `Stream Sync` or `Context Sync`.
    pub const SYNC_KIND: &str = "cuda_sync_kind";
    /// Stream on which the event was recorded that a [`CUDA_SYNC`](super::cat::CUDA_SYNC) waited for.
    pub const WAIT_ON_STREAM: &str = "wait_on_stream";
    /// [`CORRELATION`] of the call that recorded that event.
    pub const WAIT_ON_RECORD: &str = "wait_on_cuda_event_record_corr_id";
    /// Number of the node of a CUDA graph that an operation belongs to; only on operations of graphs.
    pub const GRAPH_NODE: &str = "graph node id";
    /// What kind of collective an NCCL kernel is (`allreduce`).
    pub const COLLECTIVE: &str = "Collective name";
    /// What went wrong. Text.
    pub const ERROR: &str = "error";
    /// What happened. Text.
    pub const MESSAGE: &str = "message";
    /// True on what is known to have ended the process that trains.
    pub const ENDED_RUN: &str = "ended_run";
    /// True on a slice that was left by a panic.
    pub const PANICKED: &str = "panicked";
    /// True on a slice whose end was not recorded: it ends with the recording, or with the interrupt
    /// that cut it off.
    pub const UNFINISHED: &str = "unfinished";
    /// Module path of a `tracing` span or event.
    pub const TARGET: &str = "target";
    /// Level of a `tracing` event.
    pub const LEVEL: &str = "level";
    /// Why a thread was off CPU: one of [`state`](super::state). Text.
    pub const STATE: &str = "state";
    /// What a blocked thread waited for, a class (`futex`, `file read`, ...). Text.
    pub const WAIT: &str = "wait";
    /// The kernel's function that tells the class. Text.
    pub const FUNCTION: &str = "function";
    /// The kernel's functions in which a blocked thread waited, the innermost first, joined by `;`.
    pub const STACK: &str = "stack";
    /// What a running thread did: `user` for the program itself, `device compiler` for a library in it
    /// that compiles code for devices, or a class of the kernel's work (`page fault`, `copy`,
    /// `reclaim`, `gpu driver`, `system`). Text.
    pub const RUNNING: &str = "running";
    /// The program's functions, the innermost first, joined by `;`.
    pub const USER_STACK: &str = "user_stack";
    /// Number of the CPU.
    pub const CPU: &str = "cpu";
    /// Who woke a thread: the name of a thread, with its ids in `waker_tid` and `waker_pid`; or
    /// without ids one of [`waker`](super::waker). Text.
    pub const WAKER: &str = "waker";
    /// Name of the thread that got the CPU, ids in `displaced_by_tid` and `displaced_by_pid`; absent
    /// when the CPU went idle. Text.
    pub const DISPLACED_BY: &str = "displaced_by";
    /// Name of the thread that was on the CPU until the thread came back, ids in `gave_back_tid` and
    /// `gave_back_pid`; absent when the CPU was idle. Text.
    pub const GAVE_BACK: &str = "gave_back";
    /// Number of the CPU that a thread left.
    pub const CPU_OUT: &str = "cpu_out";
    /// Number of the CPU that a thread came back on.
    pub const CPU_IN: &str = "cpu_in";
    /// True on a wait that the kernel counted as one for I/O.
    pub const IOWAIT: &str = "iowait";
    /// True on an off-CPU interval that began before the thread was watched.
    pub const TRUNCATED: &str = "truncated";
    /// True on an off-CPU interval of which one end was not reported but inferred.
    pub const INFERRED: &str = "inferred";
    /// Pages that a reclaim freed.
    pub const RECLAIMED: &str = "reclaimed_pages";
    /// Pages that were moved.
    pub const MOVED: &str = "moved_pages";
    /// Name of the thread that wanted memory when there was none, ids in `wanted_by_tid` and
    /// `wanted_by_pid`. Text.
    pub const WANTED_BY: &str = "wanted_by";
    /// Name of a block device (`nvme0n1`). Text.
    pub const DISK: &str = "disk";
    /// Name of the thread that handed in a request for which another waited, ids in `submitter_tid`
    /// and `submitter_pid`; who waited is then inferred from when it waited. Text.
    pub const SUBMITTER: &str = "submitter";
    /// On an [`OFF_CPU`](super::cat::OFF_CPU) slice: page faults that the thread had taken without
    /// I/O when it left the CPU, since it was born.
    pub const MINOR_FAULTS: &str = "minor_faults";
    /// The same for page faults that read from a disk.
    pub const MAJOR_FAULTS: &str = "major_faults";
    /// The stream as the program names it in a call: an address, or 0 to 2 for the default streams.
    pub const STREAM_HANDLE: &str = "stream_handle";
    /// What a call returned (`CUresult`); absent for success.
    pub const RESULT: &str = "result";
}

/// What woke a thread where no thread did, see [`arg::WAKER`].
pub mod waker {
    /// The time that it wanted to wait was over.
    pub const TIMER: &str = "timer";
    /// An interrupt of a device.
    pub const DEVICE: &str = "device";
    /// The kernel itself.
    pub const KERNEL: &str = "kernel";
}

/// Why a thread was off CPU.
pub mod state {
    /// It could have run on: its CPU was given to another thread, or it yielded.
    pub const PREEMPTED: &str = "preempted";
    /// It slept, and a signal could have woken it.
    pub const SLEEPING: &str = "sleeping";
    /// It slept, and only the event could have woken it.
    pub const UNINTERRUPTIBLE: &str = "uninterruptible";
    /// It was stopped, traced or parked.
    pub const STOPPED: &str = "stopped";
    /// It was new and had not run yet.
    pub const STARTING: &str = "starting";
}

/// Arguments of [`cat::THREAD_TOTALS`]: lengths in nanoseconds, each measured on its own. `on_cpu`,
/// `preempted`, `woken`, `sleeping`, `uninterruptible` and `stopped` add up to the wall time between
/// `first` and the instant.
pub mod totals {
    /// When watching began, nanoseconds since the start of the trace.
    pub const FIRST_NS: &str = "first_ns";
    /// On a CPU.
    pub const ON_CPU_NS: &str = "on_cpu_ns";
    /// Off CPU although it could have run on.
    pub const PREEMPTED_NS: &str = "preempted_ns";
    /// Woken, or new, and waiting for a CPU.
    pub const WOKEN_NS: &str = "woken_ns";
    /// Blocked, interruptible.
    pub const SLEEPING_NS: &str = "sleeping_ns";
    /// Blocked, uninterruptible.
    pub const UNINTERRUPTIBLE_NS: &str = "uninterruptible_ns";
    /// Stopped, traced or parked.
    pub const STOPPED_NS: &str = "stopped_ns";
    /// The blocked time that the kernel counted as waiting for I/O; part of the others.
    pub const IOWAIT_NS: &str = "iowait_ns";
    /// Switches away while it could have run on: a count.
    pub const PREEMPTIONS: &str = "preemptions";
    /// Switches away because it blocked: a count.
    pub const WAITS: &str = "waits";
    /// Off-CPU intervals below the threshold, which have no slice: a count.
    pub const SHORT: &str = "short";
    /// Their length; part of the others.
    pub const SHORT_NS: &str = "short_ns";
    /// Off-CPU intervals whose record was lost: a count.
    pub const LOST: &str = "lost";
    /// Their length; part of the others.
    pub const LOST_NS: &str = "lost_ns";
    /// Page faults without I/O since watching began: a count.
    pub const MINOR_FAULTS: &str = "minor_faults";
    /// Page faults that read from a disk since watching began: a count.
    pub const MAJOR_FAULTS: &str = "major_faults";
    /// Pages that the thread allocated since watching began: a count; absent unless it was asked for.
    pub const PAGE_ALLOCS: &str = "page_allocs";
}

/// Counters of the machine as a whole. They belong to the synthetic process [`host::PROCESS`].
pub mod host {
    /// Name of the process that holds them.
    pub const PROCESS: &str = "host";
    /// Its id.
    pub const PID: u32 = 0xF000_0100;
    /// CPUs that were busy, 0 to the number of CPUs, over the time since the sample before.
    pub const CPUS_BUSY: &str = "cpus busy";
    /// How busy one CPU was, percent; its number follows after a blank.
    pub const CPU_BUSY: &str = "cpu busy %";
    /// Threads that ran or waited for a CPU.
    pub const RUN_QUEUE: &str = "run queue";
    /// Percent of the time in which some task waited for a CPU, memory or I/O; `cpu`, `memory` or
    /// `io` follows after a blank (pressure stall information, `some`).
    pub const PRESSURE: &str = "pressure %";
    /// Memory that could be had without swapping, bytes.
    pub const MEMORY_AVAILABLE: &str = "memory available";
}

/// Counters of a device, as NVML (and so `nvidia-smi`) tells them. They belong to the process that
/// groups the device's streams.
pub mod device {
    /// Percent of the driver's last sampling period (up to a second) in which any kernel ran: not
    /// how much of the device was used.
    pub const UTILIZATION: &str = "utilization %";
    /// Memory in use by all processes, bytes.
    pub const MEMORY_USED: &str = "memory used";
    /// Power that is drawn, watts.
    pub const POWER: &str = "power W";
    /// Clock of the multiprocessors, MHz.
    pub const SM_CLOCK: &str = "SM clock MHz";
}

/// What a loader is for.
pub mod kind {
    /// Its batches train the model; it gives the run its steps.
    pub const TRAIN: &str = "train";
    /// Its batches only evaluate the model.
    pub const VALID: &str = "valid";
}

/// The framework of an unchanged PyTorch program, see [`arg::FRAMEWORK`].
pub const PYTORCH: &str = "PyTorch";

/// Name of a [`cat::PYTHON_FUNCTION`] slice: the sampler of a PyTorch loader drew the indices of a batch.
pub const SAMPLE_INDICES: &str = "sample indices";

/// Name of a [`cat::PYTHON_FUNCTION`] slice: the workers of a PyTorch loader were told to stop, and were waited for.
pub const STOP_WORKERS: &str = "stop workers";

/// Counter: batches of a loader made and not yet taken. The loader's name follows after a blank.
pub const QUEUE_DEPTH: &str = "queue depth";

/// Counter of a process: page faults without I/O, a second. Where a thread was not seen to leave its
/// CPU, its faults are spread evenly over the time that it ran.
pub const MINOR_FAULTS_A_SECOND: &str = "minor faults/s";

/// The same for page faults that read from a disk.
pub const MAJOR_FAULTS_A_SECOND: &str = "major faults/s";

/// Counter in the Chrome view: events that a source lost so far. Its name follows after a blank.
pub const LOST_EVENTS: &str = "lost events";
