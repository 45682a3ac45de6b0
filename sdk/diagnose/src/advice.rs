//! What to change where a device or its launcher, not a loader, is the cause.

use crate::cause::Cause;
use crate::framework::Framework::{self, Burn, PyTorch};

/// What the finding shows that the advice depends on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Signs {
    /// Most of the copied time went to the host.
    pub(crate) to_host: bool,
    /// Most of it stayed on the device.
    pub(crate) on_device: bool,
    /// A loader was recorded.
    pub(crate) loader: bool,
    /// Most of the loss is before kernels that replays of graphs launched.
    pub(crate) graphs: bool,
    /// The program marks what it does with the SDK.
    pub(crate) sdk: bool,
}

/// What to change; empty for causes of data, which have advice of their own.
pub(crate) fn advice(cause: Cause, framework: Framework, signs: Signs) -> &'static str {
    match (cause, framework) {
        (Cause::TransferPageable, PyTorch) if signs.to_host => {
            "copy to a pinned buffer with .copy_(x, non_blocking=True) and read it after the next \
             step was launched; .cpu() and .item() go through pageable memory and wait."
        }
        (Cause::TransferPageable, PyTorch) if signs.loader => {
            "DataLoader(..., pin_memory=True) and .to(device, non_blocking=True): only from pinned \
             memory is a copy asynchronous and as fast as the link. Copy the next batch while this \
             one is computed, or keep what does not change on the device."
        }
        (Cause::TransferPageable, PyTorch) => {
            "keep the data in pinned memory (tensor.pin_memory(), once, not in every step) and copy \
             with .to(device, non_blocking=True): only from pinned memory is a copy asynchronous \
             and as fast as the link. Copy the next batch while this one is computed, or keep what \
             does not change on the device."
        }
        (Cause::TransferPageable, Burn) => {
            "copy from and to pinned memory: only then is a copy as fast as the link, and behind compute. \
             With cudarc fill buffers of context.alloc_pinned, made once; Burn puts tensors of less \
             than 100 MB there by itself, so make larger ones in parts. Or move fewer bytes: keep what \
             does not change on the device, and send small integers that the device converts."
        }
        (Cause::TransferStaging, Burn) => {
            "move fewer bytes: keep what does not change on the device, and send small integers \
             that the device converts. Let the batcher create its tensors on the device that \
             trains, so that the copy starts on the worker and not in the step."
        }
        (Cause::TransferBandwidth, _) if signs.on_device => {
            "copies within the device and memsets are work that kernels could do in place: look \
             for clones, changes of layout and zeroing in the step."
        }
        (Cause::TransferBandwidth, _) if signs.to_host => {
            "results take the time: reduce them on the device before they are copied, and let the \
             next step be launched before the copy is waited for."
        }
        (Cause::TransferBandwidth, PyTorch) => {
            "the link is the limit: move fewer bytes (uint8 that the device converts, cropping \
             before the copy), keep what does not change on the device, and copy the next batch on \
             a stream of its own while this one is computed."
        }
        (Cause::TransferStaging, PyTorch) => {
            "fill pinned buffers ahead of the step, on a thread of their own."
        }
        (Cause::TransferBandwidth, Burn) => {
            "the link is the limit: move fewer bytes (small integers that the device converts), \
             and keep what does not change on the device."
        }
        (Cause::HostLaunchBound, _) if signs.graphs => {
            "the launches are replays of graphs already: capture more in one (the whole step, or \
             several), and do less on the host between two replays. A profiler slows launches down: \
             check the step time without it."
        }
        (Cause::HostLaunchBound, PyTorch) => {
            "launch fewer, larger kernels: torch.compile(mode=\"reduce-overhead\") or CUDA graphs, \
             a larger batch, optimizers with fused=True. A profiler slows launches down: check \
             the step time without it."
        }
        (Cause::HostLaunchBound, Burn) => {
            "launch fewer, larger kernels: the `fusion` feature of the backend, a larger batch, \
             fewer small tensor operations in the step."
        }
        (Cause::HostCompute, _) => {
            "find what the thread does there (mark it, so that the next recording names it), and \
             move it off the thread that launches, or behind the launches of the next step."
        }
        (Cause::HostCompile, PyTorch) => {
            "after warm-up nothing should compile: keep shapes steady (pad, or bucket; \
             torch.compile(dynamic=True)), and run every shape once before the run."
        }
        (Cause::HostCompile, Burn) => {
            "after warm-up nothing should compile or be tuned: keep shapes steady, run every shape \
             once before the run, and keep the autotune cache between runs (Burn's feature \
             `persistence`, which `default-features = false` leaves out)."
        }
        (Cause::SyncReadback, PyTorch) => {
            "read results back less often and later: gather the loss on the device and call \
             .item() or .cpu() every so many steps, after the next step was launched; no \
             torch.cuda.synchronize() in the step."
        }
        (Cause::SyncReadback, Burn) => {
            "read results back less often and later: keep the loss as a tensor and call \
             into_scalar() or into_data() every so many steps, after the next step was submitted."
        }
        (Cause::AllocDevice, PyTorch) => {
            "let the caching allocator keep its memory: no torch.cuda.empty_cache() in the loop, \
             steady shapes, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."
        }
        (Cause::AllocDevice, Burn) => {
            "let the memory pool settle: steady shapes, no cleanup of memory in the loop, and \
             buffers that are made once."
        }
        (Cause::GpuDependency, _) => {
            "a stream waits for an event of another one: launch what it waits for earlier, or put \
             both on one stream."
        }
        (Cause::GpuLaunchLatency, _) if signs.graphs => {
            "the kernels are replayed as graphs already, and each still waits for its start: fewer, \
             larger kernels (fused ones, a larger batch), and a longer graph (several steps in one), \
             so that fewer replays begin."
        }
        (Cause::GpuLaunchLatency, _) => {
            "kernels wait for their start although they are submitted: launch fewer, larger ones, \
             or a graph of them."
        }
        (Cause::CommExposed, PyTorch) => {
            "hide communication behind the backward pass: DistributedDataParallel with a smaller \
             bucket_cap_mb or gradient_as_bucket_view=True, no_sync() over several steps, or a \
             compressed gradient (a communication hook)."
        }
        (Cause::CommExposed, Burn) => {
            "exchange less often: accumulate gradients over several steps before they are reduced."
        }
        (Cause::CommStraggler, _) => {
            "the collective is not slow, a device is late: look at its row, and give every device \
             equally much to do."
        }
        (Cause::HostMetrics, PyTorch) => {
            "compute metrics every few steps, and read them back after the next step was launched."
        }
        (Cause::HostCheckpoint, PyTorch) => {
            "save less often, or on a thread of its own from a copy of the weights \
             (torch.distributed.checkpoint.async_save)."
        }
        (Cause::Host, PyTorch) => {
            "record steps, so that the next report says more: give the profiler a schedule and call \
             its step() in every iteration, or run under gpustall."
        }
        (Cause::Host, Burn) if !signs.sdk => {
            "record steps, so that the next report says more: nothing marks them here."
        }
        (Cause::Host, Burn) => {
            "record steps, so that the next report says more: wrap the loader with \
             instrument::loader."
        }
        (Cause::Unknown, PyTorch) => {
            "find what the program does there: mark it with torch.profiler.record_function, and \
             record again."
        }
        (Cause::Unknown, Burn) if !signs.sdk => {
            "find what the program does there: nothing that was recorded says it."
        }
        (Cause::Unknown, Burn) => {
            "find what the program does there: mark it with instrument::phase, and record again."
        }
        _ => "",
    }
}

/// What a prediction takes for granted.
pub(crate) fn condition(cause: Cause) -> &'static str {
    match cause {
        cause if cause.is_batch() => "if every batch were ready when asked for",
        Cause::HostPreempted => "if the thread always had a CPU",
        Cause::HostBlocked => "if nothing that it waits for took time",
        Cause::DataStartup => "if the first batch of each epoch were ready when asked for",
        Cause::HostMetrics => "if metrics took no time of this thread",
        Cause::HostCheckpoint => "if saving took no time of this thread",
        Cause::TransferPageable | Cause::TransferStaging | Cause::TransferBandwidth => {
            "if copies ran behind compute"
        }
        Cause::HostLaunchBound => "if launches cost the host nothing, as in a graph",
        Cause::HostCompute => "if that work ran on another thread",
        Cause::HostCompile => "if nothing were compiled or loaded",
        Cause::SyncReadback => "if the host never waited for the device",
        Cause::AllocDevice => "if nothing were allocated",
        Cause::GpuDependency => "if what was waited for had been done",
        Cause::GpuLaunchLatency => "if kernels began when they were submitted",
        Cause::CommExposed => "if communication ran behind compute",
        Cause::CommStraggler => "if all devices arrived at once",
        _ => "if this time went away",
    }
}
