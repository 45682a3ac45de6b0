//! A mark, as the hook stores it: 64 bytes.

/// Bytes of one mark.
pub(super) const MARK_BYTES: usize = 64;
/// A number that was not measured.
const UNKNOWN: u64 = u64::MAX;

/// What a mark says; the hook's `marks.py` describes their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Asked,
    Next,
    GetBegan,
    Get,
    CollateBegan,
    Collate,
    Sampled,
    Pinned,
    Optimized,
    Dropped,
    Handed,
    Received,
    Saved,
    Stopped,
}

impl Kind {
    fn of(number: u32) -> Option<Self> {
        Some(match number {
            2 => Kind::Asked,
            3 => Kind::Next,
            4 => Kind::GetBegan,
            5 => Kind::Get,
            6 => Kind::CollateBegan,
            7 => Kind::Collate,
            8 => Kind::Sampled,
            9 => Kind::Pinned,
            10 => Kind::Optimized,
            11 => Kind::Dropped,
            12 => Kind::Handed,
            13 => Kind::Received,
            14 => Kind::Saved,
            15 => Kind::Stopped,
            _ => return None,
        })
    }
}

/// One mark. Times are nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    pub(super) kind: Kind,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) cpu: Option<u64>,
    pub(super) ready: Option<u64>,
    pub(super) n: u64,
    pub(super) tid: u32,
    pub(super) a: u32,
    pub(super) b: u32,
    pub(super) c: u32,
    pub(super) d: u32,
}

impl Mark {
    /// A mark of the first iteration with nothing else known, for tests.
    #[cfg(test)]
    pub(super) fn at(kind: Kind, tid: u32, (start, end): (u64, u64)) -> Self {
        Self {
            kind,
            start,
            end,
            cpu: None,
            ready: None,
            n: 0,
            tid,
            a: 1,
            b: 0,
            c: 0,
            d: 0,
        }
    }

    /// The mark that a slot holds; `None` where none was written.
    pub(super) fn of(bytes: &[u8; MARK_BYTES]) -> Option<Self> {
        let wide = |i: usize| {
            let at = i * 8;
            u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
        };
        let short = |i: usize| {
            let at = 40 + i * 4;
            u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
        };
        let known = |i| Some(wide(i)).filter(|&number| number != UNKNOWN);
        let start = wide(0);
        Some(Self {
            kind: Kind::of(short(5))?,
            start,
            end: wide(1).max(start),
            cpu: known(2),
            ready: known(3),
            n: wide(4),
            tid: short(0),
            a: short(1),
            b: short(2),
            c: short(3),
            d: short(4),
        })
    }
}
