//! The stretches that were not captured, as pauses of the trace: the diagnosis leaves them out.

use crate::emit::EventSink;
use gpustall_trace::{EventRef, Interval, MonoTime, Pid, Tid, TraceTime, TrackKind, vocab};

/// The track of the pauses, beside those that a session makes for the reader.
const TRACK: (Pid, Tid) = (Pid(Pid::SYNTHETIC), Tid(Pid::SYNTHETIC + 2));
/// How long a window waits for its first operation before its silence counts.
const PATIENCE_NS: u64 = 500_000_000;
/// How often a pause that goes on is written again.
const AGAIN_NS: u64 = 500_000_000;

/// When capturing paused.
///
/// What was submitted before a window runs on in it unseen. A pause therefore ends when the first
/// operation that was seen begins: on its stream everything before it has ended by then.
#[derive(Debug)]
pub(crate) struct Windows {
    start: MonoTime,
    paused: Option<MonoTime>,
    /// When the window opened whose first operation has not been seen.
    opened: Option<MonoTime>,
    over: Vec<(MonoTime, MonoTime)>,
    introduced: bool,
    written: MonoTime,
}

impl Windows {
    /// Of a trace that starts at `start`; paused since `paused`.
    pub(crate) fn new(start: MonoTime, paused: Option<MonoTime>) -> Self {
        Self {
            start,
            paused,
            opened: None,
            over: Vec::new(),
            introduced: false,
            written: start,
        }
    }

    /// A time of the trace.
    pub(crate) fn time(&self, at: MonoTime) -> TraceTime {
        at.in_trace(self.start)
    }

    /// A window is about to be closed.
    pub(crate) fn closed(&mut self, now: MonoTime) {
        // A window in which nothing was seen at all does not end the pause.
        if self.opened.take().is_none() {
            self.paused = Some(now);
        }
    }

    /// A window is about to be opened.
    pub(crate) fn opened(&mut self, now: MonoTime) {
        self.opened = Some(now);
    }

    /// Operations came, the first of which began at `first` (nanoseconds), or none did.
    pub(crate) fn operated(&mut self, first: Option<u64>, now: MonoTime) {
        let Some(opened) = self.opened else { return };
        let waited = now.as_nanos().saturating_sub(opened.as_nanos());
        let end = match first {
            Some(first) => opened.max(MonoTime::from_nanos(first)),
            None if waited >= PATIENCE_NS => opened,
            None => return,
        };
        self.opened = None;
        if let Some(paused) = self.paused.take() {
            self.over.push((paused, end));
        }
    }

    /// Writes the pauses that are over, and now and then the one that goes on.
    pub(crate) fn write(&mut self, now: MonoTime, sink: &mut dyn EventSink) {
        let due = now.as_nanos().saturating_sub(self.written.as_nanos()) >= AGAIN_NS;
        let going_on = self.paused.filter(|_| due);
        if self.over.is_empty() && going_on.is_none() {
            return;
        }
        let (pid, tid) = TRACK;
        if !std::mem::replace(&mut self.introduced, true) {
            sink.push(&EventRef::Track {
                pid,
                tid,
                name: "devices not captured",
                sort: 9,
                kind: TrackKind::Synthetic,
            });
        }
        let (name, cat) = ("paused", vocab::cat::PAUSE);
        for (start, end) in std::mem::take(&mut self.over) {
            sink.push(&EventRef::Slice {
                pid,
                tid,
                name,
                cat,
                span: Interval::new(self.time(start), self.time(end)),
                args: &[],
            });
        }
        if let Some(start) = going_on {
            self.written = now;
            sink.push(&EventRef::Open {
                pid,
                tid,
                name,
                cat,
                start: self.time(start),
                at: self.time(now),
                args: &[],
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Pauses(Vec<(u64, u64)>);

    impl EventSink for Pauses {
        fn push(&mut self, event: &EventRef<'_>) {
            if let EventRef::Slice { span, .. } = event {
                self.0.push((span.start.as_nanos(), span.end.as_nanos()));
            }
        }
    }

    fn at(ms: u64) -> MonoTime {
        MonoTime::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_pause_ends_with_the_first_operation_that_was_seen() {
        let mut windows = Windows::new(at(0), None);
        let mut pauses = Pauses::default();
        windows.closed(at(100));
        windows.opened(at(200));
        windows.operated(None, at(250));
        windows.operated(Some(230_000_000), at(300));
        windows.write(at(300), &mut pauses);
        assert_eq!(pauses.0, [(100_000_000, 230_000_000)]);
    }

    #[test]
    fn a_silent_window_counts_from_its_opening() {
        let mut windows = Windows::new(at(0), Some(at(0)));
        let mut pauses = Pauses::default();
        windows.opened(at(200));
        windows.operated(None, at(800));
        windows.write(at(800), &mut pauses);
        assert_eq!(pauses.0, [(0, 200_000_000)]);
    }

    #[test]
    fn a_window_in_which_nothing_was_seen_does_not_end_the_pause() {
        let mut windows = Windows::new(at(0), None);
        let mut pauses = Pauses::default();
        windows.closed(at(100));
        windows.opened(at(200));
        windows.closed(at(300));
        windows.opened(at(400));
        windows.operated(Some(410_000_000), at(420));
        windows.write(at(420), &mut pauses);
        assert_eq!(pauses.0, [(100_000_000, 410_000_000)]);
    }
}
