//! Chrome JSON: the files that Perfetto opens.

mod encode;
mod event;
mod finished;
mod partial;
mod read;

pub use event::{ArgsRef, EventRef};
pub use finished::{WriteStats, write_finished};
pub use partial::{PartialWriter, partial_path};
pub use read::{ReadOutcome, read};
