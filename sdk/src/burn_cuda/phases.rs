//! Marks in the queues of the runners: which phase a thread asks for from here on.

use super::{launches, runners};
use crate::recorder::gate::Generation;
use crate::recorder::ring::{current_tid, push};
use crate::recorder::{Category, Record, Text};
use cubecl_environment::stream::StreamId;
use gpustall_trace::{MonoTime, MonotonicClock, vocab::arg};
use std::cell::{Cell, RefCell};

/// Phases within one another on one thread, at most; deeper ones are not told from the one around.
const DEEPEST: usize = 64;

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
    if let Some(now) = open(|open| {
        let position = open.iter().rposition(|phase| *phase == (name, start));
        position.map(|position| open.remove(position));
    }) && generation.is_current()
    {
        mark(generation, now);
    }
}

/// Changes the open phases; the innermost afterwards. `None` while the thread ends.
fn open(change: impl FnOnce(&mut Vec<(&'static str, MonoTime)>)) -> Option<Option<&'static str>> {
    let changed = OPEN.try_with(|open| {
        let mut open = open.try_borrow_mut().ok()?;
        change(&mut open);
        Some(open.last().map(|(name, _)| *name))
    });
    changed.ok().flatten()
}

/// Queues a mark on every runner. It waits where a launch would: when the queue is full.
fn mark(generation: Generation, phase: Option<&'static str>) {
    if launches::are_fused() {
        return;
    }
    let queue = StreamId::current();
    let launches = launches::issued(queue);
    let thread = current_tid();
    let Ok(number) = MARKS.try_with(|marks| marks.replace(marks.get() + 1)) else {
        return;
    };
    runners::each(|runner| {
        runner.submit(move |_| {
            let mut args = Vec::with_capacity(5);
            args.push((arg::THREAD, Text::U64(thread.0.into())));
            args.push((arg::QUEUE, Text::U64(queue.value)));
            args.push((arg::MARK, Text::U64(number)));
            args.push((arg::LAUNCHES, Text::U64(launches)));
            args.extend(phase.map(|phase| (arg::PHASE, Text::Static(phase))));
            push(
                generation,
                Record::Instant {
                    cat: Category::PhaseMark,
                    name: phase.unwrap_or("no phase"),
                    at: MonotonicClock::read(),
                    args: Some(args.into()),
                },
            );
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_open_phase_counts_in_whatever_order_they_end() {
        let at = MonoTime::from_nanos;
        let begin = |name, start| open(|open| open.push((name, at(start)))).flatten();
        let end = |name, start| {
            open(|open| {
                let position = open.iter().rposition(|phase| *phase == (name, at(start)));
                position.map(|position| open.remove(position));
            })
            .flatten()
        };
        assert_eq!(begin("step", 1), Some("step"));
        assert_eq!(begin("forward", 2), Some("forward"));
        assert_eq!(begin("backward", 3), Some("backward"));
        assert_eq!(end("forward", 2), Some("backward"));
        assert_eq!(end("backward", 3), Some("step"));
        assert_eq!(end("step", 1), None);
    }
}
