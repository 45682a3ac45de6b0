//! Slices that have begun and not ended yet.
//!
//! A slice is recorded when it ends. A job that hangs and is killed would so lose exactly the
//! slice that tells why; the writer therefore repeats the open ones into the partial file.

use super::emit::Emitter;
use super::reading::Reading;
use super::{Args, Category};
use gpustall_trace::{MonoTime, Nanos, Pid, Tid};
use std::sync::Arc;

/// How old an open slice is when it is first written to the partial file, and how often again.
pub const OPEN_INTERVAL: Nanos = Nanos::new(500_000_000);

/// The open slices of one thread, or of all steps, outermost first.
#[derive(Debug, Default)]
pub(crate) struct OpenSlices {
    slices: Vec<OpenSlice>,
    /// The get stage that was written as ended, although its thread did not say so: its start, and the
    /// end of its last read.
    left: Option<(MonoTime, MonoTime)>,
}

#[derive(Debug)]
pub(crate) struct OpenSlice {
    pub(crate) place: (Pid, Tid),
    pub(crate) cat: Category,
    pub(crate) name: &'static str,
    pub(crate) start: MonoTime,
    pub(crate) args: Args,
    /// When it was last written.
    pub(crate) written: MonoTime,
    /// Tells of a get stage whether it still goes on.
    pub(crate) reading: Option<Arc<Reading>>,
}

impl OpenSlices {
    pub(crate) fn begin(&mut self, slice: OpenSlice) {
        self.slices.push(slice);
    }

    /// As [`begin`](Self::begin), on a track whose slices follow one another: if the end of the
    /// one before did not come yet, it is known all the same.
    pub(crate) fn begin_next(&mut self, slice: OpenSlice) {
        self.slices.retain(|before| before.place != slice.place);
        self.begin(slice);
    }

    /// Forgets the slice that began at `start` and has now ended, and those inside it, whose ends
    /// were lost. What it is called may have turned out only at its end: a wait for the next
    /// batch becomes the end of the epoch.
    pub(crate) fn end(&mut self, place: (Pid, Tid), start: MonoTime) {
        let ended = |o: &OpenSlice| o.start == start && o.place == place;
        if let Some(outer) = self.slices.iter().rposition(ended) {
            let mut position = 0;
            self.slices.retain(|slice| {
                position += 1;
                position <= outer || slice.place != place
            });
        }
    }

    /// From when the slice from `start` to `end` is still to be written; `None` if all of it is.
    pub(crate) fn unwritten(
        &mut self,
        cat: Category,
        start: MonoTime,
        end: MonoTime,
    ) -> Option<MonoTime> {
        let Some((_, until)) = self
            .left
            .take_if(|(left, _)| cat == Category::DataGet && *left == start)
        else {
            return Some(start);
        };
        (until < end).then_some(until)
    }

    /// Writes those that were not written for [`OPEN_INTERVAL`]; all of them if `last`. A get stage
    /// whose thread reads no more ended with its last read.
    pub(crate) fn write(&mut self, emitter: &mut Emitter, now: MonoTime, last: bool) {
        let since = |then: MonoTime| now.as_nanos().saturating_sub(then.as_nanos());
        let left = &mut self.left;
        self.slices.retain_mut(|slice| {
            let between = |reading: &Arc<Reading>| reading.between(slice.start);
            match slice.reading.as_ref().and_then(between) {
                Some(read) if last || since(read) >= OPEN_INTERVAL.get() => {
                    *left = Some((slice.start, read));
                    let span = (slice.start, read);
                    emitter.slice(slice.place, slice.cat, slice.name, span, &slice.args);
                    return false;
                }
                Some(_) => {}
                None if last || since(slice.written) >= OPEN_INTERVAL.get() => {
                    slice.written = now;
                    emitter.open(slice, now);
                }
                None => {}
            }
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(name: &'static str, start: u64) -> OpenSlice {
        OpenSlice {
            place: (Pid(1), Tid(1)),
            cat: Category::Phase,
            name,
            start: MonoTime::from_nanos(start),
            args: None,
            written: MonoTime::from_nanos(start),
            reading: None,
        }
    }

    #[test]
    fn an_ended_slice_takes_those_inside_it_along() {
        let mut open = OpenSlices::default();
        open.begin(slice("outer", 1));
        open.begin(slice("middle", 2));
        open.begin(slice("inner", 3));
        open.end((Pid(1), Tid(1)), MonoTime::from_nanos(2));
        let left: Vec<_> = open.slices.iter().map(|o| o.name).collect();
        assert_eq!(left, ["outer"]);
    }

    #[test]
    fn what_was_written_of_a_stage_that_goes_on_after_all_is_not_written_again() {
        let at = MonoTime::from_nanos;
        let mut open = OpenSlices {
            left: Some((at(10), at(20))),
            ..OpenSlices::default()
        };
        let get = Category::DataGet;
        assert_eq!(open.unwritten(get, at(5), at(9)), Some(at(5)), "another");
        assert_eq!(open.unwritten(get, at(10), at(30)), Some(at(20)));
        open.left = Some((at(10), at(20)));
        assert_eq!(open.unwritten(get, at(10), at(20)), None);
    }
}
