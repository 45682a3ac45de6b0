//! The labelled traces of PyTorch are read completely.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod foreign;

use foreign::{fixtures, of, place};
use gpustall_trace::vocab::{arg, cat};
use gpustall_trace::{Pid, Source, State, TrackKind, Value, read, read_any, write_finished};
use std::io::Read;

/// Of one category: slices, sum of lengths and sum of starts, nanoseconds from the first event.
type Row = (&'static str, usize, u64, u64);

struct Expected {
    file: &'static str,
    recorder: &'static str,
    gpu: &'static str,
    /// All slices of the file.
    slices: usize,
    /// Sum of `bytes` over copies and memsets.
    bytes: u64,
    rows: &'static [Row],
}

/// Counted by a script of Python's `json` and `decimal`, which knows nothing of this crate: for the
/// events with `ph` `X` of each category, their number, the sum of `int(Decimal(dur) * 1000)`, and
/// the sum of `int((Decimal(ts) - first) * 1000)`, where `first` is the least `ts` of all events
/// but those with `ph` `M`.
const EXPECTED: [Expected; 6] = [
    Expected {
        file: "h2d_pageable.pt.trace.json.gz",
        recorder: "kineto",
        gpu: "GPU 0 (NVIDIA H200)",
        slices: 425,
        bytes: 4_896_000_000,
        rows: &[
            (cat::KERNEL, 38, 14_603_518, 10_845_514_500),
            (cat::GPU_MEMCPY, 24, 531_241_813, 6_664_986_982),
            (cat::CUDA_RUNTIME, 86, 544_432_346, 24_688_155_803),
        ],
    },
    Expected {
        file: "healthy_gpu_bound.pt.trace.json.gz",
        recorder: "kineto",
        gpu: "GPU 0 (NVIDIA H200)",
        slices: 35_846,
        bytes: 5_323_063_080,
        rows: &[
            (cat::KERNEL, 5_999, 604_512_679, 1_816_407_643_644),
            (cat::GPU_MEMSET, 508, 1_652_139, 154_178_027_668),
            (cat::CUDA_RUNTIME, 11_090, 455_646_527, 2_640_710_271_810),
            (cat::CUDA_DRIVER, 36, 308_299, 8_515_317_429),
        ],
    },
    Expected {
        file: "launch_bound_tiny_kernels.pt.trace.json.gz",
        recorder: "kineto",
        gpu: "GPU 0 (NVIDIA H200)",
        slices: 50_703,
        bytes: 92_928,
        rows: &[
            (cat::KERNEL, 6_108, 19_855_748, 580_970_829_554),
            (cat::GPU_MEMSET, 732, 611_661, 66_945_181_261),
            (cat::CUDA_RUNTIME, 6_854, 35_808_462, 649_281_369_582),
            (cat::CUDA_DRIVER, 24, 147_636, 2_264_661_552),
        ],
    },
    Expected {
        file: "loader_inprocess_cpu.pt.trace.json.gz",
        recorder: "kineto",
        gpu: "GPU 0 (NVIDIA H200)",
        slices: 35_773,
        bytes: 1_862_773_888,
        rows: &[
            (cat::KERNEL, 5_540, 152_380_417, 4_267_294_505_833),
            (cat::GPU_MEMCPY, 24, 56_636_796, 18_297_872_341),
            (cat::GPU_MEMSET, 338, 603_867, 259_918_542_112),
            (cat::CUDA_RUNTIME, 10_838, 106_157_594, 8_374_456_364_777),
            (cat::CUDA_DRIVER, 36, 257_158, 27_786_593_512),
        ],
    },
    Expected {
        file: "resnet50_num_workers_0__worker0.1623143089861.pt.trace.json.gz",
        recorder: "kineto (legacy)",
        gpu: "GPU 0 (Tesla V100-DGXS-32GB)",
        slices: 44_666,
        bytes: 482_082_960,
        rows: &[
            (cat::KERNEL, 8_772, 591_532_000, 5_163_147_557_000),
            (cat::GPU_MEMCPY, 12, 11_492_000, 6_144_151_000),
            (cat::GPU_MEMSET, 312, 534_000, 183_314_663_000),
            (cat::CUDA_RUNTIME, 11_923, 120_433_000, 6_844_420_004_000),
        ],
    },
    Expected {
        file: "resnet50_num_workers_4__worker0.1623212756351.pt.trace.json.gz",
        recorder: "kineto (legacy)",
        gpu: "GPU 0 (Tesla V100-DGXS-32GB)",
        slices: 41_906,
        bytes: 482_087_184,
        rows: &[
            (cat::KERNEL, 8_868, 594_868_000, 4_132_289_279_000),
            (cat::GPU_MEMCPY, 12, 18_959_000, 4_556_943_000),
            (cat::GPU_MEMSET, 378, 586_000, 175_747_038_000),
            (cat::CUDA_RUNTIME, 12_085, 181_340_000, 5_508_791_196_000),
        ],
    },
];

#[test]
fn every_slice_of_the_labelled_traces_is_read_to_the_nanosecond() {
    for expected in &EXPECTED {
        let file = expected.file;
        let outcome = read_any(&fixtures().join(file)).unwrap();
        assert_eq!(outcome.warnings, [""; 0], "{file}");
        assert_eq!(outcome.source, Source::Kineto);
        let trace = &outcome.trace;
        assert_eq!(trace.meta.recorder, expected.recorder);
        assert_eq!(
            trace.meta.name,
            file.strip_suffix(".pt.trace.json.gz").unwrap()
        );
        assert_eq!(trace.meta.state, State::Finished);
        assert_eq!(trace.slices.len(), expected.slices, "{file}");
        for &(cat, count, length, starts) in expected.rows {
            assert_eq!(of(trace, cat).count(), count, "{cat} in {file}");
            let sum: u64 = of(trace, cat).map(|s| s.span.len().get()).sum();
            assert_eq!(sum, length, "lengths of {cat} in {file}");
            let sum: u64 = of(trace, cat).map(|s| s.span.start.as_nanos()).sum();
            assert_eq!(sum, starts, "starts of {cat} in {file}");
        }
        let bytes: u64 = trace
            .slices
            .iter()
            .filter_map(|slice| trace.arg_u64(&slice.args, arg::BYTES))
            .sum();
        assert_eq!(bytes, expected.bytes, "{file}");
        for cat in [cat::KERNEL, cat::GPU_MEMCPY, cat::GPU_MEMSET] {
            for slice in of(trace, cat) {
                let stream = trace.arg_u64(&slice.args, arg::STREAM).unwrap();
                let expected = (expected.gpu, &*format!("stream {stream}"));
                assert_eq!(place(trace, slice), expected, "{file}");
                assert_eq!(trace.arg_u64(&slice.args, arg::DEVICE), Some(0));
                assert!(trace.arg_u64(&slice.args, arg::CORRELATION).is_some());
                let track = trace.track(slice.track).unwrap();
                assert_eq!(track.kind, TrackKind::Synthetic);
            }
        }
        for slice in of(trace, cat::CUDA_RUNTIME) {
            assert!(trace.arg_u64(&slice.args, arg::CORRELATION).is_some());
            let track = trace.track(slice.track).unwrap();
            assert_eq!((track.pid, track.kind), (trace.meta.pid, TrackKind::Thread));
        }
        for flow in &trace.flows {
            assert!(flow.from.at <= flow.to.at);
        }
    }
}

#[test]
fn what_a_trace_says_of_itself_is_in_the_meta() {
    let modern = read_any(&fixtures().join(EXPECTED[0].file)).unwrap().trace;
    assert_eq!(modern.meta.pid, Pid(417));
    // baseTimeNanoseconds, and the ts of the first event.
    let start = 1_790_857_026_000_000_000 + 5_123_476_559_510_884;
    assert_eq!(modern.meta.start_unix_ns, start);
    let device = &modern.meta.devices[0];
    assert_eq!((device.id, &*device.name), (0, "NVIDIA H200"));
    assert_eq!(
        (device.multiprocessors, device.memory_bytes),
        (132, 150_109_880_320)
    );
    let legacy = read_any(&fixtures().join(EXPECTED[4].file)).unwrap().trace;
    assert_eq!(legacy.meta.start_unix_ns, 1_623_142_623_460_016_000);
    assert_eq!(
        (legacy.meta.devices.len(), legacy.meta.pid),
        (4, Pid(25738))
    );
}

#[test]
fn steps_and_loaders_are_annotations_in_old_and_new_traces() {
    for (file, steps, loaders) in [(EXPECTED[3].file, 12, 12), (EXPECTED[4].file, 6, 6)] {
        let trace = read_any(&fixtures().join(file)).unwrap().trace;
        let named = |start: &str| {
            of(&trace, cat::USER_ANNOTATION)
                .filter(|slice| trace.text(slice.name).starts_with(start))
                .count()
        };
        assert_eq!(named("ProfilerStep#"), steps);
        let loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
        assert_eq!(named(loader), loaders);
    }
}

#[test]
fn every_arrow_leads_from_a_call_to_what_it_submitted() {
    for expected in &EXPECTED {
        let trace = read_any(&fixtures().join(expected.file)).unwrap().trace;
        let mut arrows = 0;
        for flow in trace
            .flows
            .iter()
            .filter(|f| trace.text(f.cat) == cat::AC2G)
        {
            let slice_at = |end: gpustall_trace::FlowEnd| {
                let from = trace.slices.partition_point(|s| s.span.start < end.at);
                trace.slices[from..]
                    .iter()
                    .take_while(|s| s.span.start == end.at)
                    .find(|s| s.track == end.track && correlation(&trace, s) == Some(flow.id))
            };
            let (call, operation) = (slice_at(flow.from).unwrap(), slice_at(flow.to).unwrap());
            assert!(trace.text(call.cat).starts_with("cuda_"));
            assert!(matches!(
                trace.text(operation.cat),
                "kernel" | "gpu_memcpy" | "gpu_memset"
            ));
            arrows += 1;
        }
        assert!(arrows > 0, "{}", expected.file);
    }
}

fn correlation(trace: &gpustall_trace::Trace, slice: &gpustall_trace::Slice) -> Option<u64> {
    trace.arg_u64(&slice.args, arg::CORRELATION)
}

#[test]
fn a_foreign_trace_written_as_ours_reads_back_the_same() {
    let trace = read_any(&fixtures().join(EXPECTED[0].file)).unwrap().trace;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ours.trace.json.gz");
    write_finished(&path, &trace).unwrap();
    for outcome in [read(&path).unwrap(), read_any(&path).unwrap()] {
        assert_eq!(outcome.warnings, [""; 0]);
        assert_eq!(outcome.source, Source::Gpustall);
        assert_eq!(outcome.trace.meta, trace.meta);
        assert_eq!(outcome.trace.slices, trace.slices);
        assert_eq!(outcome.trace.flows, trace.flows);
        assert_eq!(outcome.trace.tracks, trace.tracks);
    }
}

#[test]
fn a_trace_cut_anywhere_gives_the_events_before_the_cut() {
    let file = fixtures().join(EXPECTED[0].file);
    let zipped = std::fs::read(&file).unwrap();
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&*zipped)
        .read_to_end(&mut plain)
        .unwrap();
    let whole = read_any(&file).unwrap().trace;
    for bytes in [&zipped, &plain] {
        let mut last = 0;
        for cut in 1..=50 {
            let length = bytes.len() * cut / 51;
            let Ok(outcome) = foreign::read_bytes(&bytes[..length]) else {
                assert_eq!(last, 0, "a longer part cannot say less");
                continue;
            };
            assert_eq!(outcome.warnings.len(), 1, "{:?}", outcome.warnings);
            assert!(
                outcome.warnings[0].contains("cut off"),
                "{:?}",
                outcome.warnings
            );
            assert_eq!(outcome.trace.meta.state, State::Partial);
            let count = outcome.trace.slices.len();
            assert!(last <= count && count <= whole.slices.len());
            last = count;
        }
        assert!(last > whole.slices.len() / 2);
    }
}

#[test]
fn a_checksum_that_is_missing_costs_nothing_but_a_warning() {
    let zipped = std::fs::read(fixtures().join(EXPECTED[0].file)).unwrap();
    for length in [zipped.len() - 1, zipped.len() - 8] {
        let outcome = foreign::read_bytes(&zipped[..length]).unwrap();
        assert_eq!(outcome.trace.slices.len(), EXPECTED[0].slices);
        assert_eq!(
            outcome.warnings,
            ["the compressed file is damaged at its end, after the trace"]
        );
    }
}

#[test]
fn only_the_arguments_that_the_diagnosis_uses_are_kept() {
    let trace = read_any(&fixtures().join(EXPECTED[0].file)).unwrap().trace;
    let keys = |cat| {
        let slice = of(&trace, cat).last().unwrap();
        let keys = slice.args.iter().map(|&(key, _)| trace.text(key));
        keys.collect::<Vec<_>>()
    };
    let device = [arg::DEVICE, arg::STREAM, arg::CORRELATION, arg::EXTERNAL_ID];
    assert_eq!(keys(cat::KERNEL), device);
    assert_eq!(
        keys(cat::GPU_MEMCPY),
        [&device[..], &[arg::BYTES, arg::BANDWIDTH]].concat()
    );
    assert_eq!(keys(cat::CPU_OP), [arg::EXTERNAL_ID]);
    let copy = of(&trace, cat::GPU_MEMCPY).next().unwrap();
    assert_eq!(trace.text(copy.name), "Memcpy HtoD (Pageable -> Device)");
    let rate = trace
        .arg(&copy.args, arg::BANDWIDTH)
        .and_then(Value::as_f64);
    assert!(rate.unwrap() > 1.0);
}
