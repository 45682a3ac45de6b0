//! The fields of `tracing` spans and events as arguments of records.

use crate::recorder::gate;
use crate::recorder::ring::push;
use crate::recorder::{Args, Category, Record, Text};
use gpustall_trace::{MonotonicClock, vocab};
use std::fmt;
use tracing::Event;
use tracing::field::{Field, Visit};

/// Fields and their values, in the order in which they were given.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<(&'static str, Text)>);

/// An event of the program, if a session records.
pub(crate) fn record_event(event: &Event<'_>) {
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

impl Fields {
    #[cfg(test)]
    pub(crate) fn of(name: &'static str, value: Text) -> Self {
        Self(vec![(name, value)])
    }

    /// A copy of them for a record.
    pub(crate) fn to_args(&self) -> Args {
        (!self.0.is_empty()).then(|| self.0.as_slice().into())
    }

    /// Takes over other values.
    pub(crate) fn merge(&mut self, other: Self) {
        other
            .0
            .into_iter()
            .for_each(|(name, value)| self.put(name, value));
    }

    fn set(&mut self, field: &Field, value: Text) {
        self.put(field.name(), value);
    }

    /// The last value given to a field stands, as in `tracing`'s own formatter.
    fn put(&mut self, name: &'static str, value: Text) {
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
