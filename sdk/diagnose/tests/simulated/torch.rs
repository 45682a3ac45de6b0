//! What a training loop of PyTorch does, in the names that its profiler gives.

use super::machine::{AUTOGRAD, Machine, PID};

pub const SINGLE: &str = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
pub const MULTI: &str = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
pub const PINNED: &str = "HtoD (Pinned -> Device)";
pub const PAGEABLE: &str = "HtoD (Pageable -> Device)";
/// What pinned and pageable copies reach, in GB/s.
pub const FAST: f64 = 50.0;
pub const SLOW: f64 = 9.0;
const REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
/// The streams of collectives and of copies ahead.
const NCCL: u32 = 24;
const AHEAD: u32 = 28;

impl Machine {
    /// Steps 4 to 15, each with PyTorch's mark.
    pub fn steps(&mut self, mut step: impl FnMut(&mut Self, u64)) {
        for number in 4..16 {
            self.truth.begins.get_or_insert(self.now);
            self.annotate(&format!("ProfilerStep#{number}"), |m| {
                step(m, number);
                m.spend(30.0);
            });
        }
        self.sync_device();
    }

    /// Twelve iterations that nothing marks.
    pub fn unmarked(&mut self, mut step: impl FnMut(&mut Self, u64)) {
        self.truth.begins = Some(self.now);
        (4..16).for_each(|number| step(self, number));
        self.sync_device();
    }

    /// `next()`, in which `inside` goes on.
    pub fn next(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        let span = self.annotate(name, inside);
        self.truth.waits.push(span);
    }

    /// `next()` of a loader that takes `us`.
    pub fn load(&mut self, name: &str, us: f64) {
        self.next(name, |m| m.spend(us));
    }

    /// `batch.to(device, non_blocking=...)`.
    pub fn upload(&mut self, kind: &str, mb: f64, blocking: bool) {
        let speed = if kind == PINNED { FAST } else { SLOW };
        self.op("aten::to", |m| {
            m.op("aten::copy_", |m| {
                m.copy(kind, mb, speed);
                if blocking {
                    m.sync_stream();
                }
            });
        });
    }

    /// So many layers of one kernel, forward.
    pub fn forward(&mut self, layers: u32, us: f64) {
        for _ in 0..layers {
            self.op("aten::linear", |m| {
                m.op("aten::addmm", |m| {
                    m.kernel("sm90_xmma_gemm_f32f32_tf32f32", us)
                });
            });
        }
    }

    /// So many layers of two kernels backward, on the thread of autograd.
    pub fn backward(&mut self, layers: u32, us: f64) {
        self.on(AUTOGRAD, |m| {
            for _ in 0..layers {
                m.layer_backward(us);
            }
        });
    }

    fn layer_backward(&mut self, us: f64) {
        self.op("autograd::engine::evaluate_function: AddmmBackward0", |m| {
            m.op("AddmmBackward0", |m| {
                m.op("aten::mm", |m| m.kernel("sm90_xmma_gemm_dgrad", us));
                m.op("aten::mm", |m| m.kernel("sm90_xmma_gemm_wgrad", us));
            });
        });
    }

    /// Backward of a rank, whose gradients are exchanged in `buckets`.
    pub fn backward_ddp(&mut self, layers: u32, us: f64, buckets: u32, exchange_us: f64) {
        self.on(AUTOGRAD, |m| {
            for layer in 0..layers {
                m.layer_backward(us);
                if (layer + 1) % (layers / buckets) == 0 {
                    m.reduce(exchange_us);
                }
            }
            let done = m.stream(NCCL, |m| m.event());
            m.wait_for(done);
        });
    }

    /// An exchange on a stream of its own, after what was submitted so far.
    pub fn reduce(&mut self, us: f64) {
        self.op("c10d::allreduce_", |m| {
            let ready = m.event();
            m.stream(NCCL, |m| {
                m.wait_for(ready);
                m.annotate("nccl:all_reduce", |m| m.exchange(REDUCE, us));
            });
        });
    }

    /// Parameters of a layer are gathered; returns when.
    pub fn gather(&mut self, us: f64) -> u64 {
        self.annotate("FSDP::all_gather", |m| {
            m.stream(NCCL, |m| m.exchange("ncclDevKernel_AllGather_RING_LL", us));
        });
        self.stream(NCCL, |m| m.event())
    }

    /// A batch is copied on a stream of its own; returns when it is there.
    pub fn ahead(&mut self, mb: f64) -> u64 {
        self.stream(AHEAD, |m| {
            m.upload(PINNED, mb, false);
            m.event()
        })
    }

    /// `optimizer.step()` of so many kernels.
    pub fn optimizer(&mut self, kernels: u32, us: f64) {
        self.annotate("Optimizer.step#AdamW.step", |m| {
            for _ in 0..kernels {
                m.op("aten::_foreach_addcdiv_", |m| {
                    m.kernel("multi_tensor_apply_kernel", us)
                });
            }
        });
        self.annotate("Optimizer.zero_grad#AdamW.zero_grad", |m| m.spend(60.0));
    }

    /// `tensor.item()`.
    pub fn item(&mut self) {
        self.op("aten::item", |m| {
            m.op("aten::_local_scalar_dense", |m| {
                m.copy("DtoH (Device -> Pageable)", 0.000_004, SLOW);
                m.sync_stream();
            });
        });
    }

    /// A whole step of a model that keeps the device busy for some 40 ms.
    pub fn busy(&mut self) {
        self.forward(30, 350.0);
        self.backward(30, 450.0);
        self.optimizer(6, 150.0);
    }

    /// A whole step of a model that keeps the device busy for some 6 ms, and the host for 3 ms.
    pub fn light(&mut self) {
        self.forward(15, 120.0);
        self.backward(15, 130.0);
        self.optimizer(4, 60.0);
    }

    /// What the thread that pins memory does meanwhile.
    pub fn pins(&mut self, us: f64) {
        self.beside(PID + 33, |m| {
            m.call("cudaEventQuery", 2.0);
            m.spend(us);
            m.call("cudaHostAlloc", 300.0);
        });
    }
}
