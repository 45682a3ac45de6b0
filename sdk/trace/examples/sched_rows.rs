//! Prints, as JSON, the scheduler states that Perfetto must show for each thread of a trace file.
//!
//! `cargo run -p gpustall-trace --example sched_rows -- FILE`
//!
//! They come from the stretches off CPU in the lossless block alone, not from the text that the
//! writer made of them. `short_ns` is how long a thread was off CPU in stretches that were not
//! recorded one by one.

use gpustall_trace::vocab::{arg, cat, state, totals};
use gpustall_trace::{Slice, Trace, Value, read};
use serde_json::json;
use std::collections::BTreeMap;

/// State, start and length in nanoseconds; the length is -1 if it lasted to the end.
type State = (&'static str, u64, i64);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: sched_rows FILE")?;
    let trace = read(path.as_ref())?.trace;
    let mut threads: BTreeMap<(u32, u64), (Vec<State>, u64)> = BTreeMap::new();
    let id = |track, args: &[_]| {
        let pid = trace.track(track)?.pid.0;
        Some((pid, trace.arg_u64(args, arg::THREAD)?))
    };
    for slice in &trace.slices {
        if trace.text(slice.cat) == cat::OFF_CPU
            && !slice.span.is_empty()
            && let Some(id) = id(slice.track, &slice.args)
        {
            states(&trace, slice, &mut threads.entry(id).or_default().0);
        }
    }
    for instant in &trace.instants {
        if trace.text(instant.cat) == cat::THREAD_TOTALS
            && let Some(id) = id(instant.track, &instant.args)
        {
            let ns = |key| trace.arg_u64(&instant.args, key).unwrap_or(0);
            threads.entry(id).or_default().1 += ns(totals::SHORT_NS) + ns(totals::LOST_NS);
        }
    }
    let threads = threads.into_iter().map(|((pid, tid), (states, short_ns))| {
        json!({ "pid": pid, "tid": tid, "states": states, "short_ns": short_ns })
    });
    println!("{}", json!(threads.collect::<Vec<_>>()));
    Ok(())
}

/// What a stretch off CPU consists of.
fn states(trace: &Trace, slice: &Slice, list: &mut Vec<State>) {
    let why = trace.arg_str(&slice.args, arg::STATE).unwrap_or_default();
    let lasts = trace.arg(&slice.args, arg::UNFINISHED) == Some(Value::Bool(true));
    let (start, end) = (slice.span.start.as_nanos(), slice.span.end.as_nanos());
    let runnable = trace.arg_u64(&slice.args, arg::RUNNABLE_NS).unwrap_or(0);
    let until_end = |from: u64| if lasts { -1 } else { (end - from) as i64 };
    let code = match why {
        state::PREEMPTED => return list.push(("R+", start, until_end(start))),
        state::STARTING => return list.push(("R", start, until_end(start))),
        state::SLEEPING => "S",
        state::UNINTERRUPTIBLE => "D",
        _ => "T",
    };
    if runnable == 0 || runnable >= end - start {
        return list.push((code, start, until_end(start)));
    }
    let woken = end - runnable;
    list.push((code, start, (woken - start) as i64));
    list.push(("R", woken, until_end(woken)));
}
