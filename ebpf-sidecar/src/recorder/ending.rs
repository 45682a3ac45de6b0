//! Closing the books: threads that live when the recording ends.

use super::Book;
use crate::charge::IoWait;
use crate::close::close;
use crate::procfs;
use crate::recording::{self, Faults, OffCpuInterval, Waker, Why};
use gpustall_trace::{MonoTime, TraceTime};
use gpustall_wire::codes::{flag, mode};
use gpustall_wire::thread::{ThreadState, Totals};

impl Book {
    /// Accounts a thread that lives up to `end`.
    pub(crate) fn close_thread(&mut self, tid: u32, state: ThreadState, end: MonoTime) {
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
        let thread = self.thread(tid, state.tgid, first);
        let (first, totals) = self.since_the_start(tid, closed.state.totals);
        if let Some(record) = self.threads.get_mut(thread) {
            record.first = first;
            record.last = end.in_trace(self.start);
            record.totals = recording::Totals::new(totals, self.options.page_allocs);
        }
        self.unfinished_memory_work(thread, &closed.state, end);
        if closed.off {
            self.unfinished(thread, tid, &closed.state, end);
        }
    }

    /// When a thread was first watched for this job, and its totals since then.
    pub(super) fn since_the_start(&self, tid: u32, totals: Totals) -> (TraceTime, Totals) {
        let first = self.time(totals.first_ns);
        let Some(before) = self.before.get(&tid) else {
            return (first, totals);
        };
        let at = before.since_ns;
        (self.time(at), minus(totals, &before.totals))
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
        let taker = (!truncated).then(|| self.other(state.taker));
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
            taker,
            giver: None,
            wait,
            faults: Faults { minor, major },
        });
    }
}

/// What was added to `before` to make `totals`.
fn minus(totals: Totals, before: &Totals) -> Totals {
    macro_rules! differences {
        ($($field:ident),+) => {
            Totals {
                $($field: totals.$field.saturating_sub(before.$field),)+
                ..totals
            }
        };
    }
    differences!(
        on_cpu_ns,
        preempted_ns,
        woken_ns,
        sleeping_ns,
        uninterruptible_ns,
        stopped_ns,
        iowait_ns,
        preemptions,
        waits,
        short_count,
        short_ns,
        lost_count,
        lost_ns,
        minor_faults,
        major_faults,
        page_allocs
    )
}
