"""The files of one process: marks of 64 bytes in shared memory, and details as lines of JSON.

Marks are written into a file that is mapped, so that a mark is a store into memory: no call of the
system, nothing to flush, and nothing lost by whatever ends the process. The blocks of the file are
asked for before they are written to, so a full disk is an error here and no signal there. A forked
child has files of its own.

A mark is five numbers of 64 bits and six of 32, little endian: start and end (nanoseconds of
CLOCK_MONOTONIC), CPU time and time ready to run (nanoseconds; UNKNOWN), a number; the thread, four
numbers more, and the kind, 0 where no mark was written. The first slot has the marks that did not
fit as its third number. `sdk/cli/src/run/python/mark.rs` reads them.
"""

import itertools
import os
import struct
import sys
import threading
import time

from . import FOLDER_VARIABLE

#: First number of a file of marks: its format.
FORMAT = 0x31736B72616D7067
UNKNOWN = 0xFFFFFFFFFFFFFFFF

# Kinds, and what their numbers are (n; a, b, c, d).
HEAD = 1
#: next() was called. a: iteration.
ASKED = 2
#: next() is over. n: batch of its worker; a: iteration, b: process of the worker, c: the worker's
#: iteration, d: how it ended, and 4 if gradients were not wanted.
NEXT = 3
#: A batch's items are about to be read; n: batch of this fetcher; a: the worker's iteration, b: 1 if
#: it is a worker's own fetcher, not one of a loader in this process.
GET_BEGAN = 4
#: They were read. c: items; d: 1 in case of an error, 2 if there were none left, 3 if it was cut off.
GET = 5
COLLATE_BEGAN = 6
COLLATE = 7
#: Indices of a batch were drawn.
SAMPLED = 8
#: A batch was copied to pinned memory.
PINNED = 9
#: A step of an optimizer. a: which one.
OPTIMIZED = 10
#: An iterator was dropped. a: iteration.
DROPPED = 11
#: What next() gave last on this thread was put into a queue. n: number there; a: queue, b: iteration.
HANDED = 12
#: It was got there. n: number there; a: queue.
RECEIVED = 13
#: A call of torch.save.
SAVED = 14
#: The workers of an iterator were told to stop, and had. a: iteration.
STOPPED = 15

# How a next() ended. CUT: by an exception that is none of the loader, such as KeyboardInterrupt.
BATCH, END, ERROR, CUT, NO_GRADIENTS = 0, 1, 2, 3, 4

#: The program may change its environment.
_folder = os.environ.get(FOLDER_VARIABLE)

_SLOT = struct.Struct("<QQQQQIIIIII")
_FIRST_SLOTS = 1 << 10
_MOST_SLOTS = 1 << 22

_pack = _SLOT.pack_into
_size = _SLOT.size
_tid = threading.get_native_id
now = time.monotonic_ns
cpu = time.thread_time_ns


def mark(kind, start, end, a=0, b=0, c=0, d=0, n=0, cpu=UNKNOWN, ready=UNKNOWN):
    """Writes one mark, or counts it as lost."""
    try:
        slot = next(_slots)
        if slot < _room or _more(slot):
            _pack(_map, slot * _size, start, end, cpu, ready, n, _tid(), a, b, c, d, kind)
    except Exception:
        pass


def detail(**what):
    """Appends a line to the details, from time to time."""
    try:
        if _room or _more(0):
            _append(what)
    except Exception:
        pass


def note(text):
    """Tells the user something that he should know."""
    detail(note=text)


def thread():
    """Tells once what the program calls this thread, and whether it is one of Python's."""
    tid = _tid()
    if tid in _threads:
        return
    _threads.add(tid)
    try:
        known = threading._active.get(threading.get_ident())
        own = known is not None and not isinstance(known, threading._DummyThread)
        detail(thread={"tid": tid, "name": str(known.name)[:100] if own else "", "python": own})
    except Exception:
        pass


def ready():
    """Nanoseconds for which this thread was ready and waited for a CPU, since it began."""
    try:
        # Opened anew each time: a file that is kept for a thread would outlive it, and its number may
        # become one of the program's.
        file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return int(os.read(file, 64).split()[1])
        finally:
            os.close(file)
    except Exception:
        return UNKNOWN


def difference(later, earlier):
    """How much a count went up, if both are known."""
    return later - earlier if UNKNOWN not in (later, earlier) else UNKNOWN


def _forget():
    """The state of a process that has marked nothing yet."""
    global _slots, _room, _map, _stem, _lost, _lock, _threads
    _room, _map, _stem, _lost = 0, None, None, 0
    _threads = set()
    # Slot 0 is the head.
    _slots = itertools.count(1)
    _lock = threading.RLock()


def _more(slot):
    """Makes room for a slot; False if there is none."""
    global _room, _map, _lost
    with _lock:
        try:
            if _stem is None:
                _create()
            # After an error the map stays as it is.
            while _map is not None and slot >= _room and _room < _MOST_SLOTS and not _lost:
                _grow()
        except Exception:
            pass
        if slot < _room:
            return True
        _lost += 1
        if _map is not None:
            struct.pack_into("<Q", _map, 16, _lost)
        return False


def _create():
    """Makes the files."""
    global _stem
    _stem = ""
    pid = os.getpid()
    for again in range(1000):
        stem = os.path.join(_folder, "python.%d.%d" % (pid, again))
        try:
            os.close(os.open(stem + ".marks", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644))
        except FileExistsError:
            # Of a process that had this number before.
            continue
        _stem = stem
        break
    _grow()
    _pack(_map, 0, FORMAT, now(), 0, 0, 0, _tid(), 0, 0, 0, 0, HEAD)
    torch = sys.modules.get("torch")
    _append(
        {
            "process": {
                "pid": pid,
                "ppid": os.getppid(),
                "mono_ns": now(),
                "unix_ns": time.time_ns(),
                "argv": [str(word)[:200] for word in getattr(sys, "argv", [])[:3]],
                "cpus": len(os.sched_getaffinity(0)),
                "python": sys.version.split()[0],
                "torch": str(getattr(torch, "__version__", "")),
                "rank": os.environ.get("RANK", ""),
                "world_size": os.environ.get("WORLD_SIZE", ""),
            }
        }
    )


def _grow():
    """Maps twice as much of the file, whose blocks are there."""
    global _room, _map
    import mmap

    slots = max(_FIRST_SLOTS, 2 * _room)
    # No file is kept open: a program that closes all of them may have its own under that number.
    file = os.open(_stem + ".marks", os.O_RDWR)
    try:
        os.posix_fallocate(file, 0, slots * _size)
        # In this order: who sees the room sees the map.
        _map = mmap.mmap(file, slots * _size)
        _room = slots
    finally:
        os.close(file)


def _append(what):
    import json

    # A path or an argument that is not UTF-8 has surrogates, which no text of JSON may have.
    line = json.dumps(what, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    file = os.open(_stem + ".details", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
    try:
        os.write(file, line)
    finally:
        os.close(file)


_forget()
os.register_at_fork(after_in_child=_forget)
