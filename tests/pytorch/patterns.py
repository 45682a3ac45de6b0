"""The ways in which programs and libraries take batches, each as a program that knows nothing of gpustall.

    python tests/pytorch/patterns.py PATTERN TRUTH.json

Where a library has its own way, it is written as the library has it. Each writes down which process made
each batch, which thread took it and what for; how many steps that makes, and how many loaders there are.
"""

import sys

from ways.ends import (
    exits, forks, goes_on, interrupted, other_path, quits, raises, ranks, thread_raises,
)
from ways.libraries import accelerate, lightning, stateful, stateful_workers, timm
from ways.loaders import anew, comprehension, factory
from ways.loops import cycle, nested, one_each, restarts, samplers, two_at_once
from ways.optimizers import compiled, optimizers
from ways.profilers import profiled
from ways.threads import (
    feeder, future, logging_thread, prefetch_thread, prefetch_thread_and_workers, thread_per_epoch,
)

PATTERNS = [
    comprehension, factory, anew,
    prefetch_thread, prefetch_thread_and_workers, feeder, future, thread_per_epoch, logging_thread,
    accelerate, timm, lightning, stateful, stateful_workers,
    cycle, one_each, restarts, nested, samplers, two_at_once,
    optimizers, compiled, profiled,
    interrupted, exits, quits, goes_on, forks, other_path, ranks, raises, thread_raises,
]

if __name__ == "__main__":
    {each.__name__: each for each in PATTERNS}[sys.argv[1]]()
