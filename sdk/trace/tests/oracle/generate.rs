//! Random events such as PyTorch writes.

use proptest::prelude::*;
use serde_json::{Value, json};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(vec!["aten::mul", "ProfilerStep#4", "k<4>", "", "漢 🚀", "a\"\\\n\u{1}"]),
    ]
    .prop_map(String::from)
    .boxed()
    .prop_union(any::<String>().boxed())
}

fn cat() -> impl Strategy<Value = Option<&'static str>> {
    prop::sample::select(vec![
        None,
        Some("kernel"),
        Some("gpu_memcpy"),
        Some("cuda_runtime"),
        Some("cpu_op"),
        Some("gpu_user_annotation"),
        Some("cuda_sync"),
        Some("Kernel"),
        Some("Memset"),
        Some("Operator"),
        Some("async"),
        Some("ac2g"),
        Some("other"),
    ])
}

fn id() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => (0..3).prop_map(|n: i32| json!(n)),
        1 => (0..3).prop_map(|n: i32| json!(n.to_string())),
        1 => prop::sample::select(vec![json!("stream 7"), json!("Spans"),
            json!(""), json!(-1), json!(4_000_000_000_000_u64)]),
    ]
}

/// Microseconds, at most three decimals, so small that a double holds them exactly enough.
fn time() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..40).prop_map(|us| json!(us)),
        (0..40_000).prop_map(|ns| json!(f64::from(ns) / 1000.0)),
        (-5_000_000..5_000_000).prop_map(|ns| json!(f64::from(ns) / 1000.0)),
    ]
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => any::<u16>().prop_map(|n| json!(n)),
        1 => any::<i64>().prop_map(|n| json!(n)),
        1 => any::<u64>().prop_map(|n| json!(n)),
        1 => any::<f64>().prop_map(|n| json!(n)),
        1 => text().prop_map(|t| json!(t)),
        1 => prop::sample::select(vec![json!(null), json!(true), json!([1, "]"]), json!({"a": {}})]),
    ]
}

fn args() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec![
        "device",
        "stream",
        "correlation",
        "bytes",
        "External id",
        "external id",
        "cbid",
        "grid",
        "memory bandwidth (GB/s)",
        "cuda_sync_kind",
        "Device",
        "value",
    ]);
    prop::collection::vec((key, scalar()), 0..6).prop_map(|pairs| {
        // One spelling at most: the order of keys is not that of the file.
        let mut map: serde_json::Map<String, Value> =
            pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        if map.contains_key("External id") {
            map.remove("external id");
        }
        // A device or stream is a small number or absent.
        for key in ["device", "stream"] {
            if map
                .get(key)
                .is_some_and(|v| v.as_u64().is_none_or(|n| n > 1 << 40))
            {
                map.remove(key);
            }
        }
        Value::Object(map)
    })
}

/// Any event.
pub(crate) fn event() -> impl Strategy<Value = Value> {
    let phase = prop::sample::select(vec![
        "X", "X", "X", "X", "i", "s", "f", "B", "E", "C", "M", "P",
    ]);
    let ids = (id(), id(), 0..4);
    (
        phase,
        cat(),
        text(),
        ids,
        time(),
        prop::option::of(time()),
        args(),
        any::<bool>(),
    )
        .prop_map(|(ph, cat, name, (pid, tid, id), ts, dur, args, flag)| {
            let mut event =
                json!({"ph": ph, "name": name, "pid": pid, "tid": tid, "ts": ts, "args": args});
            if let Some(cat) = cat {
                event["cat"] = json!(cat);
            }
            match ph {
                "X" => {
                    if let Some(dur) = dur {
                        event["dur"] = dur;
                    }
                }
                "s" | "f" => event["id"] = json!(id),
                "M" => {
                    event["name"] = json!(if flag { "process_name" } else { "thread_name" });
                    event["args"] = json!({"name": name});
                }
                _ => {}
            }
            event
        })
}
