#!/bin/sh
# Compares the scheduler tracks that Perfetto's own trace processor makes of trace files with what
# was recorded: every state of every thread, to the nanosecond.
#
#   tests/perfetto/sched.sh FILE...     these files
#   tests/perfetto/sched.sh             a recording of a small job, made now (needs root)
#
# Needs node (20 or newer), python3 with pip, and once the network.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
. "$here/processor.sh"

if [ $# -eq 0 ]; then
    cargo build --quiet --manifest-path "$root/Cargo.toml" -p gpustall-sidecar
    mkdir -p "$target/perfetto"
    set -- "$target/perfetto/record.trace.json.gz"
    "$target/debug/gpustall-sidecar" record -o "$1" -- python3 "$here/busy.py" 2
fi

cargo build --quiet --release --manifest-path "$root/Cargo.toml" -p gpustall-trace --examples
failed=0
for file in "$@"; do
    rows=$(mktemp)
    "$target/release/examples/sched_rows" "$file" >"$rows"
    node "$here/sched.cjs" "$processor" "$file" "$rows" || failed=1
    rm -f "$rows"
done
exit $failed
