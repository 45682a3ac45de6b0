//! Work on memory, and kills for want of it.

use super::{ArgList, Builder, Tracks};
use crate::memory::{MemoryWork, OomKill};
use gpustall_trace::vocab::{arg, cat};
use gpustall_trace::{Instant, Interval, Slice, Value};

impl Builder<'_> {
    /// A slice on the thread itself: the kernel worked inside whatever the thread did.
    pub(super) fn memory_work(&mut self, tracks: &[Tracks], work: &MemoryWork) {
        let mut args = ArgList::new(&mut self.conversion.trace.strings);
        if let Some(pages) = work.pages {
            let key = match work.kind.category() {
                cat::RECLAIM => arg::RECLAIMED,
                _ => arg::MOVED,
            };
            args.number(key, pages);
        }
        if work.unfinished {
            args.push(arg::UNFINISHED, Value::Bool(true));
        }
        let slice = Slice {
            track: tracks[work.thread as usize].thread,
            name: args.strings.intern(work.kind.name()),
            cat: args.strings.intern(work.kind.category()),
            span: Interval::new(work.begin, work.end),
            args: args.list.into(),
        };
        self.conversion.trace.slices.push(slice);
    }

    /// An instant on the first thread of the process; on the one that the kernel named when the
    /// first is not known.
    pub(super) fn oom_kill(&mut self, tracks: &[Tracks], kill: &OomKill) {
        let recording = self.recording;
        let mut threads = recording.threads.iter();
        let first = threads.rposition(|t| t.pid == kill.pid && t.tid.0 == kill.pid.0);
        let track = tracks[first.unwrap_or(kill.thread as usize)].thread;
        let mut args = ArgList::new(&mut self.conversion.trace.strings);
        args.other(arg::WANTED_BY, recording.other(kill.wanted_by));
        let instant = Instant {
            track,
            name: args.strings.intern("oom kill"),
            cat: args.strings.intern(cat::OOM_KILL),
            at: kill.at,
            args: args.list.into(),
        };
        self.conversion.trace.instants.push(instant);
    }
}
