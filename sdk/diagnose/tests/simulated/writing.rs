//! How a profiler writes what was played.

use super::machine::{Event, Machine, PID};
use std::fmt::Write;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// PyTorch 2: times from `baseTimeNanoseconds`.
    Today,
    /// PyTorch 1.8: other categories, whole microseconds since the epoch, ids as texts.
    Of2021,
    /// Begins and ends, the last event first, numbers as texts.
    Otherwise,
}

pub const EVERY: [Writing; 3] = [Writing::Today, Writing::Of2021, Writing::Otherwise];

/// Microseconds since the epoch at which the machine's clock was zero.
const BASE_US: u64 = 1_764_000_000_000_000;

impl Writing {
    fn cat(self, event: &Event) -> &'static str {
        match (self, event.cat) {
            (Writing::Of2021, "kernel") => "Kernel",
            (Writing::Of2021, "gpu_memcpy") => "Memcpy",
            (Writing::Of2021, "gpu_memset") => "Memset",
            (Writing::Of2021, "cuda_runtime") => "Runtime",
            (Writing::Of2021, "cpu_op" | "user_annotation") => "Operator",
            (_, cat) => cat,
        }
    }

    /// How far a time in the file may be off, in nanoseconds.
    pub fn grain(self) -> u64 {
        match self {
            Writing::Of2021 => 1000,
            _ => 1,
        }
    }

    fn time(self, ns: u64) -> String {
        match self {
            Writing::Today => format!("{}.{:03}", ns / 1000, ns % 1000),
            Writing::Of2021 => format!("{}", BASE_US + (ns + 500) / 1000),
            Writing::Otherwise => format!("\"{}.{:03}\"", BASE_US + ns / 1000, ns % 1000),
        }
    }

    fn event(self, event: &Event, lines: &mut Vec<String>) {
        let cat = self.cat(event);
        let Event {
            name,
            pid,
            tid,
            span,
            args,
            ..
        } = event;
        let (pid, tid) = match (self, *pid == PID) {
            (_, false) if *pid == u32::MAX => ("-1".to_owned(), tid.to_string()),
            (Writing::Of2021, false) => (pid.to_string(), format!("\"stream {tid}\"")),
            (Writing::Of2021, true) => (pid.to_string(), format!("\"{tid}\"")),
            _ => (pid.to_string(), tid.to_string()),
        };
        let args = match self {
            // The numbers, but for lists.
            Writing::Otherwise => quoted(args),
            _ => args.clone(),
        };
        let head = format!(r#""cat":"{cat}","name":"{name}","pid":{pid},"tid":{tid}"#);
        let from = self.time(span.0);
        if self == Writing::Otherwise && event.pid == PID {
            // What ends as another one begins must end before it, in whatever order they stand.
            let to = self.time(span.1.saturating_sub(1).max(span.0));
            lines.push(format!(
                r#"{{"ph":"B",{head},"ts":{from},"args":{{{args}}}}}"#
            ));
            lines.push(format!(r#"{{"ph":"E",{head},"ts":{to}}}"#));
            return;
        }
        let grain = self.grain();
        let length = (span.1 + grain / 2) / grain * grain - (span.0 + grain / 2) / grain * grain;
        let mut line = format!(r#"{{"ph":"X",{head},"ts":{from},"dur":"#);
        let _ = match self {
            Writing::Of2021 => write!(line, "{}", length / 1000),
            _ => write!(line, "{}.{:03}", length / 1000, length % 1000),
        };
        let _ = write!(line, r#","args":{{{args}}}}}"#);
        lines.push(line);
    }

    /// The file.
    pub fn json(self, machine: &Machine) -> String {
        let mut lines = Vec::new();
        for event in &machine.events {
            self.event(event, &mut lines);
        }
        if self == Writing::Otherwise {
            lines.reverse();
        }
        let mut head = String::from(r#"{"schemaVersion":1,"#);
        if self == Writing::Today {
            let _ = write!(head, r#""baseTimeNanoseconds":{}000,"#, BASE_US);
        }
        if let Some((rank, size)) = machine.ranks {
            let _ = write!(
                head,
                r#""distributedInfo":{{"backend":"nccl","rank":{rank},"world_size":{size}}},"#
            );
        }
        format!("{head}\"traceEvents\":[{}]}}", lines.join(",\n"))
    }
}

/// Arguments whose values are whole numbers, with these as texts.
fn quoted(args: &str) -> String {
    let one = |arg: &str| match arg.split_once(':') {
        Some((key, value)) if value.bytes().all(|b| b.is_ascii_digit()) => {
            format!("{key}:\"{value}\"")
        }
        _ => arg.to_owned(),
    };
    args.split(',').map(one).collect::<Vec<_>>().join(",")
}
