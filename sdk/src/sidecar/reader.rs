//! The thread that reads what the sidecar sends.

use super::connect::{connect, waits};
use super::inbox::Inbox;
use gpustall_protocol::Frames;
use std::io::Read;
use std::path::Path;

/// Connects, and hands all frames to the inbox until nothing comes any more or nobody wants it.
pub(super) fn run(path: &Path, inbox: &Inbox) {
    let connected = connect(path, inbox.start, || !inbox.is_abandoned());
    let (mut socket, first) = match connected {
        Ok(connected) => connected,
        Err(sentence) => return inbox.end(Some(sentence)),
    };
    let Ok(other_end) = socket.try_clone() else {
        return inbox.end(Some(
            "no kernel events: too many files are open; raise `ulimit -n`".to_owned(),
        ));
    };
    inbox.served(other_end);
    let mut frames = Frames::default();
    frames.push(&first);
    let mut bytes = vec![0; 64 << 10];
    loop {
        match hand_over(&mut frames, inbox) {
            Ok(true) => {}
            Ok(false) => return inbox.end(None),
            Err(sentence) => return inbox.end(Some(sentence)),
        }
        match socket.read(&mut bytes) {
            // Whether it had said all shows in what it said.
            Ok(0) => return inbox.end(None),
            Ok(count) => frames.push(&bytes[..count]),
            Err(error) if waits(&error) => {
                if inbox.is_abandoned() {
                    return inbox.end(None);
                }
            }
            Err(_) => return inbox.end(None),
        }
    }
}

/// False when nobody wants more.
fn hand_over(frames: &mut Frames, inbox: &Inbox) -> Result<bool, String> {
    loop {
        match frames.next_frame() {
            Ok(Some(frame)) => {
                if !inbox.push(frame) {
                    return Ok(false);
                }
            }
            Ok(None) => return Ok(true),
            Err(error) => return Err(super::kernel_events::unreadable(inbox.elapsed(), &error)),
        }
    }
}
