"""Page-locked tensors of torch that are dropped while copies from them are under way: on a driver
whose devices have the memory of the host, with events of torch that pass when a test says so.

MILLRACE_CUDA_LIBRARY names that driver. Skipped where torch is not installed.
"""
import ctypes
import gc
import os
import pickle
import subprocess
import sys
import time
import unittest
import unittest.mock

import data
import millrace as mr

if "MILLRACE_CUDA_LIBRARY" not in os.environ:
    raise unittest.SkipTest("MILLRACE_CUDA_LIBRARY names no driver")
data.needs("torch")

import torch  # noqa: E402

from millrace import _copies  # noqa: E402

DRIVER = ctypes.CDLL(os.environ["MILLRACE_CUDA_LIBRARY"])
DRIVER.fake_cuda_live.restype = ctypes.c_int64


def host_memory():
    gc.collect()
    return DRIVER.fake_cuda_live(b"host_memory")


class Gpu:
    """What torch.cuda does in the functions that the package calls."""

    def __init__(self):
        self.passed = False  # True if all events have passed
        self.failing = ()  # the names of functions that fail
        self.recorded = []  # the devices of the streams on which events were recorded
        self.queries = 0
        self.synchronized = []

    def fail(self, name):
        if name in self.failing:
            raise RuntimeError(f"CUDA error: {name}")

    def patches(self):
        gpu = self

        class Event:
            def record(self, stream):
                gpu.fail("record")
                gpu.recorded.append(stream)

            def query(self):
                gpu.queries += 1
                gpu.fail("query")
                return gpu.passed

        def synchronize(device):
            gpu.synchronized.append(device)
            gpu.fail("synchronize")

        return {"is_initialized": lambda: True, "Event": Event, "synchronize": synchronize,
                "current_stream": lambda device: device}


class Tensors(unittest.TestCase):
    """Before the program has used CUDA."""

    def setUp(self):
        self.assertEqual(host_memory(), 0)

    def test_they_are_those_of_ordinary_memory(self):
        for dtype, of_torch in (("int64", torch.int64), ("bfloat16", torch.bfloat16)):
            plan = mr.range(20).cast("value", dtype).batch(8)
            pinned = next(iter(plan.torch("value", pinned=True)))
            self.assertGreater(host_memory(), 0)
            self.assertEqual((pinned.dtype, pinned.tolist()), (of_torch, list(range(8))))

    def test_a_loader_behind_a_pickle_page_locks_too(self):
        loader = mr.range(20).batch(8).torch("value", pinned=1, repeat=False).loader
        values = [batch.tolist() for batch in loader]
        loader.close()
        self.assertEqual(host_memory(), 0)
        loader.set_epoch(0)
        copied = pickle.loads(pickle.dumps(loader))
        loader.close()
        tensor = next(iter(copied))
        self.assertGreater(host_memory(), 0)
        self.assertGreater(DRIVER.fake_cuda_live(b"context_1"), 0)
        self.assertEqual(tensor.tolist(), values[0])

    def test_memory_is_given_back(self):
        context = mr.Context(memory_budget="2MiB")
        plan = mr.range(1 << 22).batch(1 << 14)
        with plan.torch("value", pinned=True, context=context, repeat=False).loader as loader:
            self.assertEqual(sum(len(values) for values in loader), 1 << 22)
            self.assertGreater(host_memory(), 0)


class Copies(unittest.TestCase):
    def setUp(self):
        self.gpu = Gpu()
        patches = unittest.mock.patch.multiple(torch.cuda, **self.gpu.patches())
        patches.start()
        self.addCleanup(patches.stop)
        self.addCleanup(_copies._held.clear)
        self.assertEqual(host_memory(), 0)

    def loader(self, pinned=True, **options):
        return mr.range(1 << 16).batch(1 << 12).torch("value", pinned=pinned, repeat=False,
                                                      **options)

    def dropped(self, pinned=True):
        """Drops a tensor, and returns its loader."""
        loader = self.loader(pinned)
        iterator = iter(loader)
        self.assertEqual(next(iterator)[-1].item(), 4095)
        return loader

    def test_memory_is_held_until_its_event_has_passed(self):
        self.dropped()
        self.assertEqual(len(_copies._held), 1)
        self.gpu.passed = True
        self.dropped()
        self.assertEqual(len(_copies._held), 0)

    def test_the_event_is_recorded_on_the_stream_of_the_loader_s_device(self):
        self.dropped()
        self.dropped(pinned=1)
        self.dropped(pinned=0)
        self.assertEqual(self.gpu.recorded, [0, 1, 0])

    def test_true_is_torch_s_current_device(self):
        with unittest.mock.patch.multiple(torch.cuda, is_available=lambda: True,
                                          current_device=lambda: 1):
            self.dropped()
            self.dropped(pinned=0)
        self.assertEqual(self.gpu.recorded, [1, 0])

    def test_memory_outlives_its_loader_until_the_copy_is_over(self):
        self.dropped().close()
        self.assertGreater(host_memory(), 0)
        self.gpu.passed = True
        self.assertTrue(_copies.wait_for_one(None))
        self.assertEqual(host_memory(), 0)

    def test_an_event_that_cannot_be_recorded_is_replaced_by_a_wait(self):
        self.gpu.failing = ("record",)
        self.dropped(pinned=1)
        self.assertEqual(self.gpu.synchronized, [1])
        self.assertEqual(len(_copies._held), 0)

    def test_an_event_that_cannot_be_queried_is_replaced_by_a_wait(self):
        self.gpu.failing = ("query", "synchronize")  # as on a device that is lost
        self.dropped(pinned=1)
        self.assertEqual(self.gpu.synchronized, [1])
        self.assertEqual(len(_copies._held), 0)
        self.gpu.failing = ()
        self.dropped()
        self.assertEqual(len(_copies._held), 1)

    def test_a_copy_that_stalls_does_not_hold_up_the_memory_of_others(self):
        self.dropped()
        self.dropped()
        (_, second) = _copies._held.values()
        second.event.query = lambda: True
        del second
        self.assertTrue(_copies.wait_for_one(None))
        self.assertEqual(list(_copies._held), [min(_copies._held)])
        self.assertFalse(_copies.wait_for_one(time.monotonic()))

    def budgeted(self):
        """Returns a loader all of whose memory is held for copies."""
        loader = self.loader(context=mr.Context(memory_budget="256KiB")).loader
        with self.assertRaises(mr.OutOfBudget):
            while True:
                loader._deliver(mr.Loader.next(loader))
        return loader

    def test_a_wait_for_memory_keeps_its_limit(self):
        loader = self.budgeted()
        self.assertGreater(len(_copies._held), 0)
        before = self.gpu.queries
        with self.assertRaises(mr.OutOfBudget):
            loader.next(timeout=0.01)
        self.assertGreater(self.gpu.queries, before)

    def test_a_wait_for_memory_ends_when_a_copy_is_over(self):
        loader = self.budgeted()
        self.gpu.passed = True
        self.assertIsNotNone(loader.next())

    def test_the_device_is_a_number(self):
        for wrong, error in ((-1, ValueError), ("cuda", TypeError), (None, TypeError)):
            with self.assertRaises(error):
                self.loader(pinned=wrong)


class Ends(unittest.TestCase):
    def test_the_interpreter_ends_with_tensors_that_are_held_and_live(self):
        program = """
import builtins, sys, types
import torch, millrace as mr
class Event:
    def record(self, stream): pass
    def query(self): return False
torch.cuda.is_initialized = lambda: True
torch.cuda.current_stream = lambda device: device
torch.cuda.Event = Event
iterator = iter(mr.range(1 << 16).batch(1 << 12).torch("value", pinned=True))
dropped = next(iterator)
del dropped
held = next(iterator)
builtins.kept = next(iterator)
cycle = types.SimpleNamespace(tensor=next(iterator))
cycle.cycle = cycle
print("ends")
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              timeout=100, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "ends\n", ""))


if __name__ == "__main__":
    unittest.main()
