//! The numbers of batches, by which the stages of each are joined to its wait.

use super::calls::{Call, Made, Outcome};
use super::loops::Loop;
use super::stages::Stage;
use std::collections::HashMap;

/// The numbers of the batches that were taken, in the order of the calls that gave them.
#[derive(Default)]
pub(super) struct Batches {
    of_worker: HashMap<Made, u64>,
    /// Of each thread, the calls that gave a batch.
    of_thread: HashMap<u32, Vec<(u64, u64, u64)>>,
    /// Of each thread and start of a call, its batch.
    pub(super) of_call: HashMap<(u32, u64), u64>,
    next: u64,
}

impl Batches {
    /// Numbers those of all loops.
    pub(super) fn of(loops: &[Loop]) -> Self {
        let mut calls: Vec<&Call> = loops.iter().flat_map(|of| &of.calls).collect();
        calls.retain(|call| call.outcome == Outcome::Batch);
        calls.sort_by_key(|call| call.start);
        let mut batches = Self::default();
        for call in calls {
            let batch = batches.next;
            batches.next += 1;
            batches.of_call.insert((call.tid, call.start), batch);
            match call.made {
                Some(made) => {
                    batches.of_worker.insert(made, batch);
                }
                None => {
                    let own = (call.tid, (call.start, call.end));
                    let (tid, (start, end)) = call.inner.unwrap_or(own);
                    let list = batches.of_thread.entry(tid).or_default();
                    list.push((start, end, batch));
                }
            }
        }
        batches
    }

    /// The batch that the thread made itself at `at`.
    fn at(&self, tid: u32, at: u64) -> Option<u64> {
        let calls = self.of_thread.get(&tid)?;
        let after = calls.partition_point(|&(start, ..)| start <= at);
        let &(_, end, batch) = calls.get(after.checked_sub(1)?)?;
        (at < end).then_some(batch)
    }

    /// The batch of a stage; a new number for one that nobody took.
    pub(super) fn of_stage(&mut self, pid: u32, stage: &Stage) -> Option<u64> {
        if !stage.works {
            return self.at(stage.tid, stage.start);
        }
        let next = &mut self.next;
        Some(*self.of_worker.entry(stage.made(pid)).or_insert_with(|| {
            *next += 1;
            *next - 1
        }))
    }
}
