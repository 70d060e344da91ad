"""Weights of `millrace train` and PyTorch's, both ways: a network that `millrace model` writes and
PyTorch's give the same logits. Skipped where torchvision, or the program with its trainer, is not
there."""
import json
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
from torch import nn  # noqa: E402

ROOT = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"])
PROGRAM = pathlib.Path(os.environ.get("MILLRACE_PROGRAM", ROOT / "build/dev/bin/millrace"))
SAMPLES = 24
CLASSES = 10
TOLERANCE = 1e-4  # of the largest logit

# A rate of zero: the running statistics alone change.
JOB = """
model: "model.pbtxt" train: "plan.pbtxt" eval: "plan.pbtxt" epochs: 1
init_from { file: "torch.safetensors" }
optimizer { base_lr: 0 }
checkpoint { folder: "checkpoints" }
"""


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, 5, padding=2)
        self.fc1 = nn.Linear(7 * 7 * 64, 512)
        self.fc2 = nn.Linear(512, CLASSES)

    def forward(self, image):
        image = nn.functional.max_pool2d(self.conv1(image).relu(), 2)
        image = nn.functional.max_pool2d(self.conv2(image).relu(), 2)
        return self.fc2(self.fc1(image.flatten(1)).relu())


def run(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: {done.stderr}")
    return done.stdout


def randomize(net):
    """Gives a norm the statistics and weights of one that has been trained."""
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1)
            nn.init.normal_(module.bias, 0, 0.1)
            nn.init.normal_(module.running_mean, 0, 0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)


@unittest.skipUnless(PROGRAM.exists(), f"{PROGRAM} is missing")
class Weights:
    """The tests of one network."""
    network = ""
    image = (28, 28, 1)

    def make(self):
        """PyTorch's network, with random weights."""
        raise NotImplementedError

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.job = self.folder / "job.pbtxt"
        self.job.write_text(JOB, encoding="utf-8")
        self.write_models()
        self.write_data()
        torch.manual_seed(1)
        self.net = self.make()
        randomize(self.net)
        save_file(self.net.state_dict(), self.folder / "torch.safetensors")

    # The loss decides what `predict` writes: that of a softmax has probabilities, this one the
    # values that it reads. The layers and their weights are the same.
    def write_models(self):
        shipped = run("model", self.network, "--classes", CLASSES, "--image",
                      "x".join(map(str, self.image)))
        model, losses = re.subn(r"softmax_cross_entropy \{.*?\}",
                                'mean_squared_error { target: "target" }', shipped)
        self.assertEqual(losses, 1)
        (self.folder / "model.pbtxt").write_text(model, encoding="utf-8")
        (self.folder / "shipped.pbtxt").write_text(shipped, encoding="utf-8")
        (self.folder / "shipped_job.pbtxt").write_text(
            JOB.replace("model.pbtxt", "shipped.pbtxt"), encoding="utf-8")

    def write_data(self):
        random = np.random.default_rng(5)
        self.images = random.normal(size=(SAMPLES, *self.image)).astype(np.float32)
        with mr.TFRecordWriter(self.folder / "data", shards=1) as writer:
            for image in self.images:
                target = random.normal(size=CLASSES).astype(np.float32)
                writer.write({"image": image.ravel(), "target": target})
        (mr.tfrecord(str(self.folder / "data-*"))
         .parse_example(mr.feature("image", "float32", self.image),
                        mr.feature("target", "float32", (CLASSES,)))
         .batch(8).save(self.folder / "plan.pbtxt"))

    def logits_of(self, net):
        net.eval()
        with torch.no_grad():
            return net(torch.from_numpy(self.images).permute(0, 3, 1, 2)).numpy()

    def predicted(self, *flags, job="job.pbtxt", field="output"):
        out = self.folder / "preds.jsonl"
        run("predict", self.folder / job, "--out", out, *flags)
        lines = out.read_text(encoding="utf-8").splitlines()
        return np.array([json.loads(line)[field] for line in lines])

    def check_same(self, ours, theirs):
        scale = np.abs(theirs).max()
        self.assertGreater(scale, 1e-3)
        self.assertEqual(ours.shape, (SAMPLES, CLASSES))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE * scale)

    def test_imported_weights_give_the_logits_of_pytorch(self):
        start = self.folder / "start.safetensors"
        run("weights", "import", self.job, "--from", self.folder / "torch.safetensors", "--out",
            start)
        logits = self.logits_of(self.net)
        self.check_same(self.predicted("--checkpoint", start), logits)
        self.check_same(
            self.predicted("--checkpoint", start, job="shipped_job.pbtxt", field="probabilities"),
            torch.softmax(torch.from_numpy(logits), 1).numpy())

    def test_pytorch_gives_the_logits_of_an_exported_checkpoint(self):
        run("train", self.job, "--threads", 1)
        exported = self.folder / "exported.safetensors"
        run("weights", "export", self.job, "--out", exported)
        state = load_file(exported)
        for name, tensor in self.net.named_parameters():
            self.assertTrue(torch.equal(state[name], tensor), name)
        other = self.make()
        other.load_state_dict(state, strict=True)  # all names, and no others
        self.check_same(self.predicted(), self.logits_of(other))
        for name, tensor in self.net.named_buffers():
            if not name.endswith("num_batches_tracked"):
                self.assertFalse(torch.equal(state[name], tensor), name)


class MlpWeightsTest(Weights, unittest.TestCase):
    network = "mlp"

    def make(self):
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512),
                             nn.ReLU(), nn.Linear(512, CLASSES))


class LeNetWeightsTest(Weights, unittest.TestCase):
    network = "lenet"

    def make(self):
        return LeNet()


class ResNet18WeightsTest(Weights, unittest.TestCase):
    network = "resnet18"
    image = (64, 64, 3)

    def make(self):
        return torchvision.models.resnet18(num_classes=CLASSES)


class ResNet50WeightsTest(Weights, unittest.TestCase):
    network = "resnet50"
    image = (64, 64, 3)

    def make(self):
        return torchvision.models.resnet50(num_classes=CLASSES)


if __name__ == "__main__":
    unittest.main()
