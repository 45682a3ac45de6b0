//! Identifiers, each a type of its own.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// An OS process id (tgid), or the large made-up id of a process that only groups tracks.
    Pid(u32)
}
id! {
    /// An OS thread id, or the large made-up id of a synthetic track.
    Tid(u32)
}
id! {
    /// The position of a track in [`Trace::tracks`](crate::Trace::tracks).
    TrackId(u32)
}
id! {
    /// A batch, from the worker that made it to the consumer; unique in one recording.
    BatchId(u64)
}

impl Pid {
    /// First id of processes that only group synthetic tracks. Linux never gives one that large.
    pub const SYNTHETIC: u32 = 0xF000_0000;

    /// First id of the processes that group the streams of a device; the number of the device is
    /// added.
    pub const FIRST_DEVICE: u32 = Self::SYNTHETIC + 0x0010_0000;

    /// Whether this process exists only in the trace.
    pub fn is_synthetic(self) -> bool {
        self.0 >= Self::SYNTHETIC
    }

    /// The process that groups the streams of the device with this number.
    pub fn of_device(number: u32) -> Self {
        Self(Self::FIRST_DEVICE + number.min(0xF_FFFF))
    }

    /// Whether the process groups the streams of a device.
    pub fn is_device(self) -> bool {
        (Self::FIRST_DEVICE..=Self::FIRST_DEVICE + 0xF_FFFF).contains(&self.0)
    }
}

impl TrackId {
    /// As an index into [`Trace::tracks`](crate::Trace::tracks).
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
