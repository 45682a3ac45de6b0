//! What was seen lately, by a key: a map that forgets the oldest.

use std::collections::{HashMap, VecDeque};

/// A map of bounded size. A value that is taken out makes no room until its turn comes.
#[derive(Debug)]
pub(crate) struct Recent<V> {
    values: HashMap<u32, V>,
    order: VecDeque<u32>,
    most: usize,
}

impl<V> Recent<V> {
    /// Remembers at most `most` values.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            values: HashMap::new(),
            order: VecDeque::new(),
            most,
        }
    }

    /// Remembers `value`.
    pub(crate) fn put(&mut self, key: u32, value: V) {
        if self.values.insert(key, value).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > self.most {
            if let Some(oldest) = self.order.pop_front() {
                self.values.remove(&oldest);
            }
        }
    }

    /// The value of `key`.
    pub(crate) fn get(&self, key: u32) -> Option<&V> {
        self.values.get(&key)
    }

    /// Takes the value of `key` out.
    pub(crate) fn take(&mut self, key: u32) -> Option<V> {
        self.values.remove(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten() {
        let mut recent = Recent::new(2);
        recent.put(1, 'a');
        recent.put(2, 'b');
        recent.put(3, 'c');
        assert_eq!(recent.get(1), None);
        assert_eq!(recent.take(3), Some('c'));
        assert_eq!(recent.get(2), Some(&'b'));
    }
}
