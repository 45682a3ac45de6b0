//! Slices whose begin and end are events of their own.

use super::lanes::Key;
use super::processes::Processes;
use crate::{Args, AsyncSlice, Interval, Slice, Symbol, Trace, TraceTime, TrackId, Value, vocab};
use std::collections::HashMap;

/// A begin or an end.
#[derive(Debug)]
pub(super) struct Half {
    pub(super) at: TraceTime,
    pub(super) name: Symbol,
    pub(super) cat: Symbol,
    pub(super) begins: bool,
    pub(super) args: Args,
}

/// On what a slice lies: on a track, or as the async slices that share an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum On {
    Track(TrackId),
    Async(u32),
}

/// Begins and ends, not yet joined: a file need not have them in the order of their times.
#[derive(Debug, Default)]
pub(super) struct Halves {
    list: Vec<(On, Half)>,
    asyncs: HashMap<(Key, Symbol, Key), u32>,
    pids: Vec<Key>,
}

impl Halves {
    /// Adds half a slice of a track.
    pub(super) fn on_track(&mut self, track: TrackId, half: Half) {
        self.list.push((On::Track(track), half));
    }

    /// Adds half an async slice of a process.
    pub(super) fn in_process(&mut self, pid: Key, id: Key, half: Half) {
        let pids = &mut self.pids;
        let on = *self.asyncs.entry((pid, half.cat, id)).or_insert_with(|| {
            pids.push(pid);
            pids.len() as u32 - 1
        });
        self.list.push((On::Async(on), half));
    }

    /// Time of the last half.
    pub(super) fn last(&self) -> Option<TraceTime> {
        self.list.iter().map(|(_, half)| half.at).max()
    }

    /// Joins them: an end closes what began last. A slice without an end lasts until `end` and
    /// gets the argument `unfinished`. Returns how many ends closed nothing.
    pub(super) fn finish(
        mut self,
        trace: &mut Trace,
        processes: &mut Processes,
        end: TraceTime,
    ) -> u64 {
        self.list.sort_by_key(|(on, half)| (*on, half.at));
        let mut open: Vec<Half> = Vec::new();
        let (mut current, mut without_begin, mut id) = (None, 0, 0);
        let mut close = |on, half: Half, end| {
            let span = Interval::new(half.at, end);
            let (name, cat, args) = (half.name, half.cat, half.args);
            match on {
                On::Track(track) => trace.slices.push(Slice {
                    track,
                    name,
                    cat,
                    span,
                    args,
                }),
                On::Async(number) => {
                    let pid = processes.used(self.pids[number as usize]);
                    trace.async_slices.push(AsyncSlice {
                        pid,
                        name,
                        cat,
                        id,
                        span,
                        args,
                    });
                    id += 1;
                }
            }
        };
        let key = trace.strings.intern(vocab::arg::UNFINISHED);
        let unfinished = |half: Half| {
            let mut args = half.args.into_vec();
            args.push((key, Value::Bool(true)));
            Half {
                args: args.into(),
                ..half
            }
        };
        for (on, half) in self.list {
            if let Some(last) = current.replace(on)
                && last != on
            {
                for half in open.drain(..) {
                    close(last, unfinished(half), end);
                }
            }
            if half.begins {
                open.push(half);
            } else if let Some(begin) = open.pop() {
                close(on, begin, half.at);
            } else {
                without_begin += 1;
            }
        }
        if let Some(last) = current {
            for half in open {
                close(last, unfinished(half), end);
            }
        }
        without_begin
    }
}
