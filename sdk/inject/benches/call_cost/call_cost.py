"""What ways of recording calls of CUDA cost a PyTorch program: call_cost.py LIBRARY [ROUNDS].

LIBRARY is that of calls.c beside this. The short steps of step_cost.py, in one process; stretches with each
way, in random order, each against the mean of the stretches before and after it. Prints for each way the
median ratio over ROUNDS (6) with the interval in which it lies for 95 of 100 resamples, what it adds to a
step, and per step the kernels, records of the runtime and of the driver, and callbacks (two a call).
"""

import ctypes
import os
import random
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "step_cost"))
import step_cost  # noqa: E402

WAYS = {
    1: "operations alone",
    2: "records, others off",
    3: "records of all calls",
    4: "callbacks",
    5: "callbacks of the driver",
    6: "callbacks of the runtime",
}
# Seconds of a stretch, and of what is left out where something was switched.
STRETCH, NEAR = 0.3, 0.05


def serve(library, rounds):
    job = step_cost.Job(*step_cost.STEPS["short steps"])
    calls = ctypes.CDLL(library)
    counts = (ctypes.c_long * 4)()

    def stretch():
        job.steps(NEAR)
        return job.steps(STRETCH)

    pairs = {way: [] for way in WAYS}
    per_step = {}
    for _ in range(rounds):
        for way in random.sample(list(WAYS), len(WAYS)):
            before = step_cost.mean(stretch())
            calls.calls_set(way, 1)
            job.steps(NEAR)
            calls.calls_counts(counts)
            steps = job.steps(STRETCH)
            calls.calls_counts(counts)
            calls.calls_set(way, 0)
            after = step_cost.mean(stretch())
            pairs[way].append((step_cost.mean(steps), (before + after) / 2))
            per_step[way] = [round(count / len(steps)) for count in counts]
    for way, name in WAYS.items():
        ratios = [of / without for of, without in pairs[way]]
        low, high = step_cost.interval(lambda: statistics.median(random.choices(ratios, k=len(ratios))))
        adds = statistics.median(of - without for of, without in pairs[way]) * 1e3
        print(f"{name:25} x{statistics.median(ratios):.3f} [{low:.3f} {high:.3f}]  {adds:+5.0f} us  {per_step[way]}")


if __name__ == "__main__":
    random.seed(0)
    if sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        library = str(Path(sys.argv[1]).resolve())
        words = [sys.executable, __file__, "serve", library, sys.argv[2] if len(sys.argv) > 2 else "6"]
        subprocess.run(words, env=os.environ | {"CUDA_INJECTION64_PATH": library}, check=True)
