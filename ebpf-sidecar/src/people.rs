//! Who is who in a recording: the tracked threads, and the threads that displaced or woke them.

use crate::procfs;
use crate::recording::{Other, OtherId, ThreadRecord, Totals};
use gpustall_trace::{Pid, Tid, TraceTime};
use gpustall_wire::record;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The tracked threads; ids are given again by the kernel, so only the living are found by theirs.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    list: Vec<ThreadRecord>,
    living: FxHashMap<u32, u32>,
}

impl Threads {
    /// A thread that is tracked from `at` on.
    pub(crate) fn add(&mut self, tid: u32, tgid: u32, at: TraceTime, name: String) -> u32 {
        let index = self.list.len() as u32;
        self.list.push(ThreadRecord {
            tid: Tid(tid),
            pid: Pid(tgid),
            name,
            parent: None,
            first: at,
            last: at,
            ended: false,
            totals: Totals::default(),
        });
        self.living.insert(tid, index);
        index
    }

    /// The living thread `tid`; added, with its name from `/proc`, when its beginning was lost.
    pub(crate) fn find_or_add(&mut self, tid: u32, tgid: u32, at: TraceTime) -> u32 {
        match self.living.get(&tid) {
            Some(&index) => index,
            None => {
                let name = procfs::name(tgid, tid).unwrap_or_default();
                self.add(tid, tgid, at, name)
            }
        }
    }

    /// The living thread `tid`.
    pub(crate) fn living(&mut self, tid: u32) -> Option<&mut ThreadRecord> {
        let index = *self.living.get(&tid)?;
        self.list.get_mut(index as usize)
    }

    /// Position of the living thread `tid`.
    pub(crate) fn position(&self, tid: u32) -> Option<u32> {
        self.living.get(&tid).copied()
    }

    /// Whether the living thread `tid` is known.
    pub(crate) fn knows(&self, tid: u32) -> bool {
        self.living.contains_key(&tid)
    }

    /// How many of them live.
    pub(crate) fn living_count(&self) -> usize {
        self.living.len()
    }

    /// Their processes.
    pub(crate) fn processes(&self) -> BTreeSet<u32> {
        let living = self.living.values();
        let threads = living.filter_map(|&index| self.list.get(index as usize));
        threads.map(|thread| thread.pid.0).collect()
    }

    /// Thread `old` goes on under the id `tid`, as the only thread of its process.
    pub(crate) fn take_id(&mut self, old: u32, tid: u32) {
        if let Some(index) = self.living.remove(&old) {
            self.living.insert(tid, index);
            if let Some(thread) = self.list.get_mut(index as usize) {
                thread.tid = Tid(tid);
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

    /// All of them.
    pub(crate) fn into_list(self) -> Vec<ThreadRecord> {
        self.list
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
    /// The id of the thread that the record names.
    pub(crate) fn id(&mut self, other: record::Other) -> OtherId {
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
            self.list.push(Other {
                tid: Tid(other.tid),
                pid: Pid(other.tgid),
                name: name_of(&other.comm),
            });
            id
        });
        self.recent[place] = Some((other, id));
        id
    }

    /// All of them.
    pub(crate) fn into_list(self) -> Vec<Other> {
        self.list
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
        let first = threads.add(7, 7, TraceTime::ZERO, "first".into());
        threads.bury(7);
        let second = threads.add(7, 7, TraceTime::from_nanos(5), "second".into());
        assert_ne!(first, second);
        assert_eq!(threads.living(7).map(|t| t.name.as_str()), Some("second"));
        assert_eq!(threads.into_list().len(), 2);
    }

    #[test]
    fn another_thread_has_an_id_for_each_name_that_it_had() {
        let named = |tid, name: &[u8; 16]| record::Other {
            tid,
            tgid: 7,
            comm: *name,
        };
        let mut others = Others::default();
        let first = others.id(named(7, b"first\0\0\0\0\0\0\0\0\0\0\0"));
        // The same place among the recent ones.
        let second = others.id(named(7 + RECENT as u32, b"first\0\0\0\0\0\0\0\0\0\0\0"));
        let third = others.id(named(7, b"third\0\0\0\0\0\0\0\0\0\0\0"));
        assert!(first != second && second != third && first != third);
        assert_eq!(others.id(named(7, b"first\0\0\0\0\0\0\0\0\0\0\0")), first);
        assert_eq!(others.into_list().len(), 3);
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
