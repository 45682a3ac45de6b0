#!/usr/bin/env bash
# Compares traces of unchanged PyTorch programs with what they did:
# tests/pytorch/check.sh [--built] [CASE...], with --built by the command that `cargo test --workspace` built.
#
# PyTorch is installed into a folder under the target directory, once: 4.7 GB, a minute or two.
# PYTHON_WITH_PYTORCH names a Python that has it already.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
python=${PYTHON_WITH_PYTORCH:-$target/pytorch/bin/python}
if ! "$python" -c 'import torch' 2>/dev/null; then
    [ -z "${PYTHON_WITH_PYTORCH:-}" ] || { echo "$python has no PyTorch" >&2; exit 1; }
    python3 -m venv "$target/pytorch"
    "$python" -m pip install --quiet --no-cache-dir --disable-pip-version-check torch==2.11.0 numpy
fi
if [ "${1:-}" = --built ]; then shift; else cargo build -p gpustall-cli; fi
exec "$python" tests/pytorch/check.py "$target/debug/gpustall" "$@"
