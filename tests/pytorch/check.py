"""Runs `program.py` under `gpustall run` in many ways, and compares the trace with its own truth.

    python tests/pytorch/check.py GPUSTALL [CASE...]

Run by a Python that has PyTorch; `check.sh` makes one.
"""

import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

CASES = {
    "in-process": [],
    "fork": ["--workers", "2"],
    "fork-persistent": ["--workers", "2", "--persistent"],
    "spawn": ["--workers", "2", "--start", "spawn", "--persistent"],
    "forkserver": ["--workers", "1", "--start", "forkserver", "--persistent"],
    "any-order": ["--workers", "3", "--any-order"],
    "stream": ["--workers", "2", "--stream"],
    "stream-in-process": ["--stream"],
    "fails-in-process": ["--fails"],
    "fails-in-a-worker": ["--workers", "2", "--fails"],
    "leaves": ["--workers", "2", "--leaves"],
    "leaves-persistent": ["--workers", "2", "--leaves", "--persistent"],
    "thread": ["--workers", "2", "--thread"],
    "by-hand": ["--by-hand"],
    "killed": ["--workers", "2", "--killed"],
}


def run(gpustall, name, options, folder):
    here = pathlib.Path(__file__).parent
    truth, trace = folder / f"{name}.json", folder / f"{name}.trace.json.gz"
    job = [sys.executable, str(here / "program.py"), str(truth), *options]
    command = [gpustall, "run", "--no-sidecar", "-o", str(trace), "--", *job]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    code = 128 + 9 if name == "killed" else 0
    assert done.returncode == code, done.stdout + done.stderr
    assert "gpustall run with the Python hook" in " ".join(done.stdout.split()), done.stdout
    with gzip.open(trace) as file:
        events = json.load(file)["traceEvents"]
    return json.loads(truth.read_text()), events


def check(name, truth, events):
    slices = [event for event in events if event.get("ph") == "X"]
    slices.sort(key=lambda event: event["ts"])
    of = lambda cat: [event for event in slices if event["cat"] == cat]
    if name == "by-hand":
        steps, optimized = len(of("step")), len(of("phase"))
        assert (steps, optimized) == (5, 6), f"{steps} steps, {optimized} of the optimizer"
        return f"{steps} steps from one of the optimizer to the next"
    waits = [wait for wait in of("data_wait") if "error" not in wait["args"]]
    batches = [batch for batch in truth["batches"] if "error" not in batch]
    failed = len(truth["batches"]) - len(batches)
    assert len(of("data_wait")) - len(waits) == failed, "calls that raised"

    # Every batch: what it was for, who took it and who made it.
    assert len(waits) == len(batches), f"{len(waits)} waits for {len(batches)} batches"
    stages = {}
    for stage in of("data_get") + of("data_collate"):
        key = stage["args"].get("batch")
        stages.setdefault(key, []).append((stage["cat"], stage["pid"], stage["args"].get("items")))
    for wait, batch in zip(waits, batches):
        args = wait["args"]
        assert args["kind"] == batch["kind"], (args, batch)
        assert wait["tid"] == batch["thread"], (wait, batch)
        inside = batch["maker"] == truth["pid"]
        assert args.get("worker") == (None if inside else batch["maker"]), (args, batch)
        made = sorted(stages[args["batch"]])
        assert [stage[:2] for stage in made] == [
            ("data_collate", batch["maker"]),
            ("data_get", batch["maker"]),
        ], (made, batch)
        assert 0 < made[0][2] <= 10, made

    # Each batch of a worker has an arrow.
    arrows = [event for event in events if event.get("ph") == "s" and event["cat"] == "batch"]
    outside = [batch for batch in batches if batch["maker"] != truth["pid"]]
    assert len(arrows) == len(outside), f"{len(arrows)} arrows for {len(outside)} batches"

    # A step for each batch, but for the last ones of loops that were left with the workers kept.
    steps = of("step")
    unknown = 4 if "--persistent" in CASES[name] and "--leaves" in CASES[name] else 0
    assert len(batches) - unknown <= len(steps) <= len(batches), f"{len(steps)} steps"
    trained = [batch for batch in batches if batch["kind"] == "train"]
    optimized = [phase for phase in of("phase") if phase["name"] == "optimizer"]
    ended = len(trained) - (name == "killed")
    assert len(optimized) == ended, f"{len(optimized)} steps of the optimizer"
    return f"{len(batches)} batches, {len(arrows)} from workers, {len(steps)} steps"


def main():
    gpustall, *names = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        for name in names or CASES:
            truth, events = run(gpustall, name, CASES[name], pathlib.Path(folder))
            print(f"{name}: {check(name, truth, events)}", flush=True)


if __name__ == "__main__":
    main()
