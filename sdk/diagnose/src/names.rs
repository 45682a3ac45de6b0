//! The symbols of one trace that the diagnosis looks for, found once.

use gpustall_trace::vocab::{arg, cat};
use gpustall_trace::{Arg, Symbol, Trace, Value};

/// Categories; `None` where the trace has no such event.
pub(crate) struct Categories {
    pub(crate) step: Option<Symbol>,
    pub(crate) data_wait: Option<Symbol>,
    pub(crate) epoch_start: Option<Symbol>,
    pub(crate) epoch_end: Option<Symbol>,
    pub(crate) data_get: Option<Symbol>,
    pub(crate) data_collate: Option<Symbol>,
    pub(crate) phase: Option<Symbol>,
    pub(crate) phase_mark: Option<Symbol>,
    pub(crate) device_window: Option<Symbol>,
    pub(crate) pause: Option<Symbol>,
    pub(crate) fault: Option<Symbol>,
    pub(crate) oom_kill: Option<Symbol>,
    pub(crate) finding: Option<Symbol>,
    pub(crate) kernel: Option<Symbol>,
    pub(crate) gpu_memcpy: Option<Symbol>,
    pub(crate) gpu_memset: Option<Symbol>,
    pub(crate) cuda_runtime: Option<Symbol>,
    pub(crate) cuda_driver: Option<Symbol>,
    pub(crate) cuda_sync: Option<Symbol>,
    pub(crate) cpu_op: Option<Symbol>,
    pub(crate) overhead: Option<Symbol>,
    pub(crate) python_function: Option<Symbol>,
    pub(crate) user_annotation: Option<Symbol>,
    pub(crate) span: Option<Symbol>,
}

/// Argument keys; `None` where no event has such an argument.
pub(crate) struct Keys {
    pub(crate) loader: Option<Symbol>,
    pub(crate) kind: Option<Symbol>,
    pub(crate) epoch: Option<Symbol>,
    pub(crate) step: Option<Symbol>,
    pub(crate) batch: Option<Symbol>,
    pub(crate) items: Option<Symbol>,
    pub(crate) worker: Option<Symbol>,
    pub(crate) persistent: Option<Symbol>,
    pub(crate) num_workers: Option<Symbol>,
    pub(crate) new_loader: Option<Symbol>,
    pub(crate) prefetch: Option<Symbol>,
    pub(crate) iterable: Option<Symbol>,
    pub(crate) thread: Option<Symbol>,
    pub(crate) cpu_ns: Option<Symbol>,
    pub(crate) runnable_ns: Option<Symbol>,
    pub(crate) message: Option<Symbol>,
    pub(crate) error: Option<Symbol>,
    pub(crate) panicked: Option<Symbol>,
    pub(crate) ended_run: Option<Symbol>,
    pub(crate) unfinished: Option<Symbol>,
    pub(crate) device: Option<Symbol>,
    pub(crate) stream: Option<Symbol>,
    pub(crate) correlation: Option<Symbol>,
    pub(crate) bytes: Option<Symbol>,
    pub(crate) wait_on_stream: Option<Symbol>,
    pub(crate) process: Option<Symbol>,
    pub(crate) phase: Option<Symbol>,
    pub(crate) queue: Option<Symbol>,
    pub(crate) mark: Option<Symbol>,
    pub(crate) unknown: Option<Symbol>,
    pub(crate) several: Option<Symbol>,
    pub(crate) launches: Option<Symbol>,
}

/// Both.
pub(crate) struct Names {
    pub(crate) cat: Categories,
    pub(crate) key: Keys,
}

impl Names {
    /// The names as this trace numbers them.
    pub(crate) fn of(trace: &Trace) -> Self {
        let find = |text| trace.strings.find(text);
        Self {
            cat: Categories {
                step: find(cat::STEP),
                data_wait: find(cat::DATA_WAIT),
                epoch_start: find(cat::EPOCH_START),
                epoch_end: find(cat::EPOCH_END),
                data_get: find(cat::DATA_GET),
                data_collate: find(cat::DATA_COLLATE),
                phase: find(cat::PHASE),
                phase_mark: find(cat::PHASE_MARK),
                device_window: find(cat::DEVICE_WINDOW),
                pause: find(cat::PAUSE),
                fault: find(cat::FAULT),
                oom_kill: find(cat::OOM_KILL),
                finding: find(cat::FINDING),
                kernel: find(cat::KERNEL),
                gpu_memcpy: find(cat::GPU_MEMCPY),
                gpu_memset: find(cat::GPU_MEMSET),
                cuda_runtime: find(cat::CUDA_RUNTIME),
                cuda_driver: find(cat::CUDA_DRIVER),
                cuda_sync: find(cat::CUDA_SYNC),
                cpu_op: find(cat::CPU_OP),
                overhead: find(cat::OVERHEAD),
                python_function: find(cat::PYTHON_FUNCTION),
                user_annotation: find(cat::USER_ANNOTATION),
                span: find(cat::SPAN),
            },
            key: Keys {
                loader: find(arg::LOADER),
                kind: find(arg::KIND),
                epoch: find(arg::EPOCH),
                step: find(arg::STEP),
                batch: find(arg::BATCH),
                items: find(arg::ITEMS),
                worker: find(arg::WORKER),
                persistent: find(arg::PERSISTENT),
                num_workers: find(arg::NUM_WORKERS),
                new_loader: find(arg::NEW_LOADER),
                prefetch: find(arg::PREFETCH),
                iterable: find(arg::ITERABLE),
                thread: find(arg::THREAD),
                cpu_ns: find(arg::CPU_NS),
                runnable_ns: find(arg::RUNNABLE_NS),
                message: find(arg::MESSAGE),
                error: find(arg::ERROR),
                panicked: find(arg::PANICKED),
                ended_run: find(arg::ENDED_RUN),
                unfinished: find(arg::UNFINISHED),
                device: find(arg::DEVICE),
                stream: find(arg::STREAM),
                correlation: find(arg::CORRELATION),
                bytes: find(arg::BYTES),
                wait_on_stream: find(arg::WAIT_ON_STREAM),
                process: find(arg::PROCESS),
                phase: find(arg::PHASE),
                queue: find(arg::QUEUE),
                mark: find(arg::MARK),
                unknown: find(arg::UNKNOWN),
                several: find(arg::SEVERAL),
                launches: find(arg::LAUNCHES),
            },
        }
    }
}

/// The value of argument `key`, if the event has it.
pub(crate) fn value(args: &[Arg], key: Option<Symbol>) -> Option<Value> {
    let key = key?;
    args.iter().find(|(k, _)| *k == key).map(|&(_, v)| v)
}

/// The unsigned integer argument `key`.
pub(crate) fn integer(args: &[Arg], key: Option<Symbol>) -> Option<u64> {
    value(args, key)?.as_u64()
}

/// The id argument `key`; `None` if it is no 32-bit number.
pub(crate) fn id(args: &[Arg], key: Option<Symbol>) -> Option<u32> {
    u32::try_from(integer(args, key)?).ok()
}

/// The text argument `key`.
pub(crate) fn text(args: &[Arg], key: Option<Symbol>) -> Option<Symbol> {
    match value(args, key)? {
        Value::Str(symbol) => Some(symbol),
        _ => None,
    }
}

/// Whether the argument `key` is there and true.
pub(crate) fn flag(args: &[Arg], key: Option<Symbol>) -> bool {
    value(args, key) == Some(Value::Bool(true))
}
