//! What is not told by events: losses, and threads that live when the recording ends.

use super::Recorder;
use crate::charge::IoWait;
use crate::close::close;
use crate::procfs;
use crate::recording::{Faults, OffCpuInterval, Totals, Waker, Why};
use gpustall_trace::{Clock, MonoTime, MonotonicClock};
use gpustall_wire::codes::{flag, loss, mode};
use gpustall_wire::record::Exit;
use gpustall_wire::thread::ThreadState;

impl Recorder {
    pub(super) fn note_losses(&mut self) {
        let lost = self.probes.losses();
        let at = MonotonicClock.now().in_trace(self.start);
        for (source, name) in loss::NAMES.into_iter().enumerate() {
            let inferred = source == loss::SWITCHES as usize;
            if !inferred && lost[source] > self.lost[source] {
                self.losses.push((at, name, lost[source]));
            }
        }
        let life = loss::LIFE as usize;
        if lost[life] > self.lost[life] {
            self.collect_dead();
        }
        self.lost = lost;
    }

    /// Threads whose exit record was lost have left their totals in the map.
    fn collect_dead(&mut self) {
        for (tid, state) in self.probes.states() {
            if state.mode == mode::DEAD {
                self.exit(&Exit {
                    tid,
                    tgid: state.tgid,
                    at_ns: state.since_ns,
                    totals: state.totals,
                    ..Exit::default()
                });
                self.probes.forget(tid);
            }
        }
    }

    pub(super) fn close_thread(&mut self, tid: u32, state: ThreadState, end: MonoTime) {
        let now = procfs::state(state.tgid, tid);
        let Some(mut closed) = close(state, end.as_nanos(), now) else {
            return;
        };
        // Of a thread that runs, the last count is as old as its last switch.
        if matches!(state.mode, mode::RUNNING | mode::UNKNOWN)
            && let Some(now) = procfs::faults(state.tgid, tid)
        {
            closed.state.count_faults(now.minor, now.major);
        }
        let first = self.time(closed.state.totals.first_ns);
        let thread = self.threads.find_or_add(tid, state.tgid, first);
        if let Some(record) = self.threads.get_mut(thread) {
            record.first = first;
            record.last = end.in_trace(self.start);
            record.totals = Totals::new(closed.state.totals, self.options.page_allocs);
        }
        self.unfinished_memory_work(thread, &closed.state, end);
        if closed.off {
            self.unfinished(thread, tid, &closed.state, end);
        }
    }

    /// A thread that is off CPU when the recording ends: a hang at the end is a stall.
    fn unfinished(&mut self, thread: u32, tid: u32, state: &ThreadState, end: MonoTime) {
        let (out, back) = (self.time(state.out_ns), end.in_trace(self.start));
        if back.since(out) < self.options.threshold {
            return;
        }
        let why = Why::of_class(state.class);
        let blocked = !matches!(why, Why::Preempted | Why::Starting);
        let woken_ns = state.split(end.as_nanos()).woken_ns;
        let names = match blocked && woken_ns == 0 {
            true => procfs::stack(state.tgid, tid),
            false => Vec::new(),
        };
        let truncated = state.flags & flag::TRUNCATED != 0;
        let wait = self.waits.of_names(&names);
        let iowait = state.flags & flag::IOWAIT != 0;
        let class = wait.and_then(|id| self.waits.class(id));
        let span = (state.out_ns, end.as_nanos());
        if let Some(wait) = IoWait::of(why, class, iowait, span).filter(|_| woken_ns == 0) {
            self.charges.wait(tid, wait);
        }
        let (minor, major) = state.faults_since_birth();
        let waker = match woken_ns {
            0 => Waker::None,
            _ => self.waker(state.wake_kind, state.waker),
        };
        self.intervals.push(OffCpuInterval {
            thread,
            out,
            woken: (woken_ns != 0).then(|| self.time(woken_ns)),
            back,
            why,
            iowait,
            truncated,
            inferred: false,
            unfinished: true,
            cpu_out: (!truncated).then_some(state.cpu_out),
            cpu_in: None,
            waker,
            taker: (!truncated).then(|| self.others.id(state.taker)),
            giver: None,
            wait,
            faults: Faults { minor, major },
        });
    }
}
