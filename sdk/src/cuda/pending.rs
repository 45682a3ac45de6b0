//! Operations that were submitted and are timed when they are over.

use super::clock::{Base, DeviceClock};
use cudarc::driver::{CudaEvent, CudaStream};
use gpustall_cuda::{EventSink, OperationKind, TimedOperation, TimedOperations};
use gpustall_trace::{MonoTime, Tid};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Operations that wait at most; more are counted as lost.
const MOST: usize = 1 << 15;

static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());
static LOST: AtomicU64 = AtomicU64::new(0);

/// What is known of an operation when it is submitted.
#[derive(Debug)]
pub(super) struct Submitted {
    pub(super) name: &'static str,
    pub(super) kind: OperationKind,
    pub(super) device: u32,
    pub(super) stream: u32,
    pub(super) correlation: u32,
    pub(super) call: (Tid, MonoTime),
}

#[derive(Debug)]
struct Pending {
    submitted: Submitted,
    clock: Arc<DeviceClock>,
    base: Arc<Base>,
    begin: CudaEvent,
    end: CudaEvent,
}

/// The first half of the timing of an operation.
#[derive(Debug)]
pub(super) struct Begun {
    clock: Arc<DeviceClock>,
    begin: CudaEvent,
}

/// Records the beginning of what is submitted to `stream` next. `None` where there is no room or
/// no event.
pub(super) fn begin(clock: &Arc<DeviceClock>, stream: &CudaStream) -> Option<Begun> {
    if PENDING.lock().len() >= MOST {
        LOST.fetch_add(1, Ordering::Relaxed);
        return None;
    }
    let begin = clock.event()?;
    begin.record(stream).ok()?;
    Some(Begun {
        clock: clock.clone(),
        begin,
    })
}

impl Begun {
    /// Records the end of what was submitted to `stream` last.
    pub(super) fn end(self, stream: &CudaStream, submitted: Submitted) {
        let Some(end) = self.clock.event() else {
            return;
        };
        if end.record(stream).is_ok() {
            let base = self.clock.base();
            PENDING.lock().push(Pending {
                submitted,
                clock: self.clock,
                base,
                begin: self.begin,
                end,
            });
        }
    }
}

/// Writes the operations that are over.
pub(super) fn write_done(timed: &mut TimedOperations, sink: &mut dyn EventSink) {
    let waiting = std::mem::take(&mut *PENDING.lock());
    let mut left = Vec::new();
    for pending in waiting {
        pending.clock.renew();
        if !pending.clock.bind() {
            continue;
        }
        if !pending.end.is_complete() {
            left.push(pending);
            continue;
        }
        let begin = pending.base.time_of(&pending.begin);
        let end = pending.base.time_of(&pending.end);
        if let Some(span) = begin.zip(end) {
            let own = &pending.submitted;
            let operation = TimedOperation {
                name: own.name,
                kind: own.kind,
                device: own.device,
                stream: own.stream,
                span,
                correlation: own.correlation,
                call: own.call,
            };
            timed.write(&operation, sink);
        }
        pending.clock.take_back(pending.begin);
        pending.clock.take_back(pending.end);
    }
    // What came meanwhile was submitted later.
    let mut waiting = PENDING.lock();
    left.append(&mut waiting);
    *waiting = left;
}

/// Operations that were not timed, in this process.
pub(super) fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Forgets what a session before left.
pub(super) fn clear() {
    PENDING.lock().clear();
    LOST.store(0, Ordering::Relaxed);
}
