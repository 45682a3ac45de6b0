"""Tells what went wrong: exceptions while batches are made, workers that end before their time, and the
exception that ends the program."""

import atexit
import functools
import os
import signal
import sys
import threading
import weakref

from . import exits, marks

#: Exceptions of a process that are told: a program may go on after each.
_MOST = 100
#: Characters of each.
_LENGTH = 200
#: Exceptions that one came from are told up to this many.
_CHAIN = 5

#: Workers of which it is not known that they have ended, by their processes: each, and its iterator.
_workers = {}
_raised = 0
#: Whether the process ends: Python ends its workers then, and PyTorch has these say that all is well. None until
#: there are any.
_ends = None


def patch(signals):
    """Has PyTorch's own look at its workers tell more. `signals` is `torch.utils.data._utils.signal_handling`."""
    atexit.register(uncaught)
    exits.patch()
    threading.excepthook = _marked_hook(threading.excepthook)
    check = getattr(signals, "_error_if_any_worker_fails", None)
    if check is None:
        return

    # It is called whatever the program is doing when a worker ends.
    @functools.wraps(check)
    def _error_if_any_worker_fails():
        try:
            found = check()
        except BaseException as error:
            # The program sees its own frames.
            error.__traceback__ = error.__traceback__.tb_next
            ended()
            raise
        # PyTorch passes over one that exits with code 0, until it looks for itself, every 5 s.
        ended()
        return found

    signals._error_if_any_worker_fails = _error_if_any_worker_fails
    os.register_at_fork(after_in_child=_forget)


def raised(start, error):
    """Tells the exception that ended what this thread began at `start`: a call of next(), or a stage."""
    global _raised
    try:
        if _raised < _MOST:
            _raised += 1
            marks.detail(error={"tid": marks._tid(), "start": start, "text": _text(error)})
    except Exception:
        pass


def _marked_hook(hook):
    @functools.wraps(hook)
    def excepthook(args, /):
        global _raised
        try:
            # Python says nothing of a thread that ends itself.
            if _raised < _MOST and args.exc_type is not SystemExit:
                _raised += 1
                marks.thread()
                text = _text(args.exc_value) if args.exc_value is not None else args.exc_type.__name__
                marks.detail(thread_ended={"tid": marks._tid(), "at": marks.now(), "text": text})
        except Exception:
            pass
        return hook(args)

    return excepthook


def uncaught():
    """Tells the exception that ends the program, if one does: Python keeps what it printed the trace of."""
    try:
        error = getattr(sys, "last_value", None)
        # At a prompt the program goes on after each.
        if hasattr(sys, "ps1") or sys.flags.interactive:
            return
        if error is not None:
            marks.detail(uncaught={"at": marks.now(), "texts": texts(error)})
        else:
            marks.detail(uncaught=exits.last() or exits.otherwise())
    except Exception:
        pass


def texts(error):
    """What an exception says, and what those say that it came from."""
    said = []
    while error is not None and len(said) < _CHAIN:
        said.append(_text(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return said


def shortened(text):
    """No more of it than is told."""
    return text[:_LENGTH]


def watch(iterator, workers):
    """Workers begin to make batches for an iterator."""
    global _ends
    if workers and _ends is None:
        _ends = False
        # What is registered last is called first, and Python's own is by now.
        atexit.register(_end)
    for worker in workers:
        _workers[worker.pid] = (weakref.ref(worker), weakref.ref(iterator))


def stopped(workers):
    """Workers were told to stop: how they end is not told any more."""
    for pid in workers:
        _workers.pop(pid, None)


def ended():
    """Tells of workers that have ended, and how. One that had nothing left to do ends with exit code 0 too."""
    if _ends:
        return
    try:
        for pid, (worker, iterator) in list(_workers.items()):
            worker, iterator = worker(), iterator()
            # One that is told to stop ends when it has to.
            if worker is None or getattr(iterator, "_shutdown", True):
                _workers.pop(pid, None)
                continue
            status = _status(pid, worker)
            if status is None:
                continue
            _workers.pop(pid, None)
            how = {"signal": _signal(-status)} if status < 0 else {"code": status}
            marks.detail(death={"pid": pid, "at": marks.now(), **how})
    except Exception:
        pass


def _end():
    global _ends
    _ends = True
    marks.detail(ends=marks.now())


def _status(pid, worker):
    """Its exit code, or a signal as a negative number; None while it runs."""
    known = worker._popen.returncode
    if known is not None:
        return known
    try:
        # It is left there for the program, which waits for it.
        state = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        # A child of the fork server, which tells by a pipe.
        return worker.exitcode
    if state is None:
        return None
    return state.si_status if state.si_code == os.CLD_EXITED else -state.si_status


def _signal(number):
    """Its name; most realtime signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number


def _text(error):
    """The class and the first line of an exception; of one that a worker sent, what it was there."""
    try:
        text = str(error).strip()
    except Exception:
        # Of the program's own classes some cannot say what they are.
        text = ""
    caught = text.partition("\nOriginal Traceback ")[2]
    if caught:
        return caught.splitlines()[-1][:_LENGTH]
    first, _, more = text.partition("\n")
    if first.rstrip().endswith(":") and more:
        # The last line of what another process raised says what it was.
        text = "%s %s" % (first.rstrip(), more.splitlines()[-1])
    name, line = type(error).__name__, text.partition("\n")[0]
    return ("%s: %s" % (name, line) if line else name)[:_LENGTH]


def _forget():
    global _raised
    _raised = 0
    _workers.clear()
