//! A small PyTorch: plays a training loop against devices and writes what the profiler would write.

use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::{Trace, read_any};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU32, Ordering};

/// How the file spells things.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Spelling {
    /// PyTorch 2 on CUDA.
    Cuda,
    /// PyTorch 2 on ROCm.
    Hip,
    /// PyTorch 1.8 on CUDA.
    Of2021,
    /// PyTorch 2 on Intel's devices.
    Xpu,
}

/// From where to where a copy goes, and whether the host memory is pinned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Copy {
    ToDevice { pinned: bool },
    ToHost,
}

/// A process with one thread that trains. Times in microseconds.
pub struct Torch {
    spelling: Spelling,
    events: Vec<String>,
    /// Where the host is.
    pub now: f64,
    /// Until when each stream of each device has work.
    free: BTreeMap<(u32, u32), f64>,
    correlation: u64,
    /// The thread whose turn it is.
    pub thread: u32,
    pub device: u32,
    pub stream: u32,
    /// Rank and world size, if it trains with others.
    pub distributed: Option<(u32, u32)>,
}

pub const PID: u32 = 4_000;

impl Torch {
    pub fn new(spelling: Spelling) -> Self {
        Self {
            spelling,
            events: Vec::new(),
            now: 1000.0,
            free: BTreeMap::new(),
            correlation: 0,
            thread: PID,
            device: 0,
            stream: 7,
            distributed: None,
        }
    }

    fn cat(&self, modern: &'static str) -> &'static str {
        match (self.spelling, modern) {
            (Spelling::Of2021, "kernel") => "Kernel",
            (Spelling::Of2021, "gpu_memcpy") => "Memcpy",
            (Spelling::Of2021, "gpu_memset") => "Memset",
            (Spelling::Of2021, "cuda_runtime") => "Runtime",
            (Spelling::Of2021, "cpu_op" | "user_annotation") => "Operator",
            (Spelling::Xpu, "cuda_runtime") => "xpu_runtime",
            _ => modern,
        }
    }

    /// A slice; `args` are the inside of a JSON object.
    fn event(
        &mut self,
        cat: &'static str,
        name: &str,
        at: (u32, u32),
        span: (f64, f64),
        args: &str,
    ) {
        let (cat, (pid, tid)) = (self.cat(cat), at);
        // Whole nanoseconds: what ends when another one begins does not overlap it.
        let [from, to] = [span.0, span.1].map(|us| (us * 1000.0).round() / 1000.0);
        let mut line = String::new();
        let _ = write!(
            line,
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{pid},"tid":{tid},"ts":{:.3},"dur":{:.3},"args":{{{args}}}}}"#,
            from,
            to - from
        );
        self.events.push(line);
    }

    fn host(&mut self, cat: &'static str, name: &str, span: (f64, f64), args: &str) {
        self.event(cat, name, (PID, self.thread), span, args);
    }

    /// The host does something that nobody records.
    pub fn spend(&mut self, us: f64) {
        self.now += us;
    }

    /// Marks what `inside` does.
    pub fn annotate(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        let from = self.now;
        inside(self);
        self.host("user_annotation", name, (from, self.now), "");
    }

    /// An operator of the framework around what `inside` does.
    pub fn op(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        let from = self.now;
        self.now += 3.0;
        inside(self);
        self.now += 2.0;
        self.host("cpu_op", name, (from, self.now), "");
    }

    /// A function of Python around what `inside` does.
    pub fn python(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        let from = self.now;
        inside(self);
        self.host("python_function", name, (from, self.now), "");
    }

    pub fn step(&mut self, number: u64, inside: impl FnOnce(&mut Self)) {
        self.annotate(&format!("ProfilerStep#{number}"), inside);
    }

    /// A call of the runtime, spelt as on CUDA without its head: `Malloc`.
    pub fn call(&mut self, name: &str, us: f64) {
        self.submit("cuda_runtime", name, us);
    }

    fn submit(&mut self, cat: &'static str, name: &str, us: f64) -> u64 {
        self.correlation += 1;
        let head = match (self.spelling, cat) {
            (Spelling::Hip, _) => "hip",
            (Spelling::Xpu, _) => "",
            (_, "cuda_driver") => "cu",
            _ => "cuda",
        };
        let span = (self.now, self.now + us);
        let args = format!(r#""correlation":{}"#, self.correlation);
        self.host(cat, &format!("{head}{name}"), span, &args);
        self.now = span.1;
        self.correlation
    }

    /// An operation of the device that was submitted by the last call.
    fn runs(&mut self, cat: &'static str, name: &str, us: f64, more: &str) -> f64 {
        let (device, stream) = (self.device, self.stream);
        let free = self.free.entry((device, stream)).or_default();
        let start = free.max(self.now + 2.0);
        *free = start + us;
        let args = format!(
            r#""device":{device},"stream":{stream},"correlation":{}{more}"#,
            self.correlation
        );
        self.event(cat, name, (device, stream), (start, start + us), &args);
        start + us
    }

    /// Launches a kernel.
    pub fn kernel(&mut self, name: &str, us: f64) {
        let launch = match self.spelling {
            Spelling::Xpu => "urEnqueueKernelLaunch",
            _ => "LaunchKernel",
        };
        self.submit("cuda_runtime", launch, 5.0);
        self.runs("kernel", name, us, "");
    }

    /// Launches a kernel that Triton made, through the driver.
    pub fn triton(&mut self, name: &str, us: f64) {
        let launch = match self.spelling {
            Spelling::Hip => "ModuleLaunchKernel",
            _ => "LaunchKernelEx",
        };
        self.submit("cuda_driver", launch, 3.0);
        self.runs("kernel", name, us, "");
    }

    /// Replays a graph of kernels.
    pub fn graph(&mut self, kernels: u32, us: f64) {
        self.submit("cuda_runtime", "GraphLaunch", 30.0);
        for node in 0..kernels {
            self.runs(
                "kernel",
                "sgemm",
                us,
                &format!(r#","graph node id":{node}"#),
            );
        }
    }

    /// A collective on a stream of its own, which waits for what was submitted so far.
    pub fn collective(&mut self, name: &str, us: f64) {
        let (before, compute) = (self.stream, self.busy_until());
        self.call("EventRecordWithFlags", 2.0);
        self.call("StreamWaitEvent", 2.0);
        self.stream = 20;
        let free = self.free.entry((self.device, 20)).or_default();
        *free = free.max(compute);
        self.submit("cuda_runtime", "LaunchKernelExC", 5.0);
        self.runs("kernel", name, us, r#","Collective name":"allreduce""#);
        self.stream = before;
    }

    /// Makes the stream wait for the collectives so far.
    pub fn wait_for_collectives(&mut self) {
        self.call("StreamWaitEvent", 2.0);
        let until = self.free.get(&(self.device, 20)).copied().unwrap_or(0.0);
        let free = self.free.entry((self.device, self.stream)).or_default();
        *free = free.max(until);
    }

    /// The stream waits for an event that comes `us` after what it has to do.
    pub fn wait_for_event(&mut self, us: f64) {
        self.call("StreamWaitEvent", 2.0);
        let now = self.now;
        let free = self.free.entry((self.device, self.stream)).or_default();
        *free = free.max(now) + us;
    }

    /// A collective of the first two devices: each begins it when its own work is done, and both end
    /// it `us` after the last one began.
    pub fn exchange(&mut self, name: &str, us: f64) {
        let ready = [0, 1].map(|device| self.free.get(&(device, 7)).copied().unwrap_or(0.0));
        let last = ready[0].max(ready[1]).max(self.now + 20.0);
        for (device, ready) in [0, 1].into_iter().zip(ready) {
            self.device = device;
            self.submit("cuda_runtime", "LaunchKernelExC", 5.0);
            let start = ready.max(self.now + 2.0);
            self.runs("kernel", name, last + us - start, "");
        }
        self.device = 0;
    }

    fn busy_until(&self) -> f64 {
        let of = self.free.get(&(self.device, self.stream));
        of.copied().unwrap_or(0.0)
    }

    /// Copies `mb` megabytes; those that touch pageable memory hold the host up until they are done.
    pub fn copy(&mut self, what: Copy, mb: f64) {
        let (rate, waits) = match what {
            Copy::ToDevice { pinned: true } => (50e3, false),
            // Intel's runtime returns at once, and waits for its queue afterwards.
            Copy::ToDevice { pinned: false } | Copy::ToHost => {
                (9e3, self.spelling != Spelling::Xpu)
            }
        };
        let name = match (self.spelling, what) {
            (Spelling::Hip, Copy::ToHost) => "Memcpy DtoH (Device -> Host)",
            (Spelling::Hip, _) => "Memcpy HtoD (Host -> Device)",
            (Spelling::Xpu, Copy::ToHost) => "Memcpy D2M",
            (Spelling::Xpu, _) => "Memcpy M2D",
            (_, Copy::ToHost) => "Memcpy DtoH (Device -> Pageable)",
            (_, Copy::ToDevice { pinned: true }) => "Memcpy HtoD (Pinned -> Device)",
            (_, Copy::ToDevice { pinned: false }) => "Memcpy HtoD (Pageable -> Device)",
        };
        let call = match (self.spelling, waits) {
            (Spelling::Hip, true) => "MemcpyWithStream",
            (Spelling::Xpu, _) => "urEnqueueUSMMemcpy",
            _ => "MemcpyAsync",
        };
        let from = self.now;
        self.correlation += 1;
        self.now += 8.0;
        let more = format!(r#","bytes":{}"#, (mb * 1e6) as u64);
        let done = self.runs("gpu_memcpy", name, mb * 1e6 / rate + 1.0, &more);
        if waits {
            self.now = self.now.max(done + 4.0);
        }
        let head = match self.spelling {
            Spelling::Hip => "hip",
            Spelling::Xpu => "",
            _ => "cuda",
        };
        let args = format!(r#""correlation":{}"#, self.correlation);
        self.host(
            "cuda_runtime",
            &format!("{head}{call}"),
            (from, self.now),
            &args,
        );
    }

    /// Waits until the device is done.
    pub fn synchronize(&mut self) {
        let from = self.now;
        let of = self.free.iter().filter(|of| of.0.0 == self.device);
        let done = of.map(|(_, &free)| free).fold(0.0, f64::max);
        self.now = self.now.max(done) + 6.0;
        let name = match self.spelling {
            Spelling::Hip => "hipStreamSynchronize",
            Spelling::Xpu => "urQueueFinish",
            _ => "cudaStreamSynchronize",
        };
        self.host("cuda_runtime", name, (from, self.now), "");
    }

    /// `loss.item()`.
    pub fn item(&mut self) {
        self.op("aten::item", |t| {
            t.op("aten::_local_scalar_dense", |t| {
                t.copy(Copy::ToHost, 0.000_004);
                t.synchronize();
            });
        });
    }

    /// `next()` of a loader that takes `us`.
    pub fn data(&mut self, iterator: &str, us: f64) {
        let name = format!("enumerate(DataLoader)#{iterator}.__next__");
        self.annotate(&name, |t| t.spend(us));
    }

    /// A step of a model of so many layers, each of `us` on the device, forward and backward.
    pub fn model(&mut self, layers: u32, us: f64) {
        for _ in 0..layers {
            self.op("aten::linear", |t| {
                t.op("aten::addmm", |t| t.kernel("sgemm_128x64", us));
            });
        }
        for _ in 0..layers {
            self.op("autograd::engine::evaluate_function: AddmmBackward0", |t| {
                t.kernel("sgemm_backward", us);
            });
        }
    }

    /// `optimizer.step()`.
    pub fn optimizer(&mut self, us: f64) {
        self.annotate("Optimizer.step#AdamW.step", |t| {
            t.op("aten::_fused_adamw_", |t| {
                t.kernel("multi_tensor_apply", us)
            });
        });
    }

    /// The file.
    pub fn json(&self) -> String {
        let version = if self.spelling == Spelling::Of2021 {
            ""
        } else {
            r#""deviceProperties":[],"#
        };
        let distributed = self.distributed.map_or(String::new(), |(rank, size)| {
            format!(r#""distributedInfo":{{"backend":"nccl","rank":{rank},"world_size":{size}}},"#)
        });
        let events = self.events.join(",\n");
        format!(r#"{{"schemaVersion":1,{version}{distributed}"traceEvents":[{events}]}}"#)
    }

    /// The trace as it is read.
    pub fn trace(&self) -> Trace {
        static FILES: AtomicU32 = AtomicU32::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let name = format!("gpustall-torch-{}-{number}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, self.json()).expect("it is written");
        let read = read_any(&path);
        std::fs::remove_file(&path).expect("it goes");
        read.expect("the trace is readable").trace
    }

    pub fn report(&self) -> Report {
        let report = diagnose(&self.trace());
        assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
        report
    }
}
