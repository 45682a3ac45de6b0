//! The address at which Perfetto's UI loads a trace and arranges it.

use super::view::View;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

/// What stands for itself in a query.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// `ui` with the trace at `address`: its tracks pinned, a stall selected, the time around it shown.
///
/// The names are those of Perfetto's deep links (<https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui>);
/// a UI that does not know one leaves it.
pub(super) fn link(ui: &str, address: &str, view: &View) -> String {
    let commands: Vec<_> = view
        .pins
        .iter()
        .map(|name| json!({ "id": "dev.perfetto.PinTracksByRegex", "args": [exactly(name)] }))
        .collect();
    let mut query = vec![("url", address.to_owned())];
    if let Some(shown) = view.shown {
        query.push(("visStart", shown.start.as_nanos().to_string()));
        query.push(("visEnd", shown.end.as_nanos().to_string()));
    }
    if let Some(selected) = view.selected {
        query.push(("ts", selected.start.as_nanos().to_string()));
        query.push(("dur", selected.len().get().to_string()));
    }
    if !commands.is_empty() {
        query.push(("startupCommands", json!(commands).to_string()));
    }
    let query: Vec<String> = query
        .iter()
        .map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, QUERY)))
        .collect();
    format!("{}/#!/?{}", ui.trim_end_matches('/'), query.join("&"))
}

/// A regular expression of JavaScript that only `name` matches.
fn exactly(name: &str) -> String {
    let mut of = String::from("^");
    for c in name.chars() {
        if r"\^$.*+?()[]{}|/".contains(c) {
            of.push('\\');
        }
        of.push(c);
    }
    of.push('$');
    of
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpustall_trace::{Interval, TraceTime};

    fn span(start: u64, end: u64) -> Interval {
        Interval::new(TraceTime::from_nanos(start), TraceTime::from_nanos(end))
    }

    #[test]
    fn a_link_says_what_is_pinned_shown_and_selected() {
        let view = View {
            pins: vec!["GPU (0) 1".to_owned()],
            shown: Some(span(1000, 9000)),
            selected: Some(span(2000, 2500)),
        };
        let link = link(
            "https://ui.perfetto.dev/",
            "http://127.0.0.1:9001/a.json",
            &view,
        );
        assert_eq!(
            link,
            concat!(
                "https://ui.perfetto.dev/#!/?url=http%3A%2F%2F127.0.0.1%3A9001%2Fa.json",
                "&visStart=1000&visEnd=9000&ts=2000&dur=500&startupCommands=",
                "%5B%7B%22args%22%3A%5B%22%5EGPU%20%5C%5C%280%5C%5C%29%201%24%22%5D%2C",
                "%22id%22%3A%22dev.perfetto.PinTracksByRegex%22%7D%5D"
            )
        );
    }

    #[test]
    fn a_trace_without_a_story_is_opened_as_it_is() {
        let link = link(
            "http://localhost:10000",
            "http://127.0.0.1:9001/a",
            &View::default(),
        );
        assert_eq!(
            link,
            "http://localhost:10000/#!/?url=http%3A%2F%2F127.0.0.1%3A9001%2Fa"
        );
    }
}
