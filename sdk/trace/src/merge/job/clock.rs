//! When each recording began, on one clock.

use super::super::{MergeError, Part};
use super::apart::Space;
use crate::{MonoTime, Nanos, Trace, Value, vocab};
use std::collections::{BTreeMap, HashMap};

/// With fewer collectives than this in common, their ends say nothing about two clocks.
const MIN_PAIRS: usize = 3;

/// Clocks that differ by no more than this are left as they are: so far apart are ends of one collective on
/// one machine. Nanoseconds.
const AGREES_NS: i128 = 20_000;

/// Clocks are only moved by more than this many times what the ends scatter.
const SCATTER: i128 = 4;

/// The starts of all recordings.
pub(super) struct Placed {
    /// Nanoseconds on the common clock.
    pub(super) starts: Vec<i128>,
    /// Whether that is `CLOCK_MONOTONIC`; else it is the wall clock.
    pub(super) monotonic: bool,
}

/// Sets recordings beside each other: of one space by `CLOCK_MONOTONIC`, else by the wall clock and by the
/// ends of collectives. What was moved is told in `notes`.
pub(super) fn place(
    parts: &[Part],
    spaces: &[Space],
    notes: &mut Vec<String>,
) -> Result<Placed, MergeError> {
    let meta = |part: &Part| (part.trace.meta.start_mono, part.trace.meta.start_unix_ns);
    let Some(first) = spaces.first() else {
        return Err(MergeError::TooFew);
    };
    let clockless = |part: &&Part| meta(part).0 == MonoTime::default();
    if spaces.iter().all(|space| space == first) && !parts.iter().any(|part| clockless(&part)) {
        return Ok(Placed {
            starts: parts
                .iter()
                .map(|part| meta(part).0.as_nanos().into())
                .collect(),
            monotonic: true,
        });
    }
    if let Some(part) = parts.iter().find(|part| meta(part).1 == 0)
        && parts.len() > 1
    {
        let label = part.label.clone();
        return Err(MergeError::NoClock { label });
    }
    let mut starts: Vec<i128> = parts.iter().map(|part| meta(part).1.into()).collect();
    agree_within_spaces(parts, spaces, &mut starts);
    // All recordings of one space are moved together, by the first one that has collectives.
    let ends: Vec<Ends> = parts.iter().map(|part| ends(&part.trace)).collect();
    let with = |at: usize| ends.get(at).is_some_and(|ends| !ends.is_empty());
    let reference = (0..parts.len()).find(|&at| with(at)).unwrap_or(0);
    let mut set = vec![spaces.get(reference).copied().unwrap_or_default()];
    for at in 0..parts.len() {
        let space = spaces[at];
        let tells = with(at) || !(at..parts.len()).any(|next| spaces[next] == space && with(next));
        if set.contains(&space) || !tells {
            continue;
        }
        set.push(space);
        let (label, other) = (short(&parts[at].label), short(&parts[reference].label));
        match offset((&ends[reference], starts[reference]), (&ends[at], starts[at])) {
            Some(of) if of.by.abs() > AGREES_NS.max(SCATTER * of.scatter) => {
                for (start, _) in starts.iter_mut().zip(spaces).filter(|(_, of)| **of == space) {
                    *start += of.by;
                }
                let [by, scatter] = [of.by, of.scatter].map(|ns| Nanos::new(ns.unsigned_abs() as u64));
                let sign = if of.by < 0 { "-" } else { "+" };
                notes.push(format!(
                    "The clock of {label} was moved by {sign}{by}, so that its {} collectives end when those \
                     of {other} do (inferred; half of the ends then lie within {scatter}).",
                    of.pairs
                ));
            }
            Some(_) => {}
            None => notes.push(format!(
                "{label} was set beside {other} by the wall clocks alone: no {MIN_PAIRS} collectives that end \
                 together were recorded in both."
            )),
        }
    }
    Ok(Placed {
        starts,
        monotonic: false,
    })
}

/// The wall clock may be set between two recordings of one boot: they differ as their monotonic clocks do.
fn agree_within_spaces(parts: &[Part], spaces: &[Space], starts: &mut [i128]) {
    let mut first: HashMap<Space, (i128, i128)> = HashMap::new();
    for ((part, &space), start) in parts.iter().zip(spaces).zip(starts) {
        let mono: i128 = part.trace.meta.start_mono.as_nanos().into();
        if mono != 0 {
            let &mut (of, at) = first.entry(space).or_insert((mono, *start));
            *start = at + mono - of;
        }
    }
}

/// The ends of the collectives of one device that all ranks end together, by their names.
type Ends = BTreeMap<String, Vec<u64>>;

fn ends(trace: &Trace) -> Ends {
    let mut of: BTreeMap<(String, u64), Vec<u64>> = BTreeMap::new();
    let (Some(kernel), device) = (
        trace.strings.find(vocab::cat::KERNEL),
        trace.strings.find(vocab::arg::DEVICE),
    ) else {
        return Ends::new();
    };
    let together = |name: &str| {
        let lower = name.to_ascii_lowercase();
        let kinds = ["allreduce", "allgather", "reducescatter"];
        lower.contains("nccl") && kinds.iter().any(|kind| lower.contains(kind))
    };
    let mut known = HashMap::new();
    for slice in trace.slices.iter().filter(|slice| slice.cat == kernel) {
        let name = trace.strings.get(slice.name);
        if !*known.entry(slice.name).or_insert_with(|| together(name)) {
            continue;
        }
        let number = slice.args.iter().find(|(key, _)| Some(*key) == device);
        let number = number.and_then(|(_, value): &(_, Value)| value.as_u64());
        of.entry((name.to_owned(), number.unwrap_or(0)))
            .or_default()
            .push(slice.span.end.as_nanos());
    }
    let mut ends = Ends::new();
    for ((name, _), mut list) in of {
        list.sort_unstable();
        ends.entry(name).or_insert(list);
    }
    ends
}

struct Offset {
    /// What is to be added to the second clock.
    by: i128,
    /// Half of the ends lie closer than this then.
    scatter: i128,
    pairs: usize,
}

/// From the n-th collectives of each name that both recorded equally often.
fn offset(
    (ours, our_start): (&Ends, i128),
    (theirs, their_start): (&Ends, i128),
) -> Option<Offset> {
    let mut apart: Vec<i128> = Vec::new();
    for (name, ours) in ours {
        let Some(theirs) = theirs.get(name).filter(|theirs| theirs.len() == ours.len()) else {
            continue;
        };
        let pairs = ours.iter().zip(theirs);
        let ns = |(ours, theirs): (&u64, &u64)| {
            our_start + i128::from(*ours) - their_start - i128::from(*theirs)
        };
        apart.extend(pairs.map(ns));
    }
    if apart.len() < MIN_PAIRS {
        return None;
    }
    let by = median(&mut apart);
    let mut rest: Vec<i128> = apart.iter().map(|ns| (ns - by).abs()).collect();
    Some(Offset {
        by,
        scatter: median(&mut rest),
        pairs: apart.len(),
    })
}

fn median(list: &mut [i128]) -> i128 {
    list.sort_unstable();
    list.get(list.len() / 2).copied().unwrap_or_default()
}

/// The last part of a path.
fn short(label: &str) -> &str {
    label.rsplit('/').next().unwrap_or(label)
}
