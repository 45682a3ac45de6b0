//! The hook for Python programs, carried as text.

/// The files of the hook, by their paths in the folder that comes first on `PYTHONPATH`.
pub const PYTHON_HOOK: [(&str, &str); 13] = [
    (
        "sitecustomize.py",
        include_str!("../python/sitecustomize.py"),
    ),
    (
        "gpustall_hook/__init__.py",
        include_str!("../python/gpustall_hook/__init__.py"),
    ),
    (
        "gpustall_hook/imports.py",
        include_str!("../python/gpustall_hook/imports.py"),
    ),
    (
        "gpustall_hook/marks.py",
        include_str!("../python/gpustall_hook/marks.py"),
    ),
    (
        "gpustall_hook/dataloader.py",
        include_str!("../python/gpustall_hook/dataloader.py"),
    ),
    (
        "gpustall_hook/loaders.py",
        include_str!("../python/gpustall_hook/loaders.py"),
    ),
    (
        "gpustall_hook/fetches.py",
        include_str!("../python/gpustall_hook/fetches.py"),
    ),
    (
        "gpustall_hook/failures.py",
        include_str!("../python/gpustall_hook/failures.py"),
    ),
    (
        "gpustall_hook/exits.py",
        include_str!("../python/gpustall_hook/exits.py"),
    ),
    (
        "gpustall_hook/queues.py",
        include_str!("../python/gpustall_hook/queues.py"),
    ),
    (
        "gpustall_hook/optimizer.py",
        include_str!("../python/gpustall_hook/optimizer.py"),
    ),
    (
        "gpustall_hook/saving.py",
        include_str!("../python/gpustall_hook/saving.py"),
    ),
    (
        "gpustall_hook/profiler.py",
        include_str!("../python/gpustall_hook/profiler.py"),
    ),
];

/// A file of this name lies in that folder once a Python process has loaded the hook.
pub const PYTHON_HOOK_LOADED: &str = "loaded";
