"""Runs PyTorch programs under `gpustall run`, and compares the traces with their own truth.

    python tests/pytorch/check.py GPUSTALL [CASE...]

`program.py` is run in many ways; `patterns.py` has those of other programs and libraries, whose results and
errors are compared with those that they have by themselves. Run by a Python that has PyTorch; `check.sh`
makes one.
"""

import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent

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
    "worker-killed": ["--workers", "2", "--dies"],
    "worker-exits": ["--workers", "2", "--exits"],
    "stops-in-process": ["--stops"],
    "stops-in-a-worker": ["--workers", "2", "--stops"],
    "leaves": ["--workers", "2", "--leaves"],
    "leaves-persistent": ["--workers", "2", "--leaves", "--persistent"],
    "thread": ["--workers", "2", "--thread"],
    "by-hand": ["--by-hand"],
    "killed": ["--workers", "2", "--killed"],
}

#: What is told of each epoch of these.
FAULTS = {
    "fails-in-process": r"next\(\) raised ValueError: this item cannot be read for batch \d, counted from 0",
    "fails-in-a-worker": r"worker-\d raised ValueError: this item cannot be read in get of batch \d, "
    "counted from 0",
    # PyTorch looks every 5 s.
    "worker-exits": r"worker-0 exited with code 0 in get, after 1 batch; PyTorch noticed it \d\.\d+ s later",
    "stops-in-process": r"next\(\) raised StopIteration: this item cannot be read in get of batch \d, counted "
    "from 0, which ended the loop early, as the end of the data would",
    "stops-in-a-worker": r"worker-\d raised StopIteration: this item cannot be read in get of batch \d, counted "
    "from 0, which ended the loop early, as the end of the data would",
    "worker-killed": r"worker-0 was killed by SIGKILL in get, after 1 batch \(out of memory\? see dmesg\)",
}

PATTERNS = [
    word.strip()
    for word in (HERE / "patterns.py").read_text().split("PATTERNS = [")[1].split("]")[0].split(",")
    if word.strip()
]


def run(gpustall, name, job, code, folder):
    """The program's truth, the trace's events, and what was printed."""
    truth, trace = folder / f"{name}.json", folder / f"{name}.trace.json.gz"
    job = [sys.executable, *(str(truth) if word == "TRUTH" else word for word in job)]
    command = [gpustall, "run", "--no-sidecar", "-o", str(trace), "--", *job]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    told = json.loads(truth.read_text())
    code = told.get("code", code)
    assert done.returncode == code, (done.returncode, done.stdout + done.stderr)
    with gzip.open(trace) as file:
        events = json.load(file)["traceEvents"]
    return told, events, done, job


def by_category(events):
    slices = [event for event in events if event.get("ph") == "X"]
    slices.sort(key=lambda event: event["ts"])
    return lambda cat: [event for event in slices if event["cat"] == cat]


def check_batches(truth, events):
    """Every batch: what it was for, who took it and who made it. Returns them and their arrows."""
    of = by_category(events)
    waits = [wait for wait in of("data_wait") if not {"error", "unfinished"} & wait["args"].keys()]
    # The process that tells may have been forked by one that took batches too.
    waits = [wait for wait in waits if wait["pid"] == truth["pid"]]
    batches = [batch for batch in truth["batches"] if "error" not in batch]
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
        if truth.get("unmarked"):
            continue
        made = sorted(stages[args["batch"]])
        assert [stage[:2] for stage in made] == [
            ("data_collate", batch["maker"]),
            ("data_get", batch["maker"]),
        ], (made, batch)
        assert 0 < made[0][2] <= 10, made

    # Each batch of a worker has an arrow.
    arrows = [event for event in events if event.get("ph") == "s" and event["cat"] == "batch"]
    outside = [batch for batch in batches if batch["maker"] != truth["pid"]]
    outside = [] if truth.get("unmarked") else outside
    assert len(arrows) == len(outside), f"{len(arrows)} arrows for {len(outside)} batches"
    return batches, arrows


def check_case(gpustall, name, folder):
    """A way to run `program.py`."""
    options = CASES[name]
    code = 128 + 9 if name == "killed" else 0
    job = [str(HERE / "program.py"), "TRUTH", *options]
    truth, events, done, _ = run(gpustall, name, job, code, folder)
    # Whether the data set is iterated or indexed.
    for wait in by_category(events)("data_wait"):
        streams = "--stream" in options and wait["args"]["kind"] == "train"
        assert wait["args"].get("iterable", False) == streams, wait
    assert "gpustall run with the Python hook" in " ".join(done.stdout.split()), done.stdout
    of = by_category(events)
    if name == "by-hand":
        steps, optimized = len(of("step")), len(of("phase"))
        assert (steps, optimized) == (5, 6), f"{steps} steps, {optimized} of the optimizer"
        return f"{steps} steps from one of the optimizer to the next"
    failed = [batch for batch in truth["batches"] if "error" in batch]
    errors = [wait for wait in of("data_wait") if "error" in wait["args"]]
    assert len(errors) == len(failed), "calls that raised"
    batches, arrows = check_batches(truth, events)
    faults = [event["args"]["message"] for event in events if event.get("cat") == "fault"]
    assert len(faults) == (2 if name in FAULTS else 0), faults
    assert all(re.fullmatch(FAULTS[name], message) for message in faults), faults
    # What is known to be over is not called open.
    assert "was still in" not in done.stdout or name == "killed", done.stdout

    # A step for each batch, but for the last ones of loops that were left with the workers kept.
    steps = of("step")
    unknown = 4 if "--persistent" in options and "--leaves" in options else 0
    assert len(batches) - unknown <= len(steps) <= len(batches), f"{len(steps)} steps"
    trained = [batch for batch in batches if batch["kind"] == "train"]
    optimized = [phase for phase in of("phase") if phase["name"] == "optimizer"]
    ended = len(trained) - (name == "killed")
    assert len(optimized) == ended, f"{len(optimized)} steps of the optimizer"
    return f"{len(batches)} batches, {len(arrows)} from workers, {len(steps)} steps"


def check_pattern(gpustall, name, folder):
    """A program of `patterns.py`."""
    job = [str(HERE / "patterns.py"), name, "TRUTH"]
    truth, events, done, job = run(gpustall, name, job, 0, folder)
    # It is as it is by itself.
    alone = subprocess.run(job, capture_output=True, text=True, timeout=300)
    codes = {130: -2}
    assert alone.returncode == codes.get(done.returncode, done.returncode), alone
    assert done.stdout.startswith(alone.stdout), (alone.stdout, done.stdout)
    # Warnings of PyTorch and of its profiler have a time and a process.
    line = r"(?m)^(?:([WE]\d{4}) \S+ \d+|([A-Z]+):\S+ \S+ [\d:]+)"
    errors = [re.sub(line, r"\1\2", of.stderr) for of in (alone, done)]
    assert errors[0] == errors[1], errors

    of = by_category(events)
    if "subscribers" in truth:
        # At first, and as each profile is prepared. What was recorded before is kept.
        assert truth["subscribers"] == [1, 0, 0], truth
        assert of("kernel")
    batches, arrows = check_batches(truth, events)
    train = [step for step in of("step") if step["args"]["kind"] == "train"]
    assert len(train) == truth["steps"], f"{len(train)} steps of {truth['steps']}"
    optimized = [phase for phase in of("phase") if phase["name"] == "optimizer"]
    assert len(optimized) == truth["optimized"], f"{len(optimized)} steps of the optimizer"
    saved = [phase for phase in of("phase") if phase["name"] == "checkpoint"]
    assert len(saved) == truth["saved"], f"{len(saved)} checkpoints"
    own = [wait["args"] for wait in of("data_wait") if wait["pid"] == truth["pid"]]
    names = lambda kind: {args["loader"] for args in own if args["kind"] == kind}
    loaders = [names("train"), names("valid")]
    assert [len(names) for names in loaders] == truth["loaders"], loaders
    assert len(set.union(*loaders)) == sum(truth["loaders"]), loaders
    printed = " ".join(done.stdout.split())
    assert truth.get("note", "") in printed, done.stdout
    cut = [wait for wait in of("data_wait") if "unfinished" in wait["args"]]
    assert len(cut) == truth.get("cut", 0), cut
    faults = [event for event in events if event.get("cat") == "fault"]
    ended = [fault for fault in faults if fault["args"].get("ended_run")]
    assert len(ended) == (name in ("interrupted", "exits", "quits", "raises")), faults
    assert faults == ended or name in ("raises", "thread_raises"), faults
    told = [fault["args"]["message"] for fault in faults if name in ("exits", "quits", "thread_raises")]
    place = r"at ends\.py:\d+"
    known = {
        "exits": [rf"os\._exit\(7\) {place}"],
        "quits": [rf"sys\.exit\('no such column'\) {place}"],
        "thread_raises": ["RuntimeError: the log is gone"],
    }.get(name, [])
    assert len(told) == len(known) and all(map(re.fullmatch, known, told)), faults
    return f"{len(batches)} batches, {len(arrows)} from workers, {len(train)} steps, {loaders}"


def check_ranks(gpustall, name, folder):
    """Two ranks of `patterns.py` under torchrun."""
    truth, trace = folder / name, folder / f"{name}.trace.json.gz"
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [gpustall, "run", "--no-sidecar", "-o", str(trace), "--", *launch]
    command += [str(HERE / "patterns.py"), "ranks", str(truth)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    with gzip.open(trace) as file:
        events = json.load(file)["traceEvents"]
    names = []
    for rank in (0, 1):
        told = json.loads((folder / f"{name}{rank}").read_text())
        check_batches(told, [event for event in events if event.get("cat") != "batch"])
        waits = [wait for wait in by_category(events)("data_wait") if wait["pid"] == told["pid"]]
        names.append({wait["args"]["loader"] for wait in waits})
    assert len(names[0]) == 2 and len(names[1]) == 1 and names[1] < names[0], names
    return f"{names}"


def stand_in(folder):
    """A library that stands in for CUPTI."""
    source = HERE.parents[1] / "sdk/inject/tests/stand_in/cupti.c"
    library = pathlib.Path(folder) / "libcupti.so.13"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return str(library)


def main():
    gpustall, *names = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["GPUSTALL_CUPTI"] = stand_in(folder)
        for name in names or [*CASES, *PATTERNS]:
            check = check_ranks if name == "ranks" else check_pattern
            check = check_case if name in CASES else check
            print(f"{name}: {check(gpustall, name, pathlib.Path(folder))}", flush=True)


if __name__ == "__main__":
    main()
