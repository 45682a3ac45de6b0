//! What each event of the probes adds to the recording.

use super::Recorder;
use crate::event::Event;
use crate::people::name_of;
use crate::recording::{CpuSample, OffCpuInterval, Waker, Why};
use crate::runs::Stacks;
use gpustall_trace::{MonoTime, Tid};
use gpustall_wire::codes::{flag, waker};
use gpustall_wire::record::{Exit, Life, OffCpu, Other, Sample};

impl Recorder {
    /// Takes one event; returns when it was.
    pub(super) fn take(&mut self, event: Event) -> MonoTime {
        match event {
            Event::OffCpu(off, stack) => self.off_cpu(&off, stack),
            Event::Fork(life) => self.fork(&life),
            Event::Exec(life) => {
                if life.other_tid != life.tid {
                    self.threads.take_id(life.other_tid, life.tid);
                }
                self.rename(&life)
            }
            Event::Rename(life) => self.rename(&life),
            Event::Exit(exit) => self.exit(&exit),
            Event::Sample(sample) => self.sample(&sample),
            Event::CudaCall(call) => self.cuda_call(&call),
        }
    }

    fn off_cpu(&mut self, off: &OffCpu, stack: Vec<u64>) -> MonoTime {
        let at = MonoTime::from_nanos(off.in_ns);
        if self.intervals.len() >= self.options.max_intervals {
            self.beyond_limit += 1;
            return at;
        }
        let thread = self.threads.position(off.tid).unwrap_or_else(|| {
            // The record of its beginning was lost.
            let tgid = self.probes.state(off.tid).map_or(off.tid, |s| s.tgid);
            let out = MonoTime::from_nanos(off.out_ns).in_trace(self.start);
            self.threads.find_or_add(off.tid, tgid, out)
        });
        let truncated = off.flags & flag::TRUNCATED != 0;
        let inferred = off.flags & flag::INFERRED != 0;
        let whole = !truncated && !inferred;
        let waker = self.waker(off.waker_kind, off.waker);
        self.intervals.push(OffCpuInterval {
            thread,
            out: self.time(off.out_ns),
            woken: (off.woken_ns != 0).then(|| self.time(off.woken_ns)),
            back: self.time(off.in_ns),
            why: Why::of_class(off.class),
            iowait: off.flags & flag::IOWAIT != 0,
            truncated,
            inferred,
            unfinished: false,
            cpu_out: whole.then_some(off.cpu_out),
            cpu_in: Some(off.cpu_in),
            waker,
            taker: whole.then(|| self.others.id(off.taker)),
            giver: (!inferred).then(|| self.others.id(off.giver)),
            wait: self.waits.of_addresses(stack),
        });
        at
    }

    fn sample(&mut self, sample: &Sample) -> MonoTime {
        let at = self.time(sample.at_ns);
        if self.samples.len() >= self.options.max_intervals {
            self.beyond_limit += 1;
        } else {
            let part = |stack: &[u64], frames: u32| -> Vec<u64> {
                let filled = stack.iter().copied().take(frames as usize);
                filled.take_while(|&ip| ip != 0).collect()
            };
            let stacks = Stacks {
                pid: sample.tgid,
                kernel: part(&sample.kernel, sample.kernel_frames),
                user: part(&sample.user, sample.user_frames),
            };
            self.samples.push(CpuSample {
                thread: self.threads.find_or_add(sample.tid, sample.tgid, at),
                at,
                cpu: sample.cpu,
                run: self.runs.id(stacks),
            });
        }
        MonoTime::from_nanos(sample.at_ns)
    }

    pub(super) fn waker(&mut self, kind: u32, other: Other) -> Waker {
        match kind {
            waker::THREAD => Waker::Thread(self.others.id(other)),
            waker::TIMER => Waker::Timer,
            waker::DEVICE => Waker::Device,
            waker::KERNEL => Waker::Kernel,
            _ => Waker::None,
        }
    }

    fn fork(&mut self, life: &Life) -> MonoTime {
        let at = self.time(life.at_ns);
        if !self.threads.knows(life.tid) {
            self.threads
                .add(life.tid, life.tgid, at, name_of(&life.comm));
        }
        if let Some(thread) = self.threads.living(life.tid) {
            thread.parent = Some(Tid(life.other_tid));
        }
        MonoTime::from_nanos(life.at_ns)
    }

    fn rename(&mut self, life: &Life) -> MonoTime {
        if let Some(thread) = self.threads.living(life.tid) {
            thread.name = name_of(&life.comm);
        }
        MonoTime::from_nanos(life.at_ns)
    }

    pub(super) fn exit(&mut self, exit: &Exit) -> MonoTime {
        let (first, last) = (self.time(exit.totals.first_ns), self.time(exit.at_ns));
        let index = self.threads.find_or_add(exit.tid, exit.tgid, first);
        if let Some(thread) = self.threads.get_mut(index) {
            (thread.first, thread.last, thread.ended) = (first, last, true);
            thread.totals = exit.totals.into();
        }
        self.unfinished_calls(exit.tid, exit.tgid, exit.at_ns);
        self.threads.bury(exit.tid);
        MonoTime::from_nanos(exit.at_ns)
    }
}
