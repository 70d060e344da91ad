"""Arrays of each framework have the addresses of the batch's memory, for every type, and hold it
when the loader and its context are gone. Skipped for each framework that is not installed."""
import gc
import os
import unittest

import numpy as np

import data
import millrace as mr

DTYPES = ("float32", "float16", "bfloat16", "uint8", "int64")
ROWS = 64


class Case(unittest.TestCase):
    """deliver(loader, batch) gives a framework's array as a `for` over the loader does; address_of
    and values_of say where it lies and what it holds."""

    def check(self, sink, deliver, address_of, values_of):
        for dtype in DTYPES:
            with self.subTest(dtype=dtype):
                plan = mr.range(ROWS).cast("value", dtype).batch(ROWS)
                loader = sink(plan, context=mr.Context(threads=1))
                batch = loader.next()
                address = batch.tensor("value").address
                array = deliver(loader, batch)
                loader.close()
                del loader, batch
                gc.collect()
                self.assertEqual(address_of(array), address)
                self.assertEqual(values_of(array), list(range(ROWS)))


class NumPy(Case):
    def test_arrays(self):
        data.needs("ml_dtypes")
        self.check(lambda plan, **options: plan.numpy("value", **options),
                   lambda loader, batch: loader._deliver(batch),
                   lambda array: array.ctypes.data, lambda array: array.tolist())

    def test_bits(self):
        self.check(lambda plan, **options: plan.numpy(**options),
                   lambda _, batch: (batch.bits("value"), batch.dtype("value")),
                   lambda bits: bits[0].ctypes.data, self.values_of_bits)

    @staticmethod
    def values_of_bits(bits):
        array, dtype = bits
        if dtype == "bfloat16":  # the upper half of a float32
            array = (array.astype(np.uint32) << 16).view(np.float32)
        return array.tolist()


class Torch(Case):
    def test_tensors(self):
        data.needs("torch")
        self.check(lambda plan, **options: plan.torch("value", **options).loader,
                   lambda loader, batch: loader._deliver(batch),
                   lambda tensor: tensor.data_ptr(), lambda tensor: tensor.tolist())

    def test_tensors_over_dlpack(self):
        data.needs("torch")
        import torch
        self.check(lambda plan, **options: plan.numpy(**options),
                   lambda _, batch: torch.from_dlpack(batch.tensor("value")),
                   lambda tensor: tensor.data_ptr(), lambda tensor: tensor.tolist())


class Jax(Case):
    def setUp(self):
        data.needs("jax")
        data.needs("ml_dtypes")
        import jax
        jax.config.update("jax_enable_x64", True)  # for int64

    def test_arrays(self):
        self.check(lambda plan, **options: plan.jax(None, "value", **options),
                   lambda loader, batch: loader._deliver(batch),
                   lambda array: array.unsafe_buffer_pointer(), lambda array: array.tolist())

    def test_global_arrays(self):
        import jax
        mesh = jax.make_mesh((1,), ("data",))
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
        self.check(lambda plan, **options: plan.jax(sharding, "value", **options),
                   lambda loader, batch: loader._deliver(batch),
                   lambda array: array.addressable_data(0).unsafe_buffer_pointer(),
                   lambda array: array.tolist())


class TensorFlow(Case):
    def test_tensors(self):
        data.needs("tensorflow")
        data.needs_self_contained()
        import tensorflow as tf

        def address_of(tensor):
            # The buffer protocol knows no bfloat16; its bits are the same memory.
            bits = tf.bitcast(tensor, tf.uint16) if tensor.dtype == tf.bfloat16 else tensor
            return np.frombuffer(memoryview(bits), np.uint8).ctypes.data

        self.check(lambda plan, **options: plan.tf("value", **options),
                   lambda loader, batch: loader._deliver(batch),
                   address_of, lambda tensor: tensor.numpy().tolist())


class Keras(Case):
    def test_arrays_of_the_dataset(self):
        data.needs("keras")
        data.needs("ml_dtypes")
        data.needs("jax")
        os.environ["KERAS_BACKEND"] = "jax"
        for dtype in DTYPES:
            with self.subTest(dtype=dtype):
                plan = mr.range(ROWS).cast("value", dtype).batch(ROWS)
                dataset = plan.keras("value", context=mr.Context(threads=1))
                seen = []
                take = dataset._tuple

                def note(batch):
                    seen.append(batch.tensor("value").address)
                    return take(batch)

                dataset._tuple = note
                (array,) = dataset[0]
                dataset.loader.close()
                del dataset
                gc.collect()
                self.assertEqual([array.ctypes.data], seen)
                self.assertEqual(array.tolist(), list(range(ROWS)))


if __name__ == "__main__":
    unittest.main()
