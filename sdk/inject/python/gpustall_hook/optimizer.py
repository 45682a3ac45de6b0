"""Marks the steps of PyTorch's optimizers: they tell training from evaluation."""

import functools
import itertools

from . import marks


def patch(module):
    """Marks every optimizer's step. `module` is `torch.optim.optimizer`."""
    import torch

    optimizer = module.Optimizer
    profile = getattr(optimizer, "profile_hook_step", None)
    if profile is None:
        marks.note("Steps of optimizers are not marked: this version of PyTorch is not known.")
        return
    mark, now, kind = marks.mark, marks.now, marks.OPTIMIZED
    numbers = itertools.count(1)

    @functools.wraps(profile)
    def profile_hook_step(func):
        step = profile(func)

        @functools.wraps(step)
        def marked(*args, **kwargs):
            # What is compiled is not marked: it would be no single graph any more.
            if hasattr(torch, "compiler") and torch.compiler.is_compiling():
                return step(*args, **kwargs)
            start = now()
            try:
                return step(*args, **kwargs)
            except BaseException as error:
                # The program sees its own frames.
                error.__traceback__ = error.__traceback__.tb_next
                raise
            finally:
                try:
                    end = now()
                    known = args[0].__dict__
                    number = known.get("_gpustall_number")
                    if number is None:
                        number = known["_gpustall_number"] = next(numbers)
                    mark(kind, start, end, number)
                    marks.thread()
                except Exception:
                    pass

        return marked

    optimizer.profile_hook_step = staticmethod(profile_hook_step)
