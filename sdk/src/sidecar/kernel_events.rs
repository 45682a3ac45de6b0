//! From frames to events of the partial file, on the writer thread.

use super::inbox::Inbox;
use crate::recorder::emit::Emitter;
use gpustall_protocol::{Decoded, Decoder, ProtocolError};
use gpustall_trace::{EventRef, MonotonicClock};
use std::sync::Arc;

/// Writes what the sidecar has sent.
#[derive(Debug)]
pub(crate) struct KernelEvents {
    inbox: Arc<Inbox>,
    decoder: Decoder,
    state: State,
    max_events: u64,
    kept: u64,
    refused: u64,
    reported: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// More may come.
    Open,
    /// The sidecar has said all.
    Complete,
    /// It is known what became of it.
    Explained,
}

impl KernelEvents {
    pub(super) fn new(inbox: Arc<Inbox>, max_events: u64) -> Self {
        Self {
            inbox,
            decoder: Decoder::default(),
            state: State::Open,
            max_events,
            kept: 0,
            refused: 0,
            reported: 0,
        }
    }

    /// Writes all that has come since the last call.
    pub(crate) fn drain(&mut self, emitter: &mut Emitter) {
        let outcome = self.inbox.take();
        for frame in outcome.frames {
            if self.state == State::Open {
                self.frame(&frame, emitter);
            }
        }
        for note in outcome.notes {
            self.explain(emitter, &note);
        }
        // All was said and nobody had asked: the sidecar was stopped.
        let stopped = self.state == State::Complete && !outcome.asked;
        if outcome.ended && (stopped || self.state == State::Open) {
            let sentence = broken(self.inbox.elapsed());
            self.explain(emitter, &sentence);
        }
        if self.refused != self.reported {
            self.reported = self.refused;
            let now = MonotonicClock::read();
            emitter.loss("kernel events beyond max_events", now, self.refused);
        }
    }

    fn frame(&mut self, frame: &[u8], emitter: &mut Emitter) {
        let Self {
            decoder,
            max_events,
            kept,
            refused,
            ..
        } = self;
        let outcome = decoder.frame(frame, |event| {
            if introduces(event) || *kept < *max_events {
                *kept += u64::from(!introduces(event));
                emitter.kernel(event);
            } else {
                *refused += 1;
            }
        });
        match outcome {
            Ok(Decoded::More) => {}
            Ok(Decoded::End) => self.state = State::Complete,
            Err(error) => {
                let sentence = unreadable(self.inbox.elapsed(), &error);
                self.explain(emitter, &sentence);
                self.inbox.abandon();
            }
        }
    }

    fn explain(&mut self, emitter: &mut Emitter, sentence: &str) {
        self.state = State::Explained;
        emitter.kernel(&EventRef::Note { text: sentence });
    }
}

/// Whether it is few, and others make no sense without it.
fn introduces(event: &EventRef<'_>) -> bool {
    matches!(
        event,
        EventRef::Process { .. }
            | EventRef::Track { .. }
            | EventRef::Loss { .. }
            | EventRef::Note { .. }
    )
}

fn broken(after: f64) -> String {
    format!(
        "the sidecar ended while the job ran: there are no kernel events after {after:.1} s; start it \
         again with `sudo gpustall-sidecar serve` before the next run"
    )
}

pub(super) fn unreadable(after: f64, error: &ProtocolError) -> String {
    format!(
        "there are no kernel events after {after:.1} s, since what the sidecar sent cannot be read \
         ({error}); install the same version of gpustall for the job and the sidecar"
    )
}
