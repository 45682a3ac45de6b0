"""Rows in memory and a network of two layers, four ways to get its batches. Nothing here knows of
gpustall: run it under the command.

    gpustall run -- python examples/pytorch/inmemory_mlp.py loader

Ways: `direct` indexes the tensor; `loader` is a shuffled DataLoader in process; `workers` the same with
workers and pinned memory; `batches` a DataLoader whose data set gets the indices of a batch at once.
"""

import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

FEATURES = 100


class Rows(Dataset):
    """Rows that are picked a whole batch at a time."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitems__(self, indices):
        return self.rows[torch.tensor(indices)]


def whole(batch):
    """The collate function of rows that are a batch already."""
    return batch


def first(batch):
    """TensorDataset's items are tuples of one tensor."""
    return batch if torch.is_tensor(batch) else batch[0]


def batches(args, rows):
    """The batches of one epoch, in random order."""
    if args.way == "direct":
        order = torch.randperm(len(rows))
        return lambda: (rows[part] for part in order.split(args.batch_size))
    options = {"batch_size": args.batch_size, "shuffle": True}
    if args.way == "batches":
        return DataLoader(Rows(rows), collate_fn=whole, **options).__iter__
    if args.way == "workers":
        options |= {"num_workers": args.workers, "pin_memory": args.device == "cuda"}
        options |= {"multiprocessing_context": args.start, "persistent_workers": True}
    return DataLoader(TensorDataset(rows), **options).__iter__


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way", choices=["direct", "loader", "workers", "batches"])
    parser.add_argument("--rows", type=int, default=200_000, help="rows of 100 floats")
    parser.add_argument("--batch-size", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--start", default="fork", help="how workers start: fork or spawn")
    parser.add_argument("--train", action="store_true", help="train the network")
    cuda = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", default=cuda)
    args = parser.parse_args()

    rows = torch.randn(args.rows, FEATURES)
    layers = [torch.nn.Linear(FEATURES, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1)]
    model = torch.nn.Sequential(*layers).to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01) if args.train else None
    epoch = batches(args, rows)

    times = []
    begun = time.perf_counter()
    for _ in range(args.epochs):
        last = time.perf_counter()
        for batch in epoch():
            batch = first(batch).to(args.device, non_blocking=True)
            if optimizer is None:
                with torch.inference_mode():
                    model(batch)
            else:
                optimizer.zero_grad()
                model(batch).square().mean().backward()
                optimizer.step()
            if args.device == "cuda":
                torch.cuda.synchronize()
            times.append(time.perf_counter() - last)
            last = time.perf_counter()
    seconds = time.perf_counter() - begun
    # Without the first step of each epoch.
    per_epoch = len(times) // args.epochs
    steady = [t for i, t in enumerate(times) if i % per_epoch] or times
    mean = 1000 * sum(steady) / len(steady)
    print(f"{args.way}: {seconds:.2f} s, {len(times)} steps, {mean:.1f} ms a steady step")


if __name__ == "__main__":
    main()
