//! The arguments of stretches off CPU.

use super::interval::{Interval, Why};
use super::tasks::{Task, Tasks};
use crate::vocab::{arg, state};
use crate::{Arg, Pid, Slice, Symbol, Tid, Trace, TraceTime, TrackId, Value};

/// The symbols of the keys and values, looked up once.
pub(super) struct Keys {
    thread: Option<Symbol>,
    state: Option<Symbol>,
    runnable: Option<Symbol>,
    iowait: Option<Symbol>,
    function: Option<Symbol>,
    cpu_out: Option<Symbol>,
    cpu_in: Option<Symbol>,
    unfinished: Option<Symbol>,
    taker: Other,
    giver: Other,
    waker: Other,
    states: [(Option<Symbol>, Why); 4],
}

/// The keys of another thread.
struct Other {
    name: Option<Symbol>,
    tid: Option<Symbol>,
    pid: Option<Symbol>,
}

impl Keys {
    pub(super) fn new(trace: &Trace) -> Self {
        let find = |text: &str| trace.strings.find(text);
        let other = |key: &str| Other {
            name: find(key),
            tid: find(&format!("{key}_tid")),
            pid: find(&format!("{key}_pid")),
        };
        Self {
            thread: find(arg::THREAD),
            state: find(arg::STATE),
            runnable: find(arg::RUNNABLE_NS),
            iowait: find(arg::IOWAIT),
            function: find(arg::FUNCTION),
            cpu_out: find(arg::CPU_OUT),
            cpu_in: find(arg::CPU_IN),
            unfinished: find(arg::UNFINISHED),
            taker: other(arg::DISPLACED_BY),
            giver: other(arg::GAVE_BACK),
            waker: other(arg::WAKER),
            states: [
                (find(state::PREEMPTED), Why::Preempted),
                (find(state::SLEEPING), Why::Sleeping),
                (find(state::UNINTERRUPTIBLE), Why::Uninterruptible),
                (find(state::STARTING), Why::Starting),
            ],
        }
    }

    pub(super) fn thread(&self, trace: &Trace, track: TrackId, args: &[Arg]) -> Option<(Pid, Tid)> {
        let tid = id(value(args, self.thread))?;
        // Thread 0 is the idle one.
        (tid > 0).then_some((trace.track(track)?.pid, Tid(tid)))
    }

    fn why(&self, slice: &Slice) -> Why {
        let Some(Value::Str(text)) = value(&slice.args, self.state) else {
            return Why::Stopped;
        };
        let known = self.states.iter().find(|(state, _)| *state == Some(text));
        known.map_or(Why::Stopped, |(_, why)| *why)
    }

    /// Nanoseconds from the wake-up to the end of a thread that was blocked.
    fn runnable(&self, slice: &Slice) -> Option<u64> {
        let ns = value(&slice.args, self.runnable).and_then(Value::as_u64)?;
        (ns > 0 && ns < slice.span.len().get()).then_some(ns)
    }

    pub(super) fn lines(&self, slice: &Slice) -> u32 {
        match self.why(slice) {
            Why::Preempted | Why::Starting => 2,
            Why::Uninterruptible => 3 + u32::from(self.runnable(slice).is_some()),
            Why::Sleeping | Why::Stopped => 2 + u32::from(self.runnable(slice).is_some()),
        }
    }

    pub(super) fn read(
        &self,
        trace: &Trace,
        slice: &Slice,
        thread: u32,
        tasks: &mut Tasks<'_>,
    ) -> Interval {
        let why = self.why(slice);
        let blocked = !matches!(why, Why::Preempted | Why::Starting);
        let (start, end) = (slice.span.start.as_nanos(), slice.span.end.as_nanos());
        let woken = self.runnable(slice).filter(|_| blocked);
        let woken = woken.map(|ns| TraceTime::from_nanos((end - ns).max(start)));
        let cpu = |key| id(value(&slice.args, key));
        let finished = value(&slice.args, self.unfinished) != Some(Value::Bool(true));
        let mut other = |keys: &Other| {
            let name = match value(&slice.args, keys.name) {
                Some(Value::Str(name)) => name,
                _ => return Task::Idle,
            };
            let tid = id(value(&slice.args, keys.tid));
            let pid = id(value(&slice.args, keys.pid));
            tid.map_or(Task::Idle, |tid| tasks.other(Tid(tid), pid.map(Pid), name))
        };
        Interval {
            thread,
            out: slice.span.start,
            woken,
            back: finished.then_some(slice.span.end),
            why,
            iowait: value(&slice.args, self.iowait) == Some(Value::Bool(true)),
            function: match value(&slice.args, self.function) {
                Some(Value::Str(function)) if !trace.text(function).is_empty() => Some(function),
                _ => None,
            },
            cpu_out: cpu(self.cpu_out),
            cpu_in: cpu(self.cpu_in),
            taker: other(&self.taker),
            giver: other(&self.giver),
            waker: other(&self.waker),
        }
    }
}

fn value(args: &[Arg], key: Option<Symbol>) -> Option<Value> {
    let key = key?;
    args.iter()
        .find(|(k, _)| *k == key)
        .map(|(_, value)| *value)
}

/// A thread id, process id or CPU. Viewers take signed 32 bits.
fn id(value: Option<Value>) -> Option<u32> {
    let id = u32::try_from(value?.as_u64()?).ok()?;
    (id <= i32::MAX as u32).then_some(id)
}
