//! Writes traces with everything that viewers stumble over, for the check against real Perfetto.
//!
//! `cargo run --release -p gpustall-trace --example sample_traces -- DIRECTORY [ROUNDS]`
//!
//! With ROUNDS only a trace of four times as many stretches off CPU is written, `switches.trace.json.gz`.

mod corners;
mod kernel;
mod loader;

use corners::corners;
use gpustall_trace::{
    Interval, Meta, Pid, Process, Slice, State, Tid, Trace, TraceTime, Track, TrackId, TrackKind,
    write_finished,
};
use kernel::kernel;
use loader::{loader, write_partial};
use std::path::Path;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let directory = std::env::args_os()
        .nth(1)
        .ok_or("usage: sample_traces DIRECTORY [ROUNDS]")?;
    let directory = Path::new(&directory);
    std::fs::create_dir_all(directory)?;
    if let Some(rounds) = std::env::args().nth(2) {
        let trace = kernel(rounds.parse()?);
        let began = std::time::Instant::now();
        let stats = write_finished(&directory.join("switches.trace.json.gz"), &trace)?;
        println!("{:.1} s: {stats:?}", began.elapsed().as_secs_f64());
        return Ok(());
    }
    for (name, trace) in [
        ("empty.trace.json", empty()),
        ("kernel.trace.json", kernel(1_000)),
        ("corners.trace.json", corners()),
        ("corners.trace.json.gz", corners()),
        ("loader.trace.json.gz", loader(2_000)),
        ("large.trace.json", loader(60_000)),
        ("large.trace.json.gz", loader(60_000)),
    ] {
        let stats = write_finished(&directory.join(name), &trace)?;
        println!("{name}: {stats:?}");
    }
    let partial = directory.join("loader.trace.json.partial");
    write_partial(&partial, 2_000)?;
    let bytes = std::fs::read(&partial)?;
    std::fs::write(
        directory.join("cut.trace.json.partial"),
        &bytes[..bytes.len() - 77],
    )?;
    write_partial(&directory.join("large.trace.json.partial"), 60_000)?;
    Ok(())
}

fn time(ns: u64) -> TraceTime {
    TraceTime::from_nanos(ns)
}

fn span(start: u64, length: u64) -> Interval {
    Interval::new(time(start), time(start + length))
}

fn empty() -> Trace {
    let meta = Meta {
        name: "sample".into(),
        recorder: env!("CARGO_PKG_VERSION").into(),
        pid: Pid(100),
        cpus: 4,
        state: State::Finished,
        ..Meta::default()
    };
    let mut trace = Trace {
        meta,
        ..Trace::default()
    };
    let name = trace.strings.intern("trainer");
    trace.processes.push(Process {
        pid: Pid(100),
        name,
        sort: 0,
    });
    for tid in 100..104 {
        let text = if tid == 100 {
            "main".into()
        } else {
            format!("dataloader-{}", tid - 101)
        };
        let name = trace.strings.intern(&text);
        let (pid, tid, kind) = (Pid(100), Tid(tid), TrackKind::Thread);
        trace.tracks.push(Track {
            pid,
            tid,
            name,
            sort: tid.0 as i32 - 100,
            kind,
        });
    }
    trace
}

fn slice(trace: &mut Trace, track: u32, name: &str, cat: &str, span: Interval) {
    let (name, cat) = (trace.strings.intern(name), trace.strings.intern(cat));
    let args = Box::new([]);
    trace.slices.push(Slice {
        track: TrackId(track),
        name,
        cat,
        span,
        args,
    });
}
