"""Millrace: data pipelines for training, fast, deterministic and resumable.

A plan is a chain of stages, and a file; a loader is a plan that runs; a batch holds the arrays.

    import millrace as mr

    plan = (mr.tfrecord("train-*.tfrecord").global_shuffle()
            .parse_example(mr.feature("image/encoded", bytes),
                           mr.feature("image/class/label", int, name="label"))
            .decode_image().random_resized_crop(224, 224).flip().batch(256).prefetch(2))
    for images, labels in plan.torch(("image", "label")):
        ...

The modules millrace.torch, .jax, .keras and .tf import these frameworks, at their first use;
millrace itself needs NumPy alone.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from . import _built  # noqa: F401  first: it says if the module in C++ is not there
from . import _core
from ._files import get_include, get_library
from ._sources import *
from ._stages import *
from .batch import Batch
from .context import Context, default_context
from .device import DeviceBatch, DeviceLoader
from .diagnosis import Diagnosis, WhatIf
from .errors import *
from .launcher import Launcher, detect_launcher
from .loader import Field, Loader
from .ops import BatchOp, BatchRows, FieldSpec, Rows, RunOp, batch_op, field, op
from .plan import Plan, load
from .sources import Memory, PushSource, memory, push

if TYPE_CHECKING:
    from . import jax as jax, keras as keras, recipes as recipes, testing as testing
    from . import tf as tf, torch as torch
    from .collectives import Communicator, default_communicator
    from .gradients import Outcome, Reducer
    from .http import HttpOptions
    from .writing import ConvertReport, TFRecordWriter, convert
else:
    # Modules that are imported at their first use, and the names that millrace has of them.
    _LATER = {"jax": (), "keras": (), "recipes": (), "testing": (), "tf": (), "torch": (),
              "collectives": ("Communicator", "default_communicator"),
              "gradients": ("Outcome", "Reducer"),
              "http": ("HttpOptions",),
              "writing": ("ConvertReport", "TFRecordWriter", "convert")}

    def __getattr__(name):
        from importlib import import_module
        if name in _LATER:
            return import_module(f"{__name__}.{name}")
        for module, names in _LATER.items():
            if name in names:
                value = getattr(import_module(f"{__name__}.{module}"), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *_LATER, *__all__})

__version__: str = _core.version()

__all__ = [
    "Batch", "BatchOp", "BatchRows", "Communicator", "Context", "ConvertReport", "DeviceBatch",
    "DeviceLoader", "Diagnosis", "Field", "FieldSpec", "HttpOptions", "Launcher", "Loader", "Memory",
    "Outcome", "Plan", "PushSource", "Reducer", "Rows", "RunOp", "TFRecordWriter", "WhatIf",
    "batch_op", "convert", "default_communicator", "default_context", "detect_launcher", "field",
    "get_include", "get_library", "load", "memory", "op", "push", "recipes", "testing",
]
from . import _sources, _stages, errors  # noqa: E402

__all__ += _sources.__all__
__all__ += _stages.__all__
__all__ += errors.__all__
