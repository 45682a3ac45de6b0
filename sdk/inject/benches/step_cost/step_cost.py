"""What capturing costs the steps of a PyTorch program: step_cost.py LIBRARY FLOOR [ROUNDS].

LIBRARY is libgpustall_inject.so, FLOOR the library of floor.c beside this. Processes of each way stay
alive and take turns, one computing at a time:

  plain     no library
  closed    a window was open once, and none is any more
  floor     device operations recorded by CUPTI and thrown away, all of the time
  open      everything that gpustall records, all of the time
  governed  the windows that a budget of 1 % allows

Prints for each the mean step, and its ratio to `plain` in the same round: the median of the rounds, and
the interval in which it lies for 95 of 100 resamples. Of each way but the last there are several
processes, which the rounds go through, since processes differ by more than what is measured.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WAYS = ("plain", "closed", "floor", "open", "governed")
PROCESSES = 3
# name: layers, their width, rows of a batch, the milliseconds that the rows are changed for (0: never)
STEPS = {"short steps": (10, 512, 256, 0), "long steps": (12, 4096, 2048, 50)}
# Seconds of a turn: a governed one has to see windows.
TURN, GOVERNED_TURN = 1.0, 4.0


class Job:
    """In a process of its own: answers each line with the steps of one turn."""

    def __init__(self, layers, width, rows, target):
        import torch

        self.torch = torch
        device = torch.device("cuda")
        torch.manual_seed(0)
        with device:
            parts = [part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())]
        self.model = torch.nn.Sequential(*parts)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self.rows(rows, width)
        self.turn(1.0)
        if target:
            median = statistics.median(self.turn(1.0))
            self.rows(max(1, round(rows * target / median)), width)
            self.turn(0.5)

    def rows(self, rows, width):
        self.inputs = self.torch.randn(rows, width, device="cuda")
        self.targets = self.torch.randn(rows, width, device="cuda")

    def step(self):
        loss = self.torch.nn.functional.mse_loss(self.model(self.inputs), self.targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def turn(self, seconds):
        times = []
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds:
            before = time.perf_counter()
            self.step()
            times.append((time.perf_counter() - before) * 1e3)
        return times


def serve(shape):
    job = Job(*shape)
    print(json.dumps({"rows": len(job.inputs)}), flush=True)
    for line in sys.stdin:
        print(json.dumps(job.turn(float(line))), flush=True)


class Process:
    def __init__(self, way, shape, library, floor):
        self.folder = tempfile.mkdtemp(prefix="step_cost")
        environment = {
            "plain": {},
            "floor": {"CUDA_INJECTION64_PATH": floor},
            "closed": {"GPUSTALL_CUDA_BUDGET": "0", "GPUSTALL_CUDA_WHOLE": "2"},
            "open": {"GPUSTALL_CUDA_BUDGET": "all"},
            "governed": {"GPUSTALL_CUDA_WHOLE": "0"},
        }[way]
        if way not in ("plain", "floor"):
            environment |= {"CUDA_INJECTION64_PATH": library, "GPUSTALL_OUTPUT": self.folder}
        self.child = subprocess.Popen(
            [sys.executable, __file__, "serve", json.dumps(shape)],
            env=os.environ | environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )

    def answer(self):
        return json.loads(self.child.stdout.readline())

    def turn(self, seconds):
        self.child.stdin.write(f"{seconds}\n")
        self.child.stdin.flush()
        return self.answer()

    def end(self):
        self.child.stdin.close()
        self.child.wait()
        # The library was at work where it was meant to be.
        return sum(file.stat().st_size for file in Path(self.folder).iterdir())


def interval(ratios):
    draws = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(4000))
    return draws[100], draws[-101]


def measure(name, shape, library, floor, rounds):
    layers, width, rows, target = shape
    # The first finds how many rows make a step as long as it should be.
    first = Process("plain", shape, library, floor)
    shape = (layers, width, first.answer()["rows"], 0)
    jobs = {way: [Process(way, shape, library, floor) for _ in range(1 if way == "governed" else PROCESSES)] for way in WAYS}
    first.end()
    for way in WAYS:
        for job in jobs[way]:
            job.answer()
    time.sleep(2)
    found = {way: [] for way in WAYS}
    for number in range(rounds):
        for way in random.sample(WAYS, len(WAYS)):
            job = jobs[way][number % len(jobs[way])]
            found[way].append(job.turn(GOVERNED_TURN if way == "governed" else TURN))
    written = {way: sum(job.end() for job in jobs[way]) for way in WAYS}
    print(f"{name}: {layers} layers of {width}, {shape[2]} rows")
    means = {way: [statistics.fmean(turn) for turn in found[way]] for way in WAYS}
    for way in WAYS:
        ratios = [mean / plain for mean, plain in zip(means[way], means["plain"])]
        low, high = interval(ratios)
        steps = sum(map(len, found[way]))
        print(
            f"  {way:9} {statistics.median(means[way]):8.3f} ms  x{statistics.median(ratios):.4f}  [{low:.4f} {high:.4f}]"
            f"  {rounds} rounds, {steps} steps, {written[way]} bytes recorded",
            flush=True,
        )
    added = {way: statistics.fmean(means[way]) - statistics.fmean(means["plain"]) for way in ("floor", "open")}
    print(f"  floor adds {added['floor'] * 1e3:.0f} us a step, open {added['open'] * 1e3:.0f}", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(json.loads(sys.argv[2]))
    else:
        random.seed(0)
        for name, shape in STEPS.items():
            measure(name, shape, *sys.argv[1:3], int(sys.argv[3]) if len(sys.argv) > 3 else 12)
