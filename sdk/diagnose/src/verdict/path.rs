//! The half of the sentence that says who spends the time, and in what: read off a finding's chain.

use crate::cause::Cause;
use crate::links::{MAKING, UNKNOWN_WORKER};
use crate::piece::PieceKind;
use crate::report::{Finding, Link};
use crate::state_links::{AT_WORK, BLOCKED, NOT_WATCHED, READY, RUNNING};

/// A name below this share of the loss is not what most of it is in.
const MOST: f64 = 0.5;

/// A chain, and which link hangs on which.
struct Chain<'a>(&'a [Link]);

impl<'a> Chain<'a> {
    /// The links that hang on the one at `at`.
    fn below(&self, at: usize) -> impl Iterator<Item = (usize, &'a Link)> + use<'a> {
        let depth = self.0.get(at).map_or(0, |link| link.depth);
        let rest = self.0.iter().enumerate().skip(at + 1);
        rest.take_while(move |(_, link)| link.depth > depth)
            .filter(move |(_, link)| link.depth == depth + 1)
    }

    /// The one with the most time of those that hang on the one at `at`; of equal ones the first.
    fn largest(&self, at: usize) -> Option<(usize, &'a Link)> {
        self.below(at)
            .min_by_key(|(_, link)| std::cmp::Reverse(link.ns))
    }

    /// The largest link of a thread's state somewhere below the one at `at`.
    fn state(&self, at: usize, which: impl Fn(&str) -> bool) -> Option<&'a Link> {
        let depth = self.0.get(at).map_or(0, |link| link.depth);
        let below = self
            .0
            .iter()
            .skip(at + 1)
            .take_while(|link| link.depth > depth);
        let states = below.filter(|link| is_state(&link.what) && which(&link.what));
        states.min_by_key(|link| std::cmp::Reverse(link.ns))
    }
}

/// Who spends the time of a finding, and in what. The first link is the device's, if one was recorded.
pub(super) fn path(finding: &Finding, device: bool) -> String {
    let chain = Chain(&finding.chain);
    if finding.cause.is_held_up() {
        return held_up(finding, &chain, device);
    }
    if device && !finding.cause.is_data() {
        return of_device(&chain);
    }
    let at = match device {
        true => chain.largest(0).map(|(at, _)| at),
        false => Some(0),
    };
    let Some((at, trainer)) = at.and_then(|at| Some((at, finding.chain.get(at)?))) else {
        return "what it was spent in is not recorded".to_owned();
    };
    match finding.cause.is_data() {
        true => of_data(finding, &chain, at),
        false => format!(
            "{} {} it {}",
            trainer.who,
            verb(&trainer.who, "spend"),
            trainer.what
        ),
    }
}

/// The chain of a thread that was held up: the thread, and by what.
fn held_up(finding: &Finding, chain: &Chain<'_>, device: bool) -> String {
    let at = match device {
        true => chain.largest(0).map_or(0, |(at, _)| at),
        false => 0,
    };
    let who = chain
        .0
        .get(at)
        .map_or("the thread that trains", |link| link.who.as_str());
    let is = if plural(who) { "are" } else { "is" };
    let cpu = if plural(who) {
        "their CPUs are"
    } else {
        "its CPU is"
    };
    match chain.state(at, |_| true) {
        Some(link) if link.what == READY => match finding.held_by.as_str() {
            "" => format!("{who} {is} {READY}"),
            by => format!(
                "{who} {is} ready to run, but {cpu} held by {}",
                each_other(by, who)
            ),
        },
        Some(link) if link.evidence.is_empty() => format!("{who} {is} {}", link.what),
        Some(link) => format!("{who} {is} {}: {}", link.what, link.evidence),
        None => format!("{who} {is} held up"),
    }
}

/// Who holds the CPUs, where those do that wait for one: by turns they have each other's.
fn each_other(by: &str, who: &str) -> String {
    let Some((one, other)) = who.split_once(" and ") else {
        return by.to_owned();
    };
    let single = [one, other].map(|name| format!("another thread of the job, {name},"));
    let both = [(one, other), (other, one)]
        .map(|(a, b)| format!("other threads of the job, {a}, {b} and "));
    let pair = [(one, other), (other, one)]
        .map(|(a, b)| format!("other threads of the job, {a} and {b},"));
    let told = single.iter().chain(&pair).find(|told| by.contains(*told));
    let more = both.iter().find(|told| by.contains(*told));
    match (told, more) {
        (Some(told), _) => by.replace(told, "each other,"),
        (None, Some(more)) => by.replace(more, "each other and by others of the job, "),
        (None, None) => by.to_owned(),
    }
}

/// The chain of a wait for batches.
fn of_data(finding: &Finding, chain: &Chain<'_>, at: usize) -> String {
    let trainer = chain.0.get(at).map_or("", |link| link.who.as_str());
    let (waits, spends) = (verb(trainer, "wait"), verb(trainer, "spend"));
    let Some((first, link)) = chain.largest(at) else {
        return format!("{trainer} {waits} in next()");
    };
    let in_process = finding.evidence.get("in_process").copied();
    let is = |kind: PieceKind| named(&link.what, kind);
    if link.who == UNKNOWN_WORKER {
        let mut others = chain.below(at);
        let known = others.any(|(_, other)| other.what == MAKING && other.who != link.who);
        let is = if known { "is mostly" } else { "is" };
        return match in_process {
            Some(0.0) => {
                format!("{trainer} {waits} for workers; which of them {is} not recorded")
            }
            _ => format!("{trainer} {waits} in next(); who makes the batches {is} not recorded"),
        };
    }
    if link.what == MAKING {
        return of_worker(finding, chain, (trainer, first));
    }
    if is(PieceKind::EpochStart) {
        return format!("{trainer} {spends} it in iter(), which starts the epoch");
    }
    if is(PieceKind::StopWorkers) {
        return format!("{trainer} {spends} it {}", PieceKind::StopWorkers);
    }
    if is(PieceKind::EpochEnd) {
        return format!("{trainer} {spends} it at the end of the epoch");
    }
    if is(PieceKind::HandOff) {
        return format!("{trainer} {spends} it on taking batches that are made already");
    }
    if is(PieceKind::Sampler) {
        return format!("{trainer} {spends} it in the sampler, which no worker takes over");
    }
    if in_process == Some(1.0) {
        let themselves = if plural(trainer) {
            "themselves"
        } else {
            "itself"
        };
        let makes = format!(
            "{trainer} {} the batches {themselves} in next()",
            verb(trainer, "make")
        );
        return match link.what.strip_prefix(&PieceKind::Next.to_string()) {
            Some("") => format!("{makes}, in process, without a worker"),
            Some(rest) => format!("{makes}{rest}"),
            None => format!("{makes}, mostly in {}", link.what),
        };
    }
    match is(PieceKind::Next) {
        true => format!("{trainer} {spends} it {}", link.what),
        false => format!("{trainer} {spends} it in {}", link.what),
    }
}

/// A wait for the worker whose link stands at `at`.
fn of_worker(finding: &Finding, chain: &Chain<'_>, (trainer, at): (&str, usize)) -> String {
    let who = chain.0.get(at).map_or("a worker", |link| link.who.as_str());
    let head = format!("{trainer} {} for {who}", verb(trainer, "wait"));
    if finding.cause == Cause::DataContended {
        let is = if plural(who) { "are" } else { "is" };
        let held = match finding.held_by.as_str() {
            "" => String::new(),
            by => format!(": these are held by {by}"),
        };
        return format!("{head}, which {is} short of CPUs{held}");
    }
    let Some((stage_at, stage)) = chain.largest(at) else {
        return head;
    };
    let starts = finding.cause == Cause::DataStartup && named(&stage.what, PieceKind::Idle);
    let busy = match named(&stage.what, PieceKind::Idle) {
        true if starts => "what it does before its first batch",
        true => "nothing that was recorded",
        false => &stage.what,
    };
    let state = match finding.cause {
        Cause::DataIo | Cause::DataLock => chain.state(stage_at, |what| what.starts_with(BLOCKED)),
        Cause::DataMemory => chain.state(stage_at, |what| !what.starts_with(READY)),
        _ if starts => chain.state(stage_at, |_| true),
        _ => None,
    };
    let state = state.map_or(String::new(), |link| format!(", {}", link.what));
    format!("{head}, which {} it in {busy}{state}", verb(who, "spend"))
}

/// The chain of a finding of a device: the device, what its thread did, and where.
fn of_device(chain: &Chain<'_>) -> String {
    let device = chain
        .0
        .first()
        .map_or("the device", |link| link.who.as_str());
    let Some((at, did)) = chain.largest(0) else {
        return format!("what {device} waited for is not recorded");
    };
    // A thread in a phase or a call of a loader.
    if did.what.starts_with("in ") {
        return format!("{} {} it {}", did.who, verb(&did.who, "spend"), did.what);
    }
    let says = |link: &Link| link.share >= MOST && link.what != NOT_WATCHED;
    let within = chain.largest(at).filter(|(_, link)| says(link));
    let within = match within {
        Some((_, link)) if link.who == did.who => format!(", mostly {}", link.what),
        Some((_, link)) => format!(", mostly {}", format!("{} {}", link.who, link.what).trim()),
        None => String::new(),
    };
    let proof = match did.evidence.as_str() {
        "" => String::new(),
        evidence => format!(" ({evidence})"),
    };
    let waits = match did.what.starts_with("that ") {
        true => format!("{device} {} for ", verb(device, "wait")),
        false => String::new(),
    };
    format!("{waits}{} {}{proof}{within}", did.who, did.what)
}

/// Whether a link is of pieces of this kind, whatever it adds.
fn named(what: &str, kind: PieceKind) -> bool {
    let rest = what.strip_prefix(&kind.to_string());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(", "))
}

/// Whether a link says in what state a thread was.
fn is_state(what: &str) -> bool {
    [READY, RUNNING, AT_WORK].contains(&what) || what.starts_with(BLOCKED)
}

/// Whether [`group`](crate::links::group) named several threads.
fn plural(who: &str) -> bool {
    let counted = who.split_once(' ').is_some_and(|(count, rest)| {
        let several = rest.starts_with("threads") || rest == "GPUs";
        several && count.parse::<u64>().is_ok()
    });
    counted || who.contains(" and ")
}

/// What one does, or several do.
fn verb(who: &str, verb: &str) -> String {
    match plural(who) {
        true => verb.to_owned(),
        false => format!("{verb}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_wait_for_the_cpus_of_each_other_are_told_so() {
        let of = |by: &str| each_other(by, "DSD-0-0 and main");
        let own = "the loader's own workers, a and b, for 62 % of that time, and by ";
        let told = of(&format!("{own}another thread of the job, main, for 36 %"));
        assert_eq!(told, format!("{own}each other, for 36 %"));
        let told = of(&format!(
            "{own}other threads of the job, main and DSD-0-0, for 36 %"
        ));
        assert_eq!(told, format!("{own}each other, for 36 %"));
        let told = of(&format!(
            "{own}other threads of the job, main, DSD-0-0 and 1 more, for 38 %"
        ));
        assert_eq!(
            told,
            format!("{own}each other and by others of the job, 1 more, for 38 %")
        );
        let third = "another thread of the job, saver, for 60 % of that time";
        assert_eq!(of(third), third);
    }
}
