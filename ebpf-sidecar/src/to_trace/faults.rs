//! Page faults of each process, as counters of how many there were a second.
//!
//! The kernel's counts of a thread are read when it leaves a CPU. What was added since the time before
//! is spread evenly over the time between, in which the thread ran.

use super::Builder;
use crate::recording::{Faults, ThreadRecord};
use gpustall_trace::vocab;
use gpustall_trace::{Interval, Nanos, Pid, TraceTime};
use std::collections::{BTreeMap, HashMap};

/// Length of the pieces of time for which faults are counted.
const PIECE: Nanos = Nanos::new(100_000_000);

/// Minor and major faults, by the number of the piece.
type Pieces = BTreeMap<u64, [f64; 2]>;

/// A piece is told when no thread is likely to have run so long that faults of it are still to come.
/// Those that do come count for the first piece that was not told.
const HOLD: Nanos = Nanos::new(1_000_000_000);

/// What is known of faults, over the parts of a recording.
#[derive(Debug, Default)]
pub(super) struct FaultRates {
    /// Of each thread, by its number: when it last came onto a CPU, and its count then.
    last: HashMap<u32, (TraceTime, Faults)>,
    by_process: BTreeMap<Pid, Pieces>,
    /// Until when pieces were told.
    told: TraceTime,
}

impl FaultRates {
    /// The thread was counted at `at`, and came onto a CPU again at `back`.
    fn count(&mut self, thread: &ThreadRecord, at: TraceTime, back: TraceTime, faults: Faults) {
        let begin = (thread.first, thread.faults_before);
        let last = self.last.entry(thread.number).or_insert(begin);
        let (from, before) = std::mem::replace(last, (back, faults));
        let from = from.max(self.told);
        let pieces = self.by_process.entry(thread.pid).or_default();
        spread(pieces, Interval::new(from, at.max(from)), before, faults);
    }

    /// Takes out the pieces that end before `end`, by process; the others stay.
    fn take(&mut self, end: TraceTime) -> Vec<(Pid, Pieces)> {
        let first_kept = end.as_nanos() / PIECE.get();
        self.told = TraceTime::from_nanos(first_kept * PIECE.get()).max(self.told);
        let take = |(&pid, pieces): (&Pid, &mut Pieces)| {
            let kept = pieces.split_off(&first_kept);
            (pid, std::mem::replace(pieces, kept))
        };
        self.by_process.iter_mut().map(take).collect()
    }
}

impl Builder<'_> {
    /// The counters of all processes.
    pub(super) fn faults(&mut self) {
        let recording = self.recording;
        let rates = &mut self.conversion.fault_rates;
        for interval in &recording.intervals {
            let thread = &recording.threads[interval.thread as usize];
            rates.count(thread, interval.out, interval.back, interval.faults);
        }
        let over = |thread: &&ThreadRecord| thread.ended || recording.finished;
        for thread in recording.threads.iter().filter(over) {
            let faults = Faults {
                minor: thread.faults_before.minor + thread.totals.faults.minor,
                major: thread.faults_before.major + thread.totals.faults.major,
            };
            rates.count(thread, thread.last, thread.last, faults);
            rates.last.remove(&thread.number);
        }
        let told = match recording.finished {
            true => std::mem::take(&mut rates.by_process).into_iter().collect(),
            false => {
                let end = recording.end.as_nanos().saturating_sub(HOLD.get());
                rates.take(TraceTime::from_nanos(end))
            }
        };
        for (pid, pieces) in told {
            for (n, name) in [vocab::MINOR_FAULTS_A_SECOND, vocab::MAJOR_FAULTS_A_SECOND]
                .into_iter()
                .enumerate()
            {
                self.fault_counter(pid, name, &pieces, n);
            }
        }
    }

    /// One counter; nothing where there were no faults at all. A piece without faults ends the ones
    /// before it.
    fn fault_counter(&mut self, pid: Pid, name: &str, pieces: &Pieces, which: usize) {
        let counted = pieces.iter().map(|(&piece, faults)| (piece, faults[which]));
        let counted: Vec<(u64, f64)> = counted.filter(|&(_, faults)| faults > 0.0).collect();
        let end = self.recording.end;
        for (n, &(piece, faults)) in counted.iter().enumerate() {
            let span = span_of(piece, end);
            let seconds = span.len().as_secs_f64();
            if seconds > 0.0 {
                let rate = faults / seconds;
                self.conversion.count(pid, name, span.start, rate);
            }
            let goes_on = counted
                .get(n + 1)
                .is_some_and(|&(next, _)| next == piece + 1);
            if !goes_on && span.end < end {
                self.conversion.count(pid, name, span.end, 0.0);
            }
        }
    }
}

/// The piece number `piece`, cut at the end of the recording.
fn span_of(piece: u64, end: TraceTime) -> Interval {
    let start = TraceTime::from_nanos(piece * PIECE.get());
    Interval::new(start, (start + PIECE).min(end).max(start))
}

/// Adds what was counted between `before` and `after` to the pieces that `ran` lies in.
fn spread(pieces: &mut Pieces, ran: Interval, before: Faults, after: Faults) {
    let added = [
        after.minor.saturating_sub(before.minor) as f64,
        after.major.saturating_sub(before.major) as f64,
    ];
    if added == [0.0, 0.0] {
        return;
    }
    let (first, last) = (
        ran.start.as_nanos() / PIECE.get(),
        ran.end.as_nanos().saturating_sub(1) / PIECE.get(),
    );
    for piece in first..=last.max(first) {
        let part = ran.intersection(span_of(piece, TraceTime::from_nanos(u64::MAX)));
        let share = match ran.is_empty() {
            true => 1.0,
            false => part.len().share_of(ran.len()),
        };
        let faults = pieces.entry(piece).or_default();
        faults[0] += added[0] * share;
        faults[1] += added[1] * share;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Totals;
    use gpustall_trace::Tid;

    #[test]
    fn faults_are_spread_over_the_time_that_the_thread_ran() {
        let ms = |ms: u64| TraceTime::from_nanos(ms * 1_000_000);
        let faults = |minor, major| Faults { minor, major };
        let mut pieces = Pieces::new();
        let ran = Interval::new(ms(50), ms(250));
        spread(&mut pieces, ran, faults(10, 1), faults(410, 1));
        let minor: Vec<(u64, f64)> = pieces.iter().map(|(&n, f)| (n, f[0])).collect();
        assert_eq!(minor, [(0, 100.0), (1, 200.0), (2, 100.0)]);
        assert!(pieces.values().all(|faults| faults[1] == 0.0));
        // A thread that came and went in no time, at the edge of two pieces.
        spread(
            &mut pieces,
            Interval::new(ms(300), ms(300)),
            faults(0, 0),
            faults(0, 7),
        );
        assert_eq!(pieces[&3], [0.0, 7.0]);
    }

    #[test]
    fn faults_of_a_recording_in_parts_are_told_once_and_none_is_lost() {
        let ms = |ms: u64| TraceTime::from_nanos(ms * 1_000_000);
        let thread = ThreadRecord {
            number: 3,
            tid: Tid(9),
            pid: Pid(8),
            name: String::new(),
            parent: None,
            first: ms(0),
            last: ms(0),
            ended: false,
            faults_before: Faults::default(),
            totals: Totals::default(),
        };
        let mut rates = FaultRates::default();
        let mut told: BTreeMap<u64, f64> = BTreeMap::new();
        // The last one ran since 1 s: what it did in pieces that were told counts for the next.
        for (part, (at, minor)) in [(500, 50), (1_000, 100), (4_000, 400)]
            .into_iter()
            .enumerate()
        {
            rates.count(&thread, ms(at), ms(at), Faults { minor, major: 0 });
            let until = [200, 2_000, 4_000][part];
            for (pid, pieces) in rates.take(ms(until)) {
                assert_eq!(pid, Pid(8));
                for (piece, faults) in pieces {
                    assert!(told.insert(piece, faults[0]).is_none(), "told twice");
                }
            }
        }
        let sum: f64 = told.values().sum();
        assert!((sum - 400.0).abs() < 1e-6, "{sum}");
        assert_eq!(told.last_key_value().map(|(&piece, _)| piece), Some(39));
    }
}
