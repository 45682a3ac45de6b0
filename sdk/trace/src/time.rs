//! The one clock: `CLOCK_MONOTONIC`, and the times and lengths that are measured on it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::sync::atomic::{AtomicU64, Ordering};

/// A reading of `CLOCK_MONOTONIC`, in nanoseconds since an origin that the kernel chose at boot.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct MonoTime(u64);

impl MonoTime {
    /// A time from raw `CLOCK_MONOTONIC` nanoseconds.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Raw `CLOCK_MONOTONIC` nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This time in a trace that started at `origin`; the trace's start if it lies before it.
    pub const fn in_trace(self, origin: MonoTime) -> TraceTime {
        TraceTime(self.0.saturating_sub(origin.0))
    }
}

/// A time in a trace: nanoseconds since the trace started. Never negative.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct TraceTime(u64);

impl TraceTime {
    /// The start of the trace.
    pub const ZERO: Self = Self(0);

    /// A time `ns` nanoseconds after the trace started.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the trace started.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The length from `earlier` to this time; zero if `earlier` is not earlier.
    pub const fn since(self, earlier: TraceTime) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Nanos> for TraceTime {
    type Output = TraceTime;
    fn add(self, length: Nanos) -> TraceTime {
        TraceTime(self.0.saturating_add(length.0))
    }
}

/// A length of time in nanoseconds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A length of `ns` nanoseconds.
    pub const fn new(ns: u64) -> Self {
        Self(ns)
    }

    /// The length in nanoseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The length in milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The length in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// This length as a share (0..1) of `whole`; 0 if `whole` is empty.
    pub fn share_of(self, whole: Nanos) -> f64 {
        if whole.0 == 0 {
            0.0
        } else {
            self.0 as f64 / whole.0 as f64
        }
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

/// Saturates at zero.
impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

impl std::iter::Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(lengths: I) -> Nanos {
        lengths.fold(Nanos::ZERO, Add::add)
    }
}

/// Human form with three significant digits: `812 ns`, `4.21 us`, `19.3 ms`, `2.50 s`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0;
        let (value, unit) = match ns {
            0..1_000 => return f.pad(&format!("{ns} ns")),
            1_000..1_000_000 => (ns as f64 / 1e3, "us"),
            1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
            _ => (ns as f64 / 1e9, "s"),
        };
        let digits = if value < 9.995 {
            2
        } else if value < 99.95 {
            1
        } else {
            0
        };
        f.pad(&format!("{value:.digits$} {unit}"))
    }
}

/// A half-open interval of trace time, `[start, end)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Interval {
    /// First nanosecond inside.
    pub start: TraceTime,
    /// First nanosecond after it; never before `start`.
    pub end: TraceTime,
}

impl Interval {
    /// The interval `[start, end)`; empty at `start` if `end` lies before it.
    pub fn new(start: TraceTime, end: TraceTime) -> Self {
        Self {
            start,
            end: end.max(start),
        }
    }

    /// Its length.
    pub fn len(self) -> Nanos {
        self.end.since(self.start)
    }

    /// Whether it holds no time.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The part of this interval that lies in `other`; empty if they do not meet.
    pub fn intersection(self, other: Interval) -> Interval {
        let start = self.start.max(other.start);
        Interval::new(start, self.end.min(other.end))
    }

    /// Whether `time` lies inside.
    pub fn contains(self, time: TraceTime) -> bool {
        self.start <= time && time < self.end
    }
}

/// Where times come from; a test puts a [`ManualClock`] in the place of the real one.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> MonoTime;
}

/// The real `CLOCK_MONOTONIC`. One reading costs about 20 ns through the vDSO.
#[derive(Debug, Clone, Copy, Default)]
pub struct MonotonicClock;

impl MonotonicClock {
    /// The time now, without going through a trait object.
    #[inline]
    pub fn read() -> MonoTime {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        MonoTime((t.tv_sec as u64).wrapping_mul(1_000_000_000) + t.tv_nsec as u64)
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> MonoTime {
        Self::read()
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, by: Nanos) {
        self.0.fetch_add(by.get(), Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> MonoTime {
        MonoTime(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_printed_with_three_digits_and_their_unit() {
        for (ns, text) in [
            (0, "0 ns"),
            (812, "812 ns"),
            (4_210, "4.21 us"),
            (9_996, "10.0 us"),
            (19_300_000, "19.3 ms"),
            (250_000_000, "250 ms"),
            (2_500_000_000, "2.50 s"),
        ] {
            assert_eq!(Nanos::new(ns).to_string(), text);
        }
    }

    #[test]
    fn the_clock_never_goes_back() {
        let first = MonotonicClock::read();
        assert!(MonotonicClock::read() >= first);
    }

    #[test]
    fn a_time_before_the_trace_is_its_start() {
        let origin = MonoTime::from_nanos(100);
        assert_eq!(MonoTime::from_nanos(40).in_trace(origin), TraceTime::ZERO);
        assert_eq!(MonoTime::from_nanos(140).in_trace(origin).as_nanos(), 40);
    }
}
