"""What capturing costs the steps of a PyTorch program: step_cost.py LIBRARY FLOOR GPUSTALL [ROUNDS].

LIBRARY is libgpustall_inject.so, FLOOR the library of floor.c beside this, GPUSTALL the command. Processes
differ by more than what is measured, so steps are compared with others of the same process, stretch by
stretch in turn:

  floor     CUPTI records device operations that are thrown away, or does not
  open      a window of gpustall is open, or none is
  governed  `gpustall run`: all steps under a budget of 1 %, windows included, and those in none

Prints for each the mean step in either, and the ratio: of `floor` and `open` the median over ROUNDS (15)
stretches, each against the mean of its two neighbours, of `governed` that of the means, each with the
interval in which it lies for 95 of 100 resamples. Of `governed` also what gpustall itself measured.
"""

import ctypes
import gzip
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# name: layers, their width, rows of a batch, the milliseconds that the rows are changed for (0: never)
STEPS = {"short steps": (10, 512, 256, 0), "long steps": (12, 4096, 2048, 50)}
# Seconds: of a stretch with the floor or without, of a window that is asked for, under the governor until
# it has measured what windows cost, and after that.
FLOOR_TURN, WINDOW, LEARNING, GOVERNED = 0.5, 1.0, 30.0, 25.0
# Steps so near to where a window opens or closes belong to neither side.
NEAR = 0.06


class Job:
    def __init__(self, layers, width, rows, target):
        import torch

        self.torch = torch
        torch.manual_seed(0)
        with torch.device("cuda"):
            parts = [part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())]
        self.model = torch.nn.Sequential(*parts)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self.rows(rows, width)
        self.steps(1.0)
        if target:
            median = statistics.median(end - start for start, end in self.steps(1.0)) * 1e3
            self.rows(max(1, round(rows * target / median)), width)
            self.steps(0.5)

    def rows(self, rows, width):
        self.inputs = self.torch.randn(rows, width, device="cuda")
        self.targets = self.torch.randn(rows, width, device="cuda")

    def step(self):
        loss = self.torch.nn.functional.mse_loss(self.model(self.inputs), self.targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def steps(self, seconds):
        """Start and end of each on CLOCK_MONOTONIC, seconds."""
        times = []
        until = time.monotonic() + seconds
        while (start := time.monotonic()) < until:
            self.step()
            times.append((start, time.monotonic()))
        return times


def floor_pairs(job, library, rounds):
    switch = ctypes.CDLL(library).floor_switch
    turns = []
    for number in range(2 * rounds + 1):
        switch(number % 2)
        job.steps(NEAR)
        turns.append(mean(job.steps(FLOOR_TURN)))
    return between(turns)


def between(turns):
    """Of turns without, with, without, ...: each one with, and the mean of its neighbours."""
    return [(turns[i], (turns[i - 1] + turns[i + 1]) / 2) for i in range(1, len(turns) - 1, 2)]


def open_steps(job, folder, rounds):
    steps = []
    for _ in range(rounds):
        Path(folder, "capture-now").touch()
        steps += job.steps(2 * WINDOW)
    return steps


def serve(way, shape, library, folder, rounds):
    job = Job(*shape)
    print(json.dumps({"rows": len(job.inputs)}), flush=True)
    sys.stdin.readline()
    answers = {
        "floor": lambda: floor_pairs(job, library, rounds),
        "open": lambda: open_steps(job, folder, rounds),
        "governed": lambda: job.steps(LEARNING) and job.steps(GOVERNED),
    }
    print(json.dumps(answers[way]()), flush=True)
    sys.stdin.readline()


class Process:
    def __init__(self, way, shape, library, rounds, gpustall):
        self.folder = tempfile.mkdtemp(prefix="step_cost")
        words = [sys.executable, __file__, "serve", way, json.dumps(shape), library, self.folder, str(rounds)]
        environment = {"CUDA_INJECTION64_PATH": library, "GPUSTALL_OUTPUT": self.folder, "GPUSTALL_CUDA_WHOLE": "0"}
        if way == "open":
            environment["GPUSTALL_CUDA_BUDGET"] = "0"
        if way == "governed":
            environment = {}
            run = [gpustall, "run", "--no-sidecar", "--whole", "0", "-o", f"{self.folder}/run.trace.json.gz"]
            words = run + ["--"] + words
        self.child = subprocess.Popen(
            words, env=os.environ | environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def answer(self):
        return json.loads(self.child.stdout.readline())

    def go_on(self):
        self.child.stdin.write("\n")
        self.child.stdin.flush()

    def end(self):
        self.go_on()
        self.child.stdin.close()
        self.child.wait()

    def recorded(self):
        """When the recording began, seconds on CLOCK_MONOTONIC, its events, and notes."""
        for file in Path(self.folder).glob("*.json.partial"):
            # A window has a million lines that are of no use here.
            kept = [line for line in file.open() if '"start_mono":' in line or '"name":"paused"' in line]
            lines = [json.loads(line.rstrip().rstrip(",")) for line in kept]
            head = next(line["args"]["meta"] for line in lines if "meta" in line.get("args", {}))
            return head["start_mono"] / 1e9, lines, []
        with gzip.open(f"{self.folder}/run.trace.json.gz") as file:
            trace = json.load(file)
        meta = trace["gpustall"]["meta"]
        return meta["start_mono"] / 1e9, trace["traceEvents"], meta["notes"]

    def pauses(self):
        """When no window was open, seconds on CLOCK_MONOTONIC."""
        begin, events, _ = self.recorded()
        found = [event for event in events if event.get("name") == "paused" and event.get("ph") == "X"]
        starts = [begin + event["ts"] / 1e6 for event in found]
        return sorted((start, start + event["dur"] / 1e6) for start, event in zip(starts, found))

    def measured(self):
        """What gpustall says of its own cost."""
        _, _, notes = self.recorded()
        return next((note for note in notes if note.startswith("Steps while the devices")), "nothing was measured")


def mean(steps):
    return statistics.fmean(end - start for start, end in steps) * 1e3


def inside(steps, spans):
    return [step for step in steps if any(a + NEAR < step[0] and step[1] < b - NEAR for a, b in spans)]


def window_pairs(steps, pauses):
    """Each window between two pauses, and the mean of what is in these."""
    pairs = []
    for before, after in zip(pauses, pauses[1:]):
        stretches = [inside(steps, [span]) for span in (before, (before[1], after[0]), after)]
        if all(stretches):
            pairs += between([mean(stretch) for stretch in stretches])
    return pairs


def interval(draw):
    draws = sorted(draw() for _ in range(2000))
    return draws[50], draws[-51]


def show(way, with_it, without, ratio, bounds, more):
    low, high = bounds
    print(f"  {way:9} {without:8.3f} ms without, {with_it:8.3f} with: x{ratio:.4f} [{low:.4f} {high:.4f}], {more}", flush=True)


def paired(way, pairs):
    ratios = [a / b for a, b in pairs]
    bounds = interval(lambda: statistics.median(random.choices(ratios, k=len(ratios))))
    with_it, without = (statistics.median(times) for times in zip(*pairs))
    show(way, with_it, without, statistics.median(ratios), bounds, f"{len(pairs)} pairs")
    return statistics.median(a - b for a, b in pairs) * 1e3


def governed(steps, pauses):
    closed = [end - start for start, end in inside(steps, pauses)]
    every = [end - start for start, end in steps]
    if not closed:
        print("  governed  a window was open all the time: that costs less than the budget", flush=True)
        return
    first, last = steps[0][0], steps[-1][1]
    share = sum(max(0.0, min(b, last) - max(a, first)) for a, b in pauses) / (last - first)

    def draw():
        return statistics.fmean(random.choices(every, k=len(every))) / statistics.fmean(random.choices(closed, k=len(closed)))

    with_it, without = statistics.fmean(every), statistics.fmean(closed)
    more = f"{len(every)} steps, windows {100 - 100 * share:.1f} % of the time"
    show("governed", with_it * 1e3, without * 1e3, with_it / without, interval(draw), more)


def measure(name, shape, library, floor, gpustall, rounds):
    ways = {"floor": floor, "open": library, "governed": library}
    # The first finds how many rows make a step as long as it should be.
    jobs = {"floor": Process("floor", shape, floor, rounds, gpustall)}
    layers, width, rows, _ = shape
    rows = jobs["floor"].answer()["rows"]
    for way in ("open", "governed"):
        jobs[way] = Process(way, (layers, width, rows, 0), library, rounds, gpustall)
    for way in ("open", "governed"):
        jobs[way].answer()
    print(f"{name}: {layers} layers of {width}, {rows} rows", flush=True)
    answers = {}
    for way in ways:
        jobs[way].go_on()
        answers[way] = jobs[way].answer()
        jobs[way].end()
    added = paired("floor", answers["floor"])
    added_open = paired("open", window_pairs(answers["open"], jobs["open"].pauses()))
    print(f"  floor adds {added:.0f} us a step, open {added_open:.0f}", flush=True)
    governed(answers["governed"], jobs["governed"].pauses())
    print(f"  gpustall: {jobs['governed'].measured()}", flush=True)


if __name__ == "__main__":
    random.seed(0)
    if sys.argv[1] == "serve":
        way, shape, library, folder, rounds = sys.argv[2:]
        serve(way, json.loads(shape), library, folder, int(rounds))
    else:
        for name, shape in STEPS.items():
            measure(name, shape, *sys.argv[1:4], int(sys.argv[4]) if len(sys.argv) > 4 else 15)
