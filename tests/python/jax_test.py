"""JAX. Skipped where it is not installed."""
import os
import socket
import subprocess
import sys
import unittest

import data
import millrace as mr

data.needs("jax")

import jax  # noqa: E402

EXAMPLES = os.path.join(os.environ["MILLRACE_SOURCE_DIR"], "examples", "python")


class Arrays(unittest.TestCase):
    def test_they_share_the_batch_s_memory(self):
        batch = mr.range(16).cast("value", "float32").batch(16).numpy().next()
        array = jax.device_put(batch["value"])
        self.assertEqual(array.unsafe_buffer_pointer(), batch.tensor("value").address)
        array = jax.dlpack.from_dlpack(batch.tensor("value"))
        self.assertEqual(array.unsafe_buffer_pointer(), batch.tensor("value").address)

    def test_padding_is_told_by_valid(self):
        batches = list(mr.range(20).cast("value", "int32").batch(8).jax())
        self.assertEqual([batch["value"].shape for batch in batches], [(8,)] * 3)
        self.assertEqual(batches[-1]["valid"].tolist(), [True] * 4 + [False] * 4)

    def test_a_sharding_makes_global_arrays(self):
        mesh = jax.make_mesh((jax.device_count(),), ("data",))
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
        loader = mr.range(16).cast("value", "bfloat16").batch(8).jax(sharding, "value")
        first, second = loader
        self.assertEqual(first.sharding, sharding)
        self.assertEqual(first.dtype, jax.numpy.bfloat16)
        self.assertEqual(second.tolist(), list(range(8, 16)))


# The host as two devices, which has to be said before JAX is used.
DEVICES = """
import jax, millrace as mr
first, second = jax.devices()
plan = mr.range(20).cast("value", "int32").batch(8)
for device in (second, 1, "cpu:1"):
    loader = plan.jax(device=device)
    for batch in loader:
        assert batch["value"].devices() == {second} and batch["valid"].devices() == {second}
    assert batch["value"].tolist() == [16, 17, 18, 19, 0, 0, 0, 0], batch["value"]
for device in (None, first, 0, "cpu"):
    assert next(iter(plan.jax(keys="value", device=device))).devices() == {first}
held = plan.numpy().next()
array = mr.jax.JaxLoader(plan, None, "value", second)._put(held["value"])
print(array.unsafe_buffer_pointer() == held.tensor("value").address, array.sum())
"""


class Devices(unittest.TestCase):
    def test_batches_lie_on_the_device_that_is_named(self):
        done = subprocess.run(
            [sys.executable, "-c", DEVICES], capture_output=True, text=True, timeout=120,
            check=False, env={**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"})
        self.assertEqual(done.stdout, "True 28\n", done.stderr)

    def test_wrong_devices_are_told(self):
        plan = mr.range(8).batch(8)
        with self.assertRaisesRegex(ValueError, "device is 99, but this process has"):
            plan.jax(device=99)
        with self.assertRaisesRegex(ValueError, "device is 'cpu:-1'; expected such as"):
            plan.jax(device="cpu:-1")
        with self.assertRaisesRegex(RuntimeError, "no_such_platform"):
            plan.jax(device="no_such_platform")
        with self.assertRaises(TypeError):
            plan.jax(device=1.5)
        sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
        with self.assertRaisesRegex(TypeError, "device and sharding exclude each other"):
            plan.jax(sharding, device=0)


RANKS = """
import sys, jax, millrace as mr
jax.distributed.initialize("127.0.0.1:" + sys.argv[2], 2, int(sys.argv[1]))
mesh = jax.make_mesh((jax.device_count(),), ("data",))
sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
loader = mr.range(8).cast("value", "int32").batch(4).jax(sharding, "value")
first = next(iter(loader))
rows = [int(value) for shard in first.addressable_shards for value in shard.data]
print(first.shape, rows, loader.launcher.source)
"""


# Trains on the images of argv[3], and prints the losses; argv[1:3]: rank, port or "" for one process.
TRAINS = """
import sys, jax, millrace as mr
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
rank, port, files = sys.argv[1:]
if port:
    jax.distributed.initialize("127.0.0.1:" + port, 2, int(rank))
sharding = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), PartitionSpec("data"))
plan = (mr.tfrecord(files).global_shuffle()
        .parse_example(mr.feature("image/encoded", bytes),
                       mr.feature("image/class/label", int, name="label"))
        .decode_image(channels=1).random_resized_crop(24, 24).normalize(mean=72.94, stddev=90.02)
        .cast("label", "int32").batch(256).options(seed=2))
loader = plan.jax(sharding, last="pad")

def loss_of(weights, images, labels, valid):
    scores = jax.nn.log_softmax(images.reshape(len(images), -1) @ weights)
    losses = -jnp.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
    return jnp.where(valid, losses, 0).sum() / valid.sum()

@jax.jit
def step(weights, images, labels, valid):
    loss, gradient = jax.value_and_grad(loss_of)(weights, images, labels, valid)
    return weights - 0.05 * gradient, loss

weights = jnp.zeros((576, 10))
for _ in range(40):
    batch = loader.next()
    arrays = loader._deliver(batch)
    for name in ("image", "label"):
        (local,) = arrays[name].addressable_shards
        assert local.data.unsafe_buffer_pointer() == batch.tensor(name).address, name
        assert arrays[name].shape[0] == 256
    weights, loss = step(weights, arrays["image"], arrays["label"], arrays["valid"])
    print("loss", float(loss), flush=True)
"""


def losses_in(text):
    """Returns the losses among what a program has printed."""
    return [float(line.removeprefix("loss ")) for line in text.splitlines()
            if line.startswith("loss ")]


class Processes(unittest.TestCase):
    def said_by_two(self, program, *arguments):
        """Runs a program in two processes, with their ranks and a port, and returns their words."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        processes = [subprocess.Popen(
            [sys.executable, "-c", program, str(rank), str(port), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(2)]
        said = [process.communicate(timeout=150) for process in processes]
        self.assertEqual([process.returncode for process in processes], [0, 0], said)
        return [out for out, _ in said]

    def test_each_process_brings_its_rows(self):
        self.assertEqual(self.said_by_two(RANKS),
                         ["(4,) [0, 1] jax.distributed\n", "(4,) [2, 3] jax.distributed\n"])

    def test_losses_of_two_processes_are_those_of_one_and_nothing_is_copied(self):
        files = data.test_images()
        alone = subprocess.run([sys.executable, "-c", TRAINS, "0", "", files], text=True,
                               capture_output=True, timeout=150, check=False)
        self.assertEqual(alone.returncode, 0, alone.stderr)
        one = losses_in(alone.stdout)
        self.assertEqual(len(one), 40)
        self.assertLess(one[-1], 0.75 * one[0])
        first, second = map(losses_in, self.said_by_two(TRAINS, files))
        self.assertEqual(first, second)
        for loss, expected in zip(first, one, strict=True):
            self.assertAlmostEqual(loss, expected, delta=2e-5 * expected)


class Examples(unittest.TestCase):
    def test_imagenet_jax(self):
        done = subprocess.run(
            [sys.executable, os.path.join(EXAMPLES, "imagenet_jax.py"), data.pictures(40)],
            capture_output=True, text=True, timeout=300, check=False,
            env={**os.environ, "BATCH": "16"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("3 steps", done.stdout)


if __name__ == "__main__":
    unittest.main()
