"""Says how to build the package where it is imported as it lies in the sources."""

import os

try:
    from . import _core  # noqa: F401
except ImportError:
    import importlib.util
    if importlib.util.find_spec("millrace._core") is not None:
        raise
    raise ImportError(
        f"the package millrace in {os.path.dirname(__file__)} is not built: its module _core is "
        "missing. Install a wheel (scripts/wheel.sh makes one), or build the target "
        "millrace_python, which puts the package into the folder python of the build tree, and "
        "name that folder in PYTHONPATH: docs/python.md", name="millrace._core") from None
