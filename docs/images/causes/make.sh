#!/bin/sh
# Makes the pictures of docs/causes.md: a trace for each cause, in Perfetto's own UI.
#
# Needs chromium and fonts, node with puppeteer-core, python3 with pip, and once the network:
#   apt-get install -y chromium fonts-dejavu-core && npm install puppeteer-core
# NODE_PATH says where node finds puppeteer-core; ONLY=data makes those whose names begin so.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
. "$root/tests/perfetto/processor.sh"

traces=$target/perfetto/causes
rm -rf "$traces"
cargo run --quiet --manifest-path "$root/Cargo.toml" -p gpustall-diagnose --example cause_pictures "$traces"
node "$here/shoot.cjs" "$(dirname "$processor")" "$traces" "$here"

# 64 colours are enough, and take half of the room.
python3 -m pip install --quiet --target "$target/perfetto/pillow" pillow==11.3.0
PYTHONPATH=$target/perfetto/pillow python3 - "$here"/*.png <<'PYTHON'
import sys
from PIL import Image
for path in sys.argv[1:]:
    image = Image.open(path).convert("RGB")
    image.quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)
PYTHON
ls -l "$here"/*.png
