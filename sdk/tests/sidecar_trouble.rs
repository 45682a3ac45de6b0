//! Sidecars that are absent, of another version, slow, dying or talking nonsense: the session goes
//! on, its trace is written, and a note says what became of the kernel events.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use gpustall::trace::{
    Interval, Loss, Pid, Process, Slice, Tid, Trace, TraceTime, Track, TrackId, TrackKind,
    partial_path, read,
};
use gpustall::{SIDECAR_END_WITHIN, SIDECAR_START_WITHIN, Sidecar};
use gpustall_protocol::{
    Encoder, GOODBYE, Greeting, Hello, Introduced, MAX_FRAME_BYTES, PROTOCOL_VERSION, Reply,
};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// After this a condition that did not come true fails the test.
const DEADLINE: Duration = Duration::from_secs(60);

/// What a loaded machine may take on top.
const SLACK: Duration = Duration::from_secs(5);

/// One session at a time.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|broken| broken.into_inner())
}

/// Records one span with a sidecar at `socket`; returns the trace and how long start and finish took.
fn record(socket: &Path, during: impl FnOnce(&Path)) -> (Trace, [Duration; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("x.trace.json");
    let began = Instant::now();
    let session = gpustall::session("trouble")
        .output(&output)
        .max_events(1000)
        .sidecar(Sidecar::Path(socket.into()))
        .start()
        .unwrap();
    let start = began.elapsed();
    drop(gpustall::span("work"));
    during(&partial_path(&output));
    let began = Instant::now();
    let summary = session.finish().unwrap();
    let finish = began.elapsed();
    let outcome = read(&output).unwrap();
    assert_eq!(outcome.warnings, [""; 0]);
    let trace = outcome.trace;
    let own = trace.slices.iter().filter(|s| trace.text(s.name) == "work");
    assert_eq!(own.count(), 1, "what the session recorded itself is there");
    // The report breaks lines.
    let report = summary.to_string();
    let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
    for note in &trace.meta.notes {
        assert!(report.contains(note), "{note} is not in\n{report}");
    }
    (trace, [start, finish])
}

/// A sidecar that does what `act` does with its one client.
fn sidecar(socket: &Path, act: impl FnOnce(UnixStream) + Send + 'static) -> JoinHandle<()> {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || act(listener.accept().unwrap().0))
}

/// Records with such a sidecar; returns the trace, its one note, and how long start and finish took.
fn record_with(
    act: impl FnOnce(UnixStream) + Send + 'static,
    during: impl FnOnce(&Path),
) -> (Trace, Vec<String>, [Duration; 2]) {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let fake = sidecar(&socket, act);
    let (trace, times) = record(&socket, during);
    fake.join().unwrap();
    let notes = trace.meta.notes.clone();
    (trace, notes, times)
}

fn hear_hello(client: &mut UnixStream) -> Hello {
    let (mut received, mut bytes) = (Vec::new(), [0; 64]);
    loop {
        let count = client.read(&mut bytes).unwrap();
        assert!(count > 0, "a hello");
        received.extend_from_slice(&bytes[..count]);
        match Greeting::parse(&received).unwrap() {
            Some(Greeting::Hello(hello)) => return hello,
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    }
}

fn welcome(client: &mut UnixStream) -> Hello {
    let hello = hear_hello(client);
    client.write_all(&Reply::welcome().encode()).unwrap();
    hello
}

fn hear_goodbye(client: &mut UnixStream) {
    let mut byte = [0];
    client.read_exact(&mut byte).unwrap();
    assert_eq!(byte, [GOODBYE]);
}

/// Frames with so many slices of the process `pid`, on a lane, and its first thread called `comm`.
fn kernel_events(pid: u32, count: u64) -> Vec<u8> {
    let mut trace = Trace::default();
    let mut text = |text: &str| trace.strings.intern(text);
    let (comm, lane, cat) = (text("comm"), text("comm off CPU"), text("off_cpu"));
    let (pid, name) = (Pid(pid), comm);
    trace.processes.push(Process { pid, name, sort: 0 });
    for (n, (tid, name, kind)) in [
        (pid.0, comm, TrackKind::Thread),
        (0xD000_0000, lane, TrackKind::Synthetic),
    ]
    .into_iter()
    .enumerate()
    {
        trace.tracks.push(Track {
            pid,
            tid: Tid(tid),
            name,
            sort: n as i32,
            kind,
        });
    }
    for n in 0..count {
        let at = |ns| TraceTime::from_nanos(ns);
        trace.slices.push(Slice {
            track: TrackId(1),
            name: comm,
            cat,
            span: Interval::new(at(n * 100), at(n * 100 + 50)),
            args: Box::new([]),
        });
    }
    let at = TraceTime::from_nanos(7);
    let (source, total) = (cat, 3);
    trace.losses.push(Loss { source, at, total });
    let introduced = Introduced {
        processes: [0].into(),
        tracks: [TrackId(0), TrackId(1)].into(),
    };
    let mut encoder = Encoder::default();
    encoder.trace(&mut trace, introduced);
    encoder.take()
}

fn the_end() -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.end();
    encoder.take()
}

fn kernel_slices(trace: &Trace) -> usize {
    let slices = trace.slices.iter();
    slices.filter(|s| trace.text(s.cat) == "off_cpu").count()
}

/// Until the client has closed its end.
fn hear_the_end(client: &mut UnixStream) {
    let mut rest = Vec::new();
    // A reset is an end too.
    let _ = client.read_to_end(&mut rest);
}

fn only(notes: Vec<String>) -> String {
    let [note] = notes.try_into().expect("one note");
    note
}

#[test]
fn events_of_a_sidecar_are_in_the_partial_file_within_a_second_and_in_the_trace() {
    let act = |mut client: UnixStream| {
        let hello = welcome(&mut client);
        assert_eq!(hello.pid, std::process::id());
        client.write_all(&kernel_events(hello.pid, 20)).unwrap();
        hear_goodbye(&mut client);
        client.write_all(&the_end()).unwrap();
    };
    let during = |partial: &Path| {
        let began = Instant::now();
        while kernel_slices(&read(partial).unwrap().trace) < 20 {
            assert!(began.elapsed() < DEADLINE, "never in the partial file");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let (trace, notes, _) = record_with(act, during);
    assert_eq!(notes, [""; 0]);
    assert_eq!(kernel_slices(&trace), 20);
    assert_eq!(trace.lost_by_source(), [("off_cpu", 3)].into());
    // The session knows its own process and threads better.
    let me = Pid(std::process::id());
    let process = trace.processes.iter().find(|p| p.pid == me).unwrap();
    assert_ne!(trace.text(process.name), "comm");
}

#[test]
fn no_sidecar_is_said_with_the_command_that_starts_it() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let (trace, _) = record(&socket, |_| ());
    let note = only(trace.meta.notes);
    let path = socket.display().to_string();
    assert!(
        note.contains("no sidecar serves at") && note.contains(&path),
        "{note}"
    );
    assert!(note.contains("sudo gpustall-sidecar serve"), "{note}");

    // One that is dead has left its socket behind.
    drop(UnixListener::bind(&socket).unwrap());
    let note = only(record(&socket, |_| ()).0.meta.notes);
    assert!(note.contains("has ended"), "{note}");
}

#[test]
fn without_a_sidecar_by_choice_nothing_is_said() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("x.trace.json");
    let session = gpustall::session("off").sidecar(Sidecar::Off);
    session.output(&output).start().unwrap().finish().unwrap();
    assert_eq!(read(&output).unwrap().trace.meta.notes, [""; 0]);
}

#[test]
fn a_sidecar_of_another_version_is_said() {
    let act = |mut client: UnixStream| {
        hear_hello(&mut client);
        let later = Reply {
            version: PROTOCOL_VERSION + 1,
            refused: Some("in whatever words".to_owned()),
        };
        client.write_all(&later.encode()).unwrap();
    };
    let (_, notes, _) = record_with(act, |_| ());
    let note = only(notes);
    let theirs = format!("version {}", PROTOCOL_VERSION + 1);
    assert!(
        note.contains(&theirs) && note.contains("same version"),
        "{note}"
    );
}

#[test]
fn a_refusal_is_said_in_the_sidecars_words() {
    let act = |mut client: UnixStream| {
        hear_hello(&mut client);
        let refusal = Reply::refusal("too many jobs: end one");
        client.write_all(&refusal.encode()).unwrap();
    };
    let (_, notes, _) = record_with(act, |_| ());
    assert!(only(notes).contains("refused: too many jobs: end one"));
}

#[test]
fn something_else_at_the_socket_is_said() {
    let act = |mut client: UnixStream| {
        client
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
        hear_the_end(&mut client);
    };
    let (_, notes, _) = record_with(act, |_| ());
    let note = only(notes);
    assert!(note.contains("not gpustall"), "{note}");
}

#[test]
fn a_sidecar_that_dies_leaves_what_it_sent() {
    let act = |mut client: UnixStream| {
        let pid = welcome(&mut client).pid;
        client.write_all(&kernel_events(pid, 5)).unwrap();
        // Dead in the middle of a frame.
        client.write_all(&[200, 0, 0, 0, 1, 2]).unwrap();
    };
    let (trace, notes, _) = record_with(act, |_| ());
    assert_eq!(kernel_slices(&trace), 5);
    let note = only(notes);
    assert!(note.contains("ended while the job ran"), "{note}");
}

#[test]
fn a_sidecar_that_is_stopped_says_so_itself() {
    let act = |mut client: UnixStream| {
        let pid = welcome(&mut client).pid;
        client.write_all(&kernel_events(pid, 5)).unwrap();
        client.write_all(&the_end()).unwrap();
    };
    let wait = |_: &Path| std::thread::sleep(Duration::from_millis(300));
    let (trace, notes, _) = record_with(act, wait);
    assert_eq!(kernel_slices(&trace), 5);
    assert!(only(notes).contains("ended while the job ran"));
}

#[test]
fn a_sidecar_that_does_not_answer_delays_nothing() {
    let act = |mut client: UnixStream| {
        hear_hello(&mut client);
        hear_the_end(&mut client);
    };
    let (_, notes, [start, finish]) = record_with(act, |_| ());
    assert!(start < SIDECAR_START_WITHIN + SLACK, "{start:?}");
    assert!(finish < SLACK, "{finish:?}");
    let note = only(notes);
    assert!(note.contains("did not answer before"), "{note}");
}

#[test]
fn a_sidecar_that_does_not_end_is_not_waited_for() {
    let act = |mut client: UnixStream| {
        let pid = welcome(&mut client).pid;
        client.write_all(&kernel_events(pid, 5)).unwrap();
        hear_the_end(&mut client);
    };
    let (trace, notes, [_, finish]) = record_with(act, |_| ());
    assert!(finish >= SIDECAR_END_WITHIN, "{finish:?}");
    assert!(finish < SIDECAR_END_WITHIN + SLACK, "{finish:?}");
    assert_eq!(kernel_slices(&trace), 5);
    let note = only(notes);
    assert!(note.contains("did not send its last events"), "{note}");
}

#[test]
fn nonsense_ends_the_kernel_events_and_nothing_else() {
    for nonsense in [
        vec![3, 0, 0, 0, 0xff, 0xff, 0xff],
        (MAX_FRAME_BYTES as u32 + 1).to_le_bytes().to_vec(),
        vec![0xff; 5000],
    ] {
        let act = move |mut client: UnixStream| {
            let pid = welcome(&mut client).pid;
            client.write_all(&kernel_events(pid, 5)).unwrap();
            let _ = client.write_all(&nonsense);
            hear_the_end(&mut client);
        };
        let wait = |_: &Path| std::thread::sleep(Duration::from_millis(300));
        let (trace, notes, _) = record_with(act, wait);
        assert_eq!(kernel_slices(&trace), 5);
        let note = only(notes);
        assert!(note.contains("cannot be read"), "{note}");
    }
}

#[test]
fn more_kernel_events_than_are_kept_are_counted() {
    let act = |mut client: UnixStream| {
        let pid = welcome(&mut client).pid;
        client.write_all(&kernel_events(pid, 50_000)).unwrap();
        hear_goodbye(&mut client);
        client.write_all(&the_end()).unwrap();
    };
    let (trace, notes, _) = record_with(act, |_| ());
    assert_eq!(notes, [""; 0]);
    let lost = trace.lost_by_source()["kernel events beyond max_events"];
    assert_eq!(kernel_slices(&trace) as u64 + lost, 50_000);
    assert_eq!(kernel_slices(&trace), 1000);
}
