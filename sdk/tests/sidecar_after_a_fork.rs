//! A process that the job forks has a copy of the connection to the sidecar and leaves it alone.

#![allow(unsafe_code, reason = "forks, as a program's own libraries would")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use gpustall::Sidecar;
use gpustall_protocol::{Encoder, GOODBYE, Greeting, Reply};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixListener;

#[test]
fn a_forked_child_that_drops_the_session_says_nothing_to_the_sidecar() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, output) = (folder.path().join("s"), folder.path().join("x.trace.json"));
    let listener = UnixListener::bind(&socket).unwrap();
    let fake = std::thread::spawn(move || {
        let mut client = listener.accept().unwrap().0;
        let (mut received, mut bytes) = (Vec::new(), [0; 64]);
        while Greeting::parse(&received).unwrap().is_none() {
            let count = client.read(&mut bytes).unwrap();
            received.extend_from_slice(&bytes[..count]);
        }
        client.write_all(&Reply::welcome().encode()).unwrap();
        let mut said = Vec::new();
        while !said.contains(&GOODBYE) {
            let count = client.read(&mut bytes).unwrap();
            assert!(count > 0, "the connection goes on");
            said.extend_from_slice(&bytes[..count]);
        }
        let mut encoder = Encoder::default();
        encoder.end();
        client.write_all(&encoder.take()).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        // A second goodbye would be the child's.
        client.read_to_end(&mut said).unwrap();
        said
    });
    let session = gpustall::session("forks")
        .output(&output)
        .sidecar(Sidecar::Path(socket))
        .start()
        .unwrap();

    // SAFETY: the child drops the session, which touches no other thread's locks, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(session);
        // SAFETY: nothing of the test harness runs in the child.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: `status` is ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child ended well");

    let summary = session.finish().unwrap();
    let notes = &summary.report().unwrap().notes;
    assert!(
        notes.iter().all(|note| !note.contains("sidecar")),
        "{notes:?}"
    );
    assert_eq!(fake.join().unwrap(), [GOODBYE]);
}
