//! Two threads with `tracing` spans that sleep and compute, recorded by tracing-chrome's layer with
//! the anchors that let its file be merged with a recording of the kernel.
//!
//! ```text
//! cargo build -p gpustall --no-default-features --features tracing-chrome --example chrome_spans
//! gpustall-sidecar record -o kernel.trace.json.gz -- target/debug/examples/chrome_spans spans.json
//! gpustall merge spans.json kernel.trace.json.gz -o both.trace.json.gz
//! ```

use std::time::{Duration, Instant};
use tracing_subscriber::prelude::*;

fn main() -> std::io::Result<()> {
    let path = std::env::args_os()
        .nth(1)
        .ok_or_else(|| std::io::Error::other("usage: chrome_spans FILE"))?;
    let (layer, guard) = gpustall::chrome::layer(path)?;
    tracing_subscriber::registry().with(layer).init();
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    drop(guard);
    Ok(())
}

/// Sleeps and computes in turn, each in a span.
fn work() {
    for _ in 0..20 {
        tracing::info_span!("wait").in_scope(|| std::thread::sleep(Duration::from_millis(5)));
        tracing::info_span!("compute").in_scope(|| {
            let end = Instant::now() + Duration::from_millis(5);
            while Instant::now() < end {
                std::hint::spin_loop();
            }
        });
    }
}
