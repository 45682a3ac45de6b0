"""Optimizers that call others, step now and then, or are compiled; checkpoints."""

import io

import torch
from torch.utils.data import DataLoader

from ways.basics import BATCH, EACH, model, Rows, sgd, tell, took, truth


def optimizers():
    loader = DataLoader(Rows(), batch_size=BATCH)
    scaler = torch.amp.GradScaler("cpu")
    lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=2)
    for batch in loader:
        rows = took(batch)

        def closure():
            lbfgs.zero_grad()
            loss = model(rows).square().mean()
            loss.backward()
            return loss

        lbfgs.step(closure)
        truth["optimized"] += 1
    for optimizer in (sgd(fused=True), sgd(foreach=True)):
        for batch in loader:
            rows = took(batch)
            optimizer.zero_grad()
            scaler.scale(model(rows).square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
            truth["optimized"] += 1
    accumulating = sgd()
    for number, batch in enumerate(loader):
        model(took(batch)).square().mean().backward()
        if number % 2:
            accumulating.step()
            truth["optimized"] += 1
            torch.save(model.state_dict(), io.BytesIO())
            truth["saved"] += 1
    tell(4 * EACH)


def compiled():
    optimizer = sgd()
    step = torch.compile(optimizer.step, backend="eager")
    for batch in DataLoader(Rows(), batch_size=BATCH):
        optimizer.zero_grad()
        model(took(batch)).square().mean().backward()
        step()
    # Nothing of a compiled step is marked.
    tell(EACH)
