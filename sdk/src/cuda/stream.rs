//! A stream of cudarc whose calls are recorded.

use super::clock::DeviceClock;
use super::pending::{self, Submitted};
use crate::recorder::gate;
use crate::recorder::ring::push;
use crate::recorder::{Category, Record, Text};
use cudarc::driver::sys::CUstreamCaptureStatus;
use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaSlice, CudaStream, DevicePtr, DevicePtrMut,
    DeviceRepr, DriverError, HostSlice, LaunchArgs, LaunchConfig, PushKernelArg, ValidAsZeroBits,
};
use gpustall_cuda::OperationKind;
use gpustall_trace::{MonotonicClock, Tid, vocab};
use parking_lot::Mutex;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

/// Numbers of streams, and of calls with what they submitted, in this process.
static STREAMS: AtomicU32 = AtomicU32::new(1);
static CALLS: AtomicU32 = AtomicU32::new(1);
/// The clock of each context.
static CLOCKS: Mutex<Vec<(Weak<CudaContext>, Arc<DeviceClock>)>> = Mutex::new(Vec::new());

/// Records what is done through it with `stream`: launches, copies, memsets, allocations and
/// synchronisations as slices on the calling thread.
///
/// It derefs to the stream, so everything else works as before. Where CUPTI records the devices, it
/// sees the operations of every stream; where it cannot be used, those submitted through this
/// wrapper are timed with CUDA's events, without ever waiting for the stream. That costs some 5 us
/// an operation. Without a session it costs a relaxed load a call.
///
/// ```no_run
/// use cudarc::driver::CudaContext;
/// use gpustall::instrument;
///
/// let context = CudaContext::new(0)?;
/// let stream = instrument::stream(&context.default_stream());
/// let weights = stream.clone_htod(&vec![0_f32; 1 << 20])?;
/// stream.synchronize()?;
/// # drop(weights);
/// # Ok::<(), cudarc::driver::DriverError>(())
/// ```
pub fn stream(stream: &Arc<CudaStream>) -> TracedStream {
    TracedStream {
        stream: stream.clone(),
        number: STREAMS.fetch_add(1, Ordering::Relaxed),
        clock: Arc::default(),
    }
}

/// A stream whose calls are recorded; made by [`stream`].
#[derive(Debug, Clone)]
pub struct TracedStream {
    stream: Arc<CudaStream>,
    number: u32,
    /// Made when the first operation is timed; `None` inside where CUDA refused one.
    clock: Arc<Mutex<Option<Option<Arc<DeviceClock>>>>>,
}

impl Deref for TracedStream {
    type Target = Arc<CudaStream>;

    fn deref(&self) -> &Arc<CudaStream> {
        &self.stream
    }
}

/// What a call does, as the trace has it.
#[derive(Debug, Clone, Copy)]
struct Call {
    /// The function of the driver that it comes to.
    driver: &'static str,
    /// The operation that it submits, if it does.
    operation: Option<(&'static str, OperationKind)>,
}

impl TracedStream {
    /// As [`CudaStream::launch_builder`]; the launch is recorded.
    pub fn launch_builder<'a>(&'a self, function: &'a CudaFunction) -> TracedLaunch<'a> {
        TracedLaunch {
            launch: self.stream.launch_builder(function),
            stream: self,
            name: "kernel",
        }
    }

    /// As [`CudaStream::memcpy_htod`].
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn memcpy_htod<T: DeviceRepr, Src: HostSlice<T> + ?Sized, Dst: DevicePtrMut<T>>(
        &self,
        source: &Src,
        target: &mut Dst,
    ) -> Result<(), DriverError> {
        let name = match is_pinned::<Src>() {
            true => "Memcpy HtoD (Pinned -> Device)",
            false => "Memcpy HtoD (Pageable -> Device)",
        };
        let call = copy("cuMemcpyHtoDAsync_v2", name, bytes::<T>(source.len()));
        self.record(call, || self.stream.memcpy_htod(source, target))
    }

    /// As [`CudaStream::clone_htod`].
    ///
    /// # Errors
    ///
    /// Those of the driver.
    #[expect(unsafe_code, reason = "as cudarc does it")]
    pub fn clone_htod<T: DeviceRepr, Src: HostSlice<T> + ?Sized>(
        &self,
        source: &Src,
    ) -> Result<CudaSlice<T>, DriverError> {
        // SAFETY: the copy fills all of it.
        let mut target = unsafe { self.alloc(source.len()) }?;
        self.memcpy_htod(source, &mut target)?;
        Ok(target)
    }

    /// As [`CudaStream::memcpy_dtoh`].
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn memcpy_dtoh<T: DeviceRepr, Src: DevicePtr<T>, Dst: HostSlice<T> + ?Sized>(
        &self,
        source: &Src,
        target: &mut Dst,
    ) -> Result<(), DriverError> {
        let name = match is_pinned::<Dst>() {
            true => "Memcpy DtoH (Device -> Pinned)",
            false => "Memcpy DtoH (Device -> Pageable)",
        };
        let call = copy("cuMemcpyDtoHAsync_v2", name, source.num_bytes() as u64);
        self.record(call, || self.stream.memcpy_dtoh(source, target))
    }

    /// As [`CudaStream::clone_dtoh`].
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn clone_dtoh<T: DeviceRepr, Src: DevicePtr<T>>(
        &self,
        source: &Src,
    ) -> Result<Vec<T>, DriverError> {
        let name = "Memcpy DtoH (Device -> Pageable)";
        let call = copy("cuMemcpyDtoHAsync_v2", name, source.num_bytes() as u64);
        self.record(call, || self.stream.clone_dtoh(source))
    }

    /// As [`CudaStream::memcpy_dtod`].
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn memcpy_dtod<T, Src: DevicePtr<T>, Dst: DevicePtrMut<T>>(
        &self,
        source: &Src,
        target: &mut Dst,
    ) -> Result<(), DriverError> {
        let name = "Memcpy DtoD (Device -> Device)";
        let call = copy("cuMemcpyDtoDAsync_v2", name, source.num_bytes() as u64);
        self.record(call, || self.stream.memcpy_dtod(source, target))
    }

    /// As [`CudaStream::memset_zeros`].
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn memset_zeros<T: DeviceRepr + ValidAsZeroBits, Dst: DevicePtrMut<T>>(
        &self,
        target: &mut Dst,
    ) -> Result<(), DriverError> {
        let call = Call {
            driver: "cuMemsetD8Async",
            operation: Some((
                "Memset (Device)",
                OperationKind::Set(target.num_bytes() as u64),
            )),
        };
        self.record(call, || self.stream.memset_zeros(target))
    }

    /// As [`CudaStream::alloc`].
    ///
    /// # Errors
    ///
    /// Those of the driver.
    ///
    /// # Safety
    ///
    /// The memory is not set.
    #[expect(unsafe_code, reason = "as cudarc has it")]
    pub unsafe fn alloc<T: DeviceRepr>(&self, len: usize) -> Result<CudaSlice<T>, DriverError> {
        let call = Call {
            driver: "cuMemAllocAsync",
            operation: None,
        };
        // SAFETY: as the caller promises.
        self.record(call, || unsafe { self.stream.alloc(len) })
    }

    /// As [`CudaStream::alloc_zeros`].
    ///
    /// # Errors
    ///
    /// Those of the driver.
    #[expect(unsafe_code, reason = "as cudarc does it")]
    pub fn alloc_zeros<T: DeviceRepr + ValidAsZeroBits>(
        &self,
        len: usize,
    ) -> Result<CudaSlice<T>, DriverError> {
        // SAFETY: the memset fills all of it.
        let mut target = unsafe { self.alloc(len) }?;
        self.memset_zeros(&mut target)?;
        Ok(target)
    }

    /// As [`CudaStream::synchronize`].
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        let call = Call {
            driver: "cuStreamSynchronize",
            operation: None,
        };
        self.record(call, || self.stream.synchronize())
    }

    /// Runs `call_it` and records it, if a session records.
    fn record<R>(&self, call: Call, call_it: impl FnOnce() -> R) -> R {
        let Some(generation) = gate::recording() else {
            return call_it();
        };
        let correlation = CALLS.fetch_add(1, Ordering::Relaxed);
        let times = super::times();
        let begun = match (times, call.operation) {
            (true, Some(_)) => self
                .clock()
                .and_then(|clock| pending::begin(&clock, &self.stream)),
            _ => None,
        };
        let start = MonotonicClock::read();
        let result = call_it();
        let end = MonotonicClock::read();
        let (cat, args) = match times {
            true => {
                let id = (vocab::arg::CORRELATION, Text::U64(correlation.into()));
                (Category::Driver, Some(Box::from([id])))
            }
            // CUPTI records the call of the driver inside.
            false => (Category::Span, None),
        };
        push(
            generation,
            Record::Slice {
                cat,
                name: call.driver,
                start,
                end,
                args,
            },
        );
        if let (Some(begun), Some((name, kind))) = (begun, call.operation) {
            let tid = rustix::thread::gettid().as_raw_nonzero().get();
            begun.end(
                &self.stream,
                Submitted {
                    name,
                    kind,
                    device: self.stream.context().ordinal() as u32,
                    stream: self.number,
                    correlation,
                    call: (Tid(tid as u32), start),
                },
            );
        }
        result
    }

    /// The clock of the device; `None` while the stream is captured into a graph, where an event
    /// tells no time.
    fn clock(&self) -> Option<Arc<DeviceClock>> {
        let status = self.stream.capture_status().ok()?;
        if status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE {
            return None;
        }
        let mut clock = self.clock.lock();
        clock
            .get_or_insert_with(|| clock_of(self.stream.context()))
            .clone()
    }
}

/// The clock of a context, started when it is first asked for.
fn clock_of(context: &Arc<CudaContext>) -> Option<Arc<DeviceClock>> {
    let mut clocks = CLOCKS.lock();
    clocks.retain(|(of, _)| of.strong_count() > 0);
    let same = |of: &Weak<CudaContext>| std::ptr::eq(of.as_ptr(), Arc::as_ptr(context));
    if let Some((_, clock)) = clocks.iter().find(|(of, _)| same(of)) {
        return Some(clock.clone());
    }
    let clock = Arc::new(DeviceClock::start(context).ok()?);
    clocks.push((Arc::downgrade(context), clock.clone()));
    Some(clock)
}

fn copy(driver: &'static str, name: &'static str, bytes: u64) -> Call {
    Call {
        driver,
        operation: Some((name, OperationKind::Copy(bytes))),
    }
}

fn bytes<T>(len: usize) -> u64 {
    (len * size_of::<T>()) as u64
}

/// Whether memory of this type is pinned: cudarc has one type for that.
fn is_pinned<Slice: ?Sized>() -> bool {
    std::any::type_name::<Slice>().contains("PinnedHostSlice")
}

/// A launch on a [`TracedStream`]. It derefs to [`LaunchArgs`] for the arguments.
#[derive(Debug)]
pub struct TracedLaunch<'a> {
    launch: LaunchArgs<'a>,
    stream: &'a TracedStream,
    name: &'static str,
}

impl<'a> Deref for TracedLaunch<'a> {
    type Target = LaunchArgs<'a>;

    fn deref(&self) -> &LaunchArgs<'a> {
        &self.launch
    }
}

impl<'a> DerefMut for TracedLaunch<'a> {
    fn deref_mut(&mut self) -> &mut LaunchArgs<'a> {
        &mut self.launch
    }
}

// SAFETY: as cudarc's own, to which the argument goes.
#[expect(unsafe_code, reason = "cudarc's trait is unsafe")]
unsafe impl<'a, T> PushKernelArg<T> for TracedLaunch<'a>
where
    LaunchArgs<'a>: PushKernelArg<T>,
{
    /// As that of [`LaunchArgs`], and what follows in the chain is still recorded.
    fn arg(&mut self, arg: T) -> &mut Self {
        self.launch.arg(arg);
        self
    }
}

impl TracedLaunch<'_> {
    /// What the kernel is called where CUPTI, which knows the real name, is not used.
    pub fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// As [`LaunchArgs::launch`].
    ///
    /// # Errors
    ///
    /// Those of the driver.
    ///
    /// # Safety
    ///
    /// As for [`LaunchArgs::launch`]: the arguments must be those that the kernel takes.
    #[expect(unsafe_code, reason = "as cudarc has it")]
    pub unsafe fn launch(
        &mut self,
        config: LaunchConfig,
    ) -> Result<Option<(CudaEvent, CudaEvent)>, DriverError> {
        let call = Call {
            driver: "cuLaunchKernel",
            operation: Some((self.name, OperationKind::Kernel)),
        };
        let Self { launch, stream, .. } = self;
        // SAFETY: as the caller promises.
        stream.record(call, || unsafe { launch.launch(config) })
    }
}
