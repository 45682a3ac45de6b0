#!/usr/bin/env bash
# Records again what the hook leaves, for tests that read it without PyTorch: tests/pytorch/record.sh PYTHON
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$1
record() {
    local out=tests/fixtures/python/$1
    shift
    rm -rf "$out"
    mkdir -p "$out"
    GPUSTALL_OUTPUT=$PWD/$out PYTHONPATH=sdk/inject/python PYTHONDONTWRITEBYTECODE=1 \
        "$python" tests/pytorch/program.py "$out/truth.json" "$@" 2>/dev/null
    # Only the slots that were written.
    "$python" - "$out" <<'PY'
import pathlib, sys
for path in pathlib.Path(sys.argv[1]).glob("*.marks"):
    path.write_bytes(path.read_bytes().rstrip(b"\0").ljust(64, b"\0"))
    data = path.read_bytes()
    path.write_bytes(data + bytes(-len(data) % 64))
PY
}
record in-process
record fork --workers 2
record spawn --workers 2 --start spawn --persistent
rm -f sdk/inject/python/loaded
