"""Marks how batches are made, in workers and in next(): their items are got, and collated."""

import functools
import itertools
import os
import sys

from . import failures, marks
from .marks import mark, now, cpu, ready, difference

#: Iterations that this process, a worker, was given.
_served = itertools.count(0)


def patch(module):
    """Marks the fetchers. `module` is `torch.utils.data.dataloader`."""
    _patch_fetchers(module)
    _patch_pinning(module._utils.pin_memory)
    os.register_at_fork(after_in_child=_forked)


def _forked():
    global _served
    _served = itertools.count(0)


class Fetches:
    """The batches of one fetcher."""

    __slots__ = ("served", "works", "streams", "count", "items", "collating")

    def __init__(self, served, works, streams):
        #: Which iteration of a worker this is.
        self.served = served
        #: Whether a worker's own, not one of a loader in this process.
        self.works = int(works)
        #: Whether the data set is iterated: it says by StopIteration that it is at its end.
        self.streams = streams
        self.count = 0
        self.items = 0
        #: When the items of the batch were there, and the thread's times then.
        self.collating = None


def _patch_fetchers(module):
    kind = module._DatasetKind
    create = kind.create_fetcher

    @functools.wraps(create)
    def create_fetcher(*args, **kwargs):
        try:
            fetcher = create(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        try:
            # A worker's own, not one of a loader that its data set uses.
            works = sys._getframe(1).f_code.co_name == "_worker_loop"
            streams = isinstance(fetcher, module._utils.fetch._IterableDatasetFetcher)
            fetches = Fetches(next(_served) if works else 0, works, streams)
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
        try:
            return collate(data)
        except BaseException as error:
            # The program sees its own frames.
            error.__traceback__ = error.__traceback__.tb_next
            raise

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
        how = marks.CUT
        try:
            data = fetch(self, possibly_batched_index)
            how = 0
            return data
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            if isinstance(error, StopIteration) and fetches.streams and not fetches.collating:
                # An iterable data set is at its end: that is no batch.
                how = 2
            elif isinstance(error, Exception):
                how = 1
                failures.raised((fetches.collating or began)[0], error)
            raise
        finally:
            ended = (now(), cpu(), ready())
            collating = fetches.collating
            if collating is None:
                _stage(marks.GET, fetches, began, ended, how)
            else:
                _stage(marks.GET, fetches, began, collating, 0)
                _stage(marks.COLLATE, fetches, collating, ended, how)
            fetches.count += 1

    return marked


def _stage(kind, of, began, ended, how):
    used, waited = ended[1] - began[1], difference(ended[2], began[2])
    mark(kind, began[0], ended[0], of.served, of.works, of.items, how, of.count, used, waited)


def _patch_pinning(module):
    pin = module.pin_memory

    @functools.wraps(pin)
    def pin_memory(*args, **kwargs):
        # It calls itself for the parts of a batch.
        if sys._getframe(1).f_code.co_name == "pin_memory":
            return pin(*args, **kwargs)
        start = now()
        try:
            return pin(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            mark(marks.PINNED, start, now())

    module.pin_memory = pin_memory
