//! Marks in the queues of the runners: what a thread asks for from here on.

use super::{launches, runners};
use crate::recorder::gate::Generation;
use crate::recorder::ring::{current_tid, push};
use crate::recorder::{Category, Record, Text};
use cubecl_common::device_handle::DeviceHandle;
use cubecl_environment::stream::StreamId;
use gpustall_trace::{MonoTime, MonotonicClock, Tid, vocab::arg};
use std::cell::{Cell, RefCell};

/// Phases within one another on one thread, at most; deeper ones are not told from the one around.
const DEEPEST: usize = 64;

/// What a thread asks a device for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// Work of a phase.
    Phase(&'static str),
    /// Work of no phase.
    NoPhase,
    /// Work of several phases at once, or of one and of none.
    #[cfg_attr(
        not(feature = "burn-fusion"),
        allow(dead_code, reason = "fusion does that")
    )]
    Several,
    /// Work of an unknown phase.
    #[cfg_attr(
        not(feature = "burn-fusion"),
        allow(dead_code, reason = "fusion does that")
    )]
    Unknown,
}

/// The thread, and its queue in CubeCL.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker {
    pub(super) thread: Tid,
    pub(super) queue: StreamId,
}

thread_local! {
    /// Marks that this thread has made.
    static MARKS: Cell<u64> = const { Cell::new(0) };
    /// The phases that are open on this thread, the innermost last.
    static OPEN: RefCell<Vec<(&'static str, MonoTime)>> = const { RefCell::new(Vec::new()) };
}

/// A phase began on this thread.
pub(crate) fn begins(generation: Generation, name: &'static str, start: MonoTime) {
    if let Some(now) = open(|open| {
        if open.len() < DEEPEST {
            open.push((name, start));
        }
    }) {
        mark(generation, now);
    }
}

/// A phase ended on this thread; phases need not end in the reverse order.
pub(crate) fn ends(generation: Generation, name: &'static str, start: MonoTime) {
    if let Some(now) = open(|open| close(open, name, start))
        && generation.is_current()
    {
        mark(generation, now);
    }
}

fn close(open: &mut Vec<(&'static str, MonoTime)>, name: &'static str, start: MonoTime) {
    if let Some(position) = open.iter().rposition(|phase| *phase == (name, start)) {
        open.remove(position);
    }
}

/// Changes the open phases; the innermost afterwards. `None` while the thread ends.
fn open(change: impl FnOnce(&mut Vec<(&'static str, MonoTime)>)) -> Option<Asked> {
    let changed = OPEN.try_with(|open| {
        let mut open = open.try_borrow_mut().ok()?;
        change(&mut open);
        let innermost = open.last().map(|(name, _)| Asked::Phase(name));
        Some(innermost.unwrap_or(Asked::NoPhase))
    });
    changed.ok().flatten()
}

/// Queues a mark on every runner, or for the server of its fusion. It waits where a launch would: when
/// the queue is full.
fn mark(generation: Generation, asked: Asked) {
    let asker = Asker {
        thread: current_tid(),
        queue: StreamId::current(),
    };
    let Ok(number) = MARKS.try_with(|marks| marks.replace(marks.get() + 1)) else {
        return;
    };
    let launches = launches::issued(asker.queue);
    for runner in runners::ready() {
        #[cfg(feature = "burn-fusion")]
        if let Some(server) = &runner.server {
            server.submit(move |_| super::fusion::asks(generation, asker, asked));
        }
        // What fusion launches is not in order with what this thread queues here.
        if !launches::are_fused() {
            mark_runner(&runner.marks, generation, asker, (number, launches), asked);
        }
    }
}

/// Queues a mark for a runner: its number among those of the asker, and the launches that
/// were asked for by then.
pub(super) fn mark_runner(
    runner: &DeviceHandle<runners::Marks>,
    generation: Generation,
    asker: Asker,
    (number, launches): (u64, u64),
    asked: Asked,
) {
    runner.submit(move |_| {
        super::tuning::over();
        let mut args = Vec::with_capacity(5);
        args.push((arg::THREAD, Text::U64(asker.thread.0.into())));
        args.push((arg::QUEUE, Text::U64(asker.queue.value)));
        args.push((arg::MARK, Text::U64(number)));
        args.push((arg::LAUNCHES, Text::U64(launches)));
        let name = match asked {
            Asked::Phase(phase) => {
                args.push((arg::PHASE, Text::Static(phase)));
                phase
            }
            Asked::NoPhase => "no phase",
            Asked::Several => {
                args.push((arg::SEVERAL, Text::Bool(true)));
                "several phases"
            }
            Asked::Unknown => {
                args.push((arg::UNKNOWN, Text::Bool(true)));
                "unknown phase"
            }
        };
        let record = Record::Instant {
            cat: Category::PhaseMark,
            name,
            at: MonotonicClock::read(),
            args: Some(args.into()),
        };
        push(generation, record);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_open_phase_counts_in_whatever_order_they_end() {
        let at = MonoTime::from_nanos;
        let begin = |name, start| open(|open| open.push((name, at(start))));
        let end = |name, start| open(|open| close(open, name, at(start)));
        assert_eq!(begin("step", 1), Some(Asked::Phase("step")));
        assert_eq!(begin("forward", 2), Some(Asked::Phase("forward")));
        assert_eq!(begin("backward", 3), Some(Asked::Phase("backward")));
        assert_eq!(end("forward", 2), Some(Asked::Phase("backward")));
        assert_eq!(end("backward", 3), Some(Asked::Phase("step")));
        assert_eq!(end("step", 1), Some(Asked::NoPhase));
    }
}
