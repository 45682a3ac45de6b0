//! One client: from its hello to its end.

use super::outbox::Outbox;
use super::owners::ClientId;
use super::peer::Peer;
use crate::programs::Programs;
use crate::recorder::Book;
use crate::to_trace::Conversion;
use gpustall_protocol::{Encoder, GOODBYE, Greeting, ProtocolError, Reply};
use gpustall_trace::MonoTime;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A connection that has not said hello after this is closed.
const HELLO_WITHIN: Duration = Duration::from_secs(5);

/// A client that has not taken its last events after this does not get them.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// While more bytes than this wait for a client, its events are held back, up to
/// [`Options::max_intervals`](crate::Options::max_intervals).
const MAX_WAITING_BYTES: usize = 1 << 20;

/// Most threads that are held for a client that does not take them.
const MAX_HELD_THREADS: usize = 65_536;

/// Most tracks of one client: two a thread.
const MAX_TRACKS: usize = 400_000;

/// A connection.
pub(super) struct Client {
    pub(super) id: ClientId,
    pub(super) peer: Peer,
    pub(super) socket: UnixStream,
    pub(super) outbox: Outbox,
    phase: Phase,
    since: Instant,
    /// What it sent and was not looked at yet.
    received: Vec<u8>,
}

enum Phase {
    Greeting,
    Served(Box<Served>),
    /// Everything was said; what waits is still sent.
    Leaving,
}

/// What is recorded for a client.
pub(super) struct Served {
    pub(super) book: Book,
    conversion: Conversion,
    encoder: Encoder,
}

/// What a client wants.
pub(super) enum Wish {
    /// Nothing yet.
    Nothing,
    /// To be served.
    Hello(Greeting),
    /// The last events.
    Goodbye,
    /// It is gone, or must go.
    Gone,
}

impl Client {
    pub(super) fn new(id: ClientId, peer: Peer, socket: UnixStream) -> Self {
        Self {
            id,
            peer,
            socket,
            outbox: Outbox::default(),
            phase: Phase::Greeting,
            since: Instant::now(),
            received: Vec::new(),
        }
    }

    /// What is recorded for it, when it is served.
    pub(super) fn served(&mut self) -> Option<&mut Served> {
        match &mut self.phase {
            Phase::Served(served) => Some(served),
            _ => None,
        }
    }

    /// Whether it is served.
    pub(super) fn is_served(&self) -> bool {
        matches!(self.phase, Phase::Served(_))
    }

    /// Reads what it sent.
    pub(super) fn listen(&mut self) -> Wish {
        let mut bytes = [0; 512];
        match self.socket.read(&mut bytes) {
            Ok(0) => return Wish::Gone,
            Ok(count) => self.received.extend_from_slice(&bytes[..count]),
            Err(error) if waits(&error) => return Wish::Nothing,
            Err(_) => return Wish::Gone,
        }
        match self.phase {
            Phase::Greeting => match Greeting::parse(&self.received) {
                Ok(None) => Wish::Nothing,
                Ok(Some(greeting)) => {
                    self.received.clear();
                    Wish::Hello(greeting)
                }
                Err(error) => {
                    self.refuse(&refusal(&error));
                    Wish::Nothing
                }
            },
            Phase::Served(_) if std::mem::take(&mut self.received).contains(&GOODBYE) => {
                Wish::Goodbye
            }
            _ => {
                self.received.clear();
                Wish::Nothing
            }
        }
    }

    /// Sends what it takes. False when it is of no use any more.
    pub(super) fn send(&mut self) -> bool {
        let sent = self.outbox.flush(&mut self.socket).is_ok();
        let age = self.since.elapsed();
        sent && match self.phase {
            Phase::Greeting => age < HELLO_WITHIN,
            Phase::Served(_) => true,
            Phase::Leaving => self.outbox.waiting() > 0 && age < LEAVE_WITHIN,
        }
    }

    /// From now on `book` is recorded for it.
    pub(super) fn serve(&mut self, book: Book) {
        self.outbox.push(&Reply::welcome().encode());
        self.phase = Phase::Served(Box::new(Served {
            book,
            conversion: Conversion::default(),
            encoder: Encoder::default(),
        }));
    }

    /// Tells it why it is not served.
    pub(super) fn refuse(&mut self, why: &str) {
        self.outbox.push(&Reply::refusal(why).encode());
        self.leave();
    }

    /// Sends what was recorded since the last time, unless it has not taken that yet. Returns how many
    /// events.
    pub(super) fn deliver(&mut self, now: MonoTime, programs: &mut Programs) -> u64 {
        let waiting = self.outbox.waiting();
        let Some(served) = self.served() else {
            return 0;
        };
        if waiting > MAX_WAITING_BYTES {
            return 0;
        }
        let events = served.encode(now, false, programs);
        let frames = served.encoder.take();
        self.outbox.push(&frames);
        events
    }

    /// Sends the last events and the end. The threads of its book must have been closed. Returns how
    /// many events.
    pub(super) fn finish(
        &mut self,
        now: MonoTime,
        note: Option<&str>,
        programs: &mut Programs,
    ) -> u64 {
        let Some(served) = self.served() else {
            return 0;
        };
        let events = served.encode(now, true, programs);
        note.into_iter().for_each(|note| served.encoder.note(note));
        served.encoder.end();
        let frames = served.encoder.take();
        self.outbox.push(&frames);
        self.leave();
        events
    }

    /// The other side is gone: nothing is sent any more.
    pub(super) fn hang_up(&mut self) {
        self.outbox = Outbox::default();
        self.leave();
    }

    fn leave(&mut self) {
        self.phase = Phase::Leaving;
        self.since = Instant::now();
    }
}

impl Served {
    fn encode(&mut self, now: MonoTime, finished: bool, programs: &mut Programs) -> u64 {
        let before = self.encoder.events();
        self.book.look_up(programs);
        self.book.settle_requests(now);
        let part = self.book.take(now, finished);
        self.conversion.add(&part);
        let introduced = std::mem::take(&mut self.conversion.introduced);
        self.encoder.trace(&mut self.conversion.trace, introduced);
        part.notes.iter().for_each(|note| self.encoder.note(note));
        if self.encoder.has_many_texts() {
            self.conversion.forget_strings();
            self.encoder.forget_texts();
        }
        self.encoder.events() - before
    }

    /// Why no more can be kept for this client.
    pub(super) fn is_too_much(&self) -> Option<&'static str> {
        if self.book.threads() > MAX_HELD_THREADS {
            return Some(
                "the sidecar stopped: the job did not take the events of its many threads",
            );
        }
        (self.conversion.trace.tracks.len() > MAX_TRACKS)
            .then_some("the sidecar stopped: the job had more than 200,000 threads")
    }
}

fn refusal(error: &ProtocolError) -> String {
    format!("{error}: use the same version of gpustall in the job and in the sidecar")
}

fn waits(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
