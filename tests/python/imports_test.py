"""Imports in every order, with the symbols of all libraries shown to each other: each framework and
Millrace work in one process, and it ends well. Skipped for each framework that is not installed."""
import os
import re
import subprocess
import sys
import unittest

import data
from millrace import _core

# Symbols of C++ libraries that a framework may have too, in another version.
FOREIGN = re.compile(r"google8protobuf|4absl")

# sys.setdlopenflags is called before an import by other modules too.
PROGRAM = """
import ctypes, os, sys
set_flags = sys.setdlopenflags
sys.setdlopenflags = lambda flags: set_flags(flags | os.RTLD_GLOBAL)
sys.setdlopenflags(sys.getdlopenflags())
sys.path.insert(0, {folder!r})

def use_millrace():
    import data
    plan = data.images(12).decode_image().resize(8, 6).batch(4)
    batches = [batch["label"].tolist() for batch in plan.numpy()]
    assert batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]], batches
    try:
        data.mr.tfrecord("a").batch(0).check()
    except data.mr.PlanError:
        pass
    assert ctypes.CDLL(None).mr_abi_version() > 0  # the symbols are shown to all

def use_torch():
    import torch
    weights = torch.ones(3, requires_grad=True)
    (weights * torch.arange(3.0)).sum().backward()
    assert weights.grad.tolist() == [0, 1, 2]

def use_jax():
    import jax
    gradient = jax.jit(jax.grad(lambda x: (x * jax.numpy.arange(3.0)).sum()))
    assert gradient(jax.numpy.ones(3)).tolist() == [0, 1, 2]

def use_tensorflow():
    import data, tensorflow as tf
    parsed = tf.io.parse_single_example(
        data.example(b"x", 7), {{"image/class/label": tf.io.FixedLenFeature([], tf.int64)}})
    assert int(parsed["image/class/label"]) == 7
    assert tf.train.Example.FromString(data.example(b"x", 7)).features.feature

def use_dali():
    import numpy, nvidia.dali as dali
    @dali.pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def pipeline():
        return dali.fn.cast(dali.fn.external_source(
            source=lambda i: numpy.full(3, i.idx_in_epoch, numpy.float32), batch=False),
            dtype=dali.types.INT32)
    made = pipeline()
    made.build()
    (batch,) = made.run()
    assert batch.as_array().tolist() == [[0, 0, 0], [1, 1, 1]], batch

for _ in range(2):
    {first}()
    {second}()
print("both work")
"""


# Prints the modules of the package that a use of it has imported.
LATER = """
import sys
sys.path.insert(0, {folder!r})
import millrace as mr
{use}
print(*sorted(name for name in sys.modules if name.startswith("millrace.")))
"""


class LaterTest(unittest.TestCase):
    def modules(self, use="pass"):
        folder = os.path.dirname(os.path.dirname(_core.__file__))
        done = subprocess.run([sys.executable, "-c", LATER.format(folder=folder, use=use)],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return set(done.stdout.split())

    def test_modules_that_few_use_are_imported_later(self):
        later = {f"millrace.{name}" for name in
                 ("collectives", "gradients", "http", "recipes", "testing", "writing")}
        self.assertEqual(self.modules() & later, set())
        self.assertIn("millrace.writing", self.modules("mr.TFRecordWriter"))
        self.assertIn("millrace.recipes", self.modules("mr.recipes.imagenet_train"))
        self.assertEqual(self.modules("from millrace import *") & later, later)

    def test_names_are_known_before_their_module(self):
        self.modules("assert {*mr.__all__, 'torch'} <= set(dir(mr)), dir(mr)")
        self.modules("assert not hasattr(mr, 'tensorflow')")


class Orders(unittest.TestCase):
    def check(self, name, module):
        data.needs(module)
        if name == "tensorflow":
            data.needs_self_contained()
        for order in ((f"use_{name}", "use_millrace"), ("use_millrace", f"use_{name}")):
            with self.subTest(first=order[0]):
                program = PROGRAM.format(folder=os.path.dirname(__file__), first=order[0],
                                         second=order[1])
                done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], text=True,
                                      capture_output=True, timeout=200, check=False)
                self.assertEqual((done.returncode, done.stdout), (0, "both work\n"), done.stderr)

    def test_torch(self):
        self.check("torch", "torch")

    def test_jax(self):
        self.check("jax", "jax")

    def test_tensorflow(self):
        self.check("tensorflow", "tensorflow")

    def test_dali(self):
        self.check("dali", "nvidia.dali")

    def test_no_symbol_is_looked_for_elsewhere(self):
        data.needs_self_contained()
        package = os.path.dirname(_core.__file__)
        for name in ("_core.abi3.so", "libmillrace.so.1"):
            done = subprocess.run(["nm", "-D", os.path.join(package, name)], text=True,
                                  capture_output=True, check=True)
            self.assertIn(" U ", done.stdout, name)
            self.assertEqual([line for line in done.stdout.splitlines() if FOREIGN.search(line)],
                             [], name)


if __name__ == "__main__":
    unittest.main()
