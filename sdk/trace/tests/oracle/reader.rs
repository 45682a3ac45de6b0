//! The simple reader.

use serde_json::{Value, json};
use std::collections::HashMap;

fn ns(value: &Value) -> i64 {
    (value.as_f64().unwrap() * 1000.0).round() as i64
}

fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

fn shown(value: &Value) -> String {
    number(value).map_or_else(|| value.as_str().unwrap().to_owned(), |n| n.to_string())
}

fn known_cat(event: &Value) -> (&str, &'static str) {
    match event["cat"].as_str().unwrap_or("") {
        cat @ ("kernel" | "gpu_memcpy") => (cat, "stream"),
        "Kernel" => ("kernel", "stream"),
        "Memset" => ("gpu_memset", "stream"),
        cat @ "gpu_user_annotation" => (cat, "annotations"),
        cat @ "cuda_sync" => (cat, "waits"),
        "Operator" if event["name"].as_str().unwrap().starts_with("ProfilerStep#") => {
            ("user_annotation", "thread")
        }
        "Operator" => ("cpu_op", "thread"),
        "async" => ("ac2g", "thread"),
        cat => (cat, "thread"),
    }
}

/// The lines that describe a trace.
pub(crate) fn oracle(events: &[Value]) -> Vec<String> {
    let mut out = Vec::new();
    let usable = |e: &&Value| !matches!(e["ph"].as_str().unwrap(), "M" | "P");
    let first = events
        .iter()
        .filter(usable)
        .map(|e| ns(&e["ts"]))
        .min()
        .unwrap_or(0);
    let at = |e: &Value| ns(&e["ts"]) - first;
    let (mut processes, mut threads) = (HashMap::new(), HashMap::new());
    let lane = |e: &Value| (shown(&e["pid"]), shown(&e["tid"]));
    for e in events.iter().filter(|e| e["ph"] == "M") {
        let name = e["args"]["name"].as_str().unwrap().to_owned();
        if e["name"] == "process_name" {
            processes.insert(shown(&e["pid"]), name);
        } else {
            threads.insert(lane(e), name);
        }
    }
    let default = |what: &str, id: &Value| match number(id) {
        Some(n) => format!("{what} {n}"),
        None if shown(id).is_empty() => format!("{what} without a name"),
        None => shown(id),
    };
    let thread = |e: &Value| {
        let given = |name: &&String| !name.is_empty();
        let process = processes.get(&shown(&e["pid"])).filter(given).cloned();
        let thread = threads.get(&lane(e)).filter(given).cloned();
        let process = process.unwrap_or_else(|| default("process", &e["pid"]));
        let thread = thread.unwrap_or_else(|| default("thread", &e["tid"]));
        format!("{process:?} {thread:?}")
    };
    let device = |e: &Value| {
        let tid =
            number(&e["tid"]).or_else(|| e["tid"].as_str()?.strip_prefix("stream ")?.parse().ok());
        let device = number(&e["args"]["device"])
            .or(number(&e["pid"]))
            .unwrap_or(0);
        (device, number(&e["args"]["stream"]).or(tid).unwrap_or(0))
    };
    let place = |e: &Value, beside: &str| {
        let (device, stream) = device(e);
        let beside = if beside == "stream" {
            String::new()
        } else {
            format!(" {beside}")
        };
        format!(
            "{:?} {:?}",
            format!("GPU {device}"),
            format!("stream {stream}{beside}")
        )
    };
    let args = |e: &Value, on: Option<(i64, i64)>| {
        let mut args = Vec::new();
        for key in [
            "device",
            "stream",
            "correlation",
            "External id",
            "bytes",
            "memory bandwidth (GB/s)",
            "cuda_sync_kind",
        ] {
            let spelt = if key == "External id" && e["args"][key].is_null() {
                "external id"
            } else {
                key
            };
            let given = match (key, on) {
                ("device", Some((device, _))) => json!(device),
                ("stream", Some((_, stream))) => json!(stream),
                ("memory bandwidth (GB/s)" | "cuda_sync_kind", _) => e["args"][spelt].clone(),
                _ => whole(&e["args"][spelt]),
            };
            if !given.is_null() && !given.is_array() && !given.is_object() {
                args.push(format!("{key}={given}"));
            }
        }
        args.join(",")
    };
    let last_end = events
        .iter()
        .filter(|e| matches!(e["ph"].as_str().unwrap(), "X" | "i" | "B" | "E" | "C"))
        .filter(|e| {
            e["ph"] != "C"
                || e["args"]
                    .as_object()
                    .unwrap()
                    .values()
                    .any(Value::is_number)
        })
        .map(|e| at(e) + e.get("dur").map_or(0, |d| ns(d).max(0)))
        .max()
        .unwrap_or(0);

    for e in events.iter().filter(|e| e["ph"] == "X") {
        let (cat, on) = known_cat(e);
        let dur = e.get("dur").map_or(0, |d| ns(d).max(0));
        let (place, lane) = match on {
            "thread" => (thread(e), None),
            on => (place(e, on), Some(device(e))),
        };
        let name = e["name"].as_str().unwrap();
        out.push(format!(
            "slice {place} {cat} {name:?} {} +{dur} {}",
            at(e),
            args(e, lane)
        ));
    }
    let mut halves: Vec<&Value> = events
        .iter()
        .filter(|e| e["ph"] == "B" || e["ph"] == "E")
        .collect();
    halves.sort_by_key(|e| at(e));
    let mut open: HashMap<_, Vec<&Value>> = HashMap::new();
    let half = |e: &Value, end: i64, more: &str| {
        let (cat, name) = (known_cat(e).0, e["name"].as_str().unwrap());
        let args = [args(e, None), more.to_owned()]
            .into_iter()
            .filter(|a| !a.is_empty());
        let args = args.collect::<Vec<_>>().join(",");
        format!(
            "slice {} {cat} {name:?} {} +{} {args}",
            thread(e),
            at(e),
            end - at(e)
        )
    };
    for e in halves {
        let stack = open.entry(lane(e)).or_default();
        if e["ph"] == "B" {
            stack.push(e);
        } else if let Some(begin) = stack.pop() {
            out.push(half(begin, at(e), ""));
        }
    }
    for begin in open.into_values().flatten() {
        out.push(half(begin, last_end, "unfinished=true"));
    }
    for e in events.iter().filter(|e| e["ph"] == "i") {
        let name = e["name"].as_str().unwrap();
        out.push(format!(
            "instant {} {} {name:?} {} {}",
            thread(e),
            known_cat(e).0,
            at(e),
            args(e, None)
        ));
    }
    for e in events.iter().filter(|e| e["ph"] == "C") {
        for (key, value) in e["args"].as_object().unwrap() {
            if let Some(value) = value.as_f64() {
                let name = e["name"].as_str().unwrap();
                let name = if key == "value" {
                    name.to_owned()
                } else {
                    format!("{name} {key}")
                };
                out.push(format!("counter {name:?} {} {:?}", at(e), value.to_bits()));
            }
        }
    }
    let (mut leaving, mut arriving) = (HashMap::new(), HashMap::new());
    for e in events.iter().filter(|e| e["ph"] == "s" || e["ph"] == "f") {
        let key = (
            known_cat(e).0,
            e["name"].as_str().unwrap(),
            e["id"].as_i64().unwrap(),
        );
        let (own, other) = match e["ph"] == "s" {
            true => (&mut leaving, &mut arriving),
            false => (&mut arriving, &mut leaving),
        };
        let Some(met) = other.remove(&key) else {
            own.insert(key, e);
            continue;
        };
        let (from, to) = if e["ph"] == "s" { (e, met) } else { (met, e) };
        let exists = |end: &Value| {
            events.iter().any(|o| {
                let on = known_cat(o).1;
                let slice = o["ph"] == "X" && (on == "stream" || on == "thread");
                lane(o) == lane(end)
                    && (slice || matches!(o["ph"].as_str().unwrap(), "i" | "B" | "E"))
            })
        };
        if at(from) <= at(to) && exists(from) && exists(to) {
            out.push(format!(
                "flow {} {:?} {} {} -> {}",
                key.0,
                key.1,
                key.2,
                at(from),
                at(to)
            ));
        }
    }
    out.sort();
    out
}

/// A whole number however it is written, as an integer; anything else as it is.
fn whole(given: &Value) -> Value {
    let exact = |number: f64| {
        let is = number.fract() == 0.0 && number.abs() < 2_f64.powi(53);
        is.then_some(number as i64)
    };
    let number = match given {
        Value::Number(number) if number.is_f64() => number.as_f64().and_then(exact),
        Value::String(text) => {
            let short = text.parse::<i64>().ok();
            let short = short.filter(|number| number.unsigned_abs() < 10_u64.pow(18));
            short.or_else(|| text.parse().ok().and_then(exact))
        }
        _ => None,
    };
    number.map_or_else(|| given.clone(), Value::from)
}
