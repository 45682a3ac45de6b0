//! How much a disk gives to so many readers, if it goes on as it did.

/// Batches' worth of reads that a disk gives in a nanosecond, by the readers that wait at once.
///
/// It rises with each reader, and with each by less. In the neighbourhood of what was seen a read
/// takes longer in proportion to how many there are; beyond, it goes on to rise as it did there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    /// Readers at once when it was measured, and what they got.
    pub(super) readers: f64,
    pub(super) given: f64,
    /// The share of a read's time there that is in proportion to the readers: 0 where they do not
    /// hold each other up, 1 where the disk is at its limit.
    pub(super) slows: f64,
    /// Down to so many readers there is evidence; with fewer, a read takes as long as with these.
    pub(super) fewest: f64,
    /// Up to so many readers there is evidence.
    pub(super) most: f64,
}

impl Rate {
    /// What so many readers get.
    pub(super) fn at(&self, readers: f64) -> f64 {
        if readers < self.fewest {
            return self.at(self.fewest) * readers / self.fewest;
        }
        let seen = readers.min(self.most);
        let ratio = seen / self.readers;
        let longer = (1.0 - self.slows + self.slows * ratio).max(f64::MIN_POSITIVE);
        let rises = self.given * (1.0 - self.slows) / (self.readers * longer * longer);
        self.given * ratio / longer + rises * (readers - seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(slows: f64) -> Rate {
        Rate {
            readers: 2.0,
            given: 1.0,
            slows,
            fewest: 0.0,
            most: 4.0,
        }
    }

    #[test]
    fn readers_that_do_not_hold_each_other_up_get_it_each() {
        let given = [1.0, 2.0, 4.0, 8.0].map(|readers| rate(0.0).at(readers));
        assert_eq!(given, [0.5, 1.0, 2.0, 4.0]);
    }

    #[test]
    fn at_its_limit_it_gives_the_same_to_all_together() {
        let given = [1.0, 2.0, 4.0, 8.0].map(|readers| rate(1.0).at(readers));
        assert_eq!(given, [1.0; 4]);
    }

    #[test]
    fn below_the_evidence_a_read_is_no_faster() {
        let rate = Rate {
            fewest: 2.0,
            ..rate(1.0)
        };
        let given = [0.5, 1.0, 2.0, 4.0].map(|readers| rate.at(readers));
        assert_eq!(given, [0.25, 0.5, 1.0, 1.0]);
    }

    #[test]
    fn beyond_the_evidence_it_rises_as_it_did_there() {
        let rate = rate(0.5);
        let before = rate.at(4.0) - rate.at(3.999);
        let after = rate.at(9.0) - rate.at(8.999);
        assert!(after > 0.0 && (after / before - 1.0).abs() < 0.01);
    }
}
