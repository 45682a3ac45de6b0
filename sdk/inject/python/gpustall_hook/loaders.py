"""Marks the program's loaders: the lines that made each, when, and the loops over it.

Nothing is kept at a loader itself: what is pickled, copied or printed of it is as it would be.
"""

import functools
import itertools
import os
import sys
import types
import weakref

from . import marks
from .marks import now

#: Lines that are told of those that made a loader, its own first.
_MOST_PLACES = 6

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PYTHON = os.path.dirname(os.path.abspath(os.__file__)) + os.sep

#: PyTorch's `_DatasetKind.Iterable`.
_ITERABLE = 1

_numbers = itertools.count(1)
_count = itertools.count(1)
#: Numbers of data sets and samplers, by their addresses.
_serials = {}
#: What is known of each loader that lives, by its address.
_known = {}


class Made:
    """How a loader was made."""

    __slots__ = ("loader", "number", "pid", "places", "at")

    def __init__(self, loader, places):
        #: Its number in the process that last looped over it.
        self.number = 0
        self.pid = 0
        self.places = places
        self.at = now()
        known, key = _known, id(loader)
        self.loader = weakref.ref(loader, lambda _: known.pop(key, None))
        known[key] = self


def patch(loader, begin):
    """Marks the class of loaders and those derived from it. `begin` is told of each loop:
    `begin(iterator, loader, start)`.
    """
    _wrap(loader, begin)
    derive(loader, lambda cls: _wrap(cls, begin))


def derive(base, each):
    """Has `each` called with every class that is derived from `base` from now on."""
    own = base.__dict__.get("__init_subclass__")

    def __init_subclass__(cls, *args, **kwargs):
        if own is not None:
            own.__get__(None, cls)(*args, **kwargs)
        else:
            super(base, cls).__init_subclass__(*args, **kwargs)
        try:
            each(cls)
        except Exception:
            pass

    base.__init_subclass__ = classmethod(__init_subclass__)


def _wrap(cls, begin):
    init, iterate = cls.__dict__.get("__init__"), cls.__dict__.get("__iter__")
    if isinstance(init, types.FunctionType):
        cls.__init__ = _marked_init(init)
    # A generator begins later, with the iterator of a class that it derives from.
    if isinstance(iterate, types.FunctionType) and not iterate.__code__.co_flags & 0x20:
        cls.__iter__ = _marked_iter(iterate, begin)


def _marked_init(init):
    @functools.wraps(init)
    def __init__(self, *args, **kwargs):
        try:
            init(self, *args, **kwargs)
        except BaseException as error:
            # The program sees its own frames.
            error.__traceback__ = error.__traceback__.tb_next
            raise
        try:
            # A class that it derives from may have been here.
            if id(self) not in _known:
                Made(self, _places(self))
        except Exception:
            pass

    return __init__


def _marked_iter(iterate, begin):
    @functools.wraps(iterate)
    def __iter__(self, *args, **kwargs):
        start = now()
        try:
            iterator = iterate(self, *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        try:
            begin(iterator, self, start)
        except Exception:
            pass
        return iterator

    return __iter__


def made(loader):
    """What is known of a loader."""
    return _known.get(id(loader)) or Made(loader, [])


def number(made, loader):
    """The number of a loader in this process; its details are told with its first loop."""
    if made.pid != os.getpid():
        made.pid = os.getpid()
        made.number = next(_numbers)
        words = ("num_workers", "batch_size", "pin_memory", "prefetch_factor", "persistent_workers")
        options = {word: getattr(loader, word, None) for word in words}
        known = {word: is_ for word, is_ in options.items() if isinstance(is_, (bool, int))}
        dataset = getattr(loader, "dataset", None)
        if dataset is None:
            dataset = getattr(loader, "_dataset", None)
        marks.detail(
            loader={
                "number": made.number,
                "places": made.places,
                "made": made.at,
                "dataset": type(dataset).__name__,
                "of": "%d %s" % (_serial(dataset), _sampler(loader)),
                "iterable": getattr(loader, "_dataset_kind", None) == _ITERABLE,
                **known,
            }
        )
    return made.number


def _sampler(loader):
    """What tells samplers apart: the kind of those that each loader makes for itself, else which."""
    batches = getattr(loader, "batch_sampler", None)
    makes = type(batches).__name__ in ("BatchSampler", "NoneType")
    sampler = getattr(loader, "sampler", None) if makes else batches
    kind = type(sampler).__name__
    made = kind in ("RandomSampler", "SequentialSampler", "_InfiniteConstantSampler", "NoneType")
    return kind if made else "%s %d" % (kind, _serial(sampler))


def _serial(thing):
    """A number that no other object has or had; 0 for what cannot be told from others."""
    known = _serials.get(id(thing))
    if known is None or known[0]() is not thing:
        try:
            known = _serials[id(thing)] = (weakref.ref(thing), next(_count))
        except TypeError:
            return 0
    return known[1]


def _places(loader):
    """The lines of the program that make a loader, as `train.py:42`, the innermost first."""
    places, otherwise = [], None
    frame = sys._getframe(2)
    while frame is not None and len(places) < _MOST_PLACES:
        code = frame.f_code
        name = code.co_filename
        constructs = code.co_name == "__init__" and frame.f_locals.get("self") is loader
        if not constructs and not name.startswith((_OWN, "<frozen")):
            place = "%s:%d" % (os.path.basename(name), frame.f_lineno)
            library = "site-packages" in name or "dist-packages" in name
            if not library and not name.startswith(_PYTHON):
                # A comprehension may have a frame of its own.
                if places[-1:] != [place]:
                    places.append(place)
            elif otherwise is None and (os.sep + "torch" + os.sep) not in name:
                otherwise = place
        frame = frame.f_back
    # All of a program may be installed.
    return places or [otherwise] * (otherwise is not None)
