//! How many of several there were at the same time.

use gpustall_trace::{Interval, TraceTime};

/// As many count as were there together for at least one part in this many of the time in which any
/// was: those that follow each other may overlap for a moment.
pub const AT_ONCE_PART: u64 = 10;

/// How many of these stretches there were at the same time: the most that were for at least a tenth of
/// the time in which any was. Threads and processes that follow each other, one for each epoch say, are as
/// many as there were in one epoch.
pub(crate) fn at_once(stretches: impl IntoIterator<Item = Interval>) -> usize {
    let mut changes: Vec<(TraceTime, bool)> = Vec::new();
    for span in stretches.into_iter().filter(|span| !span.is_empty()) {
        changes.extend([(span.start, true), (span.end, false)]);
    }
    // Where one ends and the next begins, the one has ended.
    changes.sort_unstable();
    let mut time_with: Vec<u64> = vec![0];
    let (mut there, mut at) = (0_usize, TraceTime::ZERO);
    for (when, comes) in changes {
        if let Some(time) = time_with.get_mut(there) {
            *time += when.since(at).get();
        }
        at = when;
        there = if comes {
            there + 1
        } else {
            there.saturating_sub(1)
        };
        if time_with.len() <= there {
            time_with.push(0);
        }
    }
    let any: u64 = time_with.iter().skip(1).sum();
    let mut together = 0;
    for (count, time) in time_with.iter().enumerate().skip(1).rev() {
        together += time;
        if together > 0 && together.saturating_mul(AT_ONCE_PART) >= any {
            return count;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(spans: &[(u64, u64)]) -> usize {
        let time = TraceTime::from_nanos;
        at_once(spans.iter().map(|&(a, b)| Interval::new(time(a), time(b))))
    }

    #[test]
    fn those_that_follow_each_other_are_as_many_as_were_together() {
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[(0, 10), (10, 20), (20, 30)]), 1);
        assert_eq!(
            count(&[(0, 11), (10, 21), (20, 30)]),
            1,
            "they overlap for a moment"
        );
        assert_eq!(count(&[(0, 20), (0, 20), (20, 40), (20, 40)]), 2);
        assert_eq!(count(&[(0, 100), (0, 100), (0, 9)]), 2);
        assert_eq!(count(&[(0, 100), (0, 100), (0, 10)]), 3);
        assert_eq!(count(&[(5, 5)]), 0);
    }
}
