//! The functions of CUPTI that are used, looked up in the library that was found.
//!
//! cudarc has bindings too, but they look for the library on the loader's path only, panic where
//! a function is missing, and take results for Rust enums, to which a newer CUPTI can add values.
//! The names of calls come from CUPTI itself, so that no table of its numbers is kept here.
#![allow(
    unsafe_code,
    reason = "calls a C library; every call stands in this file"
)]

use crate::buffers::{self, Full};
use crate::calls::Api;
use crate::layout::CallbackData;
use crate::record::{self, Record};
use crate::{CaptureError, discovery, host_calls};
use libloading::os::unix::Library;
use std::error::Error;
use std::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

/// A result; 0 is success.
type Code = u32;

/// Asks for an empty buffer: where it is, its bytes, and how many records at most (0: no limit).
pub(crate) type Requested = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// Hands a buffer back: context, stream, buffer, its bytes, the valid ones.
pub(crate) type Completed = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
/// The time now.
pub(crate) type Timestamp = unsafe extern "C" fn() -> u64;

/// `CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM`: the kernel's ids.
const SYSTEM_THREAD_IDS: u32 = 1;
/// `CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT`.
const DEFAULT_THREAD_IDS: u32 = 0;
/// `CUPTI_ERROR_MAX_LIMIT_REACHED`: there are no more records.
const NO_MORE: Code = 12;
/// `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`.
const HELD: Code = 39;
/// Callback numbers are looked for up to here; CUDA 13.4 has about 850 of the driver.
const MOST_CALLBACKS: u32 = 4096;

/// What CUPTI calls before and after a call: what it was given for that, the API, the function, and the call.
type Callback = unsafe extern "C" fn(*mut c_void, u32, u32, *const CallbackData);

/// CUPTI, loaded. It stays loaded until the process ends, since it calls back at any time.
#[derive(Debug)]
pub(crate) struct Cupti {
    path: PathBuf,
    activity_enable: unsafe extern "C" fn(u32) -> Code,
    activity_disable: unsafe extern "C" fn(u32) -> Code,
    register_callbacks: unsafe extern "C" fn(Requested, Completed) -> Code,
    register_timestamp: unsafe extern "C" fn(Timestamp) -> Code,
    set_thread_id_type: unsafe extern "C" fn(u32) -> Code,
    flush_all: unsafe extern "C" fn(u32) -> Code,
    next_record: unsafe extern "C" fn(*mut u8, usize, *mut *mut c_void) -> Code,
    dropped: unsafe extern "C" fn(*mut c_void, u32, *mut usize) -> Code,
    subscribe: unsafe extern "C" fn(*mut *mut c_void, Callback, *mut c_void) -> Code,
    unsubscribe: unsafe extern "C" fn(*mut c_void) -> Code,
    enable_callback: unsafe extern "C" fn(u32, *mut c_void, u32, u32) -> Code,
    callback_name: unsafe extern "C" fn(u32, u32, *mut *const c_char) -> Code,
    result_string: unsafe extern "C" fn(Code, *mut *const c_char) -> Code,
    version: unsafe extern "C" fn(*mut u32) -> Code,
}

/// Calls are reported for as long as this lives.
#[derive(Debug)]
pub(crate) struct Subscription {
    subscriber: *mut c_void,
    enable_callback: unsafe extern "C" fn(u32, *mut c_void, u32, u32) -> Code,
    unsubscribe: unsafe extern "C" fn(*mut c_void) -> Code,
}

impl Subscription {
    /// Has the calls of these functions reported to [`host_calls`], beside those that are already.
    pub(crate) fn report(&self, functions: impl Iterator<Item = (Api, u32)>) {
        for (api, number) in functions {
            // SAFETY: the subscriber is the one that CUPTI gave. A number that this CUPTI has no function for
            // is refused, and the next one may have one.
            let _ = unsafe { (self.enable_callback)(1, self.subscriber, api as u32, number) };
        }
    }
}

// SAFETY: CUPTI takes the subscriber back on any thread.
unsafe impl Send for Subscription {}

impl Drop for Subscription {
    fn drop(&mut self) {
        // SAFETY: the subscriber is one that CUPTI gave, and is given back once. The library stays loaded.
        unsafe { (self.unsubscribe)(self.subscriber) };
    }
}

impl Cupti {
    /// Loads the library that fits the process best.
    pub(crate) fn load() -> Result<Self, CaptureError> {
        let mut last = CaptureError::NoCupti;
        for path in discovery::candidates(&discovery::System) {
            match Self::open(&path) {
                Ok(cupti) => return Ok(cupti),
                // A bare name that the loader does not know is no news.
                Err(CaptureError::Load { path, .. }) if !path.is_absolute() => {}
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Loads the library at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, CaptureError> {
        // SAFETY: loading CUPTI runs its initialisers, which touch nothing of this program.
        let library = unsafe { Library::open(Some(path), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let library = library.map_err(|error| CaptureError::Load {
            path: path.into(),
            // The loader's own words stand behind those of the crate.
            reason: error
                .source()
                .map_or_else(|| error.to_string(), ToString::to_string),
        })?;
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the types are those of the header of CUPTI 12.0, unchanged since.
                match unsafe { library.get(concat!($name, "\0")) } {
                    Ok(symbol) => *symbol,
                    Err(_) => {
                        return Err(CaptureError::Symbol {
                            path: path.into(),
                            symbol: $name,
                        });
                    }
                }
            };
        }
        let cupti = Self {
            path: path.into(),
            activity_enable: function!("cuptiActivityEnable"),
            activity_disable: function!("cuptiActivityDisable"),
            register_callbacks: function!("cuptiActivityRegisterCallbacks"),
            register_timestamp: function!("cuptiActivityRegisterTimestampCallback"),
            set_thread_id_type: function!("cuptiSetThreadIdType"),
            flush_all: function!("cuptiActivityFlushAll"),
            next_record: function!("cuptiActivityGetNextRecord"),
            dropped: function!("cuptiActivityGetNumDroppedRecords"),
            subscribe: function!("cuptiSubscribe"),
            unsubscribe: function!("cuptiUnsubscribe"),
            enable_callback: function!("cuptiEnableCallback"),
            callback_name: function!("cuptiGetCallbackName"),
            result_string: function!("cuptiGetResultString"),
            version: function!("cuptiGetVersion"),
        };
        std::mem::forget(library);
        Ok(cupti)
    }

    /// Where the library is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The version of the library (`130000`); 0 if it does not say.
    pub(crate) fn version(&self) -> u32 {
        let mut version = 0;
        // SAFETY: CUPTI writes the number.
        unsafe { (self.version)(&raw mut version) };
        version
    }

    /// Whether nobody else has subscribed: another profiler would have.
    pub(crate) fn is_free(&self) -> Result<(), CaptureError> {
        self.subscribe().map(drop)
    }

    /// Subscribes to calls, of which none are reported yet. CUPTI reports to one subscriber in a process, so
    /// another profiler that holds it is an error, and holding it keeps others out.
    pub(crate) fn subscribe(&self) -> Result<Subscription, CaptureError> {
        let mut subscriber = ptr::null_mut();
        // SAFETY: the callback has the type that CUPTI calls and lives as long as the process; CUPTI keeps
        // the subscriber until it is given back.
        let code =
            unsafe { (self.subscribe)(&raw mut subscriber, host_calls::called, ptr::null_mut()) };
        // Without a driver each version says something else that does not tell.
        if code != 0 && code != HELD && !discovery::driver_is_there() {
            return Err(CaptureError::NoDriver);
        }
        self.check("cuptiSubscribe", code)?;
        Ok(Subscription {
            subscriber,
            enable_callback: self.enable_callback,
            unsubscribe: self.unsubscribe,
        })
    }

    /// Hands CUPTI the functions that it calls from now on. All three live as long as the process.
    pub(crate) fn register(
        &self,
        requested: Requested,
        completed: Completed,
        timestamp: Timestamp,
    ) -> Result<(), CaptureError> {
        // SAFETY: plain calls; the functions are valid for the life of the process.
        unsafe {
            self.check(
                "cuptiActivityRegisterTimestampCallback",
                (self.register_timestamp)(timestamp),
            )?;
            self.check(
                "cuptiSetThreadIdType",
                (self.set_thread_id_type)(SYSTEM_THREAD_IDS),
            )?;
            self.check(
                "cuptiActivityRegisterCallbacks",
                (self.register_callbacks)(requested, completed),
            )
        }
    }

    /// Takes back what [`register`](Self::register) changed for everybody: times are those that CUPTI takes by
    /// itself, of `CLOCK_REALTIME`, and so are ids of threads. Whoever comes next hands it buffers of its own.
    pub(crate) fn restore(&self) {
        // SAFETY: plain calls; the function is valid for the life of the process. What is refused stays.
        unsafe {
            (self.register_timestamp)(buffers::wall_clock);
            (self.set_thread_id_type)(DEFAULT_THREAD_IDS);
        }
    }

    /// Records activities of this kind, or stops recording them.
    pub(crate) fn set(&self, kind: u32, on: bool) -> Result<(), CaptureError> {
        // SAFETY: plain calls; CUPTI checks the number.
        let (call, code) = unsafe {
            match on {
                true => ("cuptiActivityEnable", (self.activity_enable)(kind)),
                false => ("cuptiActivityDisable", (self.activity_disable)(kind)),
            }
        };
        self.check(call, code)
    }

    /// Hands out the buffers whose records are all complete; with `forced` all others too.
    pub(crate) fn flush(&self, forced: bool) -> Result<(), CaptureError> {
        // SAFETY: a plain call.
        let code = unsafe { (self.flush_all)(u32::from(forced)) };
        self.check("cuptiActivityFlushAll", code)
    }

    /// Records that CUPTI dropped since it was last asked.
    pub(crate) fn take_dropped(&self) -> u64 {
        let mut dropped = 0;
        // SAFETY: CUPTI writes the count; no context means the global queue, the only one today.
        let code = unsafe { (self.dropped)(ptr::null_mut(), 0, &raw mut dropped) };
        if code == 0 { dropped as u64 } else { 0 }
    }

    /// Calls `each` with every record in a buffer that CUPTI filled.
    pub(crate) fn each_record(
        &self,
        full: &Full,
        mut each: impl FnMut(&Record<'_>),
    ) -> Result<(), CaptureError> {
        let mut at = ptr::null_mut();
        loop {
            // SAFETY: the buffer is as CUPTI handed it over, `at` null or a record of it.
            match unsafe { (self.next_record)(full.buffer(), full.valid(), &raw mut at) } {
                // SAFETY: the record lies in the buffer, which outlives this call.
                0 => each(&unsafe { record::read(at) }),
                NO_MORE => return Ok(()),
                code => return self.check("cuptiActivityGetNextRecord", code),
            }
        }
    }

    /// The functions that CUPTI can report, by number.
    pub(crate) fn functions(&self, api: Api) -> Vec<(u32, String)> {
        let mut calls = Vec::new();
        for number in 1..MOST_CALLBACKS {
            let mut name = ptr::null();
            // SAFETY: CUPTI checks the number and writes a pointer to a constant.
            let code = unsafe { (self.callback_name)(api as u32, number, &raw mut name) };
            if code != 0 || name.is_null() {
                break;
            }
            // SAFETY: it is a C string that is never freed.
            let name = unsafe { CStr::from_ptr(name) };
            calls.push((number, name.to_string_lossy().into_owned()));
        }
        calls
    }

    fn check(&self, call: &'static str, code: Code) -> Result<(), CaptureError> {
        match code {
            0 => Ok(()),
            HELD => Err(CaptureError::Held),
            35 | 40 => Err(CaptureError::Privileges),
            14 | 34 => Err(CaptureError::Incompatible {
                path: self.path.clone(),
            }),
            code => Err(CaptureError::Refused {
                call,
                name: self.result_name(code),
                code,
            }),
        }
    }

    fn result_name(&self, code: Code) -> String {
        let mut name = ptr::null();
        // SAFETY: CUPTI checks the number and writes a pointer to a constant.
        let known = unsafe { (self.result_string)(code, &raw mut name) };
        if known != 0 || name.is_null() {
            return "an unknown error".to_owned();
        }
        // SAFETY: it is a C string that is never freed.
        unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned()
    }
}
