"""Python's `site` imports this as it starts: `gpustall run` puts its folder first on PYTHONPATH.

It sets the hook up and then does what would have happened without it: it leaves `sys.path`, and
imports the sitecustomize that Python would have found. What that one raises is raised here too.
"""

import sys


def _start():
    try:
        import os

        here = os.path.dirname(os.path.abspath(__file__))
        try:
            import gpustall_hook

            gpustall_hook.start()
        finally:
            sys.path[:] = [path for path in sys.path if path != here]
    except Exception:
        # The program is as it is without us.
        pass


def _next():
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = find("sitecustomize", None) if find else None
        if spec is not None:
            break
    else:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_start()
_next()
