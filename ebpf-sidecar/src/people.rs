//! Who is who in a recording: the tracked threads, and the threads that displaced or woke them.

use crate::recording::{Faults, Other, OtherId, ThreadRecord, Totals};
use gpustall_trace::{Pid, Tid, TraceTime};
use gpustall_wire::record;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The tracked threads; ids are given again by the kernel, so only the living are found by theirs.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    list: Vec<ThreadRecord>,
    living: FxHashMap<u32, u32>,
    /// How many there have been.
    seen: u32,
    /// The last thread that had an id, living or not.
    latest: FxHashMap<u32, u32>,
}

impl Threads {
    /// The thread `tid` is tracked from `at` on; the reader knows it by `ids`.
    pub(crate) fn add(&mut self, tid: u32, ids: (Pid, Tid), at: TraceTime, name: String) -> u32 {
        let index = self.list.len() as u32;
        let number = self.seen;
        self.seen += 1;
        self.list.push(ThreadRecord {
            number,
            tid: ids.1,
            pid: ids.0,
            name,
            parent: None,
            first: at,
            last: at,
            ended: false,
            faults_before: Faults::default(),
            totals: Totals::default(),
        });
        self.living.insert(tid, index);
        self.latest.insert(tid, index);
        index
    }

    /// Position of the living thread `tid`.
    pub(crate) fn position(&self, tid: u32) -> Option<u32> {
        self.living.get(&tid).copied()
    }

    /// The living thread `tid`.
    pub(crate) fn living(&mut self, tid: u32) -> Option<&mut ThreadRecord> {
        let index = *self.living.get(&tid)?;
        self.list.get_mut(index as usize)
    }

    /// The last thread that had the id `tid`, also when it is gone: a request can be done after the
    /// thread that handed it in has ended.
    pub(crate) fn latest(&self, tid: u32) -> Option<u32> {
        self.latest.get(&tid).copied()
    }

    /// Whether the living thread `tid` is known.
    pub(crate) fn knows(&self, tid: u32) -> bool {
        self.living.contains_key(&tid)
    }

    /// Ids of those that live.
    pub(crate) fn living_ids(&self) -> Vec<u32> {
        self.living.keys().copied().collect()
    }

    /// How many of them live.
    pub(crate) fn living_count(&self) -> usize {
        self.living.len()
    }

    /// The processes of those that live.
    pub(crate) fn processes(&self) -> BTreeSet<u32> {
        let living = self.living.values();
        let threads = living.filter_map(|&index| self.list.get(index as usize));
        threads.map(|thread| thread.pid.0).collect()
    }

    /// Thread `old` goes on under the id `tid`, as the only thread of its process, `ids` to the reader.
    pub(crate) fn take_id(&mut self, old: u32, tid: u32, ids: (Pid, Tid)) {
        if let Some(index) = self.living.remove(&old) {
            self.living.insert(tid, index);
            self.latest.insert(tid, index);
            if let Some(thread) = self.list.get_mut(index as usize) {
                (thread.pid, thread.tid) = ids;
            }
        }
    }

    /// The thread is gone: its id may be another's from now on.
    pub(crate) fn bury(&mut self, tid: u32) {
        self.living.remove(&tid);
    }

    /// The thread at this position.
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut ThreadRecord> {
        self.list.get_mut(index as usize)
    }

    /// How many are held.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// All of them, as they are now. Those that ended are then forgotten, and the positions of the
    /// others are new.
    pub(crate) fn take(&mut self) -> Vec<ThreadRecord> {
        let mut living: Vec<(u32, u32)> = self.living.drain().map(|(tid, at)| (at, tid)).collect();
        living.sort_unstable();
        let all = std::mem::take(&mut self.list);
        self.latest.clear();
        for (index, tid) in living {
            if let Some(thread) = all.get(index as usize) {
                self.living.insert(tid, self.list.len() as u32);
                self.latest.insert(tid, self.list.len() as u32);
                self.list.push(thread.clone());
            }
        }
        all
    }
}

/// How many other threads are found without hashing; a power of two.
const RECENT: usize = 64;

/// Other threads, each held once under each name it had.
#[derive(Debug)]
pub(crate) struct Others {
    list: Vec<Other>,
    /// Those met last: a job meets the same few again and again, three in every interval.
    recent: [Option<(record::Other, OtherId)>; RECENT],
    by_record: FxHashMap<record::Other, OtherId>,
}

impl Default for Others {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            recent: [None; RECENT],
            by_record: FxHashMap::default(),
        }
    }
}

impl Others {
    /// The id of the thread that the record names; `seen` says how the reader sees it.
    pub(crate) fn id(
        &mut self,
        other: record::Other,
        seen: impl FnOnce(&record::Other) -> Other,
    ) -> OtherId {
        // The idle threads of all CPUs have one id and differ in the ninth letter.
        let place = (other.tid as usize ^ usize::from(other.comm[8])) % RECENT;
        if let Some((known, id)) = self.recent[place]
            && (known.tid, known.tgid) == (other.tid, other.tgid)
            && u128::from_ne_bytes(known.comm) == u128::from_ne_bytes(other.comm)
        {
            return id;
        }
        let id = *self.by_record.entry(other).or_insert_with(|| {
            let id = OtherId(self.list.len() as u32);
            self.list.push(seen(&other));
            id
        });
        self.recent[place] = Some((other, id));
        id
    }

    /// All of them; none is known afterwards.
    pub(crate) fn take(&mut self) -> Vec<Other> {
        self.by_record.clear();
        self.recent = [None; RECENT];
        std::mem::take(&mut self.list)
    }
}

/// The text of a name as the kernel keeps it.
pub(crate) fn name_of(comm: &record::Comm) -> String {
    let end = comm.iter().position(|&b| b == 0).unwrap_or(comm.len());
    String::from_utf8_lossy(&comm[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_given_again_is_another_thread() {
        let mut threads = Threads::default();
        let ids = (Pid(7), Tid(7));
        let first = threads.add(7, ids, TraceTime::ZERO, "first".into());
        threads.bury(7);
        let second = threads.add(7, ids, TraceTime::from_nanos(5), "second".into());
        assert_ne!(first, second);
        threads.bury(7);
        assert_eq!(threads.latest(7), Some(second));
        let second = threads.add(7, ids, TraceTime::from_nanos(9), "second".into());
        assert_eq!(threads.latest(7), Some(second));
        assert_eq!(threads.living(7).map(|t| t.name.as_str()), Some("second"));
        assert_eq!(threads.take().len(), 3);
    }

    #[test]
    fn what_is_taken_leaves_the_living_at_new_positions() {
        let mut threads = Threads::default();
        for tid in [7, 8, 9] {
            threads.add(tid, (Pid(7), Tid(tid)), TraceTime::ZERO, String::new());
        }
        threads.bury(8);
        assert_eq!(threads.take().len(), 3);
        assert_eq!(threads.position(9), Some(1));
        let left = threads.take();
        let left: Vec<_> = left.iter().map(|t| (t.number, t.tid.0)).collect();
        assert_eq!(left, [(0, 7), (2, 9)]);
    }

    #[test]
    fn another_thread_has_an_id_for_each_name_that_it_had() {
        let named = |tid, name: &[u8; 16]| record::Other {
            tid,
            tgid: 7,
            comm: *name,
        };
        let mut others = Others::default();
        let mut id = |other| {
            others.id(other, |other| Other {
                tid: Tid(other.tid),
                pid: Pid(other.tgid),
                name: name_of(&other.comm),
                has_ids: true,
            })
        };
        let first = id(named(7, b"first\0\0\0\0\0\0\0\0\0\0\0"));
        // The same place among the recent ones.
        let second = id(named(7 + RECENT as u32, b"first\0\0\0\0\0\0\0\0\0\0\0"));
        let third = id(named(7, b"third\0\0\0\0\0\0\0\0\0\0\0"));
        assert!(first != second && second != third && first != third);
        assert_eq!(id(named(7, b"first\0\0\0\0\0\0\0\0\0\0\0")), first);
        assert_eq!(others.take().len(), 3);
    }

    #[test]
    fn a_name_ends_at_its_zero_or_with_its_field() {
        assert_eq!(name_of(b"short\0garbage\0\0\0"), "short");
        assert_eq!(
            name_of(b"sixteen bytes...\0"[..16].try_into().expect("16")),
            "sixteen bytes..."
        );
    }
}
