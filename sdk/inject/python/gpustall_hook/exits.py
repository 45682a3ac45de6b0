"""Tells where a program ends itself: in sys.exit or os._exit, with which code; and what ended a process of its own."""

import functools
import multiprocessing.process
import os
import sys
import threading

from . import failures, marks

#: What the last call of sys.exit on the main thread was. The program may have gone on after it.
_last = None
#: The exception that ended this process, where multiprocessing runs it: it prints that, and ends the process itself.
_failed = None


def patch():
    """Marks both, in the whole process."""
    if not hasattr(sys.exit, "_gpustall"):
        sys.exit = _marked(sys.exit, "sys.exit", _remember)
        os._exit = _marked(os._exit, "os._exit", _tell)
        process = multiprocessing.process.BaseProcess
        process.run = _marked_run(process.run)


def last():
    """The last call of sys.exit with a code that says that something is wrong, if there was one."""
    return _last


def otherwise():
    """What has ended a program that ends in order, with an exit code that is not 0, and called nothing here."""
    return {"at": marks.now(), "code": 0, "texts": ["it raised SystemExit"]}


def _marked(leave, name, then):
    @functools.wraps(leave)
    def marked(*args, **kwargs):
        try:
            _left(name, then, *args, **kwargs)
        except Exception:
            pass
        try:
            return leave(*args, **kwargs)
        except BaseException as error:
            # The program sees its own frames.
            error.__traceback__ = error.__traceback__.tb_next
            raise

    marked._gpustall = True
    # It is pickled by its name.
    marked.__module__, marked.__qualname__ = name.split(".")
    return marked


def _marked_run(run):
    @functools.wraps(run)
    def marked(self):
        try:
            return run(self)
        except BaseException as error:
            # The program sees its own frames.
            error.__traceback__ = error.__traceback__.tb_next
            _fail(error)
            raise

    return marked


def _fail(error):
    global _failed
    try:
        if not isinstance(error, SystemExit):
            _failed = {"at": marks.now(), "code": 1, "texts": failures.texts(error)}
    except Exception:
        pass


def _left(name, then, status=None):
    code = status if isinstance(status, int) else int(status is not None)
    # Of another thread sys.exit ends that alone.
    if name == "sys.exit" and threading.current_thread() is not threading.main_thread():
        return
    if not code & 0xFF:
        then(None)
        return
    frame = sys._getframe(2)
    if str(frame.f_globals.get("__name__")).startswith("multiprocessing."):
        # Python's own: what it ran says why.
        if _failed is not None:
            then(_failed)
        return
    place = "%s:%d" % (os.path.basename(frame.f_code.co_filename), frame.f_lineno)
    told = "%s(%s) at %s" % (name, failures.shortened(repr(status)), place)
    after = failures.texts(sys.exc_info()[1])
    if after:
        told += ", after " + after[0]
    then({"at": marks.now(), "code": code & 0xFF, "texts": [told, *after]})


def _remember(what):
    global _last
    _last = what


def _tell(what):
    if what is not None:
        marks.detail(uncaught=what)
