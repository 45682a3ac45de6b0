//! The calls of the runtime and the driver, and what they submit.

use super::machine::{Event, Machine};
use super::truth::Class;

/// Operations that may be submitted and not done; the next launch waits.
const QUEUE: usize = 1024;

impl Machine {
    /// A call that takes `us` and submits nothing.
    pub fn call(&mut self, name: &str, us: f64) {
        let from = self.now;
        self.spend(us);
        self.called("cuda_runtime", name, from);
    }

    /// A call that ends now.
    fn called(&mut self, cat: &'static str, name: &str, from: u64) {
        self.correlation += 1;
        let args = format!(r#""correlation":{}"#, self.correlation);
        self.host(cat, name, (from, self.now), args);
    }

    /// An operation that the call of this correlation submits `at` some time; returns its end.
    fn run(&mut self, (class, name): (Class, &str), at: u64, ns: u64, args: &str) -> u64 {
        let (device, stream) = (self.device, self.stream);
        let free = self.free.entry((device, stream)).or_default();
        let start = (*free + 900).max(at + 3_000);
        let end = start + ns.max(800);
        *free = end;
        let queue = self.queued.entry(device).or_default();
        queue.push_back(end);
        self.truth.ops.push((device, class, start, end));
        let cat = match class {
            Class::Kernel | Class::Exchange => "kernel",
            Class::Copy => "gpu_memcpy",
            Class::Set => "gpu_memset",
        };
        let args = format!(
            r#""device":{device},"context":1,"stream":{stream},"correlation":{}{args}"#,
            self.correlation
        );
        self.events.push(Event {
            cat,
            name: name.to_owned(),
            pid: device,
            tid: stream,
            span: (start, end),
            args,
        });
        end
    }

    /// Waits until the device takes one more operation.
    fn wait_for_room(&mut self) {
        let now = self.now;
        let queue = self.queued.entry(self.device).or_default();
        while queue.front().is_some_and(|&end| end <= now) {
            queue.pop_front();
        }
        if queue.len() >= QUEUE {
            self.now = queue[queue.len() - QUEUE].max(now);
        }
    }

    fn submit(&mut self, cat: &'static str, name: &str, us: f64) -> u64 {
        let from = self.now;
        self.wait_for_room();
        self.spend(us);
        self.called(cat, name, from);
        self.now
    }

    /// A kernel.
    pub fn kernel(&mut self, name: &str, us: f64) {
        let at = self.submit("cuda_runtime", "cudaLaunchKernel", 5.0);
        let ns = self.about(us);
        self.run((Class::Kernel, name), at, ns, "");
    }

    /// A kernel of Triton, which is launched by the driver.
    pub fn triton(&mut self, name: &str, us: f64) {
        let at = self.submit("cuda_driver", "cuLaunchKernelEx", 4.0);
        let ns = self.about(us);
        self.run((Class::Kernel, name), at, ns, "");
    }

    /// A graph of `nodes` kernels.
    pub fn graph(&mut self, nodes: u32, us: f64) {
        let at = self.submit("cuda_runtime", "cudaGraphLaunch", 25.0);
        for node in 0..nodes {
            let ns = self.about(us);
            let more = format!(r#","graph id":3,"graph node id":{node}"#);
            self.run((Class::Kernel, "sgemm_graph"), at, ns, &more);
        }
    }

    /// A kernel of NCCL.
    pub fn exchange(&mut self, name: &str, us: f64) {
        let at = self.submit("cuda_runtime", "cudaLaunchKernelExC", 6.0);
        let ns = self.about(us);
        self.run(
            (Class::Exchange, name),
            at,
            ns,
            r#","Collective name":"allreduce""#,
        );
    }

    /// When all of a stream is done that was submitted so far.
    pub fn event(&mut self) -> u64 {
        self.call("cudaEventRecordWithFlags", 1.5);
        self.free_at()
    }

    fn free_at(&self) -> u64 {
        let of = self.free.get(&(self.device, self.stream));
        of.copied().unwrap_or_default()
    }

    /// The stream waits for an event.
    pub fn wait_for(&mut self, event: u64) {
        self.call("cudaStreamWaitEvent", 1.5);
        let free = self.free.entry((self.device, self.stream)).or_default();
        *free = (*free).max(event);
    }

    /// Does something on another stream.
    pub fn stream<T>(&mut self, stream: u32, inside: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.stream, stream);
        let got = inside(self);
        self.stream = before;
        got
    }

    /// A copy of so many megabytes between `kind` (`HtoD (Pageable -> Device)`), at so many GB/s. The
    /// call of one of pageable memory returns when it is done.
    pub fn copy(&mut self, kind: &str, mb: f64, gb_s: f64) {
        let from = self.now;
        self.wait_for_room();
        self.spend(5.0);
        self.correlation += 1;
        let correlation = self.correlation;
        let ns = self.about(mb * 1000.0 / gb_s);
        let more = format!(r#","bytes":{}"#, (mb * 1e6) as u64);
        let done = self.run(
            (Class::Copy, &format!("Memcpy {kind}")),
            self.now,
            ns,
            &more,
        );
        if kind.contains("Pageable") {
            self.now = self.now.max(done + 2_000);
        }
        let args = format!(r#""correlation":{correlation}"#);
        self.host("cuda_runtime", "cudaMemcpyAsync", (from, self.now), args);
    }

    /// A launch that takes long, and why, as the profiler's own row says it.
    pub fn slow_launch(&mut self, why: &str, us: f64) {
        let from = self.now;
        self.spend(us);
        self.called("cuda_runtime", "cudaLaunchKernel", from);
        self.run((Class::Kernel, "first_use_kernel"), self.now, 90_000, "");
        self.events.push(Event {
            cat: "overhead",
            name: why.to_owned(),
            pid: u32::MAX,
            tid: 0,
            span: (from + 2_000, self.now - 2_000),
            args: String::new(),
        });
    }

    /// Waits for the stream whose turn it is.
    pub fn sync_stream(&mut self) {
        let until = self.free_at();
        self.sync("cudaStreamSynchronize", until);
    }

    /// Waits for the device.
    pub fn sync_device(&mut self) {
        let until = self.done();
        self.sync("cudaDeviceSynchronize", until);
    }

    /// When the device is done.
    fn done(&self) -> u64 {
        let of = self.free.iter().filter(|of| of.0.0 == self.device);
        of.map(|of| *of.1).max().unwrap_or_default()
    }

    fn sync(&mut self, name: &str, until: u64) {
        let from = self.now;
        self.now = self.now.max(until);
        self.spend(4.0);
        self.called("cuda_runtime", name, from);
    }

    /// The host waits for an event that was recorded before.
    pub fn wait_on_host(&mut self, event: u64) {
        self.sync("cudaEventSynchronize", event);
    }

    /// `cudaFree`: waits until the device is done, and takes `us`.
    pub fn free(&mut self, us: f64) {
        let from = self.now;
        self.now = self.now.max(self.done());
        self.spend(us);
        self.called("cuda_runtime", "cudaFree", from);
    }
}
