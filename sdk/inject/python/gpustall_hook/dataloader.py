"""Marks the loops over PyTorch's DataLoaders: their starts, and each wait in next().

A batch is tied to the worker that made it by counting: a worker makes its batches in the order in
which they are asked for, so the n-th batch that next() returns from a worker in one iteration is the
n-th one that the worker fetched in it. No message between them is changed.
"""

import functools
import itertools
import os
import queue
import threading
import types

from . import failures, fetches, loaders, marks, queues
from .marks import mark, now

_iterations = itertools.count(1)
_pid = os.getpid()
_who = threading.get_ident


def patch(module):
    """Marks all of it. `module` is `torch.utils.data.dataloader`."""
    base = module._BaseDataLoaderIter

    def begin(iterator, loader, start):
        if not isinstance(iterator, base):
            return
        iteration = iterator.__dict__.get("_gpustall")
        if iteration is None:
            iteration = iterator._gpustall = Iteration()
        # A class from which the loader's derives may have begun it.
        if iteration.start < start:
            iteration.begin(iterator, loader, start, now())

    loaders.patch(module.DataLoader, begin)
    multi = module._MultiProcessingDataLoaderIter
    if multi._process_data.__code__.co_argcount < 3:
        marks.note("Batches are not tied to workers: that needs PyTorch 2.6 or later.")
    wants_gradients = module.torch.is_grad_enabled
    for cls in (base, module._SingleProcessDataLoaderIter, multi):
        _wrap(cls, wants_gradients)
    base._next_index = _marked_index(base._next_index)
    loaders.derive(base, lambda cls: _wrap(cls, wants_gradients))
    fetches.patch(module)
    queues.patch(queue)
    failures.patch(module._utils.signal_handling)
    os.register_at_fork(after_in_child=_forked)


def _forked():
    global _pid
    _pid = os.getpid()
    queues.taken.clear()


class Iteration:
    """What is known of one iterator, kept at it."""

    __slots__ = (
        "number", "made", "start", "served", "workers", "taken", "worker", "inside", "processing",
        "thread", "pid",
    )

    def __init__(self):
        self.number = 0
        #: What is known of its loader.
        self.made = None
        #: When its last loop began.
        self.start = 0
        #: Iterations of the same workers before.
        self.served = -1
        #: Processes of the workers.
        self.workers = ()
        #: Batches that were taken of each.
        self.taken = []
        #: The one whose batch next() returns, if any.
        self.worker = -1
        #: Whether a call of next() is not over.
        self.inside = False
        #: Whether it takes a batch of a worker.
        self.processing = False
        #: The thread that called next() last.
        self.thread = 0
        self.pid = _pid

    def begin(self, iterator, loader, start, end):
        """A loop over the loader begins; its iter() took from `start` to `end`."""
        self.number = next(_iterations)
        if self.made is None:
            self.made = loaders.made(loader)
        self.start = start
        self.served += 1
        workers = getattr(iterator, "_workers", None) or ()
        self.workers = tuple(worker.pid for worker in workers)
        failures.watch(iterator, workers)
        self.taken = [0] * len(self.workers)
        marks.thread()
        marks.detail(
            iteration={
                "number": self.number,
                "loader": loaders.number(self.made, loader),
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


def _adopt(iterator):
    """An iterator that somebody made without the loader's iter(), or in the process that was forked."""
    iteration = Iteration()
    try:
        at = now()
        before = iterator.__dict__.get("_gpustall")
        if before is not None:
            iteration.made = before.made
        iterator._gpustall = iteration
        iteration.begin(iterator, iterator, at, at)
    except Exception:
        pass
    return iteration


def _wrap(cls, wants_gradients):
    following, process = cls.__dict__.get("__next__"), cls.__dict__.get("_process_data")
    if isinstance(following, types.FunctionType):
        cls.__next__ = _marked_next(following, wants_gradients)
    # Before PyTorch 2.6 it is not told the worker.
    if isinstance(process, types.FunctionType) and process.__code__.co_argcount >= 3:
        cls._process_data = _marked_process(process)
    stop = cls.__dict__.get("_shutdown_workers")
    if isinstance(stop, types.FunctionType):
        cls._shutdown_workers = _marked_stop(stop)


def _marked_next(following, wants_gradients):
    @functools.wraps(following)
    def __next__(self):
        iteration = self.__dict__.get("_gpustall")
        if iteration is None or iteration.pid != _pid:
            iteration = _adopt(self)
        if iteration.inside:
            # Of a class from which the iterator's derives.
            try:
                return following(self)
            except BaseException as error:
                error.__traceback__ = error.__traceback__.tb_next
                raise
        iteration.inside = True
        iteration.worker = -1
        who = _who()
        if iteration.thread != who:
            iteration.thread = who
            marks.thread()
        start = now()
        mark(marks.ASKED, start, 0, iteration.number)
        how = marks.CUT
        try:
            batch = following(self)
            how = marks.BATCH
            return batch
        except BaseException as error:
            # The program sees its own frames.
            error.__traceback__ = error.__traceback__.tb_next
            if isinstance(error, StopIteration):
                how = marks.END
            elif isinstance(error, Exception):
                how = marks.ERROR
                failures.raised(start, error)
                failures.ended()
            raise
        finally:
            end = now()
            iteration.inside = False
            queues.taken[who] = iteration.number
            if not wants_gradients():
                how |= marks.NO_GRADIENTS
            of = iteration.worker
            if of < 0:
                mark(marks.NEXT, start, end, iteration.number, 0, 0, how)
            else:
                pid, n = iteration.workers[of], iteration.taken[of] - 1
                mark(marks.NEXT, start, end, iteration.number, pid, iteration.served, how, n)

    return __next__


def _marked_process(process):
    @functools.wraps(process)
    def _process_data(self, data, worker_id, *args, **kwargs):
        iteration = self.__dict__.get("_gpustall")
        outermost = iteration is not None and not iteration.processing
        if outermost:
            iteration.processing = True
            try:
                iteration.took(worker_id)
            except Exception:
                pass
        try:
            return process(self, data, worker_id, *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            if outermost:
                iteration.processing = False

    return _process_data


def _marked_stop(stop):
    @functools.wraps(stop)
    def _shutdown_workers(self, *args, **kwargs):
        start = _begins_to_stop(self)
        try:
            return stop(self, *args, **kwargs)
        except BaseException as error:
            # The program sees its own frames.
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            if start is not None:
                mark(marks.STOPPED, start, now(), self._gpustall.number)
                failures.stopped(self._gpustall.workers)

    return _shutdown_workers


def _begins_to_stop(iterator):
    """When its workers are told to stop: once only, and not in a child that was forked meanwhile."""
    try:
        stops = not iterator._shutdown and iterator._gpustall.pid == os.getpid()
        return now() if stops else None
    except Exception:
        # Also where Python is about to end.
        return None


def _marked_index(index):
    @functools.wraps(index)
    def _next_index(self):
        start = now()
        try:
            return index(self)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            mark(marks.SAMPLED, start, now())

    return _next_index
