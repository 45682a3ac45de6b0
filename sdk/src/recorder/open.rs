//! Slices that have begun and not ended yet.
//!
//! A slice is recorded when it ends. A job that hangs and is killed would so lose exactly the
//! slice that tells why; the writer therefore repeats the open ones into the partial file.

use super::emit::Emitter;
use super::{Args, Category};
use gpustall_trace::{MonoTime, Nanos, Pid, Tid};

/// How old an open slice is when it is first written to the partial file, and how often again.
pub const OPEN_INTERVAL: Nanos = Nanos::new(500_000_000);

/// The open slices of one thread, or of all steps, outermost first.
#[derive(Debug, Default)]
pub(crate) struct OpenSlices(Vec<OpenSlice>);

#[derive(Debug)]
pub(crate) struct OpenSlice {
    pub(crate) place: (Pid, Tid),
    pub(crate) cat: Category,
    pub(crate) name: &'static str,
    pub(crate) start: MonoTime,
    pub(crate) args: Args,
    /// When it was last written.
    pub(crate) written: MonoTime,
}

impl OpenSlices {
    pub(crate) fn begin(&mut self, slice: OpenSlice) {
        self.0.push(slice);
    }

    /// As [`begin`](Self::begin), on a track whose slices follow one another: if the end of the
    /// one before did not come yet, it is known all the same.
    pub(crate) fn begin_next(&mut self, slice: OpenSlice) {
        self.0.retain(|before| before.place != slice.place);
        self.begin(slice);
    }

    /// Forgets the slice that began at `start` and has now ended, and those inside it, whose ends
    /// were lost. What it is called may have turned out only at its end: a wait for the next
    /// batch becomes the end of the epoch.
    pub(crate) fn end(&mut self, place: (Pid, Tid), start: MonoTime) {
        let ended = |o: &OpenSlice| o.start == start && o.place == place;
        if let Some(outer) = self.0.iter().rposition(ended) {
            let mut position = 0;
            self.0.retain(|slice| {
                position += 1;
                position <= outer || slice.place != place
            });
        }
    }

    /// Writes those that were not written for [`OPEN_INTERVAL`]; all of them if `last`.
    pub(crate) fn write(&mut self, emitter: &mut Emitter, now: MonoTime, last: bool) {
        for slice in &mut self.0 {
            let age = now.as_nanos().saturating_sub(slice.written.as_nanos());
            if last || age >= OPEN_INTERVAL.get() {
                slice.written = now;
                emitter.open(slice, now);
            }
        }
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
        }
    }

    #[test]
    fn an_ended_slice_takes_those_inside_it_along() {
        let mut open = OpenSlices::default();
        open.begin(slice("outer", 1));
        open.begin(slice("middle", 2));
        open.begin(slice("inner", 3));
        open.end((Pid(1), Tid(1)), MonoTime::from_nanos(2));
        let left: Vec<_> = open.0.iter().map(|o| o.name).collect();
        assert_eq!(left, ["outer"]);
    }
}
