//! Scheduler tracks: the stretches off CPU as the kernel's own trace text, which viewers turn into
//! a state for each thread and a lane for each CPU.

mod cpus;
mod interval;
mod keys;
mod options;
mod pick;
mod replay;
mod switches;
mod tasks;
mod text;

pub use options::{SCHED_LINES, ViewOptions};

use crate::{Trace, TraceTime};
use replay::Replay;
use tasks::Tasks;

/// The scheduler tracks of a trace, ready to be written.
pub(super) struct Sched<'t> {
    tasks: Tasks<'t>,
    lines: Vec<switches::Line>,
    /// Positions in [`Trace::slices`] of the stretches off CPU that are in no track, in order.
    hidden: Vec<u32>,
    /// Stretches off CPU that are in the tracks.
    pub(super) drawn: u64,
    /// The longest that is not, nanoseconds.
    pub(super) longest_hidden_ns: u64,
}

impl<'t> Sched<'t> {
    /// Chooses what is drawn and makes the lines.
    pub(super) fn new(trace: &'t Trace, options: &ViewOptions) -> Self {
        let found = interval::find(trace);
        let mut room = options.sched_lines;
        loop {
            let picked = pick::pick(&found, options, room);
            let tasks = Tasks::new(trace);
            let (intervals, tasks) = interval::read(trace, &found, &picked, tasks);
            let threads = interval::threads(trace, &found, &intervals);
            let lines = Replay::new(&tasks, &intervals, &threads).run();
            // Threads that move between CPUs need more lines than was reckoned with.
            if lines.len() > options.sched_lines && room > 0 {
                room = room * options.sched_lines / lines.len() * 9 / 10;
                continue;
            }
            let left_out = found
                .list
                .iter()
                .zip(&picked)
                .filter(|(_, picked)| !**picked);
            let hidden: Vec<u32> = left_out.clone().map(|(found, _)| found.slice).collect();
            return Self {
                tasks,
                lines,
                drawn: found.list.len() as u64 - hidden.len() as u64,
                longest_hidden_ns: left_out.map(|(found, _)| found.length()).max().unwrap_or(0),
                hidden,
            };
        }
    }

    /// Whether the slice at this position is a stretch off CPU that is in no track.
    pub(super) fn hides(&self, slice: usize) -> bool {
        !self.hidden.is_empty() && self.hidden.binary_search(&(slice as u32)).is_ok()
    }

    /// Stretches off CPU that are in no track.
    pub(super) fn left_out(&self) -> u64 {
        self.hidden.len() as u64
    }

    /// Lines of text.
    pub(super) fn line_count(&self) -> usize {
        self.lines.len()
    }

    /// Each line as it stands inside a JSON string, without the quotes, appended to `out` by the
    /// caller's writer.
    pub(super) fn lines<'a>(&'a self, trace: &'a Trace) -> impl Iterator<Item = text::Text<'a>> {
        self.lines.iter().map(move |line| text::Text {
            line,
            tasks: &self.tasks,
            trace,
        })
    }
}

/// A traced thread.
#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    /// Since when it is known to have run, where the first thing known is not a stretch off CPU.
    first: Option<TraceTime>,
    /// When it ended, if it did so before the recording.
    ended: Option<TraceTime>,
}
