"""Which loaders are one: made in one line, by one function, or anew for each epoch."""

import itertools

from torch.utils.data import DataLoader

from ways.basics import BATCH, EACH, judge, learn, Others, Rows, sgd, tell


def comprehension():
    loaders = [DataLoader(data, batch_size=BATCH) for data in (Rows(), Rows(), Rows())]
    optimizer = sgd()
    for _ in range(2):
        for loader in loaders[:2]:
            for batch in loader:
                learn(batch, optimizer)
        judge(loaders[2])
    tell(4 * EACH, train=2, valid=1)


def factory():
    def make(data, **options):
        return DataLoader(data, batch_size=BATCH, **options)

    train, valid = make(Rows(), shuffle=True), make(Others())
    more = make(Rows(), num_workers=1)
    optimizer = sgd()
    for _ in range(2):
        for batch in itertools.chain(train, more):
            learn(batch, optimizer)
        judge(valid)
    tell(4 * EACH, train=2, valid=1)


def anew():
    optimizer = sgd()
    data = Others()
    for _ in range(3):
        for batch in DataLoader(Rows(), batch_size=BATCH, num_workers=1):
            learn(batch, optimizer)
        judge(DataLoader(data, batch_size=BATCH))
    tell(3 * EACH, valid=1)
