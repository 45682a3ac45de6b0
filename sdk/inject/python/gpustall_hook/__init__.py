"""What an unchanged PyTorch program does: steps, waits for data, batches and who made them.

`gpustall run` has it loaded into every Python process of a job. It waits for PyTorch to be imported
and then marks the calls of its DataLoader and of its optimizers, see `dataloader` and `optimizer`.
The marks go to two files for each process, see `marks`. PyTorch's own profiler gets CUPTI, see
`profiler`. A program that does not import PyTorch pays for one small module and a comparison at each
import.

Nothing here may raise into the program: what cannot be marked is not, and the command says so.
"""

import os
import sys

#: Names the folder in which the processes of the job leave their recordings.
FOLDER_VARIABLE = "GPUSTALL_OUTPUT"

#: Lies beside this package once it was loaded: Python may have been told not to look for it.
LOADED = "loaded"


def start():
    """Waits for PyTorch, if this process belongs to a job of `gpustall run`."""
    if not os.environ.get(FOLDER_VARIABLE):
        return
    from . import imports

    imports.wait()
    if "KINETO_USE_DAEMON" in os.environ:
        from . import profiler

        # PyTorch's profiler begins as PyTorch is imported.
        profiler.leave()
    place = os.path.join(os.path.dirname(os.path.dirname(__file__)), LOADED)
    try:
        os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except OSError:
        # Another process was first, or nothing can be written there.
        pass
