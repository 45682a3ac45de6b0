//! Chrome JSON: the files that Perfetto opens.

mod claim;
mod encode;
mod event;
mod finished;
mod flows;
mod forked;
mod introduce;
pub(crate) mod json;
mod kineto;
mod layout;
mod line;
mod output;
mod partial;
mod properties;
mod read;
mod sched;
mod stream;

pub use event::{ArgsRef, EventRef};
pub use finished::{WriteStats, write_finished, write_finished_with};
pub use kineto::{FOREIGN_ROWS, read_any};
pub use partial::{PARTIAL_BUFFER_BYTES, PartialWriter, partial_path};
pub use read::{ReadOutcome, Source, read};
pub use sched::{SCHED_LINES, ViewOptions};
