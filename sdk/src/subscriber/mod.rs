//! The subscriber that a session installs where the program has none.
//!
//! `tracing-subscriber`'s registry holds what any layer may ask of a span, and panics in a thread that is
//! about to end. Here a span's id says where it was opened,
//! and only the fields of spans that have some are kept. Nothing is freed, counted or locked for
//! the others.

mod callsites;
mod spans;

use crate::fields::{self, Fields};
use crate::layer::WhileRecording;
use crate::recorder::Record;
use crate::recorder::gate::{self, Generation};
use crate::recorder::ring::push;
use gpustall_trace::{MonoTime, MonotonicClock};
use std::cell::RefCell;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record as SpanRecord};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_core::span::Current;

/// Records spans and events of the whole process while a session does.
#[derive(Debug)]
pub(crate) struct SessionSubscriber;

/// A span that a thread is in: which, and since when if it is recorded.
type Entered = (u64, Option<(Generation, MonoTime)>);

thread_local! {
    /// The spans that this thread is in.
    static ENTERED: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
}

impl Subscriber for SessionSubscriber {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        WhileRecording::interest(metadata)
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        WhileRecording::wants(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(WhileRecording::level())
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let metadata = attributes.metadata();
        let fields = (!metadata.fields().is_empty()).then(|| {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            fields
        });
        spans::open(metadata, fields)
    }

    fn record(&self, id: &Id, values: &SpanRecord<'_>) {
        // The values are the program's, and writing them may open spans: not while the fields are held.
        let mut new = Fields::default();
        values.record(&mut new);
        spans::record(id, |fields| fields.merge(new));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        fields::record_event(event);
    }

    fn enter(&self, id: &Id) {
        let since = gate::recording().map(|generation| (generation, MonotonicClock::read()));
        // In a thread that is about to end there is no place for it.
        let _ = ENTERED.try_with(|stack| {
            if let Ok(mut stack) = stack.try_borrow_mut() {
                stack.push((id.into_u64(), since));
            }
        });
    }

    fn exit(&self, id: &Id) {
        let left = ENTERED.try_with(|stack| {
            let mut stack = stack.try_borrow_mut().ok()?;
            let position = stack.iter().rposition(|(open, _)| *open == id.into_u64())?;
            stack.remove(position).1
        });
        let Ok(Some((generation, start))) = left else {
            return;
        };
        if !generation.is_current() {
            return;
        }
        let end = MonotonicClock::read();
        if let Some(metadata) = spans::metadata(id) {
            let args = spans::args(id);
            push(
                generation,
                Record::Span {
                    metadata,
                    start,
                    end,
                    args,
                },
            );
        }
    }

    fn clone_span(&self, id: &Id) -> Id {
        spans::share(id);
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        spans::close(&id)
    }

    fn current_span(&self) -> Current {
        let innermost = ENTERED.try_with(|stack| Some(stack.try_borrow().ok()?.last()?.0));
        let current = innermost.ok().flatten().and_then(|id| {
            let id = Id::from_u64(id);
            let metadata = spans::metadata(&id)?;
            Some(Current::new(id, metadata))
        });
        current.unwrap_or_else(Current::none)
    }
}
