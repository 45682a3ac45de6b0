//! When something happened on a device, on the clock of the trace, from CUDA's events.
//!
//! An event tells the time only as a distance to another one, in a 32-bit number of milliseconds.
//! So each context has a base: an event whose time is known on the host's clock. It is renewed every
//! second, which keeps the distances short, and so exact to a microsecond. It is recorded on a stream
//! of its own: nothing ever waits for a stream of the user's.
#![allow(
    unsafe_code,
    reason = "cudarc's streams would change how it tracks memory"
)]

use cudarc::driver::sys::{CUevent_flags, CUstream};
use cudarc::driver::{CudaContext, CudaEvent, DriverError, result};
use gpustall_trace::{MonoTime, MonotonicClock};
use parking_lot::Mutex;
use std::sync::Arc;

/// Age at which a base is renewed, nanoseconds.
const RENEW_NS: u64 = 1_000_000_000;
/// Events that are kept for reuse.
const MOST_KEPT: usize = 4096;

/// An event whose time is known.
#[derive(Debug)]
pub(super) struct Base {
    event: CudaEvent,
    at: MonoTime,
}

impl Base {
    /// When `event`, which has happened, did; `None` where CUDA does not tell.
    pub(super) fn time_of(&self, event: &CudaEvent) -> Option<MonoTime> {
        let milliseconds = f64::from(self.event.elapsed_ms(event).ok()?);
        let ns = self.at.as_nanos() as f64 + milliseconds * 1e6;
        Some(MonoTime::from_nanos(ns.max(0.0) as u64))
    }
}

/// The clock of one context.
#[derive(Debug)]
pub(super) struct DeviceClock {
    context: Arc<CudaContext>,
    stream: Own,
    base: Mutex<Arc<Base>>,
    events: Mutex<Vec<CudaEvent>>,
}

/// A stream of ours.
#[derive(Debug)]
struct Own(CUstream);

// SAFETY: CUDA's streams may be used on any thread.
unsafe impl Send for Own {}
// SAFETY: as above; CUDA locks them itself.
unsafe impl Sync for Own {}

impl DeviceClock {
    /// Starts the clock of `context`.
    pub(super) fn start(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        context.bind_to_thread()?;
        let stream = Own(result::stream::create(
            result::stream::StreamKind::NonBlocking,
        )?);
        let base = Mutex::new(Arc::new(base(context, &stream)?));
        Ok(Self {
            context: context.clone(),
            stream,
            base,
            events: Mutex::default(),
        })
    }

    /// The base of now.
    pub(super) fn base(&self) -> Arc<Base> {
        self.base.lock().clone()
    }

    /// Renews the base when it is old. For the writer thread: it waits some microseconds.
    pub(super) fn renew(&self) {
        let age = MonotonicClock::read()
            .as_nanos()
            .saturating_sub(self.base().at.as_nanos());
        if age < RENEW_NS || self.context.bind_to_thread().is_err() {
            return;
        }
        if let Ok(new) = base(&self.context, &self.stream) {
            *self.base.lock() = Arc::new(new);
        }
    }

    /// An event that tells times.
    pub(super) fn event(&self) -> Option<CudaEvent> {
        let kept = self.events.lock().pop();
        kept.or_else(|| {
            let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
            self.context.new_event(flags).ok()
        })
    }

    /// Takes an event back.
    pub(super) fn take_back(&self, event: CudaEvent) {
        let mut events = self.events.lock();
        if events.len() < MOST_KEPT {
            events.push(event);
        }
    }

    /// Makes the context the one of this thread.
    pub(super) fn bind(&self) -> bool {
        self.context.bind_to_thread().is_ok()
    }
}

/// Records an event and waits for it: it happened between two looks at the host's clock.
fn base(context: &Arc<CudaContext>, stream: &Own) -> Result<Base, DriverError> {
    let event = context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT))?;
    let before = MonotonicClock::read().as_nanos();
    // SAFETY: the event and the stream are of this context and alive.
    unsafe { result::event::record(event.cu_event(), stream.0) }?;
    event.synchronize()?;
    let after = MonotonicClock::read().as_nanos();
    let at = MonoTime::from_nanos(before + (after - before) / 2);
    Ok(Base { event, at })
}
