//! The threads that scheduler lines name.

use crate::{Pid, Symbol, Tid, Trace};
use std::collections::HashMap;

/// A thread in a scheduler line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Task {
    /// The idle thread of a CPU.
    Idle,
    /// A thread whose stretches off CPU were recorded.
    Traced(u32),
    /// Another one that displaced or woke such a thread.
    Other(u32),
}

/// What a line says about a thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named {
    pub(super) tid: Tid,
    pub(super) pid: Option<Pid>,
    pub(super) name: Symbol,
}

/// All of them.
pub(super) struct Tasks<'t> {
    trace: &'t Trace,
    names: HashMap<(Pid, Tid), Symbol>,
    traced: Vec<Named>,
    others: Vec<Named>,
    by_tid: HashMap<Tid, Task>,
}

impl<'t> Tasks<'t> {
    pub(super) fn new(trace: &'t Trace) -> Self {
        let names = trace.tracks.iter().map(|t| ((t.pid, t.tid), t.name));
        Self {
            trace,
            names: names.collect(),
            traced: Vec::new(),
            others: Vec::new(),
            by_tid: HashMap::new(),
        }
    }

    /// Adds a traced thread. Its number is how many there were before.
    pub(super) fn traced(&mut self, pid: Pid, tid: Tid) {
        let task = Task::Traced(self.traced.len() as u32);
        self.by_tid.insert(tid, task);
        let name = self.names.get(&(pid, tid)).copied().unwrap_or_default();
        self.traced.push(Named {
            tid,
            pid: Some(pid),
            name,
        });
    }

    /// The thread with this id; one that is not traced is added when it is new.
    pub(super) fn other(&mut self, tid: Tid, pid: Option<Pid>, name: Symbol) -> Task {
        if tid.0 == 0 {
            return Task::Idle;
        }
        let others = &mut self.others;
        *self.by_tid.entry(tid).or_insert_with(|| {
            others.push(Named { tid, pid, name });
            Task::Other(others.len() as u32 - 1)
        })
    }

    /// What lines say about `task`; `None` of the idle thread.
    pub(super) fn named(&self, task: Task) -> Option<Named> {
        match task {
            Task::Idle => None,
            Task::Traced(n) => self.traced.get(n as usize).copied(),
            Task::Other(n) => self.others.get(n as usize).copied(),
        }
    }

    /// Its name, which may be empty.
    pub(super) fn text(&self, named: Named) -> &'t str {
        self.trace.text(named.name)
    }
}
