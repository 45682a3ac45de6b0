//! The `tracing` layer: every span that is entered becomes a slice, every event an instant.

use crate::fields::{self, Fields};
use crate::recorder::Record;
use crate::recorder::gate::{self, Generation};
use crate::recorder::ring::push;
use crate::subscriber::SessionSubscriber;
use gpustall_trace::{MonoTime, MonotonicClock};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record as SpanRecord};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter, Layer};
use tracing_subscriber::registry::LookupSpan;

/// Whether a subscriber with our layer in it was made.
static ATTACHED: AtomicBool = AtomicBool::new(false);

/// Whether the global subscriber is the session's own.
static OURS: AtomicBool = AtomicBool::new(false);

/// Whether burn-train's learner ran since this was last asked.
static LEARNER_RAN: AtomicBool = AtomicBool::new(false);

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
    SpanLayer.with_filter(WhileRecording)
}

/// Makes sure that spans reach us; otherwise returns what the user should know.
pub(crate) fn attach(install: bool) -> Option<&'static str> {
    if install {
        // Fails when the program has a subscriber, which is then expected to have our layer.
        if tracing::subscriber::set_global_default(SessionSubscriber).is_ok() {
            ATTACHED.store(true, Ordering::Relaxed);
            OURS.store(true, Ordering::Relaxed);
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

/// burn-train's learner runs: it has tried to install a subscriber for its log.
#[cfg_attr(
    not(feature = "burn-train"),
    allow(dead_code, reason = "the training strategy tells")
)]
pub(crate) fn learner_runs() {
    LEARNER_RAN.store(true, Ordering::Relaxed);
}

/// What the user should know of the learner's log, if the learner ran since the last call.
pub(crate) fn learners_log() -> Option<&'static str> {
    let ran = LEARNER_RAN.swap(false, Ordering::Relaxed);
    (ran && OURS.load(Ordering::Relaxed)).then_some(
        "burn-train's learner wrote no experiment.log, since the session's `tracing` subscriber was \
         there first: for the log without `tracing` spans start the session with \
         `.subscriber(false)`, for both install a subscriber of your own with `.with(gpustall::layer())`",
    )
}

/// A session began or ended: call sites are to ask again whether they are on.
pub(crate) fn session_changed() {
    tracing::callsite::rebuild_interest_cache();
}

/// On while a session runs: spans of every level, events from INFO up.
pub(crate) struct WhileRecording;

impl WhileRecording {
    pub(crate) fn wants(metadata: &Metadata<'_>) -> bool {
        gate::session_runs() && (metadata.is_span() || *metadata.level() <= Level::INFO)
    }

    pub(crate) fn interest(metadata: &Metadata<'_>) -> Interest {
        match Self::wants(metadata) {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    pub(crate) fn level() -> LevelFilter {
        match gate::session_runs() {
            true => LevelFilter::TRACE,
            false => LevelFilter::OFF,
        }
    }
}

impl<S> Filter<S> for WhileRecording {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        Self::wants(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        Self::interest(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(Self::level())
    }
}

struct SpanLayer;

thread_local! {
    /// The spans that this thread is in: id, session, since when.
    static ENTERED: RefCell<Vec<(u64, Generation, MonoTime)>> = const { RefCell::new(Vec::new()) };
}

impl<S> Layer<S> for SpanLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_register_dispatch(&self, _: &tracing::Dispatch) {
        ATTACHED.store(true, Ordering::Relaxed);
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if gate::recording().is_none() || attributes.metadata().fields().is_empty() {
            return;
        }
        let mut fields = Fields::default();
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
            false => span.extensions().get::<Fields>().and_then(Fields::to_args),
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
        fields::record_event(event);
    }
}
