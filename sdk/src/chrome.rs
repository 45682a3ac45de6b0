//! tracing-chrome's layer, with anchors.
//!
//! The crate tracing-chrome writes `tracing` spans to a Chrome trace. In its file threads have numbers
//! of their own and the clock starts at zero, so nothing can be set beside it. The layer here is
//! tracing-chrome's, and besides puts an instant called `gpustall.anchor ...` into the file for each
//! thread: the machine's clock, process id and thread id. With that `gpustall merge` joins the file
//! with what `gpustall-sidecar record` saw of the same process:
//!
//! ```text
//! gpustall-sidecar record -o kernel.trace.json.gz -- ./trainer
//! gpustall merge spans.json kernel.trace.json.gz -o both.trace.json.gz
//! ```
//!
//! A process should have one such layer: tracing-chrome keeps the number of a thread for all of its layers
//! together, and a thread writes to the file of the first that it met.
//!
//! gpustall's own recorder ([`session`](crate::session)) needs none of this and costs less: tracing-chrome
//! formats each event in a queue without bounds, and its writer thread panics on a full disk.
//!
//! ```
//! use tracing_subscriber::prelude::*;
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("spans.json");
//! let (layer, guard) = gpustall::chrome::layer(&path)?;
//! # let _default =
//! tracing_subscriber::registry().with(layer).set_default(); // or init()
//! tracing::info_span!("forward").in_scope(|| { /* ... */ });
//! drop(guard); // closes the list of events
//! # Ok::<(), std::io::Error>(())
//! ```

use gpustall_trace::{Anchor, MonotonicClock, Pid, Tid};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::callsite::Callsite;
use tracing::field::FieldSet;
use tracing::metadata::Kind;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber, span};
use tracing_chrome::{ChromeLayerBuilder, EventOrSpan, FlushGuard};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// tracing-chrome's layer, with an anchor for each thread.
pub struct ChromeLayer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    inner: tracing_chrome::ChromeLayer<S>,
    number: u64,
}

/// Closes the file when it is dropped. Keep it until the end of `main`.
#[must_use = "the file is closed when this is dropped"]
pub struct ChromeGuard(FlushGuard);

impl ChromeGuard {
    /// Hands what was recorded so far to the file.
    pub fn flush(&self) {
        self.0.flush();
    }
}

/// The layer, writing to `path`. A file that is there is replaced, as tracing-chrome does.
///
/// # Errors
///
/// When the file cannot be created; the error says which.
pub fn layer<S>(path: impl AsRef<Path>) -> io::Result<(ChromeLayer<S>, ChromeGuard)>
where
    S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    layer_with(path, |builder| builder)
}

/// As [`layer`], after `configure` had its way with tracing-chrome's builder. Its file and its
/// function for names are then set anew: names are those of spans and events.
///
/// # Errors
///
/// When the file cannot be created; the error says which.
pub fn layer_with<S>(
    path: impl AsRef<Path>,
    configure: impl FnOnce(ChromeLayerBuilder<S>) -> ChromeLayerBuilder<S>,
) -> io::Result<(ChromeLayer<S>, ChromeGuard)>
where
    S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let path = path.as_ref();
    let file = File::create(path).map_err(|error| {
        let text = format!(
            "cannot create the trace file {}: {error}; choose a writable path",
            path.display()
        );
        io::Error::new(error.kind(), text)
    })?;
    let builder = configure(ChromeLayerBuilder::new());
    let (inner, guard) = builder.writer(file).name_fn(Box::new(name)).build();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Ok((ChromeLayer { inner, number }, ChromeGuard(guard)))
}

thread_local! {
    /// Number of the layer in whose file this thread has an anchor.
    static ANCHORED: Cell<u64> = const { Cell::new(0) };
}

/// The name of an event or span in the file. tracing-chrome asks for it after it read its own clock.
fn name<S>(of: &EventOrSpan<'_, '_, S>) -> String
where
    S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    let metadata = match of {
        EventOrSpan::Event(event) => event.metadata(),
        EventOrSpan::Span(span) => span.metadata(),
    };
    if !std::ptr::eq(metadata, &ANCHOR) {
        return metadata.name().to_owned();
    }
    let mono = MonotonicClock::read();
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    let anchor = Anchor {
        mono,
        unix_ns: unix.map_or(0, |unix| unix.as_nanos() as u64),
        pid: Pid(std::process::id()),
        tid: Tid(rustix::thread::gettid().as_raw_nonzero().get() as u32),
    };
    anchor.to_string()
}

/// The event that anchors are. It is given to tracing-chrome alone and goes through no subscriber.
static ANCHOR: Metadata<'static> = Metadata::new(
    "gpustall.anchor",
    "gpustall",
    Level::INFO,
    None,
    None,
    None,
    FieldSet::new(&[], tracing::callsite::Identifier(&ANCHOR_SITE)),
    Kind::EVENT,
);

static ANCHOR_SITE: AnchorSite = AnchorSite;

struct AnchorSite;

impl Callsite for AnchorSite {
    fn set_interest(&self, _: Interest) {}

    fn metadata(&self) -> &Metadata<'_> {
        &ANCHOR
    }
}

impl<S> ChromeLayer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    /// Puts an anchor of this thread into the file, if it has none there.
    fn anchor(&self, context: &Context<'_, S>) {
        if ANCHORED.get() != self.number {
            ANCHORED.set(self.number);
            let values = ANCHOR.fields().value_set(&[]);
            self.inner
                .on_event(&Event::new(&ANCHOR, &values), context.clone());
        }
    }
}

impl<S> Layer<S> for ChromeLayer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    fn on_new_span(
        &self,
        attributes: &span::Attributes<'_>,
        id: &span::Id,
        context: Context<'_, S>,
    ) {
        self.anchor(&context);
        self.inner.on_new_span(attributes, id, context);
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, context: Context<'_, S>) {
        self.inner.on_record(id, values, context);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        self.anchor(&context);
        self.inner.on_event(event, context);
    }

    fn on_enter(&self, id: &span::Id, context: Context<'_, S>) {
        self.anchor(&context);
        self.inner.on_enter(id, context);
    }

    fn on_exit(&self, id: &span::Id, context: Context<'_, S>) {
        self.inner.on_exit(id, context);
    }

    fn on_close(&self, id: span::Id, context: Context<'_, S>) {
        self.inner.on_close(id, context);
    }
}
