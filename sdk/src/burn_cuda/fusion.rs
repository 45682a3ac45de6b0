//! Burn's fusion: operations that run later than they were asked for, several in one kernel.
//!
//! With fusion a thread queues operations for a server (`DSU-0-0`), which runs blocks of them when it
//! sees fit, by tasks for the runner. So a phase that begins or ends is told to the server, in order with
//! the operations of the thread. The server's observer then knows for which phase each operation was
//! asked, and by that a block; the runner is marked where a block begins and ends. A kernel of
//! operations of several phases is counted as that, and belongs to none of them.

use super::phases::{Asked, Asker, mark_runner};
use super::{launches, runners};
use crate::recorder::gate::Generation;
use burn_fusion::observer::{BlockOperations, FusionObservation, FusionObserver};
use burn_ir::{OperationIr, TensorId};
use cubecl_common::device::{DeviceId, DeviceService, DeviceServiceStage, ServerUtilitiesHandle};
use cubecl_environment::stream::StreamId;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// Operations that were asked for and have not run, at most; further ones are of no known phase.
const WAITING: usize = 1 << 16;

/// A service on the server's thread that has no state of its own.
#[derive(Debug)]
pub(super) struct Server;

impl DeviceService for Server {
    fn init(device: DeviceId) -> Self {
        with(|told| told.device = Some(device));
        Self
    }

    fn utilities(&self) -> ServerUtilitiesHandle {
        Arc::new(())
    }

    fn stage() -> DeviceServiceStage {
        DeviceServiceStage::Upstream
    }
}

/// What the server was told, on its thread.
#[derive(Debug, Default)]
struct Told {
    device: Option<DeviceId>,
    queues: HashMap<u64, Queue>,
    /// The phases of operations that have not run, by what they put out.
    waiting: HashMap<TensorId, Asked>,
}

/// One thread that asks.
#[derive(Debug)]
struct Queue {
    asker: Asker,
    generation: Generation,
    /// What it asks for now.
    now: Asked,
    /// What the runner was last told.
    marked: Option<Asked>,
    marks: u64,
}

thread_local! {
    static TOLD: RefCell<Told> = RefCell::default();
}

fn with<R>(of: impl FnOnce(&mut Told) -> R) -> Option<R> {
    let told = TOLD.try_with(|told| Some(of(&mut *told.try_borrow_mut().ok()?)));
    told.ok().flatten()
}

/// On the server's thread: the thread `asker` asks for `now` from here on.
pub(super) fn asks(generation: Generation, asker: Asker, now: Asked) {
    with(|told| {
        let queue = told.queues.entry(asker.queue.value).or_insert(Queue {
            asker,
            generation,
            now,
            marked: None,
            marks: 0,
        });
        if queue.generation != generation {
            queue.marked = None;
        }
        (queue.asker, queue.generation, queue.now) = (asker, generation, now);
        // A program without fusion marks the runner itself.
        if let Some(device) = told.device.filter(|_| launches::are_fused()) {
            queue.mark(device, now);
        }
    });
}

impl Queue {
    /// Tells the runner, if that is news to it.
    fn mark(&mut self, device: DeviceId, asked: Asked) {
        if self.marked != Some(asked) {
            self.marked = Some(asked);
            let number = self.marks;
            self.marks += 1;
            let launches = launches::issued(self.asker.queue);
            let Some(runner) = runners::of(device) else {
                return;
            };
            mark_runner(
                &runner,
                self.generation,
                self.asker,
                (number, launches),
                asked,
            );
        }
    }
}

/// Watches the server while a session records.
pub(super) fn watch() -> FusionObservation {
    FusionObservation::new(Arc::new(Observer))
}

struct Observer;

impl FusionObserver for Observer {
    fn registered(&self, operation: &OperationIr) {
        launches::are_fused_from_now();
        with(|told| {
            let Some(queue) = told.queues.get(&StreamId::current().value) else {
                return;
            };
            if told.waiting.len() < WAITING {
                let outputs = operation.outputs();
                told.waiting
                    .extend(outputs.map(|output| (output.id, queue.now)));
            }
        });
    }

    fn block_starts(&self, block: BlockOperations<'_>) {
        with(|told| {
            let Told {
                device: Some(device),
                queues,
                waiting,
            } = told
            else {
                return;
            };
            let outputs = block.iter().flat_map(OperationIr::outputs);
            let asked = outputs.map(|output| waiting.remove(&output.id).unwrap_or(Asked::Unknown));
            let asked = asked.reduce(together);
            if let (Some(queue), Some(asked)) = (queues.get_mut(&StreamId::current().value), asked)
            {
                queue.mark(*device, asked);
            }
        });
    }

    fn block_ran(&self) {
        with(|told| {
            let device = told.device?;
            let queue = told.queues.get_mut(&StreamId::current().value)?;
            let now = queue.now;
            queue.mark(device, now);
            Some(())
        });
    }
}

/// What a block is for, of which some operations are for `one` and others for `other`.
fn together(one: Asked, other: Asked) -> Asked {
    match (one, other) {
        _ if one == other => one,
        (Asked::Unknown, _) | (_, Asked::Unknown) => Asked::Unknown,
        _ => Asked::Several,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn_core::tensor::DType;
    use burn_ir::{InitOperationIr, TensorIr};
    use cubecl_common::device_handle::DeviceHandle;
    use gpustall_trace::Tid;

    const FORWARD: Asked = Asked::Phase("forward");
    const BACKWARD: Asked = Asked::Phase("backward");

    fn operation(id: u64) -> OperationIr {
        let out = TensorIr::uninit(TensorId::new(id), [1].into(), DType::F32);
        OperationIr::Init(InitOperationIr { out })
    }

    /// What the runner was last told of `queue`, and how many marks that took.
    fn told(queue: StreamId) -> (Option<Asked>, u64) {
        let of = |told: &mut Told| {
            let queue = told.queues.get(&queue.value)?;
            Some((queue.marked, queue.marks))
        };
        with(of).flatten().unwrap_or_default()
    }

    /// Runs a test where the server runs, for a queue of its own.
    fn on_the_server(device: u16, test: impl FnOnce(Asker) + Send) {
        launches::are_fused_from_now();
        let server = DeviceHandle::<Server>::new(DeviceId::new(device, 0));
        let queue = StreamId::allocate();
        let asker = Asker {
            thread: Tid(1),
            queue,
        };
        let ran = server.submit_blocking(|_| queue.executes(|| test(asker)));
        assert!(ran.is_ok(), "{:?}", ran.err());
    }

    #[test]
    fn a_block_belongs_to_the_phase_that_its_operations_were_asked_in() {
        on_the_server(910, |asker| {
            let generation = Generation::next();
            let operations = [1, 2, 3, 4].map(operation);
            asks(generation, asker, FORWARD);
            operations[..2]
                .iter()
                .for_each(|of| Observer.registered(of));
            asks(generation, asker, BACKWARD);
            operations[2..]
                .iter()
                .for_each(|of| Observer.registered(of));
            assert_eq!(told(asker.queue), (Some(BACKWARD), 2));
            // The first two run now, in the backward phase.
            Observer.block_starts(BlockOperations::new(&operations, &[1, 0]));
            assert_eq!(told(asker.queue), (Some(FORWARD), 3));
            Observer.block_ran();
            assert_eq!(told(asker.queue), (Some(BACKWARD), 4));
            Observer.block_starts(BlockOperations::new(&operations, &[2]));
            Observer.block_ran();
            assert_eq!(told(asker.queue), (Some(BACKWARD), 4), "that is no news");
        });
    }

    #[test]
    fn a_block_of_two_phases_belongs_to_several() {
        on_the_server(911, |asker| {
            let generation = Generation::next();
            let operations = [1, 2].map(operation);
            asks(generation, asker, FORWARD);
            Observer.registered(&operations[0]);
            asks(generation, asker, Asked::NoPhase);
            Observer.registered(&operations[1]);
            Observer.block_starts(BlockOperations::new(&operations, &[0, 1]));
            assert_eq!(told(asker.queue), (Some(Asked::Several), 3));
            Observer.block_ran();
            assert_eq!(told(asker.queue), (Some(Asked::NoPhase), 4));
            // Operations that nobody saw asked for.
            Observer.block_starts(BlockOperations::new(&[operation(9)], &[0]));
            assert_eq!(told(asker.queue), (Some(Asked::Unknown), 5));
            Observer.registered(&operations[0]);
            let half_known = [operation(1), operation(9)];
            Observer.block_starts(BlockOperations::new(&half_known, &[0, 1]));
            assert_eq!(told(asker.queue), (Some(Asked::Unknown), 5));
        });
    }
}
