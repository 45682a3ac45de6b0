"""Marks the steps of PyTorch's optimizers: they tell training from evaluation."""

import functools

from . import marks


def patch(module):
    """Marks every optimizer's step. `module` is `torch.optim.optimizer`."""
    import torch

    optimizer = module.Optimizer
    profile = getattr(optimizer, "profile_hook_step", None)
    if profile is None:
        marks.note("Steps of optimizers are not marked: this version of PyTorch is not known.")
        return
    compiles = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)
    mark, now, kind = marks.mark, marks.now, marks.OPTIMIZED

    @functools.wraps(profile)
    def profile_hook_step(func):
        step = profile(func)

        @functools.wraps(step)
        def marked(*args, **kwargs):
            # What is compiled is not marked: it would be no single graph any more.
            if compiles():
                return step(*args, **kwargs)
            start = now()
            try:
                return step(*args, **kwargs)
            finally:
                mark(kind, start, now())

        return marked

    optimizer.profile_hook_step = staticmethod(profile_hook_step)
