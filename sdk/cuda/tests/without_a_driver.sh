#!/usr/bin/env bash
# libcupti without a driver: the library for jobs says so in one line, and the job goes on.
# Takes the library (libgpustall_inject.so) as its argument; fetches NVIDIA's wheel of CUPTI.
set -euo pipefail
library=$(realpath "${1:?name libgpustall_inject.so}")
[ ! -e /dev/nvidiactl ] || { echo "this machine has a driver: not what is tested here"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for package in nvidia-cuda-cupti nvidia-cuda-cupti-cu12; do
    rm -rf "$work/wheel" "$work/out"
    mkdir "$work/wheel" "$work/out"
    python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$work/wheel" "$package"
    python3 -m zipfile -e "$work"/wheel/*.whl "$work/wheel"
    cupti=$(find "$work/wheel" -name 'libcupti.so.1[0-9]' | head -1)
    said=$(GPUSTALL_OUTPUT="$work/out" GPUSTALL_CUPTI="$cupti" python3 -c '
import ctypes, sys
print("driver may go on:", ctypes.CDLL(sys.argv[1]).InitializeInjection())' "$library")
    [ "$said" = "driver may go on: 1" ]
    notes=$(cat "$work"/out/*.json.partial | grep -c gpustall.note)
    [ "$notes" = 1 ]
    grep -q 'device operations were not recorded: there is no CUDA driver' "$work"/out/*.json.partial
    echo "$package: $(basename "$cupti") without a driver gives the clear line"
done
