//! Which loaders of a program are one and the same, and what people call them.

use super::mark::Kind;
use super::record::{LoaderInfo, Recording};
use std::collections::{BTreeMap, BTreeSet};

/// One loader as people see it: a line of the program that makes it, maybe anew for each epoch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    /// The lines that made it, the innermost first.
    places: Vec<String>,
    /// The class of its data set.
    dataset: String,
    /// Which of those that the lines make side by side.
    slot: usize,
}

/// The loaders of a process, by their numbers.
pub(super) type Identities = BTreeMap<u32, Identity>;

/// Made on the same lines: from when to when.
struct Use {
    loaders: Vec<u32>,
    made: u64,
    last: u64,
}

/// Which loaders of a process are one. Those are that the same lines made, of data sets of one class, unless
/// one was used after the other was made. Where several are free for a new one, it is the one that has its
/// data set and sampler, else the one that was not used for the longest time.
pub(super) fn identities(recording: &Recording) -> Identities {
    let last = last_uses(recording);
    let mut of_lines: BTreeMap<(&[String], &str), Vec<&LoaderInfo>> = BTreeMap::new();
    for loader in recording.loaders.values() {
        let key = (loader.places.as_slice(), loader.dataset.as_str());
        of_lines.entry(key).or_default().push(loader);
    }
    let mut found = Identities::new();
    for ((places, dataset), loaders) in of_lines {
        let mut of_data: BTreeMap<&str, Vec<Use>> = BTreeMap::new();
        for loader in loaders {
            let one = Use {
                loaders: vec![loader.number],
                made: loader.made,
                last: last.get(&loader.number).copied().unwrap_or(loader.made),
            };
            of_data.entry(&loader.of).or_default().push(one);
        }
        // First those of one data set and sampler, then those that follow each other.
        let uses = of_data.into_values().flat_map(joined).collect();
        for (slot, of) in joined(uses).into_iter().enumerate() {
            for number in of.loaders {
                let identity = Identity {
                    places: places.to_vec(),
                    dataset: dataset.to_owned(),
                    slot,
                };
                found.insert(number, identity);
            }
        }
    }
    found
}

/// Joins uses of which each was over when the next one was made.
fn joined(mut uses: Vec<Use>) -> Vec<Use> {
    uses.sort_by_key(|of| (of.made, of.loaders.first().copied()));
    let mut slots: Vec<Use> = Vec::new();
    for of in uses {
        let free = slots.iter_mut().filter(|slot| slot.last < of.made);
        match free.min_by_key(|slot| slot.last) {
            Some(slot) => {
                slot.last = of.last;
                slot.loaders.extend(of.loaders);
            }
            None => slots.push(of),
        }
    }
    slots
}

/// When something was last asked of each loader.
fn last_uses(recording: &Recording) -> BTreeMap<u32, u64> {
    let mut last: BTreeMap<u32, u64> = BTreeMap::new();
    let mut loader_of = BTreeMap::new();
    for of in &recording.iterations {
        loader_of.insert(of.number, of.loader);
        let at = last.entry(of.loader).or_default();
        *at = of.end.max(*at);
    }
    for mark in &recording.marks {
        if let (Kind::Asked | Kind::Next, Some(loader)) = (mark.kind, loader_of.get(&mark.a)) {
            let at = last.entry(*loader).or_default();
            *at = mark.start.max(mark.end).max(*at);
        }
    }
    last
}

/// What the loaders of a job are called: by the line that makes them, and where that is not enough, by the
/// line that has it made, the class of the data set, and a number. The same in all processes of the job.
pub(super) fn names<'a>(all: impl IntoIterator<Item = &'a Identity>) -> BTreeMap<Identity, String> {
    let all: BTreeSet<&Identity> = all.into_iter().collect();
    let mut of_line: BTreeMap<Option<&String>, Vec<&Identity>> = BTreeMap::new();
    for of in all {
        of_line.entry(of.places.first()).or_default().push(of);
    }
    let mut names = BTreeMap::new();
    for (line, same) in of_line {
        let depth = (1..).find(|&depth| {
            let place = |of: &&Identity| of.places.get(depth).cloned();
            let places: BTreeSet<Option<String>> = same.iter().map(place).collect();
            places.len() > 1 || places.contains(&None)
        });
        let datasets: BTreeSet<&String> = same.iter().map(|of| &of.dataset).collect();
        let mut taken: BTreeMap<String, usize> = BTreeMap::new();
        for of in &same {
            let class = match datasets.len() {
                1 => String::new(),
                _ => format!(" of {}", of.dataset),
            };
            let caller = depth.and_then(|depth| of.places.get(depth));
            let place = match (line, caller) {
                (None, _) => String::new(),
                (Some(line), None) => format!(" ({line})"),
                (Some(line), Some(caller)) => format!(" ({line}, called at {caller})"),
            };
            let mut name = format!("DataLoader{class}{place}");
            let nth = taken.entry(name.clone()).or_default();
            *nth += 1;
            if *nth > 1 {
                name.push_str(&format!(" #{nth}"));
            }
            names.insert((*of).clone(), name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::super::record::IterationInfo;
    use super::*;

    /// A loader: the lines that made it, its data, when it was made, and when its loops were.
    type Loader<'a> = (&'a [&'a str], &'a str, u64, &'a [(u64, u64)]);

    fn told(of: &[Loader<'_>]) -> Vec<String> {
        let mut recording = Recording::default();
        for (number, (places, data, made, loops)) in (1..).zip(of) {
            let loader = LoaderInfo {
                number,
                places: places.iter().map(|&place| place.to_owned()).collect(),
                made: *made,
                dataset: "Rows".to_owned(),
                of: (*data).to_owned(),
                persistent_workers: false,
                num_workers: 0,
                prefetch_factor: None,
                iterable: false,
            };
            recording.loaders.insert(number, loader);
            for &(start, end) in *loops {
                recording.iterations.push(IterationInfo {
                    loader: number,
                    start,
                    end,
                    ..IterationInfo::default()
                });
            }
        }
        let found = identities(&recording);
        let names = names(found.values());
        found.values().map(|of| names[of].clone()).collect()
    }

    const LINE: &[&str] = &["t.py:3"];

    #[test]
    fn a_loader_that_is_made_anew_for_each_epoch_is_one() {
        let one = told(&[
            (LINE, "a", 10, &[(11, 20)]),
            (LINE, "b", 30, &[(31, 40)]),
            (LINE, "b", 50, &[(51, 60)]),
        ]);
        assert_eq!(one, ["DataLoader (t.py:3)"; 3]);
    }

    #[test]
    fn loaders_of_one_line_that_are_used_in_turns_are_several() {
        let two = told(&[
            (LINE, "a", 10, &[(20, 30), (40, 50)]),
            (LINE, "b", 11, &[(30, 40), (50, 60)]),
        ]);
        let names = ["DataLoader (t.py:3)", "DataLoader (t.py:3) #2"];
        assert_eq!(two, names);
        // One after the other, over data that come again.
        let anew = told(&[
            (LINE, "train", 10, &[(11, 20)]),
            (LINE, "valid", 30, &[(31, 40)]),
            (LINE, "train", 50, &[(51, 60)]),
            (LINE, "valid", 70, &[(71, 80)]),
        ]);
        assert_eq!(anew, [names[0], names[1], names[0], names[1]]);
    }

    #[test]
    fn two_that_are_made_anew_together_stay_two_to_the_last_epoch() {
        // One of them lives on, and is not used any more when the other is made for the last time.
        let kept = told(&[
            (LINE, "train", 10, &[(20, 30), (50, 60)]),
            (LINE, "valid", 35, &[(36, 40)]),
            (LINE, "valid", 65, &[(66, 70)]),
        ]);
        let names = ["DataLoader (t.py:3)", "DataLoader (t.py:3) #2"];
        assert_eq!(kept, [names[0], names[1], names[1]]);
        let both = told(&[
            (LINE, "a", 10, &[(20, 30)]),
            (LINE, "b", 11, &[(30, 40)]),
            (LINE, "c", 50, &[(60, 70)]),
            (LINE, "d", 51, &[(70, 80)]),
        ]);
        assert_eq!(both, [names[0], names[1], names[0], names[1]]);
    }

    #[test]
    fn a_function_that_makes_loaders_is_told_apart_by_who_calls_it() {
        let calls = told(&[
            (&["data.py:9", "t.py:3"], "a", 10, &[(20, 30)]),
            (&["data.py:9", "t.py:4"], "b", 31, &[(32, 40)]),
            (&["t.py:7"], "c", 41, &[(42, 50)]),
        ]);
        let expected = [
            "DataLoader (data.py:9, called at t.py:3)",
            "DataLoader (data.py:9, called at t.py:4)",
            "DataLoader (t.py:7)",
        ];
        assert_eq!(calls, expected);
        // One call is as good as its own line.
        let one = told(&[(&["data.py:9", "t.py:3"], "a", 10, &[(20, 30)])]);
        assert_eq!(one, ["DataLoader (data.py:9)"]);
    }

    #[test]
    fn names_are_the_same_in_processes_that_have_only_some_of_the_loaders() {
        let identity = |caller: &str| Identity {
            places: vec!["data.py:9".to_owned(), caller.to_owned()],
            dataset: "Rows".to_owned(),
            slot: 0,
        };
        let (train, valid) = (identity("t.py:3"), identity("t.py:4"));
        let names = names([&train, &valid, &train]);
        assert_eq!(names[&train], "DataLoader (data.py:9, called at t.py:3)");
        assert_eq!(names.len(), 2);
    }
}
