#!/usr/bin/env bash
# Builds the eBPF programs and puts the object where the sidecar includes it.
#
#   build.sh          rebuild ../prebuilt: the object, and SOURCES, what it was built from
#   build.sh --check-sources
#                     exit 1 unless the committed object was built from the sources as they are
#   build.sh --check  the same, and where the tools that built it are installed, build the sources
#                     and exit 1 unless that gives the same bytes
#
# Tools, needed only here:
#   rustup toolchain install nightly --component rust-src
#   cargo +nightly install bpf-linker@0.10.3
# GPUSTALL_PROBES_TOOLCHAIN names another toolchain than "nightly".
set -euo pipefail
cd "$(dirname "$0")"

toolchain=${GPUSTALL_PROBES_TOOLCHAIN:-nightly}
object=../prebuilt/gpustall-probes.bpf.o
sources=../prebuilt/SOURCES

# What the object is made of, one line a file, and the tools that made it.
list_sources() {
    LC_ALL=C find Cargo.toml Cargo.lock build.sh src ../wire/Cargo.toml ../wire/src -type f \
        ! -name tests.rs -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
}
list_tools() {
    echo "# $(rustc "+$toolchain" --version)"
    echo "# $(bpf-linker --version)"
}

have_tools() {
    command -v bpf-linker >/dev/null && rustc "+$toolchain" --version >/dev/null 2>&1 &&
        [ -d "$(rustc "+$toolchain" --print sysroot)/lib/rustlib/src/rust/library" ]
}

# Builds into $1. The paths of this machine are mapped away, so that two machines build the same
# bytes, and DWARF is left out: the kernel reads BTF only.
build() {
    local sysroot target flags dir host
    sysroot=$(rustc "+$toolchain" --print sysroot)
    host=$(rustc "+$toolchain" -vV | sed -n 's/^host: //p')
    target=${CARGO_TARGET_DIR:-$PWD/target}
    flags="-C debuginfo=2 -C link-arg=--btf --remap-path-prefix=$(cd .. && pwd)=. --remap-path-prefix=$sysroot=rust"
    for dir in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/; do
        flags+=" --remap-path-prefix=${dir%/}=crates"
    done
    RUSTFLAGS=$flags CARGO_TARGET_DIR=$target cargo "+$toolchain" build --quiet --locked \
        --release -Z build-std=core --target bpfel-unknown-none
    LD_LIBRARY_PATH=$sysroot/lib "$sysroot/lib/rustlib/$host/bin/rust-objcopy" --strip-debug \
        "$target/bpfel-unknown-none/release/gpustall-probes" "$1"
}

case ${1:-} in
"")
    if ! have_tools; then
        echo "build.sh: needs bpf-linker and $toolchain with rust-src; the top of this file says how to get them" >&2
        exit 2
    fi
    mkdir -p ../prebuilt
    build "$object"
    { list_tools; list_sources; } >"$sources"
    echo "built $object, $(stat -c %s "$object") bytes"
    ;;
--check | --check-sources)
    if ! diff <(grep -v '^#' "$sources") <(list_sources) >&2; then
        echo "build.sh: $object was not built from these sources; run $(basename "$0") and commit $(dirname "$object")" >&2
        exit 1
    fi
    if [ "$1" = --check-sources ]; then
        echo "the object is the one of these sources, as $sources says"
    elif ! have_tools; then
        echo "the object is the one of these sources, as $sources says (not rebuilt: the tools are not here)"
    elif ! diff <(grep '^#' "$sources") <(list_tools) >/dev/null; then
        echo "the object is the one of these sources, as $sources says (not rebuilt: it was made by other tools)"
    else
        fresh=$(mktemp)
        trap 'rm -f "$fresh"' EXIT
        build "$fresh"
        if ! cmp "$object" "$fresh" >&2; then
            echo "build.sh: $object differs from what these sources build; run $(basename "$0") and commit $(dirname "$object")" >&2
            exit 1
        fi
        echo "the object is the one that these sources build"
    fi
    ;;
*)
    sed -n '2,13s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
