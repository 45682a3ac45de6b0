//! What the reader of a recording may see of other threads, and by which ids it knows its own.

use crate::procfs::{self, Status};
use crate::recording::Other;
use gpustall_trace::{Pid, Tid};
use gpustall_wire::record;

/// Name of what belongs to somebody else.
pub(crate) const ANOTHER_USERS: &str = "another user's process";

/// First of the ids made up for threads that were gone before their id in a container was looked
/// up. Linux never gives one that large.
const FIRST_MADE_UP: u32 = 0xC000_0000;

/// The process that kernel threads are children of. Each is a process of its own, but viewers show those
/// of this one as one group.
const KTHREADD: u32 = 2;

/// How a recording looks to the one who gets it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// The user whose threads are named; `None` for everybody's.
    pub(crate) user: Option<u32>,
    /// The pid namespace whose ids are given; `None` for the root's.
    pub(crate) namespace: Option<Namespace>,
}

/// A pid namespace below the root's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Namespace {
    /// How many lie above it.
    pub(crate) level: usize,
    /// The link in `/proc/PID/ns/pid` of those in it.
    pub(crate) link: String,
}

impl View {
    /// Ids of a thread of the job itself.
    pub(crate) fn thread(&self, pid: u32, tid: u32) -> (Pid, Tid) {
        let Some(namespace) = &self.namespace else {
            return (Pid(pid), Tid(tid));
        };
        let status = procfs::status(pid, tid);
        let ids = status.and_then(|status| status.ids_at(namespace.level));
        let (pid, tid) = ids.unwrap_or((FIRST_MADE_UP + pid, FIRST_MADE_UP + tid));
        (Pid(pid), Tid(tid))
    }

    /// A thread that is not of the job, as the probes named it.
    pub(crate) fn other(&self, other: &record::Other, name: String) -> Other {
        let (pid, tid) = (other.tgid, other.tid);
        let with_ids = |(pid, tid), name| Other {
            tid: Tid(tid),
            pid: Pid(pid),
            name,
            has_ids: true,
        };
        if tid == 0 {
            return with_ids((pid, tid), name);
        }
        let status = procfs::status(pid, tid);
        if *self == Self::default() {
            let kernel = status.is_some_and(|status| status.kernel);
            return with_ids((if kernel { KTHREADD } else { pid }, tid), name);
        }
        if !self.may_name(status.as_ref()) {
            return without_ids(ANOTHER_USERS.to_owned());
        }
        let ids = match &self.namespace {
            None => Some((pid, tid)),
            Some(namespace) => status
                .filter(|_| procfs::pid_namespace(pid).as_ref() == Some(&namespace.link))
                .and_then(|status| status.ids_at(namespace.level)),
        };
        match ids {
            Some(ids) => with_ids(ids, name),
            None => without_ids(name),
        }
    }

    /// Whether the thread with this status may be named. One that is gone is nobody's.
    pub(crate) fn may_name(&self, status: Option<&Status>) -> bool {
        match (self.user, status) {
            (None, _) => true,
            (Some(user), Some(status)) => status.kernel || status.belongs_to(user),
            (Some(_), None) => false,
        }
    }
}

fn without_ids(name: String) -> Other {
    Other {
        tid: Tid(u32::MAX),
        pid: Pid(u32::MAX),
        name,
        has_ids: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> record::Other {
        record::Other {
            tid: std::process::id(),
            tgid: std::process::id(),
            comm: [0; 16],
        }
    }

    fn user(uid: u32) -> View {
        View {
            user: Some(uid),
            namespace: None,
        }
    }

    #[test]
    fn kernel_threads_are_one_group() {
        // They are the children of process 2. A pid namespace other than the root's, as a container has,
        // shows none, whatever the kernel does.
        let is_root = procfs::name(KTHREADD, KTHREADD).as_deref() == Some("kthreadd");
        if !is_root {
            let message =
                "skipped: threads of the kernel are seen in the root's pid namespace only";
            let may_skip = std::env::var_os("CI").is_none();
            assert!(may_skip, "{message}, and CI must not skip");
            eprintln!("{message}");
            return;
        }
        let mut processes = procfs::processes().into_iter();
        let thread = processes.find(|of| of.parent == KTHREADD);
        let thread = thread.expect("each CPU has a ksoftirqd");
        let other = record::Other {
            tid: thread.pid,
            tgid: thread.pid,
            comm: [0; 16],
        };
        let seen = View::default().other(&other, "kworker".into());
        assert_eq!((seen.pid, seen.tid), (Pid(KTHREADD), Tid(thread.pid)));
        assert_eq!(
            View::default().other(&me(), "me".into()).pid,
            Pid(me().tgid)
        );
    }

    #[test]
    fn a_thread_is_named_to_its_own_user_only() {
        let own = rustix::process::geteuid().as_raw();
        let seen = user(own).other(&me(), "me".into());
        assert_eq!((seen.name.as_str(), seen.has_ids), ("me", true));
        let hidden = user(own + 1).other(&me(), "me".into());
        assert_eq!(
            (hidden.name.as_str(), hidden.has_ids),
            (ANOTHER_USERS, false)
        );
        assert_ne!(hidden.tid.0, std::process::id());
    }

    #[test]
    fn a_thread_that_is_gone_is_not_named() {
        let gone = record::Other {
            tid: u32::MAX - 1,
            tgid: u32::MAX - 1,
            comm: [0; 16],
        };
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(user(own).other(&gone, "gone".into()).name, ANOTHER_USERS);
        assert_eq!(View::default().other(&gone, "gone".into()).name, "gone");
    }

    #[test]
    fn ids_of_another_namespace_are_not_given() {
        let view = View {
            user: None,
            namespace: Some(Namespace {
                level: 1,
                link: "pid:[1]".into(),
            }),
        };
        assert!(!view.other(&me(), "me".into()).has_ids);
        // Of the job but without an id there: it was gone. It never takes the id of another.
        let me = std::process::id();
        let ids = (Pid(FIRST_MADE_UP + me), Tid(FIRST_MADE_UP + me));
        assert_eq!(view.thread(me, me), ids);
    }
}
