//! What the reader has received and the writer has not taken yet.

use gpustall_protocol::GOODBYE;
use gpustall_trace::{MonoTime, MonotonicClock};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Most bytes that wait for the writer; the reader then reads no further.
const MAX_BYTES: usize = 4 << 20;

/// Between the reader, the writer and the session.
#[derive(Debug)]
pub(super) struct Inbox {
    /// Start of the trace.
    pub(super) start: MonoTime,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
    /// For the user, not yet in the trace.
    notes: Vec<String>,
    /// The socket, once the sidecar serves.
    served: Option<UnixStream>,
    /// Whether the session has asked for the last events.
    goodbye: bool,
    /// Whether nothing more comes.
    ended: bool,
    /// Whether that is because the session asked for the end.
    asked: bool,
    /// Whether nobody wants more.
    abandoned: bool,
}

/// What the writer takes out at once.
pub(super) struct Received {
    pub(super) frames: VecDeque<Vec<u8>>,
    /// For the user.
    pub(super) notes: Vec<String>,
    /// Whether nothing follows.
    pub(super) ended: bool,
    /// Whether that is because the session asked for the end.
    pub(super) asked: bool,
}

impl Inbox {
    pub(super) fn new(start: MonoTime) -> Self {
        Self {
            start,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// The sidecar has said welcome.
    pub(super) fn served(&self, socket: UnixStream) {
        self.state.lock().served = Some(socket);
        self.changed.notify_all();
    }

    /// Adds a frame, once there is room. False when nobody wants it.
    pub(super) fn push(&self, frame: &[u8]) -> bool {
        let mut state = self.state.lock();
        while state.bytes >= MAX_BYTES && !state.abandoned {
            self.changed.wait(&mut state);
        }
        if state.abandoned {
            return false;
        }
        state.bytes += frame.len();
        state.frames.push_back(frame.to_vec());
        true
    }

    /// Nothing more comes, for this reason.
    pub(super) fn end(&self, note: Option<String>) {
        let mut state = self.state.lock();
        if !state.abandoned {
            state.notes.extend(note);
        }
        state.ended = true;
        state.asked = state.goodbye;
        state.served = None;
        self.changed.notify_all();
    }

    /// Nobody wants more.
    pub(super) fn abandon(&self) {
        let mut state = self.state.lock();
        state.abandoned = true;
        state.served = None;
        self.changed.notify_all();
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.state.lock().abandoned
    }

    /// All that came since the last call.
    pub(super) fn take(&self) -> Received {
        let mut state = self.state.lock();
        state.bytes = 0;
        self.changed.notify_all();
        Received {
            frames: std::mem::take(&mut state.frames),
            notes: std::mem::take(&mut state.notes),
            ended: state.ended,
            asked: state.asked,
        }
    }

    /// Waits until the sidecar serves or does not.
    pub(super) fn wait_for_answer(&self, within: Duration) {
        let until = Instant::now() + within;
        let mut state = self.state.lock();
        while state.served.is_none() && !state.ended {
            if self.changed.wait_until(&mut state, until).timed_out() {
                return;
            }
        }
    }

    /// Tells the sidecar that the session ends.
    pub(super) fn say_goodbye(&self) {
        let mut state = self.state.lock();
        state.goodbye = true;
        if let Some(socket) = &mut state.served {
            // One byte: the socket takes it, or the sidecar is gone, which the reader sees.
            let _ = socket.write(&[GOODBYE]);
        }
    }

    /// Waits for the last events.
    pub(super) fn wait_for_end(&self, within: Duration) {
        let until = Instant::now() + within;
        let mut state = self.state.lock();
        let begun = state.served.is_some();
        while begun && !state.ended {
            if self.changed.wait_until(&mut state, until).timed_out() {
                state.notes.push(format!(
                    "the sidecar did not send its last events within {} s: totals of threads, and \
                     waits that went on to the end, are missing",
                    within.as_secs_f64()
                ));
                break;
            }
        }
        if !begun && !state.ended {
            state.notes.push(
                "no kernel events: the sidecar did not answer before the session ended; look at \
                 what it prints, or restart it"
                    .to_owned(),
            );
        }
    }

    /// How long the trace has run.
    pub(super) fn elapsed(&self) -> f64 {
        let now = MonotonicClock::read().in_trace(self.start);
        now.as_nanos() as f64 / 1e9
    }
}
