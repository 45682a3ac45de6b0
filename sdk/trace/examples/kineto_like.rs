//! Writes a trace of N events such as PyTorch's profiler writes, about 125 bytes an event.
//!
//! `cargo run --release -p gpustall-trace --example kineto_like -- N FILE`
//!
//! Steps of 200 operators; each operator calls the runtime, which launches a kernel. Every step
//! begins with a pageable copy for which the thread waits in its loader, so that the device is
//! idle in between. The same N gives the same bytes.

use std::fs::File;
use std::io::{BufWriter, Write};

/// Operators of a step.
const OPERATORS: u64 = 200;
/// Nanoseconds that a wait for the loader takes.
const LOADER_NS: u64 = 4_000_000;
/// Microseconds since the epoch at which the trace starts.
const START_US: u64 = 5_123_476_559_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let usage = "usage: kineto_like N FILE";
    let count: u64 = args.next().ok_or(usage)?.to_str().ok_or(usage)?.parse()?;
    let out = BufWriter::with_capacity(1 << 20, File::create(args.next().ok_or(usage)?)?);
    let mut events = Events {
        out,
        left: count,
        first: true,
        random: 1,
    };
    events.out.write_all(HEADER.as_bytes())?;
    events.run()?;
    write!(
        events.out,
        "\n],\"traceName\":\"kineto_like.pt.trace.json\"}}"
    )?;
    events.out.flush()?;
    Ok(())
}

const HEADER: &str = r#"{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"NVIDIA H200",
"totalGlobalMem":150109880320,"numSms":132}],"displayTimeUnit":"ms",
"baseTimeNanoseconds":1790857026000000000,"traceEvents":["#;

const OPS: [&str; 6] = [
    "aten::addmm",
    "aten::relu",
    "aten::convolution",
    "aten::native_batch_norm",
    "autograd::engine::evaluate_function: AddmmBackward0",
    "aten::add_",
];
const KERNELS: [&str; 4] = [
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute",
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<float>>(int, float)",
    "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(float const*)",
    "ampere_sgemm_32x128_tn",
];

struct Events {
    out: BufWriter<File>,
    left: u64,
    first: bool,
    random: u64,
}

impl Events {
    fn run(&mut self) -> std::io::Result<()> {
        self.event(
            r#""ph":"M","name":"process_name","pid":417,"tid":0,"args":{"name":"python3"}"#,
        )?;
        let (mut host, mut device, mut correlation) = (0, 0, 1000);
        for step in 0.. {
            if self.left == 0 {
                break;
            }
            let begun = host;
            host += LOADER_NS;
            let name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
            self.slice(
                "user_annotation",
                name,
                "417",
                begun + 500,
                LOADER_NS - 1000,
                "",
            )?;
            self.launch(&mut host, &mut device, correlation, true)?;
            correlation += 1;
            for _ in 0..OPERATORS {
                if self.left == 0 {
                    break;
                }
                let op = OPS[self.pick(OPS.len() as u64) as usize];
                let args = format!("\"External id\":{correlation}");
                self.slice("cpu_op", op, "417", host + 100, 11_000, &args)?;
                host += 1_000;
                self.launch(&mut host, &mut device, correlation, false)?;
                host += 8_000 + self.pick(4_000);
                correlation += 1;
            }
            let name = format!("ProfilerStep#{step}");
            self.slice("user_annotation", &name, "417", begun, host - begun, "")?;
        }
        Ok(())
    }

    /// The call, the copy or kernel that it submits, and the arrow between them.
    fn launch(
        &mut self,
        host: &mut u64,
        device: &mut u64,
        correlation: u64,
        copy: bool,
    ) -> std::io::Result<()> {
        let length = 2_000 + self.pick(3_000);
        let call = if copy {
            "cudaMemcpyAsync"
        } else {
            "cudaLaunchKernel"
        };
        let args = format!("\"External id\":{correlation},\"correlation\":{correlation}");
        self.slice("cuda_runtime", call, "417", *host, length, &args)?;
        self.arrow('s', 417, 417, *host, correlation)?;
        *host += length;
        let start = *host.max(device) + 1_000;
        let length = if copy {
            900_000
        } else {
            1_500 + self.pick(9_000)
        };
        *device = start + length;
        let args = format!("\"device\":0,\"context\":1,\"stream\":7,\"correlation\":{correlation}");
        if copy {
            let args = format!("{args},\"bytes\":8000000,\"memory bandwidth (GB/s)\":8.888888");
            let name = "Memcpy HtoD (Pageable -> Device)";
            self.slice("gpu_memcpy", name, "7", start, length, &args)?;
        } else {
            let name = KERNELS[self.pick(KERNELS.len() as u64) as usize];
            self.slice("kernel", name, "7", start, length, &args)?;
        }
        self.arrow('f', 0, 7, start, correlation)
    }

    fn slice(
        &mut self,
        cat: &str,
        name: &str,
        tid: &str,
        start: u64,
        length: u64,
        args: &str,
    ) -> std::io::Result<()> {
        let pid = if tid == "7" { 0 } else { 417 };
        let (ts, dur) = (micros(START_US * 1000 + start), micros(length));
        self.event(&format!(
            "\"ph\":\"X\",\"cat\":\"{cat}\",\"name\":\"{name}\",\"pid\":{pid},\
             \"tid\":{tid},\"ts\":{ts},\"dur\":{dur},\"args\":{{{args}}}"
        ))
    }

    fn arrow(&mut self, ph: char, pid: u32, tid: u32, at: u64, id: u64) -> std::io::Result<()> {
        let ts = micros(START_US * 1000 + at);
        let end = if ph == 'f' { ",\"bp\":\"e\"" } else { "" };
        self.event(&format!(
            "\"ph\":\"{ph}\",\"id\":{id},\"pid\":{pid},\"tid\":{tid},\"ts\":{ts},\
             \"cat\":\"ac2g\",\"name\":\"ac2g\"{end}"
        ))
    }

    /// Writes an event, unless there are enough.
    fn event(&mut self, members: &str) -> std::io::Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        let comma = if std::mem::take(&mut self.first) {
            ""
        } else {
            ","
        };
        write!(self.out, "{comma}\n{{{members}}}")
    }

    /// A number below `bound`, the same in every run.
    fn pick(&mut self, bound: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % bound
    }
}

/// Nanoseconds as Kineto writes them: microseconds, without needless zeros.
fn micros(ns: u64) -> String {
    let text = format!("{}.{:03}", ns / 1000, ns % 1000);
    text.trim_end_matches('0').trim_end_matches('.').into()
}
