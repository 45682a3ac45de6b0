//! What to change, in Burn's words.

use crate::advice::advice;
use crate::cause::Cause;
use crate::kernel_advice::RECORDING_BESIDE;
use crate::links::percent;
use crate::remedy::{Facts, Remedy};
use crate::rules::WORKERS_BUSY_SHARE;
use crate::worker_counts::enough;

const CHEAPER: &str = "make a batch cheaper: index the data directly if it is in memory, or let one \
    item be a whole batch";

const CHEAPER_COLLATE: &str = "make a batch cheaper: most of it is the Batcher's batch(), so write all \
    items into one buffer there and make one tensor of it, instead of one for each item, and do the work \
    that can be done once in the data set";

/// What makes a batch cheaper.
pub(crate) fn cheaper(facts: &Facts<'_>) -> &'static str {
    match facts.is_of_collate() {
        true => CHEAPER_COLLATE,
        false => CHEAPER,
    }
}

const END: &str = "more workers do not help: the next() that ends an epoch takes the time. See what the \
    data set and the batcher do after their last item.";

const STARTUP: &str = "Burn's workers begin an epoch only when iter() is called: call it before the work between \
    two epochs, or have fewer, longer epochs. Open files and build indexes when the data set is made, not with \
    the first item.";

/// What to change.
pub(crate) fn remedy(cause: Cause, facts: &Facts<'_>) -> Remedy {
    match cause {
        cause if cause.is_batch() && facts.is_of_ends() => END.into(),
        Cause::DataStartup => startup(facts),
        Cause::HostMetrics => "compute metrics every few steps, or read them back from the device \
            after the next step has been submitted."
            .into(),
        Cause::HostCheckpoint => "save less often, or write the file on a thread of its own from \
            a copy of the weights."
            .into(),
        Cause::Data | Cause::DataCompute if facts.in_process => in_process(facts),
        Cause::Data | Cause::DataCompute if !facts.known => "tag the batches first \
            (instrument::batcher), so that the next recording says which worker and which stage."
            .into(),
        cause if cause.is_batch() => with_workers(facts),
        cause => advice(cause, facts.framework, facts.signs).into(),
    }
}

fn startup(facts: &Facts<'_>) -> Remedy {
    let begins = "Burn's workers begin with them only when iter() is called, which may be before the work \
        between two epochs";
    let told = facts.first_of_few(begins, num_workers, cheaper(facts));
    told.map_or_else(|| STARTUP.into(), Remedy::from)
}

fn num_workers(n: u64) -> String {
    format!(".num_workers({n})")
}

fn in_process(facts: &Facts<'_>) -> Remedy {
    let cheaper = cheaper(facts);
    let Some(need) = facts.need() else {
        return format!("make batches on workers, .num_workers(n), or {cheaper}.").into();
    };
    let (cost, enough) = (need.cost(), need.workers);
    let set = format!("make batches on workers, .num_workers({enough})");
    if need.fits {
        let text = format!(
            "{set}: {cost}, {}, with {:.1} CPUs beside {}{}. Or {cheaper}.",
            need.keep_up(),
            need.cpus,
            facts.trainers_own("the trainer"),
            may_use(facts.cpus),
        );
        Remedy::with_workers(text, enough)
    } else if need.gains {
        let limited = need.limited(facts);
        let may_use = may_use(facts.cpus);
        let text = format!("{set}: {limited}{may_use}; {cost}. Or {cheaper}.");
        Remedy::with_workers(text, enough)
    } else if let Some(first) = facts.free_first(&need, num_workers) {
        format!("{first}. Or {cheaper}.").into()
    } else {
        format!(
            "{cheaper}. Workers would need {} that this job may use: {cost}, so \
             {:.1} beside {}.",
            facts.more_cpus(),
            need.cpus,
            facts.trainers_own("the trainer")
        )
        .into()
    }
}

fn with_workers(facts: &Facts<'_>) -> Remedy {
    let cheaper = cheaper(facts);
    let have = facts.have;
    if let Some(share) = facts.contended {
        return contended(facts, have, share);
    }
    if facts.cause == Cause::DataWorkerLimit {
        return worker_limit(facts, have, num_workers, cheaper);
    }
    let busy = facts.busy().unwrap_or(0.0);
    // In a short epoch some have no batch left to make while others make the last ones.
    let held = busy < WORKERS_BUSY_SHARE && facts.more_gain().is_none_or(|_| facts.short.is_none());
    if have > 0 && held {
        return format!(
            "the workers are in get and collate for only {} of the window: before adding more, \
             see what holds them. And {cheaper}.",
            percent(busy)
        )
        .into();
    }
    let more = facts.need().filter(|need| need.workers > have);
    match more.filter(|need| need.gains || !facts.crowded) {
        Some(need) if need.fits => {
            let text = format!(
                ".num_workers({}) instead of {have}: {}, so {:.1} CPUs beside {}{}. Or {cheaper}.",
                need.workers,
                need.cost(),
                need.cpus,
                facts.trainers_own("the trainer"),
                may_use(facts.cpus),
            );
            Remedy::with_workers(text, need.workers)
        }
        Some(need) if need.gains => {
            let text = format!(
                ".num_workers({}) instead of {have}: {}{}; {}. Or {cheaper}.",
                need.workers,
                need.limited(facts),
                may_use(facts.cpus),
                need.cost(),
            );
            Remedy::with_workers(text, need.workers)
        }
        Some(need) if facts.if_free().is_some() => {
            let first = facts.free_first(&need, num_workers);
            first
                .map_or_else(
                    || format!("{cheaper}."),
                    |first| format!("{first}. Or {cheaper}."),
                )
                .into()
        }
        Some(need) => format!(
            "{cheaper}. More workers would need {} that this job may use: {}, \
             so {:.1} beside {}.",
            facts.more_cpus(),
            need.cost(),
            need.cpus,
            facts.trainers_own("the trainer")
        )
        .into(),
        None if !facts.counts.is_empty() && !facts.crowded => {
            format!("{cheaper}: more workers than the {have} are not predicted to be faster.")
                .into()
        }
        None => facts.no_more(cheaper).map_or_else(
            || format!("{cheaper}; or more workers, .num_workers(n), where CPUs are free.").into(),
            Remedy::from,
        ),
    }
}

/// The least number of workers that make the step as short as more of them can.
pub(crate) fn worker_limit(
    facts: &Facts<'_>,
    have: u64,
    set: impl Fn(u64) -> String,
    cheaper: &str,
) -> Remedy {
    let best = enough(&facts.counts);
    let may = !facts.crowded || facts.more_gain().is_some();
    match best.filter(|best| best.workers > have && may) {
        Some(best) => {
            let text = format!(
                "{} instead of {have}{}: all workers are busy and CPUs are free, a step {} is \
                 predicted. Or {cheaper}.",
                set(best.workers),
                facts.and_kept(),
                best.in_words()
            );
            Remedy::with_workers(text, best.workers)
        }
        None if facts.kernel.disk_is_limit() => format!(
            "{cheaper}. More workers would make no step shorter: they get no more of {}.",
            facts.disk().map_or("the disk", |disk| disk.source.noun())
        )
        .into(),
        None if facts.crowded => facts.no_more(cheaper).unwrap_or_default().into(),
        None if facts.if_free().is_some() => format!(
            "{cheaper}. More workers would make no step shorter while {}.",
            facts.others_keep()
        )
        .into(),
        None if best.is_some_and(|best| best.cpus_are_the_limit) => format!(
            "{cheaper}. More workers would make no step shorter: with {have} {} that this job may use \
             {} the limit already.",
            facts.the_cpus(),
            if facts.cpus == 1 { "is" } else { "are" }
        )
        .into(),
        None if best.is_some() => {
            format!("{cheaper}. More workers are not predicted to make a step shorter.").into()
        }
        None => match facts.a_round_less() {
            Some(workers) => {
                let set = set(workers);
                format!("more workers, while CPUs are free: {set}. Or {cheaper}.").into()
            }
            None => facts.no_more(cheaper).unwrap_or_default().into(),
        },
    }
}

/// Workers that are short of CPUs: more of them make no batch sooner.
fn contended(facts: &Facts<'_>, have: u64, share: f64) -> Remedy {
    let cheaper = cheaper(facts);
    if let Some((need, then)) = facts.more_gain() {
        let set = format!("{} instead of {have}", num_workers(need.workers));
        let text = facts.more_although_contended(&set, &need, &then, share);
        return Remedy::with_workers(format!("{text} Or {cheaper}."), need.workers);
    }
    let why = format!(
        "the workers were ready to run and waited for a CPU for {} of their get and collate{}, so \
         more of them {}",
        percent(share),
        may_use(facts.cpus),
        facts.little_help(),
    );
    let room = match facts.fitting() {
        _ if facts.kernel.foreign_holder().is_some() => {
            let who = facts.kernel.foreign_holder().unwrap_or_default();
            format!(" {who} had the CPU meanwhile: stop it, or move it elsewhere.")
        }
        _ if facts.kernel.by_recording() => RECORDING_BESIDE.to_owned(),
        Some(fitting) if fitting < have => {
            format!(" .num_workers({fitting}) instead of {have} would do.")
        }
        Some(_) if facts.fills_the_cpus() => {
            " They and the trainer alone keep these CPUs busy.".to_owned()
        }
        Some(_) => " They and the trainer need no more than that: see what else runs.".to_owned(),
        None => String::new(),
    };
    Remedy::of_fewer(format!(
        "{cheaper}, or give the job more CPUs: {why}.{room}"
    ))
}

fn may_use(cpus: u32) -> String {
    if cpus == 0 {
        String::new()
    } else {
        format!(" (this job may use {cpus})")
    }
}
