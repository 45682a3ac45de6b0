#!/bin/sh
# Opens trace files in Perfetto's own trace processor and checks that it takes them without
# complaint and shows every row that the file has.
#
#   tests/perfetto/check.sh FILE...     these files
#   tests/perfetto/check.sh             the corner cases that the crate's example writes
#
# Needs node (20 or newer), python3 with pip, and once the network.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
. "$here/processor.sh"

cargo build --quiet --release --manifest-path "$root/Cargo.toml" -p gpustall-trace --examples
if [ $# -eq 0 ]; then
    samples=$target/perfetto/samples
    rm -rf "$samples"
    "$target/release/examples/sample_traces" "$samples"
    set -- "$samples"/*
fi

failed=0
for file in "$@"; do
    rows=$("$target/release/examples/trace_rows" "$file")
    node "$here/check.cjs" "$processor" "$file" "$rows" || failed=1
done
exit $failed
