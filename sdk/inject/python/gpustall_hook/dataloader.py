"""Marks PyTorch's DataLoader: waits in next(), starts of iterations, and the workers' fetches.

A batch is tied to the worker that made it by counting: a worker makes its batches in the order in
which they are asked for, so the n-th batch that next() returns from a worker in one iteration is the
n-th one that the worker fetched in it. No message between them is changed.
"""

import functools
import itertools
import os
import sys

from . import marks
from .marks import mark, now, cpu, ready, difference

_loaders = itertools.count(1)
_iterations = itertools.count(1)
#: Iterations that this process, a worker, was given.
_served = itertools.count(0)


def patch(module):
    """Marks the loaders. `module` is `torch.utils.data.dataloader`."""
    patch_loader(module.DataLoader)
    patch_iterator(module)
    patch_fetchers(module)
    patch_pinning(module._utils.pin_memory)
    os.register_at_fork(after_in_child=_forked)


def _forked():
    global _served
    _served = itertools.count(0)


class Iteration:
    """What is known of one iterator, kept at it."""

    __slots__ = ("number", "served", "workers", "taken", "worker", "pid")

    def __init__(self):
        self.number = 0
        #: Iterations of the same workers before.
        self.served = -1
        #: Processes of the workers.
        self.workers = ()
        #: Batches that were taken of each.
        self.taken = []
        #: The one whose batch next() returns, if any.
        self.worker = -1
        self.pid = os.getpid()

    def begin(self, iterator, loader, start, end):
        """A loop over the loader begins; its iter() took from `start` to `end`."""
        self.number = next(_iterations)
        self.served += 1
        workers = getattr(iterator, "_workers", None) or ()
        self.workers = tuple(worker.pid for worker in workers)
        self.taken = [0] * len(self.workers)
        marks.detail(
            iteration={
                "number": self.number,
                "loader": _number(loader),
                "thread": marks._tid(),
                "start": start,
                "end": end,
                "workers": self.workers,
                "served": self.served,
            }
        )

    def took(self, worker):
        self.worker = worker
        self.taken[worker] += 1

    def __del__(self):
        try:
            if self.pid == os.getpid():
                at = now()
                mark(marks.DROPPED, at, at, self.number)
        except Exception:
            pass


def _number(loader):
    """The number of a loader in this process; its details are told with its first iteration."""
    known = getattr(loader, "_gpustall_number", None)
    if known is not None and known[0] == os.getpid():
        return known[1]
    number = next(_loaders)
    try:
        object.__setattr__(loader, "_gpustall_number", (os.getpid(), number))
    except Exception:
        pass
    dataset = getattr(loader, "dataset", None)
    words = ("num_workers", "batch_size", "pin_memory", "prefetch_factor", "persistent_workers")
    options = {word: getattr(loader, word, None) for word in words}
    known = {word: is_ for word, is_ in options.items() if isinstance(is_, (bool, int))}
    marks.detail(
        loader={
            "number": number,
            "place": getattr(loader, "_gpustall_place", None),
            "dataset": type(dataset).__name__,
            **known,
        }
    )
    return number


def _place(loader):
    """The line of the program that makes a loader, as `train.py:42`."""
    frame = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        constructs = code.co_name == "__init__" and frame.f_locals.get("self") is loader
        library = "site-packages" in code.co_filename or "dist-packages" in code.co_filename
        if not constructs and not library:
            return "%s:%d" % (os.path.basename(code.co_filename), frame.f_lineno)
        frame = frame.f_back
    return None


def patch_loader(loader):
    init, iterate = loader.__init__, loader.__iter__

    @functools.wraps(init)
    def __init__(self, *args, **kwargs):
        init(self, *args, **kwargs)
        try:
            object.__setattr__(self, "_gpustall_place", _place(self))
        except Exception:
            pass

    @functools.wraps(iterate)
    def __iter__(self):
        start = now()
        iterator = iterate(self)
        end = now()
        try:
            iteration = getattr(iterator, "_gpustall", None)
            if iteration is None:
                iteration = iterator._gpustall = Iteration()
            iteration.begin(iterator, self, start, end)
        except Exception:
            pass
        return iterator

    loader.__init__, loader.__iter__ = __init__, __iter__


def _adopt(iterator):
    """An iterator that somebody made without the loader's iter()."""
    iteration = Iteration()
    try:
        at = now()
        iterator._gpustall = iteration
        iteration.begin(iterator, iterator, at, at)
    except Exception:
        pass
    return iteration


def patch_iterator(module):
    base = module._BaseDataLoaderIter
    following, index = base.__next__, base._next_index
    wants_gradients = module.torch.is_grad_enabled

    @functools.wraps(following)
    def __next__(self):
        iteration = self.__dict__.get("_gpustall") or _adopt(self)
        iteration.worker = -1
        start = now()
        mark(marks.ASKED, start, 0, iteration.number)
        how = marks.ERROR
        try:
            batch = following(self)
            how = marks.BATCH
            return batch
        except StopIteration:
            how = marks.END
            raise
        finally:
            end = now()
            if not wants_gradients():
                how |= marks.NO_GRADIENTS
            of = iteration.worker
            if of < 0:
                mark(marks.NEXT, start, end, iteration.number, 0, 0, how)
            else:
                pid, n = iteration.workers[of], iteration.taken[of] - 1
                mark(marks.NEXT, start, end, iteration.number, pid, iteration.served, how, n)

    @functools.wraps(index)
    def _next_index(self):
        start = now()
        try:
            return index(self)
        finally:
            mark(marks.SAMPLED, start, now())

    base.__next__, base._next_index = __next__, _next_index

    multi = module._MultiProcessingDataLoaderIter
    process = multi._process_data
    if process.__code__.co_argcount < 3:
        marks.note("Batches are not tied to workers: that needs PyTorch 2.6 or later.")
        return

    @functools.wraps(process)
    def _process_data(self, data, worker_idx, *more, **named):
        try:
            self._gpustall.took(worker_idx)
        except Exception:
            pass
        return process(self, data, worker_idx, *more, **named)

    multi._process_data = _process_data


class Fetches:
    """The batches of one fetcher."""

    __slots__ = ("served", "works", "count", "items", "collating")

    def __init__(self, served, works):
        #: Which iteration of a worker this is.
        self.served = served
        #: Whether a worker's own, not one of a loader in this process.
        self.works = int(works)
        self.count = 0
        self.items = 0
        #: When the items of the batch were there, and the thread's times then.
        self.collating = None


def patch_fetchers(module):
    kind = module._DatasetKind
    create = kind.create_fetcher

    @functools.wraps(create)
    def create_fetcher(*args, **kwargs):
        fetcher = create(*args, **kwargs)
        try:
            # A worker's own, not one of a loader that its data set uses.
            works = sys._getframe(1).f_code.co_name == "_worker_loop"
            fetches = Fetches(next(_served) if works else 0, works)
            if works:
                worker = module._utils.worker._worker_info
                marks.detail(worker={"id": worker.id, "served": fetches.served})
            fetcher.collate_fn = _marked_collate(fetcher.collate_fn, fetches)
            fetcher._gpustall = fetches
        except Exception:
            pass
        return fetcher

    kind.create_fetcher = staticmethod(create_fetcher)
    for fetcher in (
        module._utils.fetch._MapDatasetFetcher,
        module._utils.fetch._IterableDatasetFetcher,
    ):
        fetcher.fetch = _marked_fetch(fetcher.fetch)


def _marked_collate(collate, fetches):
    @functools.wraps(collate)
    def marked(data):
        start = now()
        mark(marks.COLLATE_BEGAN, start, 0, fetches.served, fetches.works, n=fetches.count)
        fetches.collating = (start, cpu(), ready())
        fetches.items = len(data) if isinstance(data, (list, tuple)) else 0
        return collate(data)

    return marked


def _marked_fetch(fetch):
    @functools.wraps(fetch)
    def marked(self, possibly_batched_index):
        fetches = self.__dict__.get("_gpustall")
        if fetches is None:
            return fetch(self, possibly_batched_index)
        start = now()
        mark(marks.GET_BEGAN, start, 0, fetches.served, fetches.works, n=fetches.count)
        began = (start, cpu(), ready())
        fetches.collating, fetches.items = None, 0
        failed = 1
        try:
            data = fetch(self, possibly_batched_index)
            failed = 0
            return data
        except StopIteration:
            # An iterable data set is at its end: that is no batch.
            failed = 2
            raise
        finally:
            ended = (now(), cpu(), ready())
            collating = fetches.collating
            if collating is None:
                _stage(marks.GET, fetches, began, ended, failed)
            else:
                _stage(marks.GET, fetches, began, collating, 0)
                _stage(marks.COLLATE, fetches, collating, ended, failed)
            fetches.count += 1

    return marked


def _stage(kind, of, began, ended, failed):
    used, waited = ended[1] - began[1], difference(ended[2], began[2])
    mark(
        kind, began[0], ended[0], of.served, of.works, of.items, failed, of.count, used, waited
    )


def patch_pinning(module):
    pin = module.pin_memory

    @functools.wraps(pin)
    def pin_memory(*args, **kwargs):
        # It calls itself for the parts of a batch.
        if sys._getframe(1).f_code.co_name == "pin_memory":
            return pin(*args, **kwargs)
        start = now()
        try:
            return pin(*args, **kwargs)
        finally:
            mark(marks.PINNED, start, now())

    module.pin_memory = pin_memory
