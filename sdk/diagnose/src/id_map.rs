//! Maps keyed by the small numbers of a trace: symbols, tracks, correlations.
//!
//! A trace of a million events asks such a map a few million times; the hash of the standard
//! library, made to withstand chosen keys, is most of what that costs. These numbers are the
//! trace's own positions, or are looked up only once each.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map keyed by a newtype of a small integer.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Multiplies by an odd constant (2^64 over the golden ratio) and mixes the high bits down.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpustall_trace::TrackId;

    #[test]
    fn every_key_is_found_again() {
        let map: IdMap<TrackId, u32> = (0..10_000).map(|i| (TrackId(i * 64), i)).collect();
        assert_eq!(map.len(), 10_000);
        assert!((0..10_000).all(|i| map.get(&TrackId(i * 64)) == Some(&i)));
    }
}
