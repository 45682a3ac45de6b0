//! What to change at a loader, in PyTorch's words.

use crate::burn::worker_limit;
use crate::cause::Cause;
use crate::links::percent;
use crate::need::Need;
use crate::remedy::Facts;
use gpustall_trace::Nanos;

const CHEAPER: &str = "make a batch cheaper: index tensors that are in memory directly, a whole \
    batch at a time, instead of item by item (the data set's __getitems__ gets the indices of a batch)";

const STARTUP: &str = "persistent_workers=True keeps the workers from one epoch to the next, and their \
    open files and imports with them; fewer workers start sooner. Where they are spawned, each imports \
    the main module anew: keep what only training needs out of it. Open files and build indexes when \
    the data set is made, not with the first item.";

const STARTUP_KEPT: &str = "the workers are kept from one epoch to the next already, but make the first \
    batch of an epoch only when it begins: have fewer, longer epochs, or smaller batches. Open files and \
    build indexes when the data set is made, not with the first item.";

const END: &str = "more workers do not help: the next() that ends an epoch takes the time. \
    persistent_workers=True if the workers shut down there; else look at what the data set does after \
    its last item.";

const END_KEPT: &str = "more workers do not help: the next() that ends an epoch takes the time. Look at \
    what the data set does after its last item.";

/// What to change where batches are waited for.
pub(crate) fn loader(facts: &Facts<'_>) -> String {
    if facts.cause == Cause::DataStartup {
        let kept = facts.loader.is_some_and(|loader| loader.keeps_workers);
        return if kept { STARTUP_KEPT } else { STARTUP }.to_owned();
    }
    if facts.ends_epochs {
        let known = facts.loader;
        let stay = known.is_some_and(|of| of.keeps_workers || of.row.in_process == Some(true));
        return if stay { END_KEPT } else { END }.to_owned();
    }
    if facts.in_process {
        return in_process(facts);
    }
    if !facts.known && !facts.workers_known {
        return format!(
            "make batches ahead of the step: a DataLoader with num_workers > 0 and \
             persistent_workers=True. Or {CHEAPER}."
        );
    }
    let have = facts.workers.len() as u64;
    if facts.cause == Cause::DataWorkerLimit {
        return worker_limit(facts, have, |n| format!("num_workers={n}"), CHEAPER);
    }
    if let Some(share) = facts
        .contended
        .filter(|_| facts.cause == Cause::DataContended)
    {
        let who = match facts.kernel.foreign_holder() {
            Some(who) => format!(" {who} had the CPU meanwhile: stop it, or move it elsewhere."),
            None => match facts.fitting().filter(|&fitting| fitting < have) {
                Some(n) => {
                    format!(" num_workers={n} instead of {have} would do.")
                }
                None => String::new(),
            },
        };
        return format!(
            "fewer workers, or more CPUs: the workers were ready to run and waited for a CPU for {} of \
             their time in a batch, so more of them do not help.{who} Or {CHEAPER}.",
            percent(share)
        );
    }
    if facts.cause == Cause::DataCompute {
        return format!(
            "{CHEAPER}; the workers compute, and there is no CPU for one more, or they are not all busy."
        );
    }
    let more = facts
        .need()
        .filter(|need| need.gains && need.workers > have);
    if let (Some(need), Some(then)) = (more, more.and_then(|need| need.then)) {
        return format!(
            "num_workers={} instead of {have}: {}; a step {} is predicted. Or {CHEAPER}.",
            need.workers,
            need.cost(),
            then.in_words()
        );
    }
    let rest = facts.rest.map_or(String::new(), |rest| {
        format!(" (the rest of a step takes {rest})")
    });
    format!(
        "the workers do not keep up{rest}: raise num_workers while CPUs are free, and \
         prefetch_factor if batches take unequally long. Or {CHEAPER}."
    )
}

fn in_process(facts: &Facts<'_>) -> String {
    let Some(need) = facts.need() else {
        return format!(
            "make batches on workers: DataLoader(..., num_workers=n, persistent_workers=True). Or \
             {CHEAPER}."
        );
    };
    let (cost, enough) = (need.cost(), need.workers);
    if !need.fits && need.gains {
        return format!(
            "make batches on workers: DataLoader(..., num_workers={enough}, persistent_workers=True): {}; \
             {cost}. Or {CHEAPER}.",
            need.limited()
        );
    }
    if !need.fits {
        return format!(
            "{CHEAPER}. Workers would need more CPUs than the {} that this job may use: {cost}, so \
             {:.1} beside the training thread's.",
            facts.cpus, need.cpus
        );
    }
    let free = match facts.cpus {
        0 => "if so many CPUs are free".to_owned(),
        cpus => format!("of the {cpus} CPUs that this job may use"),
    };
    format!(
        "make batches on workers: DataLoader(..., num_workers={enough}, persistent_workers=True), \
         {free}: {cost}. With {}. Or {CHEAPER}.",
        steps(facts, need)
    )
}

/// The predicted step of some numbers of workers; where the CPUs are not known, the slower of making a
/// batch and the rest.
fn steps(facts: &Facts<'_>, need: Need) -> String {
    let mut counts = vec![1, need.workers.div_ceil(2), need.workers];
    counts.dedup();
    let step = |&n: &u64| {
        let played = facts.counts.iter().find(|count| count.workers == n);
        let step = played.map_or_else(
            || {
                let step = need.rest.max(Nanos::new(need.made.get() / n.max(1)));
                format!("of {step}")
            },
            |count| count.in_words(),
        );
        let word = if n == 1 { "worker" } else { "workers" };
        format!("{n} {word} a step {step}")
    };
    counts.iter().map(step).collect::<Vec<_>>().join(", ")
}
