"""PyTorch, and what is built upon it. Skipped where it is not installed."""
import copy
import os
import subprocess
import sys
import tempfile
import unittest

import data
import millrace as mr

data.needs("torch")

import torch  # noqa: E402

EXAMPLES = os.path.join(os.environ["MILLRACE_SOURCE_DIR"], "examples", "python")


def images(**options):
    return data.images(24).decode_image().resize(8, 6).batch(8).options(seed=2, **options)


class Tensors(unittest.TestCase):
    def test_they_share_the_batch_s_memory_and_outlive_the_loader(self):
        loader = mr.range(20).batch(8).numpy()
        batch = loader.next()
        tensor = batch.torch("value")
        self.assertEqual(tensor.data_ptr(), batch.tensor("value").address)
        loader.close()
        del batch, loader
        self.assertEqual(tensor.tolist(), list(range(8)))

    def test_all_types_are_those_of_the_plan(self):
        for name, dtype in (("uint8", torch.uint8), ("int32", torch.int32), ("int64", torch.int64),
                            ("float16", torch.float16), ("bfloat16", torch.bfloat16),
                            ("float32", torch.float32), ("float64", torch.float64)):
            plan = mr.range(4).cast("value", name).batch(4)
            tensor = next(iter(plan.torch("value")))
            self.assertEqual((tensor.dtype, tensor.tolist()), (dtype, [0, 1, 2, 3]), name)

    def test_from_dlpack_shares_the_memory(self):
        batch = mr.range(20).batch(8).numpy().next()
        tensor = torch.from_dlpack(batch.tensor("value"))
        self.assertEqual(tensor.data_ptr(), batch.tensor("value").address)

    def test_images_are_channels_last(self):
        plain = next(iter(images().torch("image")))
        turned = next(iter(images().torch("image", layout="channels_last")))
        self.assertEqual(plain.shape, (8, 8, 6, 3))
        self.assertEqual(turned.shape, (8, 3, 8, 6))
        self.assertTrue(turned.is_contiguous(memory_format=torch.channels_last))
        self.assertTrue(torch.equal(turned, plain.permute(0, 3, 1, 2)))


class Devices(unittest.TestCase):
    """What needs no GPU; device_gpu_test.py has what does."""

    def test_the_host_is_a_device_too(self):
        for device in (None, "cpu", torch.device("cpu")):
            self.assertEqual(next(iter(mr.range(4).batch(4).torch("value", device=device))).tolist(),
                             [0, 1, 2, 3])

    def test_a_device_that_is_neither_is_refused(self):
        with self.assertRaisesRegex(ValueError, "'meta', not that of CUDA or of the host"):
            mr.range(4).batch(4).torch("value", device="meta")

    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU")
    def test_what_is_missing_is_said(self):
        with self.assertRaisesRegex(mr.FailedPrecondition, "driver|built without CUDA"):
            next(iter(mr.range(4).batch(4).torch("value", device="cuda")))


class Loaders(unittest.TestCase):
    def test_it_is_a_data_loader_with_a_length_and_epochs(self):
        loader = mr.range(20).global_shuffle().batch(8).options(seed=1).torch("value")
        self.assertIsInstance(loader, torch.utils.data.DataLoader)
        self.assertEqual(len(loader), 3)
        epochs = [[batch.tolist() for batch in loader] for _ in range(3)]
        self.assertEqual([len(batch) for batch in epochs[0]], [8, 8, 4])
        loader.set_epoch(1)
        self.assertEqual([batch.tolist() for batch in loader], epochs[1])

    def test_a_state_goes_on_inside_of_an_epoch(self):
        def make():
            return mr.range(40).global_shuffle().batch(8).options(seed=1).torch("value")

        loader = make()
        whole = [batch.tolist() for batch in loader]
        loader.set_epoch(0)
        for step, _ in enumerate(loader, 1):
            if step == 2:
                break
        state = copy.deepcopy(loader.state_dict())
        resumed = make()
        resumed.load_state_dict(state)
        self.assertEqual([batch.tolist() for batch in resumed], whole[2:])

    def test_rank_and_world_come_from_torch_distributed(self):
        with tempfile.TemporaryDirectory() as work:
            script = os.path.join(work, "ranks.py")
            with open(script, "w", encoding="utf-8") as file:
                file.write(RANKS)
            processes = [subprocess.Popen(
                [sys.executable, script, str(rank), os.path.join(work, "store")],
                stdout=subprocess.PIPE, text=True) for rank in range(2)]
            said = [process.communicate(timeout=120)[0] for process in processes]
        self.assertEqual(said, ["[0, 1]\n", "[2, 3]\n"])


RANKS = """
import sys, torch, millrace as mr
torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv[2],
                                     rank=int(sys.argv[1]), world_size=2)
print(next(iter(mr.range(8).batch(4).torch("value"))).tolist())
torch.distributed.barrier()
torch.distributed.destroy_process_group()
"""


class Examples(unittest.TestCase):
    """The programs in examples/python check themselves."""

    def run_example(self, name, argument, **environment):
        done = subprocess.run([sys.executable, os.path.join(EXAMPLES, name), argument],
                              capture_output=True, text=True, timeout=300, check=False,
                              env={**os.environ, "OMP_NUM_THREADS": "1", **environment})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_imagenet_torch(self):
        said = self.run_example("imagenet_torch.py", data.pictures(48), BATCH="16")
        self.assertIn("epoch 0: 3 steps", said)

    def test_lightning_resumes_to_the_bit(self):
        data.needs("pytorch_lightning")
        self.assertIn("equal to the bit", self.run_example("lightning.py", data.fashion_mnist()))

    def test_accelerate_resumes_to_the_bit(self):
        data.needs("accelerate")
        self.assertIn("equal to the bit",
                      self.run_example("accelerate_resume.py", data.fashion_mnist()))


if __name__ == "__main__":
    unittest.main()
