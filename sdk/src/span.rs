//! Direct calls for hot paths: a span costs its two clock readings and one store to a ring.

use crate::recorder::gate::{self, Generation};
use crate::recorder::ring::push;
use crate::recorder::{Args, Category, Record};
use gpustall_trace::{MonoTime, MonotonicClock};
use std::marker::PhantomData;

/// Records the time until the guard is dropped, as a slice `name` on the calling thread.
///
/// Cheaper than a `tracing` span: no subscriber, no registry, no allocation. While no session
/// records it costs one relaxed load.
///
/// ```
/// fn augment(image: &mut [u8]) {
///     let _span = gpustall::span("augment");
///     image.reverse();
/// }
/// # augment(&mut [1, 2]);
/// ```
#[inline]
pub fn span(name: &'static str) -> SpanGuard {
    SpanGuard::begin(Category::Span, name)
}

/// Records that `name` happened now on the calling thread.
#[inline]
pub fn instant(name: &'static str) {
    if let Some(generation) = gate::recording() {
        push(
            generation,
            Record::Instant {
                cat: Category::Event,
                name,
                at: MonotonicClock::read(),
                args: None,
            },
        );
    }
}

/// Records that the counter `name` has `value` from now on.
#[inline]
pub fn counter(name: &'static str, value: f64) {
    if let Some(generation) = gate::recording() {
        push(
            generation,
            Record::Counter {
                name,
                at: MonotonicClock::read(),
                value,
            },
        );
    }
}

/// A slice that ends when this is dropped. Made by [`span()`] and
/// [`instrument::phase`](crate::instrument::phase).
#[must_use = "the slice ends when the guard is dropped: bind it, as in `let _span = ...`"]
#[derive(Debug)]
pub struct SpanGuard {
    begun: Option<(Generation, MonoTime)>,
    cat: Category,
    name: &'static str,
    /// A slice lies on one thread.
    not_send: PhantomData<*const ()>,
}

impl SpanGuard {
    #[inline]
    pub(crate) fn begin(cat: Category, name: &'static str) -> Self {
        Self {
            begun: gate::recording().map(|generation| (generation, MonotonicClock::read())),
            cat,
            name,
            not_send: PhantomData,
        }
    }

    /// As [`begin`](Self::begin), and visible in the partial file while it has not ended.
    pub(crate) fn begin_visibly(cat: Category, name: &'static str, args: Args) -> Self {
        let guard = Self::begin(cat, name);
        if let Some((generation, start)) = guard.begun {
            push(
                generation,
                Record::Open {
                    cat,
                    name,
                    start,
                    args,
                    reading: None,
                },
            );
            #[cfg(feature = "burn-cuda")]
            if cat == Category::Phase {
                crate::burn_cuda::begins(generation, name, start);
            }
        }
        guard
    }
}

impl Drop for SpanGuard {
    #[inline]
    fn drop(&mut self) {
        if let Some((generation, start)) = self.begun
            && generation.is_current()
        {
            push(
                generation,
                Record::Slice {
                    cat: self.cat,
                    name: self.name,
                    start,
                    end: MonotonicClock::read(),
                    args: None,
                },
            );
        }
        #[cfg(feature = "burn-cuda")]
        if let Some((generation, start)) = self.begun
            && self.cat == Category::Phase
        {
            crate::burn_cuda::ends(generation, self.name, start);
        }
    }
}
