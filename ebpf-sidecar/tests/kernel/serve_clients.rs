//! Clients that are no sessions: slow, of another version, or after what is not theirs.

use crate::client::{Client, ask};
use crate::harness::{Job, turn};
use crate::serve_harness::{Serving, eventually};
use gpustall_protocol::PROTOCOL_VERSION;
use gpustall_trace::EventRef;
use gpustall_trace::vocab::cat;
use std::collections::BTreeMap;
use std::io::Write;
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
