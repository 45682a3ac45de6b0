//! What the sidecar and a session of the SDK say to each other over a Unix socket.
//!
//! The client says [`Hello`]; the sidecar answers with a [`Reply`]. Both have a form that every later
//! version can read, so that two versions that do not fit tell each other so. After a welcome
//! the sidecar sends frames of [`Event`]s: processes, tracks, slices, instants, counters, losses, notes,
//! as a trace has them. The client need not know what the kernel side records. Texts go over once and
//! are named by number after that. The client ends with [`GOODBYE`]; the sidecar then sends what is
//! left and [`Event::End`].
//!
//! [`Encoder`] makes frames of a [`Trace`](gpustall_trace::Trace) that grows; [`Decoder`] makes events for
//! a trace's writer of them, and refuses whatever is not well-formed.

mod decode;
mod encode;
mod error;
mod event;
mod frame;
mod greeting;

pub use decode::{Decoded, Decoder};
pub use encode::{Encoder, Introduced};
pub use error::ProtocolError;
pub use event::{Arg, Event, TextId, Value};
pub use frame::{Frames, MAX_FRAME_BYTES};
pub use greeting::{Greeting, Hello, Reply};

/// Version of everything after the greeting.
pub const PROTOCOL_VERSION: u32 = 1;

/// Where the sidecar listens unless told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/gpustall/sidecar.sock";

/// Environment variable with another path for both sides.
pub const SOCKET_VARIABLE: &str = "GPUSTALL_SOCKET";

/// What a client sends when its session ends.
pub const GOODBYE: u8 = b'.';

/// Most bytes of one text; longer ones are cut.
pub const MAX_TEXT_BYTES: usize = 16 << 10;

/// Most bytes that all texts of one numbering may have together.
pub const MAX_TEXTS_BYTES: usize = 64 << 20;
