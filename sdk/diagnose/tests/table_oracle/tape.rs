//! Numbers that proptest drew, handed out one by one; when they are used up, zeros.

/// A source of choices that shrinks to the simplest ones.
pub struct Tape<'a>(std::slice::Iter<'a, u16>);

impl<'a> Tape<'a> {
    pub fn new(draws: &'a [u16]) -> Self {
        Self(draws.iter())
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        u64::from(self.0.next().copied().unwrap_or(0)) % n
    }

    /// A number from `low` to `high`, both included.
    pub fn from(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == n - 1
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}
