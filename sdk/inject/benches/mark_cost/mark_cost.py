"""What the hook's marks cost, in nanoseconds: with it and without it, in turns.

    python sdk/inject/benches/mark_cost/mark_cost.py        # a Python that has PyTorch
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS, PARTS, CALLS = 5, 100, 200


def measure():
    import torch
    from torch.utils.data import DataLoader
    from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

    def each(call):
        best = float("inf")
        # The least of many short parts: the others were interrupted.
        for _ in range(PARTS):
            begun = time.perf_counter_ns()
            for _ in range(CALLS):
                call()
            best = min(best, (time.perf_counter_ns() - begun) / CALLS)
        return best

    def whole(batch):
        return batch

    class Nothing(_SingleProcessDataLoaderIter):
        def _next_data(self):
            return None

    class Step(torch.optim.Optimizer):
        def step(self, closure=None):
            return None

    data = range(PARTS * CALLS)
    loader = DataLoader(data, batch_size=1, collate_fn=whole)
    optimizer = Step([torch.zeros(1, requires_grad=True)], {})
    batches = iter(loader)
    nothing = Nothing(loader)
    print(each(nothing.__next__), each(batches.__next__), each(optimizer.step))


def child(hook):
    environment = dict(os.environ)
    environment.pop("GPUSTALL_OUTPUT", None)
    with tempfile.TemporaryDirectory() as folder:
        if hook:
            environment["GPUSTALL_OUTPUT"] = folder
            environment["PYTHONPATH"] = str(pathlib.Path(__file__).parents[2] / "python")
        command = [sys.executable, __file__, "measure"]
        output = subprocess.check_output(command, env=environment, text=True)
    return [float(word) for word in output.split()]


def main():
    without, marked = [], []
    for _ in range(ROUNDS):
        without.append(child(False))
        marked.append(child(True))
    what = ["next() of a batch that is ready", "next() that makes it: 4 marks more", "optimizer step"]
    print(f"{'ns, median of ' + str(ROUNDS):36} {'without':>8} {'marked':>8} {'cost':>8}")
    for name, plain, hooked in zip(what, zip(*without), zip(*marked)):
        plain, hooked = statistics.median(plain), statistics.median(hooked)
        print(f"{name:36} {plain:8.0f} {hooked:8.0f} {hooked - plain:8.0f}")


if __name__ == "__main__":
    measure() if sys.argv[1:] == ["measure"] else main()
