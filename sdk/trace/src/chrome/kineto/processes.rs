//! Names and ids of processes and threads.

use super::lanes::Key;
use crate::{Pid, Process, Strings, Symbol};
use std::collections::HashMap;

/// First made-up id of a process that is no number, or one that no process can have.
const FIRST_MADE_UP: u32 = Pid::SYNTHETIC + 0x0020_0000;
/// Ids of processes and threads lie below.
pub(super) const ID_LIMIT: i64 = 0xC000_0000;

/// What metadata events say of a process or thread.
#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) name: Option<Symbol>,
    pub(super) sort: i32,
}

impl Named {
    /// The name; without one, that which `key` gives. Never empty, which Perfetto refuses.
    pub(super) fn name_or(&self, key: Key, what: &str, strings: &mut Strings) -> Symbol {
        for name in [self.name, key.text()].into_iter().flatten() {
            if !strings.get(name).is_empty() {
                return name;
            }
        }
        match key.number() {
            Some(number) => strings.intern(&format!("{what} {number}")),
            None => strings.intern(&format!("{what} without a name")),
        }
    }
}

/// Those that events name.
#[derive(Debug, Default)]
pub(super) struct Processes {
    processes: HashMap<Key, Named>,
    threads: HashMap<u32, Named>,
    pids: HashMap<Key, Pid>,
    /// Those that the file says the ids of.
    pub(super) anchored: HashMap<Key, Pid>,
    /// In the order in which events first were of them.
    order: Vec<Key>,
}

impl Processes {
    /// What is known of a process.
    pub(super) fn process(&mut self, key: Key) -> &mut Named {
        self.processes.entry(key).or_default()
    }

    /// What is known of the thread of a lane.
    pub(super) fn thread(&mut self, lane: u32) -> &mut Named {
        self.threads.entry(lane).or_default()
    }

    /// The id of a process that has events.
    pub(super) fn used(&mut self, key: Key) -> Pid {
        let order = &mut self.order;
        let anchored = self.anchored.get(&key).copied();
        *self.pids.entry(key).or_insert_with(|| {
            order.push(key);
            match (anchored, key.number()) {
                (Some(pid), _) => pid,
                (None, Some(number @ 0..ID_LIMIT)) => Pid(number as u32),
                _ => Pid(FIRST_MADE_UP.saturating_add(order.len() as u32)),
            }
        })
    }

    /// The processes that have events.
    pub(super) fn list(&self, strings: &mut Strings) -> Vec<Process> {
        let mut list = Vec::with_capacity(self.order.len());
        for key in &self.order {
            let unnamed = Named::default();
            let named = self.processes.get(key).unwrap_or(&unnamed);
            let key_named = self.anchored.get(key);
            let key_named = key_named.map_or(*key, |pid| Key::of_number(pid.0.into()));
            list.push(Process {
                pid: self.pids[key],
                name: named.name_or(key_named, "process", strings),
                sort: named.sort,
            });
        }
        list
    }
}
