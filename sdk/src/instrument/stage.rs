//! The stages in which a thread makes a batch: items are read ([`get`]), then made into one batch.

use super::{get, thread_time};
use crate::recorder::gate::{self, Generation};
use crate::recorder::reading::Reading;
use crate::recorder::ring::push;
use crate::recorder::{Args, Category, Record, Text};
use gpustall_trace::{MonoTime, MonotonicClock, vocab::arg};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Every how many reads of items one is recorded; 0: none.
static ITEM_SAMPLING: AtomicU32 = AtomicU32::new(0);

pub(crate) fn sample_items(every: u32) {
    ITEM_SAMPLING.store(every, Ordering::Relaxed);
}

/// When a stage began, on the clock and in CPU time of its thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    pub(crate) generation: Generation,
    pub(crate) at: MonoTime,
    cpu_ns: u64,
    runnable_ns: Option<u64>,
}

impl Begun {
    /// A wait begins now, if a session records.
    pub(crate) fn wait() -> Option<Self> {
        gate::recording().map(|generation| Self {
            generation,
            cpu_ns: thread_time::cpu_ns(),
            runnable_ns: None,
            at: MonotonicClock::read(),
        })
    }

    /// A stage in which a batch is made begins now, if a session records.
    pub(crate) fn stage() -> Option<Self> {
        gate::recording().map(|generation| Self {
            generation,
            runnable_ns: thread_time::runnable_ns(),
            cpu_ns: thread_time::cpu_ns(),
            at: MonotonicClock::read(),
        })
    }

    /// How the thread spent its time since, as arguments: on a CPU, and waiting for one.
    pub(crate) fn spent(&self) -> impl Iterator<Item = (&'static str, Text)> {
        let since = |now: u64, then: u64| Text::U64(now.saturating_sub(then));
        let cpu = (arg::CPU_NS, since(thread_time::cpu_ns(), self.cpu_ns));
        let runnable = self.runnable_ns.and_then(|then| {
            let now = thread_time::runnable_ns()?;
            Some((arg::RUNNABLE_NS, since(now, then)))
        });
        std::iter::once(cpu).chain(runnable)
    }
}

/// Whether a thread makes batches. Items are also read outside of loaders (to compute the mean
/// of a data set, say), which belongs to no batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Unknown,
    /// A worker of a loader by its name; whether its batcher is wrapped shows in its first batch.
    NamedWorker,
    /// A worker of a loader whose batcher is wrapped.
    Worker,
    /// Inside the `next()` of a loader.
    InNext,
    Other,
}

thread_local! {
    static ROLE: Cell<Role> = const { Cell::new(Role::Unknown) };
    static ITEMS_READ: Cell<u32> = const { Cell::new(0) };
}

/// What this thread is, as far as it is known.
pub(super) fn role() -> Option<Role> {
    ROLE.try_with(Cell::get).ok()
}

/// This thread is about to read items. Returns the session if one records and they may belong to
/// a batch; the caller then says when they were [read](get::leave_read).
#[inline]
pub(crate) fn reading() -> Option<Generation> {
    let generation = gate::recording()?;
    let role = ROLE.try_with(Cell::get).ok()?;
    if role == Role::Other || role == Role::Unknown && learn_role() == Role::Other {
        return None;
    }
    get::enter_read(generation)?;
    Some(generation)
}

/// Burn's workers are known by their names.
#[cold]
fn learn_role() -> Role {
    let is_worker = std::thread::current()
        .name()
        .is_some_and(|name| name.starts_with("dataloader-"));
    let role = if is_worker {
        Role::NamedWorker
    } else {
        Role::Other
    };
    let _ = ROLE.try_with(|r| r.set(role));
    role
}

/// Whether this thread, which makes a batch, is inside the `next()` of a loader.
pub(crate) fn makes_batch_in_next() -> bool {
    ROLE.try_with(|role| {
        let known = match role.get() {
            Role::Unknown => learn_role(),
            known => known,
        };
        if known == Role::NamedWorker {
            role.set(Role::Worker);
        }
        known == Role::InNext
    })
    .unwrap_or(false)
}

/// Marks this thread as inside a loader's `next()` until dropped.
pub(crate) struct InNext(Role);

impl InNext {
    pub(crate) fn enter() -> Self {
        get::take();
        Self(
            ROLE.try_with(|role| role.replace(Role::InNext))
                .unwrap_or(Role::Unknown),
        )
    }
}

impl Drop for InNext {
    fn drop(&mut self) {
        let _ = ROLE.try_with(|role| role.set(self.0));
    }
}

/// If this read is to be recorded on its own, when it began.
#[inline]
pub(crate) fn sampled() -> Option<MonoTime> {
    let every = ITEM_SAMPLING.load(Ordering::Relaxed);
    if every == 0 {
        return None;
    }
    let count = ITEMS_READ
        .try_with(|read| read.replace(read.get().wrapping_add(1)))
        .ok()?;
    count.is_multiple_of(every).then(MonotonicClock::read)
}

pub(crate) fn name(cat: Category) -> &'static str {
    match cat {
        Category::DataGet => "get",
        Category::DataCollate => "collate",
        Category::DataWait => "data wait",
        Category::EpochStart => "epoch start",
        Category::EpochEnd => "epoch end",
        _ => cat.as_str(),
    }
}

/// The stage has begun: the partial file shows it if it never ends.
pub(crate) fn open(begun: &Begun, cat: Category) {
    open_with(begun, cat, None);
}

pub(crate) fn open_with(begun: &Begun, cat: Category, args: Args) {
    begin(begun, cat, args, None);
}

/// A get stage has begun, of which `reading` tells whether it still goes on.
pub(super) fn open_get(begun: &Begun, reading: Arc<Reading>) {
    begin(begun, Category::DataGet, None, Some(reading));
}

fn begin(begun: &Begun, cat: Category, args: Args, reading: Option<Arc<Reading>>) {
    push(
        begun.generation,
        Record::Open {
            cat,
            name: name(cat),
            start: begun.at,
            args,
            reading,
        },
    );
}

/// The stage lasted until `end`.
pub(crate) fn close(begun: &Begun, cat: Category, end: MonoTime, args: Args) {
    if begun.generation.is_current() {
        push(
            begun.generation,
            Record::Slice {
                cat,
                name: name(cat),
                start: begun.at,
                end,
                args,
            },
        );
    }
}

/// Records that a stage was left by a panic, and lets the panic go on. Made before the user's
/// code is called, [`disarm`](Self::disarm)ed after it returned.
pub(crate) struct PanicWitness {
    begun: Option<Begun>,
    cat: Category,
}

impl PanicWitness {
    #[inline]
    pub(crate) fn new(begun: Option<Begun>, cat: Category) -> Self {
        Self { begun, cat }
    }

    /// A witness for the get stage, whose beginning is asked for only if it panics.
    #[inline]
    pub(crate) fn of_get() -> Self {
        Self::new(None, Category::DataGet)
    }

    #[inline]
    pub(crate) fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for PanicWitness {
    #[cold]
    fn drop(&mut self) {
        let begun = match self.cat {
            Category::DataGet => get::take(),
            _ => self.begun,
        };
        let Some(begun) = begun else { return };
        let end = MonotonicClock::read();
        let args: Args = Some(Box::new([(arg::PANICKED, Text::Bool(true))]));
        close(&begun, self.cat, end, args);
        let thread = std::thread::current();
        let message = format!(
            "{} panicked in {}",
            thread.name().unwrap_or("a thread"),
            name(self.cat)
        );
        push(
            begun.generation,
            Record::Instant {
                cat: Category::Fault,
                name: "panic",
                at: end,
                args: Some(Box::new([(arg::MESSAGE, Text::Owned(message.into()))])),
            },
        );
    }
}
