//! What to change at a loader, in PyTorch's words.

use crate::burn::worker_limit;
use crate::cause::Cause;
use crate::kernel_advice::RECORDING_BESIDE;
use crate::links::percent;
use crate::need::Need;
use crate::remedy::{Facts, Remedy};
use crate::rules::WORKERS_BUSY_SHARE;
use gpustall_trace::Nanos;

/// For a data set that is indexed.
pub(crate) const CHEAPER: &str = "make a batch cheaper: index tensors that are in memory directly, a whole \
    batch at a time, instead of item by item (the data set's __getitems__ gets the indices of a batch)";

const CHEAPER_COLLATE: &str = "make a batch cheaper: most of it is collate_fn, so fill one tensor \
    for the whole batch there instead of joining many small ones, and do the work that can be done once \
    in the data set, before training";

/// What makes a batch cheaper.
pub(crate) fn cheaper(facts: &Facts<'_>) -> &'static str {
    match facts.is_of_collate() {
        true => CHEAPER_COLLATE,
        false => CHEAPER,
    }
}

const STARTUP: &str = "persistent_workers=True keeps the workers from one epoch to the next, and their \
    open files and imports with them; fewer workers start sooner.";

pub(crate) const SPAWNED: &str = "Where they are spawned, each imports the main module anew: keep what only training \
    needs out of it.";

const FIRST_ITEM: &str = "Open files and build indexes when the data set is made, not in worker_init_fn or \
    with the first item.";

pub(crate) const KEPT: &str =
    "persistent_workers=True keeps the workers from one epoch to the next";

const STARTUP_KEPT: &str = "the workers are kept from one epoch to the next already, but make the first \
    batch of an epoch only when it begins: have fewer, longer epochs, or smaller batches.";

const END: &str = "more workers do not help: the end of an epoch takes the time. \
    persistent_workers=True if the workers are stopped there; else look at what the data set does after \
    its last item.";

const END_OF_WORKERS: &str = "more workers do not help: they are ended with each epoch, and \
    waited for one after the other.";

const END_KEPT: &str = "more workers do not help: the next() that ends an epoch takes the time. Look at \
    what the data set does after its last item.";

/// What to change where batches are waited for.
pub(crate) fn loader(facts: &Facts<'_>) -> Remedy {
    let cheaper = cheaper(facts);
    if facts.cause == Cause::DataStartup {
        return startup(facts, cheaper);
    }
    if facts.is_of_ends() {
        let known = facts.loader;
        let stay = known.is_some_and(|of| of.keeps_workers || of.row.in_process == Some(true));
        let turned_over = facts.turnover.is_some_and(|turnover| turnover.epochs > 1);
        return match (stay, turned_over) {
            (true, _) => END_KEPT.into(),
            (false, true) => format!("{END_OF_WORKERS} {KEPT}.").into(),
            (false, false) => END.into(),
        };
    }
    if facts.in_process {
        return in_process(facts);
    }
    if !facts.known && !facts.workers_known {
        return format!(
            "make batches ahead of the step: a DataLoader with num_workers > 0 and \
             persistent_workers=True. Or {cheaper}."
        )
        .into();
    }
    if let Some(share) = facts
        .contended
        .filter(|_| facts.cause == Cause::DataContended)
    {
        return contended(facts, share);
    }
    let mut remedy = made_by_workers(facts, cheaper);
    if facts.loader.is_some_and(|loader| loader.uneven) && !facts.is_handed_over() {
        remedy.text.push_str(&facts.of_uneven());
    }
    remedy
}

/// The same where workers make them and are short of no CPUs.
fn made_by_workers(facts: &Facts<'_>, cheaper: &str) -> Remedy {
    let have = facts.have;
    if facts.cause == Cause::DataWorkerLimit {
        return worker_limit(facts, have, num_workers, cheaper);
    }
    if facts.is_handed_over()
        && let Some(text) = facts.no_more(cheaper)
    {
        return text.into();
    }
    if let Some((need, then)) = facts.more_gain() {
        let text = format!(
            "num_workers={}{}{}: {}; a step {} is predicted. Or {cheaper}.",
            need.workers,
            instead(have),
            facts.and_kept(),
            need.cost(),
            then.in_words()
        );
        return Remedy::with_workers(text, need.workers);
    }
    if facts.cause == Cause::DataCompute {
        return format!("{cheaper}; {}.", no_more_compute(facts)).into();
    }
    if let Some(text) = facts.no_more(cheaper) {
        return text.into();
    }
    let rest = facts.rest.map_or(String::new(), |rest| {
        format!(" (the rest of a step takes {rest})")
    });
    format!(
        "the workers do not keep up{rest}: raise num_workers while CPUs are free. Or {cheaper}."
    )
    .into()
}

/// What an epoch begins with.
fn startup(facts: &Facts<'_>, cheaper: &str) -> Remedy {
    if let Some(told) = facts.of_stopping() {
        return told.into();
    }
    let kept = facts.loader.is_some_and(|loader| loader.keeps_workers);
    let begins = "workers begin with them only when it begins";
    let keep = facts.keep_them();
    if let Some(started) = facts.started_once() {
        return started.into();
    }
    if let Some(told) = facts.first_of_few(begins, num_workers, cheaper) {
        return match keep {
            Some(keep) => format!("{told} {}", keep.text).into(),
            None => told.into(),
        };
    }
    if facts.by_makers > 0.5 {
        let made = facts.loader.and_then(|loader| loader.production);
        let made = made.map_or(String::new(), |made| format!(", which takes {made}"));
        let told = format!(
            "workers make the first batch of an epoch{made}, only when it begins, however many they are: have \
             fewer, longer epochs, or smaller batches. {FIRST_ITEM} Or {cheaper}."
        );
        return match keep {
            Some(keep) => Remedy {
                text: format!("{} {SPAWNED} Or {told}", keep.text),
                ..keep
            },
            None => told.into(),
        };
    }
    match (keep, kept) {
        (Some(keep), _) => Remedy {
            text: format!("{} {SPAWNED} {FIRST_ITEM}", keep.text),
            ..keep
        },
        (None, true) => format!("{STARTUP_KEPT} {FIRST_ITEM}").into(),
        (None, false) => format!("{STARTUP} {SPAWNED} {FIRST_ITEM}").into(),
    }
}

/// Why no more workers are advised where those there are compute.
fn no_more_compute(facts: &Facts<'_>) -> String {
    match facts.busy() {
        None => "the workers compute".to_owned(),
        Some(busy) if busy < WORKERS_BUSY_SHARE => format!(
            "the workers compute, and are not all busy: on average one makes batches for {} of the loops",
            percent(busy)
        ),
        Some(_) if facts.if_free().is_some() => format!(
            "the workers compute, and there is no CPU for one more: {}",
            facts.others_keep()
        ),
        Some(_) => "the workers compute, and there is no CPU for one more".to_owned(),
    }
}

/// Workers that are short of CPUs.
fn contended(facts: &Facts<'_>, share: f64) -> Remedy {
    let cheaper = cheaper(facts);
    if let Some((need, then)) = facts.more_gain() {
        let set = format!(
            "num_workers={}{}{}",
            need.workers,
            instead(facts.have),
            facts.and_kept()
        );
        let text = facts.more_although_contended(&set, &need, &then, share);
        return Remedy::with_workers(format!("{text} Or {cheaper}."), need.workers);
    }
    let fitting = facts.fitting().filter(|&fitting| fitting < facts.have);
    let who = match (facts.kernel.foreign_holder(), fitting) {
        (Some(who), _) => format!(" {who} had the CPU meanwhile: stop it, or move it elsewhere."),
        (None, _) if facts.kernel.by_recording() => RECORDING_BESIDE.to_owned(),
        (None, Some(n)) => format!(" num_workers={n}{} would do.", instead(facts.have)),
        (None, None) => String::new(),
    };
    // Fewer are predicted to be slower where there is a prediction, and none of them fits.
    let change = match fitting.is_none() && !facts.counts.is_empty() {
        true => "more CPUs, not more workers",
        false => "fewer workers, or more CPUs",
    };
    let text = format!(
        "{change}: the workers were ready to run and waited for a CPU for {} of \
         their time in a batch, so more of them {}.{who} Or {cheaper}.",
        percent(share),
        facts.little_help()
    );
    Remedy::of_fewer(text)
}

fn instead(have: u64) -> String {
    match have {
        0 => String::new(),
        have => format!(" instead of {have}"),
    }
}

fn num_workers(n: u64) -> String {
    format!("num_workers={n}")
}

fn on_workers(n: u64) -> String {
    format!("DataLoader(..., num_workers={n}, persistent_workers=True)")
}

fn in_process(facts: &Facts<'_>) -> Remedy {
    let cheaper = cheaper(facts);
    let Some(need) = facts.need() else {
        return format!(
            "make batches on workers: DataLoader(..., num_workers=n, persistent_workers=True). Or \
             {cheaper}."
        )
        .into();
    };
    let (cost, enough) = (need.cost(), need.workers);
    let set = format!("make batches on workers: {}", on_workers(enough));
    if !need.fits && need.gains {
        let text = format!("{set}: {}; {cost}. Or {cheaper}.", need.limited(facts));
        return Remedy::with_workers(text, enough);
    }
    if let Some(first) = facts.free_first(&need, on_workers).filter(|_| !need.fits) {
        return format!("{first}. Or {cheaper}.").into();
    }
    if !need.fits {
        return format!(
            "{cheaper}. Workers would need {} that this job may use: {cost}, so \
             {:.1} beside {}.",
            facts.more_cpus(),
            need.cpus,
            facts.trainers_own("the training thread")
        )
        .into();
    }
    let free = match facts.cpus {
        0 => ", if so many CPUs are free".to_owned(),
        1 => " (this job may use one CPU)".to_owned(),
        cpus => format!(" (this job may use {cpus} CPUs)"),
    };
    let text = format!(
        "{set}{free}: {cost}. With {}. Or {cheaper}.",
        steps(facts, need)
    );
    Remedy::with_workers(text, enough)
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
