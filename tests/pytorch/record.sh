#!/usr/bin/env bash
# Records again what the hook leaves, for tests that read it without PyTorch: tests/pytorch/record.sh PYTHON
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$1
record() {
    local out=tests/fixtures/python/$1 program=$2
    shift 2
    rm -rf "$out"
    mkdir -p "$out"
    GPUSTALL_OUTPUT=$PWD/$out PYTHONPATH=sdk/inject/python PYTHONDONTWRITEBYTECODE=1 \
        "$python" "tests/pytorch/$program" "${@/TRUTH/$out/truth.json}" >/dev/null 2>&1
    # Only the slots that were written.
    "$python" - "$out" <<'PY'
import pathlib, sys
for path in pathlib.Path(sys.argv[1]).glob("*.marks"):
    path.write_bytes(path.read_bytes().rstrip(b"\0").ljust(64, b"\0"))
    data = path.read_bytes()
    path.write_bytes(data + bytes(-len(data) % 64))
PY
}
record in-process program.py TRUTH
record fork program.py TRUTH --workers 2
record spawn program.py TRUTH --workers 2 --start spawn --persistent
record prefetch patterns.py prefetch_thread_and_workers TRUTH
rm -f sdk/inject/python/loaded
