"""Tells where a program ends itself: in sys.exit or os._exit, with which code."""

import functools
import os
import sys
import threading

from . import failures, marks

#: What the last call of sys.exit on the main thread was. The program may have gone on after it.
_last = None


def patch():
    """Marks both, in the whole process."""
    if not hasattr(sys.exit, "_gpustall"):
        sys.exit = _marked(sys.exit, "sys.exit", _remember)
        os._exit = _marked(os._exit, "os._exit", _tell)


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


def _left(name, then, status=None):
    code = status if isinstance(status, int) else int(status is not None)
    if threading.current_thread() is not threading.main_thread():
        return
    if not code & 0xFF:
        then(None)
        return
    frame = sys._getframe(2)
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
