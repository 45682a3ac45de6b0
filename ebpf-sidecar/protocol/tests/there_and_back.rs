//! What is encoded is what is decoded, and nothing but what is well-formed is decoded.

use gpustall_protocol::{
    Decoded, Decoder, Encoder, Event, Frames, Greeting, Hello, Introduced, MAX_FRAME_BYTES,
    PROTOCOL_VERSION, ProtocolError, Reply,
};
use gpustall_trace::{
    AsyncSlice, CounterSample, CounterSeries, Flow, FlowEnd, Instant, Interval, Loss, Pid, Process,
    Slice, Tid, Trace, TraceTime, Track, TrackId, TrackKind, Value,
};
use proptest::prelude::*;

fn at(ns: u64) -> TraceTime {
    TraceTime::from_nanos(ns)
}

/// A trace with one event of each kind.
fn trace() -> (Trace, Introduced) {
    let mut trace = Trace::default();
    let mut text = |text: &str| trace.strings.intern(text);
    let (name, cat, key) = (text("futex"), text("off_cpu"), text("waker"));
    let (track, empty) = (TrackId(0), Vec::new().into_boxed_slice());
    let args = [
        (key, Value::Str(name)),
        (cat, Value::U64(u64::MAX)),
        (name, Value::I64(-3)),
        (key, Value::F64(0.5)),
        (key, Value::Bool(true)),
    ];
    trace.processes.push(Process {
        pid: Pid(7),
        name,
        sort: -1,
    });
    trace.tracks.push(Track {
        pid: Pid(7),
        tid: Tid(9),
        name: key,
        sort: 3,
        kind: TrackKind::Synthetic,
    });
    let span = Interval::new(at(5), at(5_000_000_000));
    trace.slices.push(Slice {
        track,
        name,
        cat,
        span,
        args: args.into(),
    });
    trace.instants.push(Instant {
        track,
        name: key,
        cat,
        at: at(8),
        args: empty.clone(),
    });
    trace
        .counter_series
        .push(CounterSeries { pid: Pid(7), name });
    trace.counters.push(CounterSample {
        series: 0,
        at: at(9),
        value: 1.5,
    });
    let end = |ns| FlowEnd { track, at: at(ns) };
    trace.flows.push(Flow {
        id: 3,
        name,
        cat,
        from: end(6),
        to: end(7),
    });
    trace.async_slices.push(AsyncSlice {
        pid: Pid(7),
        name,
        cat,
        id: 4,
        span,
        args: empty,
    });
    trace.losses.push(Loss {
        source: key,
        at: at(10),
        total: 11,
    });
    let introduced = Introduced {
        processes: [0].into(),
        tracks: [track].into(),
    };
    (trace, introduced)
}

/// What the decoder hands out, as text; the bytes arrive `step` at a time.
fn decoded(bytes: &[u8], step: usize) -> Result<(Vec<String>, bool), ProtocolError> {
    let (mut frames, mut decoder) = (Frames::default(), Decoder::default());
    let (mut seen, mut ended) = (Vec::new(), false);
    for part in bytes.chunks(step) {
        frames.push(part);
        while let Some(frame) = frames.next_frame()? {
            let outcome = decoder.frame(frame, |event| seen.push(format!("{event:?}")))?;
            ended |= outcome == Decoded::End;
        }
    }
    Ok((seen, ended))
}

#[test]
fn every_kind_of_event_arrives_as_it_was_however_the_bytes_are_cut() {
    let (mut first, introduced) = trace();
    let mut encoder = Encoder::default();
    encoder.trace(&mut first, introduced);
    encoder.note("a note");
    // The same again: texts and tracks are known by now.
    let (mut second, _) = trace();
    encoder.trace(&mut second, Introduced::default());
    encoder.end();
    assert_eq!(encoder.events(), 10);
    assert_eq!((first.event_count(), first.losses.len()), (0, 0));
    let bytes = encoder.take();

    let (seen, ended) = decoded(&bytes, bytes.len()).expect("well-formed");
    assert!(ended);
    assert_eq!(seen.len(), 2 + 6 + 1 + 6);
    assert_eq!(seen[2..8], seen[9..]);
    for (index, parts) in [
        (0, &["Process", "Pid(7)", "futex", "-1"][..]),
        (1, &["Track", "Tid(9)", "waker", "Synthetic"]),
        (2, &["Slice", "Tid(9)", "off_cpu", "TraceTime(5000000000)"]),
        (
            2,
            &["(\"waker\", Str(\"futex\"))", "U64(18446744073709551615)"],
        ),
        (2, &["I64(-3)", "F64(0.5)", "Bool(true)"]),
        (3, &["Instant", "waker", "TraceTime(8)"]),
        (4, &["Counter", "1.5"]),
        (5, &["Flow", "id: 3", "Tid(9)"]),
        (6, &["Async", "id: 4"]),
        (7, &["Loss", "waker", "11"]),
        (8, &["Note", "a note"]),
    ] {
        for part in parts {
            assert!(seen[index].contains(part), "{part} in {}", seen[index]);
        }
    }
    for step in [1, 3, 7] {
        assert_eq!(decoded(&bytes, step).expect("well-formed").0, seen);
    }
}

#[test]
fn texts_can_be_forgotten_on_both_sides() {
    let mut encoder = Encoder::default();
    let (mut first, introduced) = trace();
    encoder.trace(&mut first, introduced);
    encoder.forget_texts();
    let mut second = Trace::default();
    let other = second.strings.intern("other");
    let (at, total) = (at(1), 2);
    second.losses.push(Loss {
        source: other,
        at,
        total,
    });
    encoder.trace(&mut second, Introduced::default());
    let (seen, _) = decoded(&encoder.take(), 1 << 20).expect("well-formed");
    assert!(seen.last().is_some_and(|last| last.contains("other")));
}

#[test]
fn many_events_come_in_many_small_frames() {
    let mut encoder = Encoder::default();
    for n in 0..20_000 {
        encoder.note(&format!("note number {n} of many"));
    }
    let bytes = encoder.take();
    let mut frames = Frames::default();
    frames.push(&bytes);
    let mut lengths = Vec::new();
    while let Some(frame) = frames.next_frame().expect("well-formed") {
        lengths.push(frame.len());
    }
    assert!(lengths.len() > 10, "{} frames", lengths.len());
    assert!(lengths.iter().all(|&length| length < MAX_FRAME_BYTES / 8));
    assert_eq!(
        decoded(&bytes, bytes.len()).expect("well-formed").0.len(),
        20_000
    );
}

#[test]
fn a_frame_that_announces_too_much_is_refused_at_once() {
    let announced = (MAX_FRAME_BYTES as u32 + 1).to_le_bytes();
    let error = decoded(&announced, 4).expect_err("refused");
    assert!(matches!(error, ProtocolError::TooLong { .. }), "{error}");
}

#[test]
fn a_track_or_text_that_was_never_introduced_is_refused() {
    for event in [
        Event::Counter {
            pid: 1,
            name: 5,
            at: 1,
            value: 1.0,
        },
        Event::Instant {
            track: 2,
            name: 0,
            cat: 0,
            at: 1,
            args: vec![],
        },
    ] {
        // As an encoder would have framed it.
        let body = [postcard_of(&Event::Text("x")), postcard_of(&event)].concat();
        let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
        bytes.extend(body);
        let error = decoded(&bytes, bytes.len()).expect_err("refused");
        assert!(matches!(error, ProtocolError::Unknown { .. }), "{error}");
    }
}

fn postcard_of(event: &Event<'_>) -> Vec<u8> {
    postcard::to_allocvec(event).expect("encoded")
}

#[test]
fn a_greeting_is_read_whole_and_only_whole() {
    let hello = Hello {
        pid: 7,
        start_ns: 1 << 60,
        release: "0.1.0".to_owned(),
    };
    let bytes = hello.encode();
    for cut in 0..bytes.len() {
        assert_eq!(Greeting::parse(&bytes[..cut]), Ok(None));
    }
    assert_eq!(Greeting::parse(&bytes), Ok(Some(Greeting::Hello(hello))));
    assert_eq!(
        Greeting::parse(b"GET / HTTP"),
        Err(ProtocolError::NotGpustall)
    );

    let refusal = Reply::refusal("serves 64 already: end one");
    let bytes = [refusal.encode(), vec![1, 2, 3]].concat();
    let whole = bytes.len() - 3;
    for cut in 0..whole {
        assert_eq!(Reply::parse(&bytes[..cut]), Ok(None));
    }
    assert_eq!(Reply::parse(&bytes), Ok(Some((refusal, whole))));
    assert!(Reply::parse(b"no gpustall").is_err());
}

#[test]
fn another_version_is_known_as_such_whatever_follows() {
    let mut bytes = b"gpustall".to_vec();
    bytes.extend((PROTOCOL_VERSION + 1).to_le_bytes());
    bytes.extend([0xff; 40]);
    let other = Greeting::OtherVersion(PROTOCOL_VERSION + 1);
    assert_eq!(Greeting::parse(&bytes), Ok(Some(other)));

    let later = Reply {
        version: PROTOCOL_VERSION + 1,
        refused: Some("speak version 2".to_owned()),
    };
    let parsed = Reply::parse(&later.encode()).expect("readable");
    assert_eq!(parsed.map(|(reply, _)| reply), Some(later));
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = decoded(&bytes, 50);
        let mut framed = (bytes.len() as u32).to_le_bytes().to_vec();
        framed.extend(&bytes);
        let _ = decoded(&framed, 50);
        let _ = Greeting::parse(&bytes);
        let _ = Reply::parse(&bytes);
    }

    #[test]
    fn a_damaged_stream_never_panics(place in 0_usize..300, byte in any::<u8>()) {
        let (mut trace, introduced) = trace();
        let mut encoder = Encoder::default();
        encoder.trace(&mut trace, introduced);
        let mut bytes = encoder.take();
        let place = place % bytes.len();
        bytes[place] = byte;
        let _ = decoded(&bytes, 64);
    }
}
