//! What a span costs: recorded directly, through our `tracing` layer, through tracing-chrome's,
//! and with recording off.
//!
//! ```text
//! cargo bench -p gpustall --bench span_cost
//! ```
//!
//! Spans are recorded in bursts that fit the ring of a thread, with the ring drained in between
//! and outside of the measurement, so that no span is dropped while it is measured. The last
//! lines print the ratios; they are what to compare between machines.

#![allow(clippy::unwrap_used, reason = "a benchmark may stop where it stands")]

use criterion::{Criterion, criterion_group, criterion_main};
use std::cell::Cell;
use std::hint::black_box;
use std::time::{Duration, Instant};
use tracing_subscriber::prelude::*;

/// Spans in a burst; below the capacity that a ring leaves to user spans.
const BURST: u64 = 2000;

/// Two drains: the ring is empty again.
const DRAIN: Duration = Duration::from_millis(210);

/// Bursts that one measurement times at most: criterion asks for millions of spans, and the
/// pauses between bursts would take hours.
const MAX_BURSTS: u64 = 4;

thread_local! {
    /// Spans recorded since the ring was last emptied.
    static IN_RING: Cell<u64> = const { Cell::new(0) };
}

/// Times `spans` calls of `call`, in bursts; `settle` empties the ring whenever a burst is in it.
fn bursts(spans: u64, settle: impl Fn(), mut call: impl FnMut()) -> Duration {
    let mut timed = Duration::ZERO;
    let mut done = 0;
    while done < spans && done < MAX_BURSTS * BURST {
        let burst = (BURST - IN_RING.get()).min(spans - done);
        let start = Instant::now();
        for _ in 0..burst {
            call();
        }
        timed += start.elapsed();
        done += burst;
        IN_RING.set(IN_RING.get() + burst);
        if IN_RING.get() == BURST {
            settle();
            IN_RING.set(0);
        }
    }
    timed.mul_f64(spans as f64 / done.max(1) as f64)
}

fn drain() {
    std::thread::sleep(DRAIN);
}

fn clock(c: &mut Criterion) {
    c.bench_function("two clock readings", |b| {
        b.iter(|| {
            black_box(gpustall::trace::MonotonicClock::read());
            black_box(gpustall::trace::MonotonicClock::read());
        });
    });
}

fn disabled(c: &mut Criterion) {
    c.bench_function("direct span, no session", |b| {
        b.iter(|| {
            let _span = gpustall::span(black_box("work"));
        });
    });
    c.bench_function("nothing", |b| b.iter(|| black_box("work")));
    tracing::subscriber::with_default(
        tracing_subscriber::registry().with(gpustall::layer()),
        || {
            c.bench_function("tracing span, our layer, no session", |b| {
                b.iter(|| {
                    let _span = tracing::info_span!("work").entered();
                });
            });
        },
    );
}

/// What any subscriber that is made of layers costs.
fn registry(c: &mut Criterion) {
    tracing::subscriber::with_default(tracing_subscriber::registry(), || {
        c.bench_function("tracing span, registry without layers", |b| {
            b.iter(|| {
                let _span = tracing::info_span!("work").entered();
            });
        });
    });
}

fn recording(c: &mut Criterion) {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("bench.trace.json");
    // Nothing else has installed a subscriber, so the session's is the global one.
    let session = gpustall::session("bench").output(output);
    let session = session.start().unwrap();
    c.bench_function("tracing span, session's subscriber", |b| {
        b.iter_custom(|spans| {
            bursts(spans, drain, || {
                let _span = tracing::info_span!("work").entered();
            })
        });
    });
    c.bench_function("tracing span with a field, session's subscriber", |b| {
        b.iter_custom(|spans| {
            bursts(spans, drain, || {
                let _span = tracing::info_span!("work", index = 7).entered();
            })
        });
    });
    c.bench_function("direct span", |b| {
        b.iter_custom(|spans| {
            bursts(spans, drain, || {
                let _span = gpustall::span(black_box("work"));
            })
        });
    });
    tracing::subscriber::with_default(
        tracing_subscriber::registry().with(gpustall::layer()),
        || {
            c.bench_function("tracing span, our layer", |b| {
                b.iter_custom(|spans| {
                    bursts(spans, drain, || {
                        let _span = tracing::info_span!("work").entered();
                    })
                });
            });
            c.bench_function("tracing span with a field, our layer", |b| {
                b.iter_custom(|spans| {
                    bursts(spans, drain, || {
                        let _span = tracing::info_span!("work", index = 7).entered();
                    })
                });
            });
        },
    );
    drop(session);
}

fn tracing_chrome(c: &mut Criterion) {
    let (layer, guard) = tracing_chrome::ChromeLayerBuilder::new()
        .writer(std::io::sink())
        .include_args(true)
        .build();
    // Its queue is unbounded: what it holds is written before the next burst is timed.
    let settle = || {
        guard.flush();
        drain();
    };
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        c.bench_function("tracing span, tracing-chrome", |b| {
            b.iter_custom(|spans| {
                bursts(spans, settle, || {
                    let _span = tracing::info_span!("work").entered();
                })
            });
        });
        c.bench_function("tracing span with a field, tracing-chrome", |b| {
            b.iter_custom(|spans| {
                bursts(spans, settle, || {
                    let _span = tracing::info_span!("work", index = 7).entered();
                })
            });
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = clock, disabled, registry, recording, tracing_chrome
}
criterion_main!(benches);
