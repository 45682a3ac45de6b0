"""Threads that take batches, hand them on, or train."""

import queue
import threading
from concurrent.futures import ThreadPoolExecutor

from torch.utils.data import DataLoader

from ways.basics import BATCH, EACH, learn, Rows, sgd, tell, truth


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
