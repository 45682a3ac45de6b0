"""A PyTorch program that knows nothing of gpustall, and writes down which process made each batch."""

import argparse
import itertools
import json
import os
import signal
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

ITEMS, BATCH = 60, 10


class Rows(Dataset):
    """Items that say who made them."""

    def __init__(self, fails_at=None, dies_at=None, error=ValueError, dies=None):
        self.fails_at = fails_at
        self.dies_at = dies_at
        self.error = error
        self.dies = dies

    def __len__(self):
        return ITEMS

    def __getitem__(self, index):
        if index == self.fails_at:
            raise self.error("this item cannot be read")
        if index == self.dies_at:
            time.sleep(1)
            self.dies()
        return torch.full((8,), float(index)), os.getpid()


class Stream(IterableDataset):
    """The same as a stream, each worker with its part."""

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        # Not the same for all workers.
        for index in range(first, ITEMS - 25 * first, step):
            yield torch.full((8,), float(index)), os.getpid()


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def exits():
    os._exit(0)


def loader(args, dataset, shuffle):
    options = {"batch_size": BATCH, "num_workers": args.workers}
    if args.workers:
        options["multiprocessing_context"] = args.start
        options["persistent_workers"] = args.persistent
    if args.any_order:
        options["in_order"] = False
    if not isinstance(dataset, IterableDataset):
        options["shuffle"] = shuffle
    return DataLoader(dataset, **options)


def tell(path, truth):
    with open(path, "w") as file:
        json.dump({"pid": os.getpid(), "batches": truth}, file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("truth")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--start", default="fork")
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--any-order", action="store_true")
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--fails", action="store_true")
    parser.add_argument("--dies", action="store_true", help="a worker is killed in each epoch")
    parser.add_argument("--exits", action="store_true", help="a worker exits in each epoch, with code 0")
    parser.add_argument("--stops", action="store_true", help="an item raises StopIteration")
    parser.add_argument("--leaves", action="store_true", help="leave each loop after 3 batches")
    parser.add_argument("--thread", action="store_true", help="train on a thread")
    parser.add_argument("--by-hand", action="store_true", help="train without a loader")
    parser.add_argument("--killed", action="store_true", help="end by SIGKILL in the fourth step")
    args = parser.parse_args()
    truth = []

    def train_by_hand():
        rows = torch.rand(ITEMS, 8)
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for part in torch.randperm(ITEMS).split(BATCH):
            optimizer.zero_grad()
            model(rows[part]).square().mean().backward()
            optimizer.step()

    def take(batches, kind):
        if args.leaves:
            batches = itertools.islice(batches, 3)
        for rows, makers in batches:
            (maker,) = set(makers.tolist())
            truth.append({"kind": kind, "maker": maker, "thread": threading.get_native_id()})
            if args.killed and len(truth) == 4:
                tell(args.truth, truth)
                os.kill(os.getpid(), signal.SIGKILL)
            yield rows

    def train():
        fails_at = 35 if args.fails or args.stops else None
        dies_at = 25 if args.dies or args.exits else None
        error = StopIteration if args.stops else ValueError
        dataset = Rows(fails_at, dies_at, error, killed if args.dies else exits)
        # The batch of the item that ends its worker is the third one, that of one that fails the fourth: an epoch
        # without any batch would have no step of the optimizer.
        shuffle = fails_at is None and dies_at is None
        trains = loader(args, Stream() if args.stream else dataset, shuffle)
        validates = loader(args, Rows(), False)
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.Adam(model.parameters())
        for epoch in range(2):
            try:
                for step, rows in enumerate(take(trains, "train")):
                    optimizer.zero_grad()
                    model(rows).square().mean().backward()
                    optimizer.step()
                    if args.dies and (epoch, step) == (1, 1):
                        time.sleep(60)
            except (ValueError, RuntimeError) as error:
                # PyTorch looks for dead workers whatever the trainer is doing: no next() failed there.
                if not args.dies or epoch == 0:
                    truth.append({"kind": "train", "error": str(error)[:20]})
            # Evaluated with gradients on: what tells it is that no optimizer steps.
            for rows in take(validates, "valid"):
                model(rows)

    if args.by_hand:
        train_by_hand()
    elif args.thread:
        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
    else:
        train()
    tell(args.truth, truth)


if __name__ == "__main__":
    main()
