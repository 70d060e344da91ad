"""Millrace: plans, loaders and batches."""
from millrace import _core
from millrace.batch import Batch
from millrace.context import Context, default_context
from millrace.errors import *
from millrace.launcher import Launcher, detect_launcher
from millrace.loader import Field, Loader
from millrace.ops import batch_op, field, op
from millrace.sources import Memory, PushSource
