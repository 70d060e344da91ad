"""Weights of `millrace train` and PyTorch's, both ways, with a ResNet-18 of torchvision. Skipped
where these, or the program with its trainer, are not there."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import data
import millrace as mr

for package in ("torch", "torchvision", "safetensors"):
    data.needs(package)

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torchvision  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

ROOT = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"])
PROGRAM = pathlib.Path(os.environ.get("MILLRACE_PROGRAM", ROOT / "build/dev/bin/millrace"))
SAMPLES = 24

JOB = """
model: "model.pbtxt" train: "plan.pbtxt" eval: "plan.pbtxt" epochs: 1
init_from { file: "torch.safetensors" }
optimizer { base_lr: 0 }
checkpoint { folder: "checkpoints" }
"""


def run(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: {done.stderr}")
    return done.stdout


@unittest.skipUnless(PROGRAM.exists(), f"{PROGRAM} is missing")
class TorchWeightsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        random = np.random.default_rng(5)
        self.images = random.normal(size=(SAMPLES, 64, 64, 3)).astype(np.float32)
        self.labels = random.integers(0, 10, SAMPLES)
        with mr.TFRecordWriter(self.folder / "data", shards=1) as writer:
            for image, label in zip(self.images, self.labels):
                writer.write({"image": image.ravel(), "label": int(label)})
        (mr.tfrecord(str(self.folder / "data-*"))
         .parse_example(mr.feature("image", "float32", (64, 64, 3)), mr.feature("label", int))
         .batch(8).save(self.folder / "plan.pbtxt"))
        (self.folder / "job.pbtxt").write_text(JOB, encoding="utf-8")
        model = run("model", "resnet18", "--classes", 10, "--image", "64x64x3")
        (self.folder / "model.pbtxt").write_text(model, encoding="utf-8")

    def loss_of(self, net):
        net.eval()
        with torch.no_grad():
            logits = net(torch.from_numpy(self.images).permute(0, 3, 1, 2))
        return torch.nn.functional.cross_entropy(  # the smoothing is in the model's file
            logits, torch.from_numpy(self.labels), label_smoothing=0.1).item()

    def test_both_ways(self):
        torch.manual_seed(1)
        net = torchvision.models.resnet18(num_classes=10)
        for name, tensor in net.named_parameters():
            if ".bn" in name or "downsample.1" in name:
                torch.nn.init.uniform_(tensor, 0.5, 1)
        save_file(net.state_dict(), self.folder / "torch.safetensors")

        # Steps of a rate of zero change the running statistics alone.
        printed = run("train", self.folder / "job.pbtxt", "--threads", 1)
        loss = float(re.search(r"test accuracy .*loss ([0-9.]+)", printed)[1])
        exported = self.folder / "exported.safetensors"
        run("weights", "export", self.folder / "job.pbtxt", "--out", exported)
        state = load_file(exported)
        for name, tensor in net.named_parameters():
            self.assertTrue(torch.equal(state[name], tensor), name)

        other = torchvision.models.resnet18(num_classes=10)
        other.load_state_dict(state)  # all names, and no others
        self.assertAlmostEqual(self.loss_of(other), loss, delta=1e-4 * loss)
        self.assertGreater(abs(self.loss_of(net) - loss), 1e-3 * loss)


if __name__ == "__main__":
    unittest.main()
