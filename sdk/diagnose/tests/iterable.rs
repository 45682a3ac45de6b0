//! Advice for a PyTorch loader whose data set is iterated, not indexed.

mod common;

use common::{in_process, with_workers};
use gpustall_diagnose::diagnose;
use gpustall_trace::vocab::{PYTORCH, arg, cat};
use gpustall_trace::{Trace, Value};

/// The remedies for a trace whose loader is PyTorch's.
fn remedies(mut trace: Trace, iterable: bool) -> Vec<String> {
    let wait = trace.strings.find(cat::DATA_WAIT);
    let framework = trace.strings.intern(arg::FRAMEWORK);
    let pytorch = Value::Str(trace.strings.intern(PYTORCH));
    let iterates = trace.strings.intern(arg::ITERABLE);
    for slice in trace.slices.iter_mut().filter(|of| Some(of.cat) == wait) {
        let own = [(framework, pytorch), (iterates, Value::Bool(iterable))];
        slice.args = slice.args.iter().copied().chain(own).collect();
    }
    let findings = diagnose(&trace).findings;
    findings.into_iter().map(|of| of.remedy).collect()
}

#[test]
fn workers_share_out_what_they_iterate_and_nothing_is_indexed() {
    for trace in [in_process(60, 7_000, 1), with_workers(60, 7_000, 15_000)] {
        let indexed = remedies(trace.clone(), false);
        assert!(indexed[0].contains("num_workers"), "{indexed:?}");
        assert!(indexed[0].contains("__getitems__"), "{indexed:?}");
        let of_workers = |of: &String| of.contains("get_worker_info");
        assert!(!indexed.iter().any(of_workers), "{indexed:?}");

        let iterated = remedies(trace, true);
        assert!(iterated[0].contains("num_workers"), "{iterated:?}");
        assert!(of_workers(&iterated[0]), "{iterated:?}");
        assert!(iterated[0].contains("batch_size=None"), "{iterated:?}");
        let indexes = |of: &String| of.contains("__getitems__") || of.contains("index tensors");
        assert!(!iterated.iter().any(indexes), "{iterated:?}");
    }
}
