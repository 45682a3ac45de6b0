//! Scheduler lines as the kernel's trace writes them.

use super::super::json;
use super::switches::{Line, State};
use super::tasks::{Task, Tasks};
use crate::{Symbol, Trace, TraceTime};

/// A line with what its text needs.
pub(in super::super) struct Text<'a> {
    pub(super) line: &'a Line,
    pub(super) tasks: &'a Tasks<'a>,
    pub(super) trace: &'a Trace,
}

impl Text<'_> {
    /// Appends the line as it stands inside a JSON string.
    pub(in super::super) fn append(&self, out: &mut Vec<u8>) {
        match *self.line {
            Line::Switch {
                at,
                cpu,
                prev,
                state,
                next,
            } => {
                self.head(out, prev, cpu, at, "sched_switch");
                out.extend_from_slice(b"prev_comm=");
                self.comm(out, prev);
                out.extend_from_slice(b" prev_pid=");
                self.tid(out, prev);
                out.extend_from_slice(b" prev_prio=120 prev_state=");
                out.extend_from_slice(code(state));
                out.extend_from_slice(b" ==> next_comm=");
                self.comm(out, next);
                out.extend_from_slice(b" next_pid=");
                self.tid(out, next);
                out.extend_from_slice(b" next_prio=120");
            }
            Line::Waking {
                at,
                cpu,
                waker,
                wakee,
            } => {
                self.head(out, waker, cpu, at, "sched_waking");
                out.extend_from_slice(b"comm=");
                self.comm(out, wakee);
                out.extend_from_slice(b" pid=");
                self.tid(out, wakee);
                out.extend_from_slice(b" prio=120 target_cpu=");
                json::integer(out, cpu);
            }
            Line::Blocked {
                at,
                cpu,
                task,
                iowait,
                function,
            } => {
                self.head(out, task, cpu, at, "sched_blocked_reason");
                out.extend_from_slice(b"pid=");
                self.tid(out, task);
                out.extend_from_slice(if iowait { b" iowait=1" } else { b" iowait=0" });
                out.extend_from_slice(b" caller=");
                self.word(out, function);
            }
        }
        out.extend_from_slice(b"\\n");
    }

    /// `NAME-TID (TGID) [CPU] .... SECONDS: EVENT: `
    fn head(&self, out: &mut Vec<u8>, task: Task, cpu: u32, at: TraceTime, event: &str) {
        self.comm(out, task);
        out.push(b'-');
        self.tid(out, task);
        match self.tasks.named(task).and_then(|named| named.pid) {
            Some(pid) => {
                out.extend_from_slice(b" (");
                json::integer(out, pid.0);
                out.push(b')');
            }
            // Perfetto has an idle thread of its own, without a process.
            None => out.extend_from_slice(b" (-----)"),
        }
        out.extend_from_slice(b" [");
        json::integer(out, cpu);
        out.extend_from_slice(b"] .... ");
        seconds(out, at);
        out.extend_from_slice(b": ");
        out.extend_from_slice(event.as_bytes());
        out.extend_from_slice(b": ");
    }

    fn tid(&self, out: &mut Vec<u8>, task: Task) {
        json::integer(out, self.tasks.named(task).map_or(0, |named| named.tid.0));
    }

    fn comm(&self, out: &mut Vec<u8>, task: Task) {
        match self.tasks.named(task) {
            Some(named) => word(out, self.tasks.text(named)),
            None => out.extend_from_slice(b"swapper"),
        }
    }

    fn word(&self, out: &mut Vec<u8>, symbol: Option<Symbol>) {
        word(out, symbol.map_or("", |symbol| self.trace.text(symbol)));
    }
}

/// A name as one word that lines take: blanks and `=` would end it. Never empty.
fn word(out: &mut Vec<u8>, text: &str) {
    if text.is_empty() {
        return out.push(b'_');
    }
    for c in text.chars() {
        match c {
            '=' | '"' | '\\' | '\u{7f}' => out.push(b'_'),
            c if c.is_whitespace() || c.is_control() => out.push(b'_'),
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// Seconds with nanoseconds, and a digit more: readers cut a double off, so half a nanosecond is
/// added.
fn seconds(out: &mut Vec<u8>, at: TraceTime) {
    let ns = at.as_nanos();
    json::integer(out, ns / 1_000_000_000);
    out.push(b'.');
    let mut unit = 100_000_000;
    while unit > 0 {
        out.push(b'0' + (ns / unit % 10) as u8);
        unit /= 10;
    }
    out.push(b'5');
}

fn code(state: State) -> &'static [u8] {
    match state {
        State::Runnable => b"R",
        State::Preempted => b"R+",
        State::Sleeping => b"S",
        State::Uninterruptible => b"D",
        State::Stopped => b"T",
        State::Dead => b"X",
    }
}
