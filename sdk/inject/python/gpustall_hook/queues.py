"""Marks batches that one thread takes of a loader and hands on to another one by a `queue.Queue`.

What is put into such a queue first is got first, so puts and gets are counted, under the queue's own
lock. A mark is made of the first put after each next(), and of the get that gives what was put there.
"""

import collections
import functools
import threading

from .marks import HANDED, RECEIVED, mark, now

#: By the identity of a thread: the loop of which it took a batch that it did not hand on yet.
taken = {}

#: By the identity of a thread: the queue, and the number of what it just got there.
_got = {}
_numbers = iter(range(1, 1 << 32))
_who = threading.get_ident


class Line:
    """What is counted of one queue."""

    __slots__ = ("number", "puts", "gets", "marked")

    def __init__(self, there):
        self.number = next(_numbers)
        self.puts = there
        self.gets = 0
        #: Which puts were marked and not yet got.
        self.marked = collections.deque()


def patch(queue):
    """Marks the queues that keep the order of what is put in. `queue` is the module."""
    kind = queue.Queue
    put_in, take_out, get = kind._put, kind._get, kind.get

    @functools.wraps(put_in)
    def _put(self, item):
        loop = taken.pop(_who(), None) if taken else None
        line = self.__dict__.get("_gpustall")
        if loop is not None or line is not None:
            try:
                if line is None:
                    line = self.__dict__["_gpustall"] = Line(self._qsize())
                if loop is not None:
                    line.marked.append(line.puts)
                    at = now()
                    mark(HANDED, at, at, line.number, loop, n=line.puts)
                line.puts += 1
            except Exception:
                pass
        return put_in(self, item)

    @functools.wraps(take_out)
    def _get(self):
        line = self.__dict__.get("_gpustall")
        if line is not None:
            try:
                if line.marked and line.marked[0] == line.gets:
                    _got[_who()] = (line, line.marked.popleft())
                line.gets += 1
            except Exception:
                pass
        return take_out(self)

    @functools.wraps(get)
    def marked(self, *args, **kwargs):
        start = now()
        try:
            return get(self, *args, **kwargs)
        except BaseException as error:
            # The program sees its own frames.
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            found = _got.pop(_who(), None) if _got else None
            if found is not None and found[0] is self.__dict__.get("_gpustall"):
                mark(RECEIVED, start, now(), found[0].number, n=found[1])

    kind._put, kind._get, kind.get = _put, _get, marked
