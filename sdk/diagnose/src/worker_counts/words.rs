//! The predicted steps in words.

use super::{NO_SHORTER, is_cut_off, slower_than, within};
use crate::report::WorkerCount;
use gpustall_trace::Nanos;

impl WorkerCount {
    /// `of 10.0 ms`, or `between 10.0 ms and 20.0 ms`: what a step takes then.
    pub(crate) fn in_words(&self) -> String {
        let least = Nanos::new(self.predicted_step_ns);
        match self.at_most_step_ns {
            Some(most) => format!("between {least} and {}", Nanos::new(most)),
            None => format!("of {least}"),
        }
    }
}

/// The counts at which the prediction changes, in words: `1: 40.2 ms, 2: 20.1 ms, 4 and more: 10.0
/// ms`; or, where more of them are worse again, `4: 10.0 ms; more are slower, 8: 12.0 ms`.
pub(crate) fn in_words(counts: &[WorkerCount]) -> String {
    const SHOWN: usize = 5;
    let enough = within(counts, NO_SHORTER);
    let enough = enough.map_or(0, |count| count.workers.saturating_sub(1) as usize);
    let mut shown: Vec<usize> = match enough {
        0..SHOWN => (0..enough).collect(),
        _ => [0, 1, 3, 7, 15, 31, 63]
            .into_iter()
            .filter(|&at| at < enough)
            .collect(),
    };
    shown.truncate(SHOWN);
    let time = |at: usize| {
        let Some(count) = counts.get(at) else {
            return String::new();
        };
        let least = Nanos::new(count.predicted_step_ns);
        match count.at_most_step_ns {
            Some(most) => format!("{least} to {}", Nanos::new(most)),
            None => least.to_string(),
        }
    };
    let mut words: Vec<String> = shown
        .iter()
        .map(|&at| format!("{}: {}", at + 1, time(at)))
        .collect();
    let last = counts.len().saturating_sub(1);
    let slower = |than: usize| {
        let of = |at: usize| counts.get(at).map_or(0, |count| count.predicted_step_ns);
        of(last) > slower_than(of(than))
    };
    if slower(enough) {
        words.push(format!("{}: {}", enough + 1, time(enough)));
        let more = format!("; more are slower, {}: {}", last + 1, time(last));
        return words.join(", ") + &more;
    }
    let open = counts
        .last()
        .is_some_and(|last| last.at_most_step_ns.is_some());
    let stays = !open && !is_cut_off(counts);
    let more = if stays { " and more" } else { "" };
    words.push(format!("{}{more}: {}", enough + 1, time(enough)));
    if counts
        .get(enough)
        .is_some_and(|count| count.cpus_are_the_limit)
    {
        words.push("then the CPUs are the limit".to_owned());
    }
    words.join(", ")
}
