//! Clients that are no sessions: slow, of another version, or after what is not theirs.

use crate::client::{Client, ask};
use crate::harness::{Job, turn};
use crate::serve_harness::{Serving, eventually};
use gpustall_protocol::PROTOCOL_VERSION;
use gpustall_trace::EventRef;
use gpustall_trace::vocab::cat;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

#[test]
fn a_slow_client_costs_bounded_memory_and_is_told_what_it_lost() {
    let Some(_turn) = turn() else { return };
    let serving = Serving::start(&["--threshold", "0"]);
    let mut client = Client::connect(&serving.socket());
    // A child of this process, so its events are the client's.
    let _job = Job::start("fast ping-pong");
    // It takes nothing until far more has happened than is held for it.
    std::thread::sleep(Duration::from_secs(8));
    let mut lost = BTreeMap::new();
    let mut intervals = 0;
    eventually("a loss that is told", || {
        for _ in 0..50 {
            client.take(|event| match event {
                EventRef::Loss { source, total, .. } => {
                    lost.insert((*source).to_owned(), *total);
                }
                EventRef::Slice {
                    cat: cat::OFF_CPU, ..
                } => intervals += 1,
                _ => {}
            });
        }
        lost.keys()
            .any(|source| source.contains("off-cpu intervals"))
    });
    assert!(intervals > 1000, "{intervals} intervals came");
    let peak = serving.status("VmHWM");
    let kib: u64 = peak.trim_end_matches(" kB").trim().parse().unwrap();
    assert!(kib < 400 * 1024, "{peak}");
}

#[test]
fn a_client_of_another_version_is_told_both_versions() {
    let Some(_turn) = turn() else { return };
    let serving = Serving::start(&[]);
    let mut hello = b"gpustall".to_vec();
    hello.extend((PROTOCOL_VERSION + 7).to_le_bytes());
    hello.extend([0; 20]);
    let why = Client::greet(&serving.socket(), &hello).err().unwrap();
    let theirs = format!("version {} ", PROTOCOL_VERSION + 7);
    let ours = format!("version {PROTOCOL_VERSION}:");
    assert!(why.contains(&theirs) && why.contains(&ours), "{why}");
    assert!(why.contains("same version"), "{why}");
}

#[test]
fn a_client_gets_its_own_process_only() {
    let Some(_turn) = turn() else { return };
    let serving = Serving::start(&[]);
    let why = ask(&serving.socket(), 1).unwrap();
    assert!(why.contains("process 1 did not connect itself"), "{why}");
    assert_eq!(ask(&serving.socket(), std::process::id()), None);
}

#[test]
fn nonsense_and_silence_harm_nobody() {
    let Some(_turn) = turn() else { return };
    let serving = Serving::start(&[]);
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(UnixStream::connect(serving.socket()).unwrap());
    }
    for nonsense in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xff; 5000],
        b"gpustall\x01\0\0\0\xff\xff\xff\xff",
    ] {
        let mut socket = UnixStream::connect(serving.socket()).unwrap();
        let _ = socket.write_all(nonsense);
    }
    serving.session("job").wait_for_naps(5);
}

/// Connections to the sidecar that say nothing; those that it closed are taken out.
struct Silent(Vec<UnixStream>);

impl Silent {
    fn connect(serving: &Serving, count: usize) -> Self {
        let connect = |_| UnixStream::connect(serving.socket()).unwrap();
        Self((0..count).map(connect).collect())
    }

    /// How many are open.
    fn open(&mut self) -> usize {
        self.0.retain_mut(|socket| {
            socket.set_nonblocking(true).unwrap();
            matches!(socket.read(&mut [0]), Err(e) if e.kind() == ErrorKind::WouldBlock)
        });
        self.0.len()
    }
}

/// As `serve` has them.
const MOST: usize = 300;
const MOST_OF_A_USER: usize = 75;

#[test]
fn connections_that_say_nothing_are_bounded_for_each_user_and_are_closed() {
    let Some(_turn) = turn() else { return };
    let serving = Serving::start(&[]);
    std::thread::scope(|scope| {
        // A thread of another user: the kernel tells the server who each thread is.
        let another = scope.spawn(|| {
            let nobody = rustix::fs::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            let mut silent = Silent::connect(&serving, MOST_OF_A_USER + 25);
            eventually("no more than a user may have", || {
                silent.open() <= MOST_OF_A_USER
            });
            assert_eq!(silent.open(), MOST_OF_A_USER, "and no fewer");
            silent
        });
        let mut theirs = another.join().unwrap();
        // They keep nobody out.
        serving.session("job").wait_for_naps(1);
        eventually("they are closed", || theirs.open() == 0);
    });
    let mut silent = Silent::connect(&serving, MOST + 25);
    eventually("no more than there may be", || silent.open() <= MOST);
    eventually("they are closed", || silent.open() == 0);
    serving.session("job").wait_for_naps(1);
}
