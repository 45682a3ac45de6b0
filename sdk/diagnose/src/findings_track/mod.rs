//! Drawing the findings into the trace.
//!
//! One track per device, or per trainer that stands for it, beside the steps: a slice for each
//! stall of a finding, below it the pieces of its chain, which partition it, with arrows into the
//! slices that they come from, and to the launch and the kernel that ended it. And above the streams
//! of each device its state as one strip.

mod draw;
mod place;
mod plan;
mod state;

pub use state::{MAX_STATE_PARTS, STATE_TRACK_NAME};

use crate::device::phases;
use crate::report::Report;
use gpustall_trace::Trace;

/// Name of the tracks that findings are drawn on; where there are several devices, the name
/// of each follows.
pub const TRACK_NAME: &str = "starvation chains";

/// No more stalls than this are drawn, the longest first; each drawn one of a finding says in
/// `left_out` how many of that finding are not.
pub const MAX_DRAWN_STALLS: usize = 5_000;

/// No more pieces than this are drawn, over all stalls.
pub const MAX_DRAWN_PIECES: usize = 50_000;

/// Puts the findings of `report`, which was made from this trace, into the trace: the findings
/// track, its arrows, the strip of each device, the phase of each device operation where it is known,
/// and the report itself. What an earlier call put there is replaced, so a
/// second call changes nothing.
pub fn annotate(trace: &mut Trace, report: &Report) {
    place::erase(trace);
    let drawn = plan::plan(trace, report);
    draw::draw(trace, &drawn);
    state::draw(trace);
    phases::label(trace);
    trace.report = serde_json::to_value(report).ok();
    trace.sort();
}
