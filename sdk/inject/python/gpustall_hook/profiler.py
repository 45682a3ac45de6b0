"""Gives CUPTI up for PyTorch's profiler: it has one subscriber in a process.

PyTorch's profiler subscribes as it prepares the first profile of the process, whatever that is of: where there is
a device a profile of CPU activities has CUDA's calls, too. It keeps CUPTI from then on, and if it is refused it
does without device activities for good. So before it prepares the library that the driver loads is asked to give
CUPTI up. A library that is not loaded yet is told not to begin: it may be preparing that initialises the driver.
"""

import functools
import os

from . import FOLDER_VARIABLE

#: Names the library that the driver loads. The program may change its environment.
_library = os.environ.get("CUDA_INJECTION64_PATH", "")
_folder = os.environ.get(FOLDER_VARIABLE, "")

_left = False


def patch(module):
    """Has CUPTI given up before a profile is prepared. `module` is `torch.autograd.profiler`."""
    profile = getattr(module, "profile", None)
    prepare = getattr(profile, "_prepare_trace", None)
    if prepare is None:
        return

    @functools.wraps(prepare)
    def _prepare_trace(self, *args, **kwargs):
        leave()
        try:
            return prepare(self, *args, **kwargs)
        except BaseException as error:
            # The program sees its own frames.
            error.__traceback__ = error.__traceback__.tb_next
            raise

    profile._prepare_trace = _prepare_trace


def leave():
    """Has the library give CUPTI up, once; returns when it has."""
    global _left
    if _left:
        return
    try:
        import ctypes

        # Another profiler's is never loaded from here.
        own = os.path.dirname(_library) == _folder
        library = ctypes.CDLL(_library, ctypes.DEFAULT_MODE if own else os.RTLD_NOLOAD)
        # Other threads of Python run meanwhile.
        library.gpustall_leave_cupti()
    except Exception:
        # There is no library of ours in this process, and none will be.
        pass
    _left = True
