"""The jobs of the examples: those of physics train small models on data that they make, and those
of ResNets learn two photographs."""

import json
import math
import os
import pathlib
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest

import millrace as mr

SOURCE = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"])
PROGRAM = os.environ.get("MILLRACE_PROGRAM")
EXAMPLES = SOURCE / "examples"
SIZE = 32


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=300)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def train(job, *flags, **variables):
    """The program's output."""
    pairs = [part for name, value in variables.items() for part in ("--var", f"{name}={value}")]
    # Threads that wait for each other are slow where others compute too.
    return run(PROGRAM, "train", EXAMPLES / job, "--threads", 1, *flags, *pairs)


def numbers(pattern, output):
    return [float(found) for found in re.findall(pattern, output)]


def tensors(path):
    """The tensors of a safetensors file, as bytes."""
    data = pathlib.Path(path).read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]]
            for name, entry in header.items()}


@unittest.skipUnless(PROGRAM, "this build has no program")
class TrainingExamplesTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def make_data(self, example, *flags):
        data = self.folder / example
        run(sys.executable, EXAMPLES / example / "make_data.py", "--out", data, "--size", SIZE,
            "--shards", 2, *flags)
        return data

    def make_model(self, network, image, width):
        path = self.folder / f"{network}.pbtxt"
        path.write_text(run(PROGRAM, "model", network, "--image", image, "--width", width))
        return path

    def test_the_models_are_those_that_the_program_writes(self):
        for network, file in (("hep_cnn", "hep_cnn/model.pbtxt"),
                              ("cosmogan_generator", "cosmogan/generator.pbtxt"),
                              ("cosmogan_discriminator", "cosmogan/discriminator.pbtxt"),
                              ("resnet50", "imagenet/model.pbtxt"),
                              ("lenet", "lenet/model.pbtxt")):
            self.assertEqual((EXAMPLES / file).read_text(), run(PROGRAM, "model", network))
        self.assertEqual((EXAMPLES / "cifar/model.pbtxt").read_text(),
                         run(PROGRAM, "model", "resnet18", "--classes", 10, "--image", "32x32x3"))

    def convert_photographs(self, name, size, copies):
        """A folder with `copies` of two photographs, each of a class of its own."""
        tar = pathlib.Path(os.environ["MILLRACE_TEST_DATA"]) / "imagenet-sample.tar"
        photos = self.folder / f"{name}-photos"
        with tarfile.open(tar) as archive:
            members = [member for member in archive.getmembers() if member.isfile()]
            for number, member in enumerate(members[:2]):
                photo = photos / f"class{number}" / pathlib.Path(member.name).name
                photo.parent.mkdir(parents=True)
                photo.write_bytes(archive.extractfile(member).read())
        data = self.folder / name
        mr.convert(str(photos), str(data / "part"), from_="images", max_resolution=size)
        shard, = data.glob("*.tfrecord")
        shard.write_bytes(shard.read_bytes() * copies)
        return data

    def learn_photographs(self, example, size, batch, steps, **variables):
        """The losses of some steps, and the output."""
        data = self.convert_photographs(example, size, batch * steps // 2)
        test = self.convert_photographs(f"{example}-test", size, 1)
        output = train(f"{example}/job.pbtxt", DATA=data, EVAL_DATA=test, BATCH=batch, EPOCHS=1,
                       WARMUP=0, LOG_EVERY=1, CHECKPOINTS=self.folder / f"{example}-checkpoints",
                       **variables)
        self.assertIn(f"total: {steps} steps, {steps * batch} samples", output)
        losses = numbers(r"  loss (\S+)  \d+ img", output)
        self.assertEqual(len(losses), steps, output)
        self.assertTrue(math.isfinite(*numbers(r"test accuracy .*, loss (\S+)", output)), output)
        return losses, output

    # Two classes of ten, not yet told apart, have a loss of 1.08: half of the labels, smoothed.
    @unittest.skipUnless("MILLRACE_TEST_DATA" in os.environ, "MILLRACE_TEST_DATA is not set")
    def test_resnet18_learns_two_photographs_by_heart(self):
        losses, output = self.learn_photographs("cifar", size=64, batch=32, steps=10)
        self.assertGreater(losses[0], 2, output)
        self.assertLess(sum(losses[-3:]) / 3, 1, output)

    @unittest.skipUnless("MILLRACE_TEST_DATA" in os.environ, "MILLRACE_TEST_DATA is not set")
    def test_resnet50_begins_to_learn_two_photographs(self):
        losses, output = self.learn_photographs("imagenet", size=256, batch=2, steps=6, RATE=0.6)
        self.assertGreater(losses[0], 6, output)
        self.assertLess(sum(losses[-3:]) / 3, 0.75 * losses[0], output)

    def test_hep_cnn_learns_to_tell_events(self):
        output = train("hep_cnn/job.pbtxt", DATA=self.make_data("hep_cnn", "--train", 768,
                                                                "--test", 128),
                       MODEL=self.make_model("hep_cnn", f"{SIZE}x{SIZE}x3", 8), SIZE=SIZE,
                       BATCH=32, EPOCHS=5, RATE=0.005, CHECKPOINTS=self.folder / "checkpoints")
        losses = numbers(r"loss (\S+)  \d+ img", output)
        self.assertLess(min(losses[-3:]), 0.7 * losses[0], output)
        accuracies = numbers(r"test accuracy (\S+)", output)
        self.assertEqual(len(accuracies), 5, output)
        self.assertGreater(max(accuracies), 0.75, output)
        self.assertGreater(max(numbers(r"AUC (\d\.\d+)", output)), 0.8, output)

    def test_cosmogan_trains_both_models_and_resumes_to_the_same_bits(self):
        image = f"{SIZE}x{SIZE}x1"
        settings = {"DATA": self.make_data("cosmogan", "--maps", 80), "SIZE": SIZE, "BATCH": 16,
                    "GENERATOR": self.make_model("cosmogan_generator", image, 4),
                    "DISCRIMINATOR": self.make_model("cosmogan_discriminator", image, 4)}
        whole = self.folder / "whole"
        output = train("cosmogan/job.pbtxt", EPOCHS=4, CHECKPOINTS=whole, **settings)
        losses = (numbers(r"  loss (\S+)", output) + numbers(r"generator loss (\S+)", output))
        self.assertEqual(len(losses), 4, output)
        self.assertTrue(all(math.isfinite(loss) and loss > 0 for loss in losses), output)

        parts = self.folder / "parts"
        train("cosmogan/job.pbtxt", EPOCHS=1, CHECKPOINTS=parts, **settings)
        first = tensors(parts / "checkpoint-00000005.safetensors")
        train("cosmogan/job.pbtxt", "--resume", EPOCHS=4, CHECKPOINTS=parts, **settings)
        last = tensors(whole / "checkpoint-00000020.safetensors")
        self.assertEqual(last, tensors(parts / "checkpoint-00000020.safetensors"))
        self.assertEqual(set(first), set(last))
        for name in first:
            self.assertRegex(name, "^(adam_[mv]/)?(generator|discriminator)/")
            self.assertNotEqual(first[name], last[name], name)

        refused = subprocess.run([PROGRAM, "eval", EXAMPLES / "cosmogan/job.pbtxt"],
                                 capture_output=True, text=True, timeout=300)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("predict --samples N` writes what the generator makes", refused.stderr)

        exported = self.folder / "weights.safetensors"
        run(PROGRAM, "weights", "export", EXAMPLES / "cosmogan/job.pbtxt", "--out", exported,
            "--checkpoint", whole / "checkpoint-00000020.safetensors",
            *(part for name, value in {**settings, "CHECKPOINTS": whole}.items()
              for part in ("--var", f"{name}={value}")))
        self.assertIn("generator/conv1.weight", tensors(exported))


if __name__ == "__main__":
    unittest.main()
