//! Whether reads end at the pace of the source, or each a while after it began.
//!
//! A source at its limit ends a read when it is done with those before it. A thread that pauses before it asks does
//! not get its answer later: it waits for less time, by as much as it paused. Where all are served at once, it
//! waits as long, whatever the pause.

use super::slowing::MIN_READS;
use gpustall_trace::Interval;

/// Waits shorter than this share of the mean one are for something else, as for the connection to be made.
pub const SHORT_WAIT: f64 = 0.1;

/// Who pauses for longer than this share of the time between the ends of two reads may miss its turn.
const LONG_PAUSE: f64 = 0.5;

/// Waits that are longer or shorter than the middle one by more than this share of it are of other turns: there
/// were fewer readers, or more.
const OTHER_TURN: f64 = 0.75;

/// Who pauses for longer than this share of the mean wait does not take turns.
const TURNS: f64 = 0.5;

/// Where the source sets the pace, a wait is shorter by at least this share of the pause before it;
pub const PACE_OF_SOURCE: f64 = 0.75;

/// where the reader does, by less than this.
const PACE_OF_READER: f64 = 0.5;

/// Threads that take turns by chance will not go on to do so, once what their times vary by adds up to so many
/// times the time between the ends of two reads.
const MIXED: f64 = 4.0;

/// The waits of some threads, and the pauses before them.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// How long a thread paused, and how long it waited then, nanoseconds.
    pauses: Vec<(f64, f64)>,
    threads: usize,
}

/// Who sets the pace of reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetBy {
    Source,
    Reader,
    Unknown,
}

impl Pace {
    /// From the waits of each thread, in their order.
    pub(super) fn of(threads: &[Vec<Interval>]) -> Self {
        let all: Vec<Interval> = threads.iter().flatten().copied().collect();
        let mean = mean_length(&all);
        let mut pauses = Vec::new();
        for waits in threads {
            let reads = without_short(waits, mean);
            for (before, wait) in reads.iter().zip(reads.iter().skip(1)) {
                let pause = wait.start.since(before.end).get() as f64;
                if pause <= TURNS * mean {
                    pauses.push((pause, length(wait)));
                }
            }
        }
        Self {
            pauses,
            threads: threads.len(),
        }
    }

    /// By the straight line through how long waits took over the pauses before them, where reads end so far
    /// from each other.
    pub(super) fn set_by(&self, gap: f64) -> SetBy {
        let middle = middle(self.pauses.iter().map(|of| of.1).collect());
        let in_turn = |&&(pause, length): &&(f64, f64)| {
            pause <= LONG_PAUSE * gap && (length - middle).abs() <= OTHER_TURN * gap
        };
        let pauses: Vec<(f64, f64)> = self.pauses.iter().filter(in_turn).copied().collect();
        if pauses.len() < MIN_READS {
            return SetBy::Unknown;
        }
        let (pause, length) = means(&pauses);
        let (mut xx, mut xy) = (0.0, 0.0);
        for (x, y) in &pauses {
            xx += (x - pause).powi(2);
            xy += (x - pause) * (y - length);
        }
        let slope = xy / xx;
        let off = |(x, y): &(f64, f64)| (y - length - slope * (x - pause)).powi(2);
        let off = pauses.iter().map(off).sum::<f64>();
        let error = 2.0 * (off / (pauses.len() as f64 - 2.0) / xx).sqrt();
        match slope {
            slope if slope + error <= -PACE_OF_SOURCE => SetBy::Source,
            slope if slope - error >= -PACE_OF_READER => SetBy::Reader,
            _ => SetBy::Unknown,
        }
    }

    /// Whether threads that do not hold each other up would not have gone on to take turns, where reads end so
    /// far from each other. Without pauses nobody takes turns.
    pub(super) fn mixes(&self, gap: f64) -> bool {
        let (pause, length) = means(&self.pauses);
        let squares = (self.pauses.iter()).map(|(x, y)| (x + y - pause - length).powi(2));
        let of_each = squares.sum::<f64>() / self.threads.max(1) as f64;
        self.pauses.is_empty() || (2.0 * of_each).sqrt() >= MIXED * gap
    }
}

fn means(pauses: &[(f64, f64)]) -> (f64, f64) {
    let count = pauses.len().max(1) as f64;
    let sum = |of: fn(&(f64, f64)) -> f64| pauses.iter().map(of).sum::<f64>();
    (sum(|of| of.0) / count, sum(|of| of.1) / count)
}

fn middle(mut of: Vec<f64>) -> f64 {
    match of.len() {
        0 => 0.0,
        count => *of.select_nth_unstable_by(count / 2, f64::total_cmp).1,
    }
}

/// Without those that are too short to be reads, where the mean of all is `mean`.
pub(super) fn without_short(waits: &[Interval], mean: f64) -> Vec<Interval> {
    let reads = waits.iter().copied();
    reads
        .filter(|wait| length(wait) >= SHORT_WAIT * mean)
        .collect()
}

/// The mean length, nanoseconds.
pub(super) fn mean_length(waits: &[Interval]) -> f64 {
    waits.iter().map(length).sum::<f64>() / waits.len().max(1) as f64
}

fn length(wait: &Interval) -> f64 {
    wait.len().get() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpustall_trace::TraceTime;

    /// Four threads that each pause for 1 to 3 ms between reads; of the end of the read before, the end of the
    /// pause, and its number, `done` says when the read is done.
    fn four(done: impl Fn(usize, u64, u64) -> u64) -> Pace {
        let time = |us: u64| TraceTime::from_nanos(us * 1000);
        let mut threads = vec![Vec::new(); 4];
        for (thread, waits) in threads.iter_mut().enumerate() {
            let mut at = 0;
            for read in 0..50_usize {
                let asked = at + 1000 + 500 * ((read * 7 + thread * 3) % 5) as u64;
                // For the connection.
                waits.push(Interval::new(time(asked - 300), time(asked - 200)));
                let end = done(thread, at, asked);
                waits.push(Interval::new(time(asked), time(end)));
                at = end;
            }
        }
        Pace::of(&threads)
    }

    #[test]
    fn one_after_the_other_is_at_the_pace_of_the_source() {
        let pace = four(|thread, at, _| at.max(thread as u64 * 5000) + 20_000);
        assert_eq!(pace.set_by(5e6), SetBy::Source);
    }

    #[test]
    fn all_at_once_is_at_the_pace_of_the_reader() {
        let pace = four(|_, _, asked| asked + 20_000);
        assert_eq!(pace.set_by(10e6), SetBy::Reader);
        // Their turns shift by 700 us in a cycle, that is 7 ms in all.
        assert!(pace.mixes(1e6) && !pace.mixes(5e6));
    }

    #[test]
    fn few_reads_say_nothing() {
        assert_eq!(Pace::default().set_by(10e6), SetBy::Unknown);
    }
}
