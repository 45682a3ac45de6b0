//! The *get* stage of a thread: it reads the items of one batch.
//!
//! A shuffled Burn data set is read item by item, even for a batch of a million. Reading the
//! clock for each would cost more than many items do, so the clock is read at the first item of
//! a batch and when the batcher is called: what lies between is the stage. In between, the clock is
//! read every few microseconds, so that the end of the last read is known when no batch comes of it.

use super::stage::{self, Begun, Role};
use crate::recorder::gate::Generation;
use crate::recorder::reading::Reading;
use crate::recorder::{Args, Category};
use gpustall_trace::{MonotonicClock, Nanos};
use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Whether batchers were wrapped, and loaders whose batchers were not.
static TAGGED: AtomicBool = AtomicBool::new(false);
static UNTAGGED: AtomicBool = AtomicBool::new(false);

/// Passes over loaders that have begun, over all loaders.
static PASSES: AtomicU64 = AtomicU64::new(0);

/// How far two looks at the clock are apart, about; 1 % of that is what a look costs.
const LOOK_EVERY: u64 = 4_000;

/// Most reads between two looks.
const MOST_READS: u32 = 256;

/// A thread that has not read for so long when a pass begins was done with the one before.
const PAUSE: Nanos = Nanos::new(200_000);

/// There is a batcher that ends the get stages of its workers.
pub(crate) fn expect_tagged_batches() {
    TAGGED.store(true, Ordering::Relaxed);
}

/// There is a loader whose workers have get stages that nothing ends.
pub(crate) fn expect_untagged_batches() {
    UNTAGGED.store(true, Ordering::Relaxed);
}

/// A pass over a loader begins: its workers are done with the one before.
pub(crate) fn pass_begins() {
    PASSES.fetch_add(1, Ordering::Relaxed);
}

/// The stage of one thread.
struct Get {
    begun: Cell<Option<Begun>>,
    /// [`PASSES`] when it began.
    pass: Cell<u64>,
    /// Reads until the clock is looked at, and how many there are between two looks.
    until_look: Cell<u32>,
    stride: Cell<u32>,
    reading: OnceCell<Arc<Reading>>,
}

thread_local! {
    static GET: Get = const {
        Get {
            begun: Cell::new(None),
            pass: Cell::new(0),
            until_look: Cell::new(1),
            stride: Cell::new(1),
            reading: OnceCell::new(),
        }
    };
}

/// This thread begins to read an item for a batch; the stage begins with the first one.
#[inline]
pub(super) fn enter_read(generation: Generation) -> Option<()> {
    let enter = |get: &Get| {
        let pass = PASSES.load(Ordering::Relaxed);
        let goes_on =
            get.pass.get() == pass && get.begun.get().is_some_and(|b| b.generation == generation);
        if !goes_on {
            get.begin(generation, pass);
        }
        get.reading().enter();
    };
    GET.try_with(enter).ok()
}

/// The read is over.
#[inline]
pub(super) fn leave_read() {
    let _ = GET.try_with(|get| {
        match get.until_look.get() {
            0 | 1 => get.look(),
            more => get.until_look.set(more - 1),
        }
        get.reading().leave();
    });
}

/// The get stage of this thread is over.
pub(crate) fn take() -> Option<Begun> {
    let take = |get: &Get| {
        get.reading().leave();
        get.begun.take()
    };
    GET.try_with(take).ok().flatten()
}

/// No batch comes of what this thread has read: its stage ended with the last read.
pub(crate) fn abandon() {
    let _ = GET.try_with(Get::abandon);
}

impl Get {
    #[inline]
    fn reading(&self) -> &Arc<Reading> {
        self.reading.get_or_init(Arc::default)
    }

    /// The stage begins, unless one goes on all the same: another loader's pass began.
    #[cold]
    fn begin(&self, generation: Generation, pass: u64) {
        let before = self.begun.get().filter(|b| b.generation == generation);
        self.pass.set(pass);
        if let Some(before) = before {
            let last = self.reading().last(before.at).as_nanos();
            if MonotonicClock::read().as_nanos().saturating_sub(last) < PAUSE.get() {
                return;
            }
            self.abandon();
        }
        let Some(begun) = Begun::stage() else { return };
        self.begun.set(Some(begun));
        self.reading().saw(begun.at);
        self.stride.set(1);
        self.until_look.set(1);
        if ends() {
            stage::open_get(&begun, self.reading().clone());
        }
    }

    fn abandon(&self) {
        let Some(begun) = self.begun.take() else {
            return;
        };
        self.reading().leave();
        if ends() {
            let last = self.reading().last(begun.at);
            let args: Args = Some(begun.spent().collect());
            stage::close(&begun, Category::DataGet, last, args);
        }
    }

    #[cold]
    fn look(&self) {
        let Some(begun) = self.begun.get() else {
            self.until_look.set(MOST_READS);
            return;
        };
        let now = MonotonicClock::read();
        let since = now.as_nanos() - self.reading().last(begun.at).as_nanos().min(now.as_nanos());
        self.reading().saw(now);
        let stride = next_stride(self.stride.get(), since);
        self.stride.set(stride);
        self.until_look.set(stride);
    }
}

/// After how many reads to look again, when `stride` of them took `since` nanoseconds.
fn next_stride(stride: u32, since: u64) -> u32 {
    let fitting = u64::from(stride) * LOOK_EVERY / since.max(1);
    // Items may become slow at any time: no leaps.
    fitting.clamp(1, u64::from((stride * 2).min(MOST_READS))) as u32
}

/// Whether a stage of this thread ends when its batch is made. One that may never end is not shown as
/// one that hangs.
fn ends() -> bool {
    stage::role() != Some(Role::NamedWorker)
        || TAGGED.load(Ordering::Relaxed) && !UNTAGGED.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpustall_trace::vocab;
    use std::time::Duration;

    #[test]
    fn slow_items_are_looked_at_each_and_fast_ones_every_few_microseconds() {
        assert_eq!(next_stride(1, 1_000_000), 1);
        let mut stride = 1;
        for _ in 0..20 {
            stride = next_stride(stride, u64::from(stride) * 20);
        }
        assert_eq!(u64::from(stride), LOOK_EVERY / 20);
        // One slow item among them.
        assert_eq!(next_stride(stride, 50_000_000), 1);
    }

    #[test]
    fn a_stage_of_which_no_batch_comes_ends_with_its_last_read() {
        let directory = tempfile::tempdir().expect("a folder");
        let output = directory.path().join("run.trace.json");
        let session = crate::session("get").sidecar(crate::Sidecar::Off);
        let session = session.subscriber(false).output(&output);
        let session = session.start().expect("a session");
        expect_tagged_batches();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let (read, idle) = (Duration::from_millis(20), Duration::from_millis(400));
        let worker = std::thread::Builder::new().name("dataloader-0".to_owned());
        let worker = worker.spawn(move || {
            for _ in 0..2 {
                pass_begins();
                for _ in 0..3 {
                    assert!(stage::reading().is_some());
                    std::thread::sleep(read);
                    leave_read();
                }
                std::thread::sleep(idle);
            }
            tell.send(()).expect("heard");
            // As a worker that waits for its next epoch.
            let _ = wait.recv();
        });
        told.recv().expect("it read");
        session.finish().expect("finished");
        drop(done);
        worker.expect("started").join().expect("ended");
        let trace = gpustall_trace::read(&output).expect("readable").trace;
        let gets: Vec<_> = trace
            .slices
            .iter()
            .filter(|s| trace.text(s.cat) == vocab::cat::DATA_GET)
            .collect();
        assert_eq!(gets.len(), 2);
        for get in gets {
            let length = Duration::from_nanos(get.span.len().get());
            assert!(length >= 3 * read && length < idle, "{length:?}");
            assert_eq!(trace.arg(&get.args, vocab::arg::UNFINISHED), None);
        }
    }
}
