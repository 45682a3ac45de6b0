"""Libraries that put their own iterators around a loader's, each written as the library has it."""

import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter

from ways.basics import BATCH, EACH, judge, learn, model, Rows, sgd, tell, took, truth


def accelerate():
    class Shard(DataLoader):
        """One batch ahead, to know which one is the last."""

        def __iter__(self):
            batches = super().__iter__()
            try:
                batch = next(batches)
            except StopIteration:
                return
            while True:
                try:
                    following = next(batches)
                    yield batch
                    batch = following
                except StopIteration:
                    yield batch
                    break

    train = Shard(Rows(), batch_size=BATCH, num_workers=2, persistent_workers=True)
    valid = Shard(Rows(), batch_size=BATCH)
    optimizer = sgd()
    for _ in range(3):
        for batch in train:
            learn(batch, optimizer)
        judge(valid)
    tell(3 * EACH, valid=1)


def timm():
    class Prefetch:
        def __init__(self, loader):
            self.loader = loader

        def __iter__(self):
            first = True
            for following in self.loader:
                if not first:
                    yield batch
                first = False
                batch = following
            yield batch

    loader = Prefetch(DataLoader(Rows(), batch_size=BATCH))
    optimizer = sgd()
    for _ in range(2):
        for batch in loader:
            learn(batch, optimizer)
    tell(2 * EACH)


def lightning():
    class Fetcher:
        """Knows the length, and asks no more than that."""

        def __init__(self, loader):
            self.loader, self.length = loader, len(loader)

        def __iter__(self):
            self.iterator = iter(self.loader)
            self.fetched = 0
            return self

        def __next__(self):
            if self.fetched == self.length:
                raise StopIteration
            self.fetched += 1
            return next(self.iterator)

    fetcher = Fetcher(DataLoader(Rows(), batch_size=BATCH, num_workers=1))
    valid = DataLoader(Rows(), batch_size=BATCH)
    optimizer = sgd()
    for _ in range(2):
        for batch in fetcher:
            rows = took(batch)

            def closure():
                optimizer.zero_grad()
                loss = model(rows).square().mean()
                loss.backward()
                return loss

            optimizer.step(closure=closure)
            truth["optimized"] += 1
        with torch.inference_mode():
            judge(valid)
    tell(2 * EACH, valid=1)


def stateful(workers=0):
    """torchdata's loader: iterators of its own that know when they are finished."""

    class Finishes:
        def __next__(self):
            try:
                return super().__next__()
            except StopIteration:
                self.finished = True
                raise

        def _next_index(self):
            return super()._next_index()

    class Single(Finishes, _SingleProcessDataLoaderIter):
        def __next__(self):
            return super().__next__()

    class Multi(Finishes, _MultiProcessingDataLoaderIter):
        def __next__(self):
            return super().__next__()

        def _process_data(self, data, worker_id):
            return super()._process_data(data, worker_id)

    class Stateful(DataLoader):
        def _get_iterator(self):
            return (Multi if self.num_workers else Single)(self)

        def __iter__(self):
            self._iterator = self._get_iterator()
            return self._iterator

    loader = Stateful(Rows(), batch_size=BATCH, num_workers=workers)
    optimizer = sgd()
    for _ in range(2):
        for batch in loader:
            learn(batch, optimizer)
        assert loader._iterator.finished
    tell(2 * EACH)


def stateful_workers():
    stateful(2)
