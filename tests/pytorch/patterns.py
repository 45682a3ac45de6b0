"""The ways in which programs and libraries take batches, each as a program that knows nothing of gpustall.

    python tests/pytorch/patterns.py PATTERN TRUTH.json

Where a library has its own way, it is written as the library has it. Each writes down which process made
each batch, which thread took it and what for; how many steps that makes, and how many loaders there are.
"""

import itertools
import json
import os
import queue
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, SequentialSampler
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter

ITEMS, BATCH = 40, 10
EACH = ITEMS // BATCH

truth = {"pid": os.getpid(), "batches": [], "optimized": 0}
model = torch.nn.Linear(8, 1)


class Rows(Dataset):
    def __len__(self):
        return ITEMS

    def __getitem__(self, index):
        return torch.full((8,), index / ITEMS), os.getpid()


class Others(Rows):
    pass


def took(batch, kind="train"):
    rows, makers = batch
    (maker,) = set(makers.tolist())
    tid = threading.get_native_id()
    truth["batches"].append({"kind": kind, "maker": maker, "thread": tid})
    return rows


def sgd(**options):
    return torch.optim.SGD(model.parameters(), lr=0.01, **options)


def learn(batch, optimizer):
    rows = took(batch)
    optimizer.zero_grad()
    model(rows).square().mean().backward()
    optimizer.step()
    truth["optimized"] += 1


def judge(loader):
    for batch in loader:
        model(took(batch, "valid"))


def tell(steps, train=1, valid=0, **more):
    """`steps` of training, and the loaders of each kind."""
    truth.update(steps=steps, loaders=[train, valid], **more)
    print("weight", model.weight.sum().item())
    with open(sys.argv[2] + os.environ.get("RANK", ""), "w") as file:
        json.dump(truth, file)


# Which loaders are one.


def comprehension():
    loaders = [DataLoader(data, batch_size=BATCH) for data in (Rows(), Rows(), Rows())]
    optimizer = sgd()
    for _ in range(2):
        for loader in loaders[:2]:
            for batch in loader:
                learn(batch, optimizer)
        judge(loaders[2])
    tell(4 * EACH, train=2, valid=1)


def factory():
    def make(data, **options):
        return DataLoader(data, batch_size=BATCH, **options)

    train, valid = make(Rows(), shuffle=True), make(Others())
    more = make(Rows(), num_workers=1)
    optimizer = sgd()
    for _ in range(2):
        for batch in itertools.chain(train, more):
            learn(batch, optimizer)
        judge(valid)
    tell(4 * EACH, train=2, valid=1)


def anew():
    optimizer = sgd()
    data = Others()
    for _ in range(3):
        for batch in DataLoader(Rows(), batch_size=BATCH, num_workers=1):
            learn(batch, optimizer)
        judge(DataLoader(data, batch_size=BATCH))
    tell(3 * EACH, valid=1)


# Threads.


class InBackground(threading.Thread):
    """What prefetch-generator and MONAI's ThreadBuffer do."""

    def __init__(self, batches):
        super().__init__(daemon=True, name="prefetch")
        self.batches = batches
        self.queue = queue.Queue(1)
        self.start()

    def run(self):
        for batch in self.batches:
            self.queue.put(batch)
        self.queue.put(None)

    def __iter__(self):
        return self

    def __next__(self):
        batch = self.queue.get()
        if batch is None:
            raise StopIteration
        return batch


def prefetch_thread(workers=0):
    class Prefetching(DataLoader):
        def __iter__(self):
            return InBackground(super().__iter__())

    loader = Prefetching(Rows(), batch_size=BATCH, num_workers=workers)
    optimizer = sgd()
    for _ in range(3):
        for batch in loader:
            learn(batch, optimizer)
    tell(3 * EACH)


def prefetch_thread_and_workers():
    prefetch_thread(2)


def feeder():
    batches = queue.Queue(2)

    def train():
        optimizer = sgd()
        while True:
            try:
                batch = batches.get(timeout=0.05)
            except queue.Empty:
                continue
            if batch is None:
                return
            learn(batch, optimizer)

    thread = threading.Thread(target=train, name="trainer")
    thread.start()
    loader = DataLoader(Rows(), batch_size=BATCH)
    for _ in range(2):
        for batch in loader:
            batches.put(batch)
    batches.put(None)
    thread.join()
    tell(2 * EACH)


def future():
    # Nothing says which batch it is that the thread waits for.
    optimizer = sgd()
    batches = iter(DataLoader(Rows(), batch_size=BATCH))
    with ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(next, batches, None)
        while (batch := ahead.result()) is not None:
            ahead = pool.submit(next, batches, None)
            learn(batch, optimizer)
        taker = pool.submit(threading.get_native_id).result()
    for batch in truth["batches"]:
        batch.update(kind="valid", thread=taker)
    tell(EACH - 1, train=0, valid=1, note="without a queue.Queue")


def thread_per_epoch():
    loader = DataLoader(Rows(), batch_size=BATCH, num_workers=1)
    optimizer = sgd()

    def epoch():
        for batch in loader:
            learn(batch, optimizer)

    for number in range(3):
        thread = threading.Thread(target=epoch, name=f"epoch-{number}")
        thread.start()
        thread.join()
    tell(3 * EACH)


def logging_thread():
    # A queue from the thread that trains is no hand-over.
    values = queue.Queue()

    def log():
        while values.get() is not None:
            pass

    thread = threading.Thread(target=log)
    thread.start()
    optimizer = sgd()
    for batch in DataLoader(Rows(), batch_size=BATCH):
        learn(batch, optimizer)
        values.put(1)
    values.put(None)
    thread.join()
    tell(EACH)


# Libraries.


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


# Loops.


def cycle():
    optimizer = sgd()
    batches = itertools.cycle(DataLoader(Rows(), batch_size=BATCH))
    for batch in itertools.islice(batches, 3 * EACH):
        learn(batch, optimizer)
    # Those of the first round alone come from the loader.
    del truth["batches"][EACH:]
    tell(EACH + 2 * EACH - 1)


def one_each():
    loader = DataLoader(Rows(), batch_size=BATCH, num_workers=1)
    optimizer = sgd()
    for _ in range(5):
        learn(next(iter(loader)), optimizer)
    tell(5)


def restarts():
    loader = DataLoader(Rows(), batch_size=BATCH, num_workers=1)
    optimizer = sgd()
    batches = iter(loader)
    for _ in range(2 * EACH + 2):
        try:
            batch = next(batches)
        except StopIteration:
            batches = iter(loader)
            batch = next(batches)
        learn(batch, optimizer)
    tell(2 * EACH + 2)


def nested():
    train, valid = DataLoader(Rows(), batch_size=BATCH, num_workers=1), DataLoader(Rows(), BATCH)
    peeks = DataLoader(Others(), BATCH)
    optimizer = sgd()
    for number, batch in enumerate(train):
        learn(batch, optimizer)
        if number % 2:
            judge(valid)
        with torch.no_grad():
            model(took(next(iter(peeks)), "valid"))
    tell(EACH, valid=2)


def samplers():
    sampler = BatchSampler(SequentialSampler(Rows()), BATCH, False)

    def collate(items):
        return torch.stack([row for row, _ in items]), torch.tensor([maker for _, maker in items])

    loader = DataLoader(Rows(), batch_sampler=sampler, collate_fn=collate, num_workers=1)
    optimizer = sgd()
    for batch in loader:
        learn(batch, optimizer)
    tell(EACH)


def two_at_once():
    first, second = DataLoader(Rows(), BATCH), DataLoader(Others(), BATCH, num_workers=1)
    optimizer = sgd()
    for one, other in zip(first, second):
        took(one)
        learn(other, optimizer)
    # Each of the two has them.
    tell(2 * EACH, train=2)


# Optimizers.


def optimizers():
    loader = DataLoader(Rows(), batch_size=BATCH)
    scaler = torch.amp.GradScaler("cpu")
    lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=2)
    for batch in loader:
        rows = took(batch)

        def closure():
            lbfgs.zero_grad()
            loss = model(rows).square().mean()
            loss.backward()
            return loss

        lbfgs.step(closure)
        truth["optimized"] += 1
    for optimizer in (sgd(fused=True), sgd(foreach=True)):
        for batch in loader:
            rows = took(batch)
            optimizer.zero_grad()
            scaler.scale(model(rows).square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
            truth["optimized"] += 1
    accumulating = sgd()
    for number, batch in enumerate(loader):
        model(took(batch)).square().mean().backward()
        if number % 2:
            accumulating.step()
            truth["optimized"] += 1
    tell(4 * EACH)


def compiled():
    optimizer = sgd()
    step = torch.compile(optimizer.step, backend="eager")
    for batch in DataLoader(Rows(), batch_size=BATCH):
        optimizer.zero_grad()
        model(took(batch)).square().mean().backward()
        step()
    # Nothing of a compiled step is marked.
    tell(EACH)


# Ends.


def interrupted():
    class Slow(Rows):
        def __getitem__(self, index):
            if index == 25:
                signal.raise_signal(signal.SIGINT)
            return super().__getitem__(index)

    optimizer = sgd()
    try:
        for batch in DataLoader(Slow(), batch_size=BATCH):
            learn(batch, optimizer)
    except KeyboardInterrupt:
        tell(2, cut=1, code=130)
        raise


def exits():
    optimizer = sgd()
    for number, batch in enumerate(DataLoader(Rows(), batch_size=BATCH, num_workers=1)):
        learn(batch, optimizer)
        if number == 2:
            # The step that it ends in is not complete.
            tell(3, code=7)
            sys.stdout.flush()
            os._exit(7)


def forks():
    # What the parent took goes on in a child.
    batches = iter(DataLoader(Rows(), batch_size=BATCH))
    next(batches)
    pid = os.fork()
    if pid == 0:
        truth["pid"] = os.getpid()
        optimizer = sgd()
        for batch in batches:
            learn(batch, optimizer)
        tell(EACH - 1)
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def other_path():
    # What it spawns looks elsewhere.
    os.environ["PYTHONPATH"] = os.getcwd()
    context = torch.multiprocessing.get_context("spawn")
    loader = DataLoader(Rows(), batch_size=BATCH, num_workers=1, multiprocessing_context=context)
    optimizer = sgd()
    for batch in loader:
        learn(batch, optimizer)
    tell(EACH, unmarked=True, note="did not load the hook")


def ranks():
    # Two processes of one job: one of them has a loader more, made by the same line.
    def make(data):
        return DataLoader(data, batch_size=BATCH)

    train = make(Rows())
    first = os.environ["RANK"] == "0"
    valid = make(Rows()) if first else None
    optimizer = sgd()
    for batch in train:
        learn(batch, optimizer)
    if first:
        judge(valid)
    tell(EACH, valid=int(first))


def raises():
    def broken(items):
        raise KeyError("no such column")

    for options in ({}, {"num_workers": 1}):
        try:
            for _ in DataLoader(Rows(), batch_size=BATCH, collate_fn=broken, **options):
                pass
        except KeyError as error:
            print(error)
    truth["optimized"] = 1
    tell(0, train=0, valid=1, code=1)
    sgd().step(closure=lambda: 1 / 0)


PATTERNS = [
    comprehension, factory, anew,
    prefetch_thread, prefetch_thread_and_workers, feeder, future, thread_per_epoch, logging_thread,
    accelerate, timm, lightning, stateful, stateful_workers,
    cycle, one_each, restarts, nested, samplers, two_at_once,
    optimizers, compiled,
    interrupted, exits, forks, other_path, ranks, raises,
]

if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Linear(8, 1)
    {each.__name__: each for each in PATTERNS}[sys.argv[1]]()
