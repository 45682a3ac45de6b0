//! Every moment of every device is charged once, and to what the table says: random timelines of
//! several streams against an oracle that asks for each moment.

mod common;
mod oracle;
mod state_oracle;

use common::device::{NCCL, PAGEABLE, PINNED, TO_HOST};
use common::{Builder, V};
use gpustall_diagnose::diagnose;
use gpustall_trace::vocab::cat;
use oracle::{CallKind, Mark, OpKind, Run};
use proptest::prelude::*;
use state_oracle::{Kernel, kernel};
use std::collections::BTreeMap;

/// Nanoseconds of one moment: what stands out is at least 1 ms, fifty moments.
const UNIT: u64 = 20_000;
const END: u64 = 400;

fn op_kind() -> impl Strategy<Value = OpKind> {
    prop_oneof![
        6 => Just(OpKind::Kernel),
        1 => Just(OpKind::Nccl),
        1 => Just(OpKind::Pageable),
        1 => Just(OpKind::Pinned),
        1 => Just(OpKind::ToHost),
        1 => Just(OpKind::Memset),
    ]
}

/// Device, stream, what, gap before it on its stream, length, and its call: on which thread, how
/// long before it, how long; `None`: not recorded.
type Drawn = (u64, u64, OpKind, u64, u64, Option<(usize, u64, u64)>);

fn op() -> impl Strategy<Value = Drawn> {
    let call = prop::option::weighted(0.85, (0usize..2, 0u64..12, 1u64..6));
    (0u64..2, 0u64..2, op_kind(), 0u64..40, 1u64..20, call)
}

fn other_call() -> impl Strategy<Value = (usize, CallKind, u64, u64)> {
    let kind = prop_oneof![
        3 => Just(CallKind::Sync),
        1 => Just(CallKind::Alloc),
        1 => Just(CallKind::Compile),
        2 => Just(CallKind::StreamWait),
        1 => Just(CallKind::Query),
    ];
    (0usize..2, kind, 0u64..END, 1u64..30)
}

fn mark() -> impl Strategy<Value = (usize, Mark, u64, u64)> {
    let mark = prop_oneof![
        Just(Mark::Data),
        Just(Mark::Metrics),
        Just(Mark::Checkpoint),
        Just(Mark::Forward),
        Just(Mark::Operator),
    ];
    (0usize..2, mark, 0u64..END, 1u64..60)
}

fn run() -> impl Strategy<Value = Run> {
    (
        prop::collection::vec(op(), 1..40),
        prop::collection::vec(other_call(), 0..8),
        prop::collection::vec(mark(), 0..8),
        0u64..40,
        any::<bool>(),
        prop_oneof![Just(Kernel::default()), kernel(END, UNIT)],
    )
        .prop_map(|(ops, calls, marks, first_step, steps, kernel)| {
            let mut run = Run {
                steps: steps.then_some(first_step),
                kernel,
                ..Run::default()
            };
            let mut free: BTreeMap<(u64, u64), u64> = BTreeMap::new();
            for (device, stream, kind, gap, length, call) in ops {
                let at = free.entry((device, stream)).or_insert(0);
                let start = *at + gap;
                let end = start + length;
                if end > END {
                    continue;
                }
                *at = end;
                run.op(device, stream, kind, (start, end), call);
            }
            for (thread, kind, start, length) in calls {
                run.call(thread, kind, (start, (start + length).min(END)));
            }
            for (thread, mark, start, length) in marks {
                run.marks
                    .push((thread, mark, start, (start + length).min(END)));
            }
            run.finish();
            run
        })
}

/// The run as a trace.
fn draw(run: &Run) -> Builder {
    let mut b = Builder::new();
    b.unit = UNIT;
    let threads = [b.thread(100, "main"), b.thread(101, "runner")];
    let others = [b.thread(102, "other"), b.thread(700, "helper")];
    run.kernel
        .draw(&mut b, [threads[0], threads[1], others[0], others[1]]);
    if let Some(first) = run.steps {
        b.profiler_step(threads[0], 1, (first, first + 100));
    }
    let mut streams = BTreeMap::new();
    for device in 0..2 {
        for stream in 0..2 {
            streams.insert((device, stream), b.stream(device, stream));
        }
    }
    for op in &run.ops {
        let on = streams[&(op.device, op.stream)];
        let span = (op.start, op.end);
        let (cat, name) = match op.kind {
            OpKind::Kernel => (cat::KERNEL, "gemm"),
            OpKind::Nccl => (cat::KERNEL, NCCL),
            OpKind::Pageable => (cat::GPU_MEMCPY, PAGEABLE),
            OpKind::Pinned => (cat::GPU_MEMCPY, PINNED),
            OpKind::ToHost => (cat::GPU_MEMCPY, TO_HOST),
            OpKind::Memset => (cat::GPU_MEMSET, "Memset (Device)"),
        };
        b.op(on, cat, name, op.id, 8, span);
    }
    for call in &run.calls {
        let name = match call.kind {
            CallKind::Submit(OpKind::Kernel | OpKind::Nccl) => "cudaLaunchKernel",
            CallKind::Submit(OpKind::Memset) => "cudaMemsetAsync",
            CallKind::Submit(_) => "cudaMemcpyAsync",
            CallKind::Sync => "cudaStreamSynchronize",
            CallKind::Alloc => "cudaMalloc",
            CallKind::Compile => "cuModuleLoadData",
            CallKind::StreamWait => "cudaStreamWaitEvent",
            CallKind::Query => "cudaEventQuery",
        };
        b.call(threads[call.thread], name, call.id, (call.start, call.end));
    }
    for &(thread, mark, start, end) in &run.marks {
        let (thread, span) = (threads[thread], (start, end));
        match mark {
            Mark::Data => b.annotate(thread, "data_next", span),
            Mark::Metrics => b.annotate(thread, "metrics.push", span),
            Mark::Checkpoint => b.annotate(thread, "checkpoint", span),
            Mark::Forward => b.annotate(thread, "forward", span),
            Mark::Operator => b.slice(thread, cat::CPU_OP, "aten::mm", span, &[("x", V::N(1))]),
        }
    }
    b
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 768, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_moment_of_every_device_is_charged_once_and_to_what_the_table_says(run in run()) {
        let report = diagnose(&draw(&run).build(END));
        let expected = oracle::charges(&run, END, UNIT);
        let got: BTreeMap<String, u64> = report
            .charges_ns
            .iter()
            .filter(|&(_, &ns)| ns > 0)
            .map(|(cause, &ns)| (cause.clone(), ns / UNIT))
            .collect();
        prop_assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
        prop_assert_eq!(got, expected.charges);
        for (device, shares) in report.devices.iter().zip(&expected.devices) {
            let near = |share: f64, moments: u64| {
                (share * report.window_ns as f64 / UNIT as f64 - moments as f64).abs() < 0.01
            };
            prop_assert!(near(device.compute, shares[0]));
            prop_assert!(near(device.exposed_comm.unwrap_or(-1.0), shares[1]));
            prop_assert!(near(device.exposed_copy.unwrap_or(-1.0), shares[2]));
            prop_assert!(near(device.idle, shares[3]));
        }
    }

    #[test]
    fn what_is_drawn_of_a_device_nests_and_its_arrows_lie_in_their_slices(run in run()) {
        let mut trace = draw(&run).build(END);
        let report = diagnose(&trace);
        gpustall_diagnose::annotate(&mut trace, &report);
        prop_assert_eq!(&diagnose(&trace), &report);
        let drawn: Vec<_> = trace
            .slices
            .iter()
            .filter(|slice| trace.text(slice.cat) == cat::FINDING)
            .collect();
        for (i, slice) in drawn.iter().enumerate() {
            for other in drawn.iter().skip(i + 1).filter(|other| other.track == slice.track) {
                let both = other.span.intersection(slice.span);
                prop_assert!(both.is_empty() || both == other.span || both == slice.span);
            }
        }
        for flow in trace.flows.iter().filter(|flow| trace.text(flow.cat) == cat::FINDING) {
            prop_assert!(flow.from.at <= flow.to.at);
            for end in [flow.from, flow.to] {
                let inside = trace
                    .slices
                    .iter()
                    .any(|slice| slice.track == end.track && slice.span.contains(end.at));
                prop_assert!(inside);
            }
        }
    }
}
