"""Loops that do not go through a loader from its beginning to its end."""

import itertools

import torch
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from ways.basics import BATCH, EACH, judge, learn, model, Others, Rows, sgd, tell, took, truth


def cycle():
    optimizer = sgd()
    batches = itertools.cycle(DataLoader(Rows(), batch_size=BATCH))
    for batch in itertools.islice(batches, 3 * EACH):
        learn(batch, optimizer)
    # Those of the first round alone come from the loader.
    del truth["batches"][EACH:]
    tell(EACH + 2 * EACH - 1)


def one_each():
    loader = DataLoader(Rows(), batch_size=BATCH, num_workers=1)
    optimizer = sgd()
    for _ in range(5):
        learn(next(iter(loader)), optimizer)
    tell(5)


def restarts():
    loader = DataLoader(Rows(), batch_size=BATCH, num_workers=1)
    optimizer = sgd()
    batches = iter(loader)
    for _ in range(2 * EACH + 2):
        try:
            batch = next(batches)
        except StopIteration:
            batches = iter(loader)
            batch = next(batches)
        learn(batch, optimizer)
    tell(2 * EACH + 2)


def nested():
    train, valid = DataLoader(Rows(), batch_size=BATCH, num_workers=1), DataLoader(Rows(), BATCH)
    peeks = DataLoader(Others(), BATCH)
    optimizer = sgd()
    for number, batch in enumerate(train):
        learn(batch, optimizer)
        if number % 2:
            judge(valid)
        with torch.no_grad():
            model(took(next(iter(peeks)), "valid"))
    tell(EACH, valid=2)


def samplers():
    sampler = BatchSampler(SequentialSampler(Rows()), BATCH, False)

    def collate(items):
        return torch.stack([row for row, _ in items]), torch.tensor([maker for _, maker in items])

    loader = DataLoader(Rows(), batch_sampler=sampler, collate_fn=collate, num_workers=1)
    optimizer = sgd()
    for batch in loader:
        learn(batch, optimizer)
    tell(EACH)


def two_at_once():
    first, second = DataLoader(Rows(), BATCH), DataLoader(Others(), BATCH, num_workers=1)
    optimizer = sgd()
    for one, other in zip(first, second):
        took(one)
        learn(other, optimizer)
    # Each of the two has them.
    tell(2 * EACH, train=2)
