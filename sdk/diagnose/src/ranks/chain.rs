//! The chain of a finding about stragglers: who was late, how often, and why.

use super::Waited;
use crate::cause::Cause;
use crate::links::group;
use crate::piece::Edge;
use crate::report::{Finding, Link};
use crate::stats::round_share;
use gpustall_trace::Nanos;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// No more reasons than this stand under a device.
const MAX_REASONS: usize = 3;

/// A reason or a device below this share of the loss does not stand in the chain.
const SMALLEST: f64 = 0.05;

/// A device that others waited for.
#[derive(Debug, Clone, Default)]
struct LateDevice {
    ns: Nanos,
    /// How many collectives, once for each device that waited.
    times: u64,
    why: BTreeMap<Option<Cause>, Nanos>,
}

/// Who was late, and why.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lateness {
    /// The device that cost the most first.
    devices: Vec<(String, LateDevice)>,
    waits: u64,
}

/// What a trace says of lateness; `names` are those of the devices.
pub(crate) fn lateness(waited: &[Waited], names: &[String]) -> Lateness {
    let mut devices: BTreeMap<usize, LateDevice> = BTreeMap::new();
    for wait in waited {
        let late = devices.entry(wait.late).or_default();
        late.ns += wait.lost;
        late.times += 1;
        for (&cause, &ns) in &wait.why {
            *late.why.entry(cause).or_default() += ns;
        }
    }
    let name = |at: usize| names.get(at).cloned().unwrap_or_default();
    let mut list: Vec<_> = devices
        .into_iter()
        .map(|(at, late)| (name(at), late))
        .collect();
    list.sort_by_key(|(_, late)| Reverse(late.ns));
    Lateness {
        devices: list,
        waits: waited.len() as u64,
    }
}

impl Lateness {
    /// The links below that of the devices which waited.
    pub(crate) fn links(&self, lost: Nanos) -> Vec<Link> {
        let mut links = Vec::new();
        let large = |ns: Nanos| ns.share_of(lost) >= SMALLEST;
        for (name, late) in self.devices.iter().filter(|(_, late)| large(late.ns)) {
            links.push(Link {
                depth: 1,
                who: name.clone(),
                what: "had not begun the collective".to_owned(),
                ns: late.ns.get(),
                share: round_share(late.ns.share_of(lost)),
                edge: Edge::Observed,
                evidence: format!(
                    "the last one in {} of {} such waits",
                    late.times, self.waits
                ),
            });
            for (cause, ns) in reasons(&late.why).into_iter().take(MAX_REASONS) {
                if large(ns) {
                    links.push(Link {
                        depth: 2,
                        who: "since it".to_owned(),
                        what: reason(cause),
                        ns: ns.get(),
                        share: round_share(ns.share_of(lost)),
                        edge: Edge::Inferred,
                        evidence: String::new(),
                    });
                }
            }
        }
        links
    }

    /// The devices that others waited for most, what they lost their time to most, and whether the most
    /// of all is compute.
    fn main(&self) -> Option<(String, Option<Cause>)> {
        let all: Nanos = self.devices.iter().map(|(_, late)| late.ns).sum();
        let mut why: BTreeMap<Option<Cause>, Nanos> = BTreeMap::new();
        let mut names = BTreeSet::new();
        for (name, late) in &self.devices {
            if late.ns.share_of(all) >= 0.25 {
                names.insert(name.clone());
            }
            for (&cause, &ns) in &late.why {
                *why.entry(cause).or_default() += ns;
            }
        }
        let (cause, _) = reasons(&why).first().copied()?;
        let names: Vec<String> = names.into_iter().collect();
        let names = match names.is_empty() {
            true => "one device after the other".to_owned(),
            false => group(&names),
        };
        Some((names, cause))
    }
}

fn reasons(why: &BTreeMap<Option<Cause>, Nanos>) -> Vec<(Option<Cause>, Nanos)> {
    let mut reasons: Vec<_> = why.iter().map(|(&cause, &ns)| (cause, ns)).collect();
    reasons.sort_by_key(|&(cause, ns)| (Reverse(ns), cause));
    reasons
}

fn reason(cause: Option<Cause>) -> String {
    match cause {
        None => "computed longer than those that waited".to_owned(),
        Some(Cause::CommStraggler) => "waited for another one itself".to_owned(),
        Some(Cause::Unknown) => "lost time that nothing recorded explains".to_owned(),
        Some(cause) => format!("lost time to `{cause}` before it"),
    }
}

/// What to change, where `findings` are all others.
pub(crate) fn remedy(lateness: &Lateness, findings: &[Finding]) -> Option<String> {
    let (who, cause) = lateness.main()?;
    let Some(cause) = cause else {
        return Some(format!(
            "the collective is not slow, {who} computes longer than the others: give every device equally \
             much to do (batches of one size and shape), and compare their clocks."
        ));
    };
    let there = findings.iter().find(|finding| finding.cause == cause);
    let mend = there.filter(|finding| !finding.remedy.is_empty());
    let mend = mend.map_or(String::new(), |finding| format!(": {}", finding.remedy));
    match cause {
        Cause::CommStraggler | Cause::Unknown => None,
        cause => Some(format!(
            "the collective is not slow, {who} is late: mend its `{cause}` first{mend}"
        )),
    }
}
