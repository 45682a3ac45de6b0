"""Epochs of twenty batches that workers wait for: what it takes to start and end workers matters.

    python short_epochs.py [--workers N] [--persistent] [--epochs N]

Prints the mean time of a step over all epochs but the first, in which kept workers are started.
"""

import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset

ITEMS = 320
BATCH = 16


class Rows(Dataset):
    """Each item takes 4 ms to come, and next to no CPU."""

    def __len__(self):
        return ITEMS

    def __getitem__(self, index):
        time.sleep(0.004)
        return torch.full((64,), float(index)), index % 10


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--persistent", action="store_true", help="keep the workers from one epoch to the next")
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()
    torch.set_num_threads(1)
    loader = DataLoader(Rows(), BATCH, num_workers=args.workers, persistent_workers=args.persistent)
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    took = []
    for _ in range(args.epochs):
        begun = time.monotonic()
        for rows, classes in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(rows), classes).backward()
            optimizer.step()
        took.append(time.monotonic() - begun)
    steps = len(loader) * (len(took) - 1)
    print("%d workers, %s: %.1f ms a step" % (
        args.workers,
        "kept" if args.persistent else "not kept",
        sum(took[1:]) / steps * 1e3,
    ))


main()
