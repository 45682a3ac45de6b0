//! The `tracing` layer: every span that is entered becomes a slice, every event an instant.

use crate::recorder::gate::{self, Generation};
use crate::recorder::ring::push;
use crate::recorder::{Category, Record, Text};
use gpustall_trace::{MonoTime, MonotonicClock, vocab};
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record as SpanRecord};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// Whether a subscriber with our layer in it was made.
static ATTACHED: AtomicBool = AtomicBool::new(false);

/// A layer for the subscriber of a program that has its own.
///
/// ```
/// use tracing_subscriber::prelude::*;
///
/// tracing_subscriber::registry().with(gpustall::layer()).init();
/// ```
///
/// Spans of every level are recorded while a session records; events of level INFO and above.
/// While no session runs the layer switches its call sites off. A program without a subscriber
/// needs nothing: the session installs one.
pub fn layer<S>() -> impl Layer<S> + Send + Sync + 'static
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    SpanLayer { announces: true }.with_filter(WhileRecording)
}

/// Makes sure that spans reach us; otherwise returns what the user should know.
pub(crate) fn attach(install: bool) -> Option<&'static str> {
    if install {
        // Making a subscriber announces its layers, even if it is refused afterwards.
        let ours = SpanLayer { announces: false }.with_filter(WhileRecording);
        let ours = tracing_subscriber::registry().with(ours);
        // Fails when the program has a subscriber, which is then expected to have our layer.
        if tracing::subscriber::set_global_default(ours).is_ok() {
            ATTACHED.store(true, Ordering::Relaxed);
        }
    }
    if ATTACHED.load(Ordering::Relaxed) {
        None
    } else if install {
        Some(
            "`tracing` spans are not in this trace: the program's own subscriber has no gpustall \
             layer; add `.with(gpustall::layer())` to it",
        )
    } else {
        Some(
            "`tracing` spans are in this trace only if the program's own subscriber has \
             `.with(gpustall::layer())`",
        )
    }
}

/// A session began or ended: call sites are to ask again whether they are on.
pub(crate) fn session_changed() {
    tracing::callsite::rebuild_interest_cache();
}

/// On while a session runs: spans of every level, events from INFO up.
struct WhileRecording;

impl WhileRecording {
    fn wants(metadata: &Metadata<'_>) -> bool {
        gate::session_runs() && (metadata.is_span() || *metadata.level() <= Level::INFO)
    }
}

impl<S> Filter<S> for WhileRecording {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        Self::wants(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if Self::wants(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(if gate::session_runs() {
            LevelFilter::TRACE
        } else {
            LevelFilter::OFF
        })
    }
}

struct SpanLayer {
    /// Whether a subscriber that has this layer counts as attached when it is made.
    announces: bool,
}

/// The fields of a span, kept with it until it closes.
struct Fields(Vec<(&'static str, Text)>);

thread_local! {
    /// The spans that this thread is in: id, session, since when.
    static ENTERED: RefCell<Vec<(u64, Generation, MonoTime)>> = const { RefCell::new(Vec::new()) };
}

impl<S> Layer<S> for SpanLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_register_dispatch(&self, _: &tracing::Dispatch) {
        if self.announces {
            ATTACHED.store(true, Ordering::Relaxed);
        }
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if gate::recording().is_none() || attributes.metadata().fields().is_empty() {
            return;
        }
        let mut fields = Fields(Vec::new());
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &SpanRecord<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        if let Some(generation) = gate::recording() {
            let entered = (id.into_u64(), generation, MonotonicClock::read());
            let _ = ENTERED.try_with(|stack| {
                if let Ok(mut stack) = stack.try_borrow_mut() {
                    stack.push(entered);
                }
            });
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let left = ENTERED.try_with(|stack| {
            let mut stack = stack.try_borrow_mut().ok()?;
            let position = stack
                .iter()
                .rposition(|(open, ..)| *open == id.into_u64())?;
            Some(stack.remove(position))
        });
        let Ok(Some((_, generation, start))) = left else {
            return;
        };
        if !generation.is_current() {
            return;
        }
        let end = MonotonicClock::read();
        let Some(span) = context.span(id) else { return };
        let fields = span.metadata().fields();
        let args = match fields.is_empty() {
            true => None,
            false => span
                .extensions()
                .get::<Fields>()
                .map(|Fields(fields)| fields.as_slice().into()),
        };
        push(
            generation,
            Record::Span {
                metadata: span.metadata(),
                start,
                end,
                args,
            },
        );
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(generation) = gate::recording() else {
            return;
        };
        let metadata = event.metadata();
        let mut fields = Fields(vec![
            (vocab::arg::TARGET, Text::Static(metadata.target())),
            (vocab::arg::LEVEL, Text::Static(metadata.level().as_str())),
        ]);
        event.record(&mut fields);
        push(
            generation,
            Record::Instant {
                cat: Category::Event,
                name: metadata.name(),
                at: MonotonicClock::read(),
                args: Some(fields.0.into()),
            },
        );
    }
}

impl Fields {
    /// The last value given to a field stands, as in `tracing`'s own formatter.
    fn set(&mut self, field: &Field, value: Text) {
        let name = field.name();
        match self.0.iter_mut().find(|(key, _)| *key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, Text::Bool(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, Text::U64(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, Text::I64(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, Text::F64(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, Text::Owned(value.into()));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.set(field, Text::Owned(value.to_string().into()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, Text::Owned(format!("{value:?}").into()));
    }
}
