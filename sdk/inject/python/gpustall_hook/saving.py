"""Marks what `torch.save` takes: a checkpoint is written in the training loop, or by a thread beside it."""

import functools

from . import marks


def patch(module):
    """Marks each call of `save`. `module` is `torch.serialization`."""
    save = module.save
    mark, now, kind = marks.mark, marks.now, marks.SAVED

    @functools.wraps(save)
    def marked(*args, **kwargs):
        start = now()
        try:
            return save(*args, **kwargs)
        except BaseException as error:
            # The program sees its own frames.
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            try:
                mark(kind, start, now())
                marks.thread()
            except Exception:
                pass

    module.save = marked
