//! What goes into the view of a finished file.

use crate::{Interval, Trace, vocab};
use std::cmp::Reverse;

/// Lines of scheduler text in a finished file, if nothing else is said. Perfetto reads about 39,000
/// a second.
pub const SCHED_LINES: usize = 200_000;

/// What goes into the view of a finished file; the lossless block has everything, whatever this
/// says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewOptions {
    /// Lines of scheduler text, at most. A stretch off CPU takes two to four.
    pub sched_lines: usize,
    /// Where everything that fits into `sched_lines` is drawn, the most important first. What room
    /// is left after that goes to the longest stretches off CPU.
    pub first: Vec<Interval>,
}

impl Default for ViewOptions {
    fn default() -> Self {
        Self {
            sched_lines: SCHED_LINES,
            first: Vec::new(),
        }
    }
}

impl ViewOptions {
    /// The options for a trace in which findings may be drawn: their stalls come first, the longest
    /// before the others.
    pub fn of(trace: &Trace) -> Self {
        let finding = trace.strings.find(vocab::cat::FINDING);
        let lost = trace.strings.find("lost_ns");
        let mut stalls: Vec<(u64, Interval)> = trace
            .slices
            .iter()
            .filter(|slice| Some(slice.cat) == finding)
            .filter_map(|slice| {
                let (_, lost) = slice.args.iter().find(|(key, _)| Some(*key) == lost)?;
                Some((lost.as_u64()?, slice.span))
            })
            .collect();
        stalls.sort_by_key(|&(lost, span)| (Reverse(lost), span.start));
        Self {
            first: stalls.into_iter().map(|(_, span)| span).collect(),
            ..Self::default()
        }
    }
}
