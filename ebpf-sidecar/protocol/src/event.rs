//! What goes over the socket after the greeting.

use serde::{Deserialize, Serialize};

/// Number of a text: texts count from 0 since the last [`Event::ForgetTexts`].
pub type TextId = u32;

/// A named argument.
pub type Arg = (TextId, Value);

/// The value of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// A non-negative integer.
    U64(u64),
    /// A negative integer.
    I64(i64),
    /// A number.
    F64(f64),
    /// A text.
    Text(TextId),
}

/// One event. Times are nanoseconds since the start that the client said in its hello.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event<'a> {
    /// The numbers of texts start again at 0.
    ForgetTexts,
    /// The next text.
    Text(&'a str),
    /// A process and its name; again when its name changes.
    Process {
        /// Its id, as the client sees it.
        pid: u32,
        /// Its name.
        name: TextId,
        /// Where viewers put it.
        sort: i32,
    },
    /// A track and its name; again when its name changes.
    Track {
        /// Its number in this connection.
        track: u32,
        /// Its process.
        pid: u32,
        /// Its thread, or the made-up id of a lane.
        tid: u32,
        /// Its name.
        name: TextId,
        /// Where viewers put it.
        sort: i32,
        /// Whether it is a lane without an OS thread.
        synthetic: bool,
    },
    /// Something that took time on a track.
    Slice {
        /// The track.
        track: u32,
        /// What was done.
        name: TextId,
        /// Category.
        cat: TextId,
        /// From when.
        start: u64,
        /// For how long, ns.
        length: u64,
        /// Its arguments.
        args: Vec<Arg>,
    },
    /// Something that happened at one moment on a track.
    Instant {
        /// The track.
        track: u32,
        /// What happened.
        name: TextId,
        /// Category.
        cat: TextId,
        /// When.
        at: u64,
        /// Its arguments.
        args: Vec<Arg>,
    },
    /// The value of a counter from one time on.
    Counter {
        /// Its process.
        pid: u32,
        /// Its name.
        name: TextId,
        /// From when.
        at: u64,
        /// The value.
        value: f64,
    },
    /// An arrow between two slices.
    Flow {
        /// Unique among those of its name and category.
        id: u64,
        /// Its name.
        name: TextId,
        /// Category.
        cat: TextId,
        /// Track and time of the slice that it leaves.
        from: (u32, u64),
        /// Track and time of the slice that it reaches.
        to: (u32, u64),
    },
    /// Something that took time in a process, on no thread in particular.
    Async {
        /// Its process.
        pid: u32,
        /// What it was.
        name: TextId,
        /// Category.
        cat: TextId,
        /// Unique among those of its process and category.
        id: u64,
        /// From when.
        start: u64,
        /// For how long, ns.
        length: u64,
        /// Its arguments.
        args: Vec<Arg>,
    },
    /// How many events a source has lost by now.
    Loss {
        /// What lost them.
        source: TextId,
        /// When the count was taken.
        at: u64,
        /// How many.
        total: u64,
    },
    /// A sentence for the user.
    Note(&'a str),
    /// Nothing follows.
    End,
}
