"""Ends of programs and of batches: interrupts, exits, forks, and exceptions."""

import os
import signal
import sys
import threading

import torch
from torch.utils.data import DataLoader

from ways.basics import BATCH, EACH, judge, learn, Rows, sgd, tell, took, truth


def interrupted():
    class Slow(Rows):
        def __getitem__(self, index):
            if index == 25:
                signal.raise_signal(signal.SIGINT)
            return super().__getitem__(index)

    # A program that is started in the background of a shell ignores it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    optimizer = sgd()
    try:
        for batch in DataLoader(Slow(), batch_size=BATCH):
            learn(batch, optimizer)
    except KeyboardInterrupt:
        tell(2, cut=1, code=130)
        raise


def exits():
    optimizer = sgd()
    for number, batch in enumerate(DataLoader(Rows(), batch_size=BATCH, num_workers=1)):
        learn(batch, optimizer)
        if number == 2:
            # The step that it ends in is not complete.
            tell(3, code=7)
            sys.stdout.flush()
            os._exit(7)


def quits():
    optimizer = sgd()
    for number, batch in enumerate(DataLoader(Rows(), batch_size=BATCH, num_workers=1)):
        learn(batch, optimizer)
        if number == 2:
            tell(3, code=1)
            sys.exit("no such column")


def goes_on():
    # A library asks for the end, and the program does not want it.
    optimizer = sgd()
    for batch in DataLoader(Rows(), batch_size=BATCH):
        try:
            sys.exit(2)
        except SystemExit:
            learn(batch, optimizer)
    tell(EACH)


def thread_raises():
    def breaks():
        raise RuntimeError("the log is gone")

    logs = threading.Thread(target=breaks)
    logs.start()
    logs.join()
    optimizer = sgd()
    for batch in DataLoader(Rows(), batch_size=BATCH):
        learn(batch, optimizer)
    tell(EACH)


def forks():
    # What the parent took goes on in a child.
    batches = iter(DataLoader(Rows(), batch_size=BATCH))
    next(batches)
    pid = os.fork()
    if pid == 0:
        truth["pid"] = os.getpid()
        optimizer = sgd()
        for batch in batches:
            learn(batch, optimizer)
        tell(EACH - 1)
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def other_path():
    # What it spawns looks elsewhere.
    os.environ["PYTHONPATH"] = os.getcwd()
    context = torch.multiprocessing.get_context("spawn")
    loader = DataLoader(Rows(), batch_size=BATCH, num_workers=1, multiprocessing_context=context)
    optimizer = sgd()
    for batch in loader:
        learn(batch, optimizer)
    tell(EACH, unmarked=True, note="the hook was not loaded")


def ranks():
    # Two processes of one job: one of them has a loader more, made by the same line.
    def make(data):
        return DataLoader(data, batch_size=BATCH)

    train = make(Rows())
    first = os.environ["RANK"] == "0"
    valid = make(Rows()) if first else None
    optimizer = sgd()
    for batch in train:
        learn(batch, optimizer)
    if first:
        judge(valid)
    tell(EACH, valid=int(first))


def raises():
    def broken(items):
        raise KeyError("no such column")

    for options in ({}, {"num_workers": 1}):
        try:
            for _ in DataLoader(Rows(), batch_size=BATCH, collate_fn=broken, **options):
                pass
        except KeyError as error:
            print(error)
    truth["optimized"] = 1
    tell(0, train=0, valid=1, code=1)
    sgd().step(closure=lambda: 1 / 0)
