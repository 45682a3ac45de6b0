//! A program without a `tracing` subscriber: the session installs one.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use gpustall::instrument;
use gpustall_tests::{
    alone, assert_well_formed, inside, named, only, os_tid, record, slices, text, track_name,
    track_tid,
};
use gpustall_trace::{Value, vocab::arg, vocab::cat};

#[instrument(fields(late = tracing::field::Empty))]
fn forward(rows: u64, delta: i64, scale: f64, on: bool, name: &str, shape: Vec<u8>) {
    tracing::Span::current().record("late", 7_u64);
    backward();
}

#[instrument(name = "backward pass", level = "trace", skip_all)]
fn backward() {}

#[test]
fn instrumented_functions_are_slices_with_typed_arguments() {
    let _alone = alone();
    let (trace, _, ()) = record("typed", || {
        forward(3, -4, 0.5, true, "layer \"1\"\n", vec![1, 2]);
    });
    let slice = only(&trace, "forward");
    let value = |key| trace.arg(&slice.args, key);
    assert_eq!(trace.text(slice.cat), cat::SPAN);
    assert_eq!(value("rows"), Some(Value::U64(3)));
    assert_eq!(value("delta"), Some(Value::I64(-4)));
    assert_eq!(value("scale"), Some(Value::F64(0.5)));
    assert_eq!(value("on"), Some(Value::Bool(true)));
    assert_eq!(text(&trace, slice, "name"), Some("layer \"1\"\n"));
    assert_eq!(text(&trace, slice, "shape"), Some("[1, 2]"));
    assert_eq!(value("late"), Some(Value::U64(7)), "recorded after entry");
    let target = text(&trace, slice, arg::TARGET);
    assert_eq!(target, Some("recorder_without_a_subscriber"));

    let inner = only(&trace, "backward pass");
    assert!(inside(inner, slice), "the call lies in its caller");
    assert_eq!(inner.track, slice.track);
    assert_well_formed(&trace);
}

#[test]
fn slices_lie_on_the_operating_systems_process_and_threads() {
    let _alone = alone();
    let (trace, _, tids) = record("threads", || {
        let mut tids = vec![os_tid()];
        {
            let _span = gpustall::span("on the caller");
        }
        for name in [Some("augmenter"), None] {
            let mut thread = std::thread::Builder::new();
            if let Some(name) = name {
                thread = thread.name(name.into());
            }
            let run = move || {
                tracing::info_span!("on a helper", helper = name.is_some()).in_scope(|| {});
                os_tid()
            };
            tids.push(thread.spawn(run).unwrap().join().unwrap());
        }
        tids
    });
    let caller = only(&trace, "on the caller");
    let helpers = named(&trace, "on a helper");
    assert_eq!(helpers.len(), 2);
    let seen = [caller, helpers[0], helpers[1]].map(|s| track_tid(&trace, s));
    assert_eq!(seen, tids[..], "thread ids are those of the kernel");
    for slice in [caller, helpers[0], helpers[1]] {
        let track = trace.track(slice.track).unwrap();
        assert_eq!(track.pid.0, std::process::id());
    }
    let own = std::thread::current().name().map(ToOwned::to_owned);
    assert_eq!(Some(track_name(&trace, caller)), own.as_deref());
    assert_eq!(track_name(&trace, helpers[0]), "augmenter");
    assert_ne!(track_name(&trace, helpers[1]), "", "it has some name");
    let of_ours = |p: &&gpustall_trace::Process| p.pid.0 == std::process::id();
    let process = trace.processes.iter().find(of_ours).unwrap();
    let name = trace.text(process.name);
    assert!(name.starts_with("recorder_without_a_subscriber"), "{name}");
}

#[test]
fn events_from_info_up_are_instants_called_by_what_they_say() {
    let _alone = alone();
    let (trace, _, ()) = record("events", || {
        tracing::error!(code = 5, "the disk is gone");
        tracing::info!(loss = 0.25, "epoch {} done", 1);
        tracing::debug!("not worth a mark");
        gpustall::instant("checkpoint");
    });
    let events: Vec<_> = trace.instants.iter().map(|i| trace.text(i.name)).collect();
    assert_eq!(events, ["the disk is gone", "epoch 1 done", "checkpoint"]);
    let [error, info, _] = &trace.instants[..] else {
        unreachable!("three, as checked above");
    };
    assert_eq!(trace.arg_str(&error.args, arg::LEVEL), Some("ERROR"));
    assert_eq!(trace.arg_u64(&error.args, "code"), Some(5));
    assert_eq!(trace.arg_str(&info.args, arg::LEVEL), Some("INFO"));
    assert_eq!(trace.arg(&info.args, "loss"), Some(Value::F64(0.25)));
    let all_events = trace
        .instants
        .iter()
        .all(|i| trace.text(i.cat) == cat::EVENT);
    assert!(all_events, "events have their own category");
    let order = trace.instants.windows(2).all(|w| w[0].at <= w[1].at);
    assert!(order, "in the order in which they happened");
}

#[test]
fn counters_and_phases_are_recorded() {
    let _alone = alone();
    let (trace, _, ()) = record("counters", || {
        let _phase = instrument::phase("forward");
        gpustall::counter("loss", 0.5);
        gpustall::counter("loss", 0.25);
    });
    assert_eq!(gpustall_tests::depths(&trace, "loss"), [0.5, 0.25]);
    let phases = slices(&trace, cat::PHASE);
    assert_eq!(phases.len(), 1);
    assert_eq!(trace.text(phases[0].name), "forward");
}

#[test]
fn nothing_is_said_about_a_subscriber_when_ours_is_installed() {
    let _alone = alone();
    let (_, summary, ()) = record("notes", || {});
    assert_eq!(summary.report().unwrap().notes, [""; 0]);
}
