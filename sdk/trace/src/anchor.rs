//! Setting the file of another recorder beside ours: its clock and thread ids against the machine's.

use crate::{MonoTime, Pid, Tid};
use std::fmt;
use std::str::FromStr;

/// What a thread of another recorder says of itself: an instant event on it, at about the time that it
/// names, is called so. A reader gives the file the clock, and the thread the ids, of the machine.
///
/// ```
/// use gpustall_trace::{Anchor, MonoTime, Pid, Tid};
/// let anchor = Anchor { mono: MonoTime::from_nanos(52), unix_ns: 1_000, pid: Pid(7), tid: Tid(8) };
/// assert_eq!(anchor.to_string(), "gpustall.anchor mono_ns=52 unix_ns=1000 pid=7 tid=8");
/// assert_eq!(anchor.to_string().parse(), Ok(anchor));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor {
    /// The time of the event on `CLOCK_MONOTONIC`, or right after it.
    pub mono: MonoTime,
    /// The same on the wall clock, nanoseconds since the Unix epoch; 0 if not known.
    pub unix_ns: u64,
    /// Process of the thread.
    pub pid: Pid,
    /// OS thread id.
    pub tid: Tid,
}

/// A text is no anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an anchor; one reads `gpustall.anchor mono_ns=N unix_ns=N pid=N tid=N`")]
pub struct NoAnchor;

/// What the names of anchors begin with.
pub(crate) const ANCHOR: &str = "gpustall.anchor ";

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mono, unix) = (self.mono.as_nanos(), self.unix_ns);
        let (pid, tid) = (self.pid, self.tid);
        write!(
            f,
            "{ANCHOR}mono_ns={mono} unix_ns={unix} pid={pid} tid={tid}"
        )
    }
}

impl FromStr for Anchor {
    type Err = NoAnchor;

    fn from_str(text: &str) -> Result<Self, NoAnchor> {
        let mut words = text.strip_prefix(ANCHOR).ok_or(NoAnchor)?.split(' ');
        let mut number = |key: &str| -> Option<u64> {
            let (name, value) = words.next()?.split_once('=')?;
            value.parse().ok().filter(|_| name == key)
        };
        let mut read = || -> Option<Self> {
            Some(Self {
                mono: MonoTime::from_nanos(number("mono_ns")?),
                unix_ns: number("unix_ns")?,
                pid: Pid(u32::try_from(number("pid")?).ok()?),
                tid: Tid(u32::try_from(number("tid")?).ok()?),
            })
        };
        read().ok_or(NoAnchor)
    }
}
