#!/bin/sh
# Compares the scheduler tracks that Perfetto's own trace processor makes of trace files with what
# was recorded: every state of every thread, to the nanosecond.
#
#   tests/perfetto/sched.sh FILE...     these files
#   tests/perfetto/sched.sh             recordings made now (needs root): of a small job, and of one
#                                       whose spans are merged in
#   tests/perfetto/sched.sh --built     the same, by the commands that `cargo test --workspace` built
#
# Needs node (20 or newer), python3 with pip, and once the network.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
. "$here/processor.sh"

cargo build --quiet --release --manifest-path "$root/Cargo.toml" -p gpustall-trace --examples

if [ $# -eq 0 ] || [ "$1" = --built ]; then
    cd "$root"
    [ $# -gt 0 ] || cargo build --quiet -p gpustall-sidecar -p gpustall-cli
    cargo build --quiet -p gpustall --no-default-features --features tracing-chrome --example chrome_spans
    made=$target/perfetto/made
    rm -rf "$made" && mkdir -p "$made"
    record=$target/debug/gpustall-sidecar
    "$record" record -o "$made/busy.trace.json.gz" -- python3 "$here/busy.py" 2
    "$record" record -o "$made/kernel.trace.json" -- \
        "$target/debug/examples/chrome_spans" "$made/spans.json"
    "$target/debug/gpustall" merge "$made/spans.json" "$made/kernel.trace.json" \
        -o "$made/merged.trace.json.gz" >"$made/merged.txt"
    # More than there is room for.
    "$target/release/examples/sample_traces" "$made" 60000 >"$made/switches.txt"
    set -- "$made"/*.trace.json*
fi

failed=0
seen=
for file in "$@"; do
    rows=$(mktemp)
    "$target/release/examples/sched_rows" "$file" >"$rows"
    said=$(node "$here/sched.cjs" "$processor" "$file" "$rows") || failed=1
    echo "$said"
    seen=$seen$said
    rm -f "$rows"
done
if [ -n "${made:-}" ]; then
    # The spans are in the merged trace, and of another there was too much.
    case $seen in *'"sleeps":40,'*) ;; *) echo "spans are missing" && failed=1 ;; esac
    case $seen in *'"cut":true'*) ;; *) echo "nothing was left out" && failed=1 ;; esac
fi
exit $failed
