"""PyTorch's own profiler in a job whose devices are recorded, with a stand-in for CUPTI and no device."""

import ctypes
import os
from collections import Counter

import torch
from torch.autograd import profiler
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader

from ways.basics import BATCH, EACH, learn, Rows, sgd, tell


def initialise():
    """What the driver does with the library that it is to load."""
    library = os.environ.get("CUDA_INJECTION64_PATH")
    if library:
        ctypes.CDLL(library).InitializeInjection()


def subscribers():
    """Those of the stand-in now."""
    return ctypes.c_int.in_dll(ctypes.CDLL(os.environ["GPUSTALL_CUPTI"]), "subscribers").value


def profiled():
    initialise()
    seen = [subscribers()]
    prepare = profiler._prepare_profiler

    def prepares(*args):
        seen.append(subscribers())
        return prepare(*args)

    profiler._prepare_profiler = prepares
    optimizer = sgd()
    loader = DataLoader(Rows(), batch_size=BATCH)
    for _ in range(2):
        with profile(activities=[ProfilerActivity.CPU]) as profiles:
            for batch in loader:
                learn(batch, optimizer)
        print(sorted(Counter(event.name for event in profiles.events()).items()))
    tell(2 * EACH, subscribers=seen, note="took CUPTI after")
