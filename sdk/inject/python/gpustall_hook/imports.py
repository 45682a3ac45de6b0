"""Waits for the modules of PyTorch that are marked, without importing anything itself."""

import sys

#: Modules of PyTorch, and the module of this package that marks each.
MARKED = {
    "torch.utils.data.dataloader": "dataloader",
    "torch.optim.optimizer": "optimizer",
    "torch.autograd.profiler": "profiler",
    "torch.serialization": "saving",
}


def wait():
    """Has each module marked as soon as it is imported."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
    for name in MARKED:
        if name in sys.modules:
            mark(name)


def mark(name):
    """Marks a module that is there."""
    try:
        from importlib import import_module

        import_module("." + MARKED[name], __package__).patch(sys.modules[name])
    except Exception as error:
        try:
            from . import marks

            marks.note("%s could not be marked: %r" % (name, error))
        except Exception:
            pass


class Finder:
    """Finds nothing itself: has a module found by the others, and marked after it ran."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in MARKED:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if find is None or isinstance(finder, Finder):
                continue
            spec = find(name, path, target)
            if spec is not None:
                try:
                    after(spec)
                except Exception:
                    pass
                return spec
        return None


def after(spec):
    """Marks the module once its loader has run it."""
    loader = spec.loader
    run = loader.exec_module

    def exec_module(module):
        try:
            del loader.exec_module
        except AttributeError:
            pass
        run(module)
        mark(spec.name)

    loader.exec_module = exec_module
