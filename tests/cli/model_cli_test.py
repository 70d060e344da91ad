"""`millrace model`: the files that it writes, and a training with one of them."""

import pathlib
import re
import tempfile
import unittest

from cli_testutil import SOURCE, convert_slice, millrace

EXAMPLES = SOURCE / "examples/fashion_mnist"


class ModelTest(unittest.TestCase):
    def test_a_network_is_written_with_its_classes_and_images(self):
        done = millrace("model", "resnet50", "--classes", "37", "--image", "64x96x3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('name: "layer4.2.conv3"', done.stdout)
        self.assertIn("outputs: 37", done.stdout)
        self.assertIn("shape: [64, 96, 3]", done.stdout)

    def test_the_example_for_gpus_has_images_of_uint8(self):
        done = millrace("model", "resnet50", "--uint8")
        example = SOURCE / "examples/imagenet/model_uint8.pbtxt"
        self.assertEqual(done.stdout, example.read_text())

    def test_hidden_layers_are_given_as_a_list(self):
        done = millrace("model", "mlp", "--hidden", "48,24")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r'"1" fully_connected \{ outputs: 48 (.|\n)*'
                                      r'"3" fully_connected \{ outputs: 24 (.|\n)*'
                                      r'"5" fully_connected \{ outputs: 10 ')

    def test_what_does_not_fit_is_an_error(self):
        for arguments, text in ((["resnet51"], "resnet51"), (["lenet", "--image", "28"], "28"),
                                (["lenet", "--image", "1x1x1"], "kernel"),
                                (["lenet", "--classes", "1"], "--classes"),
                                (["mlp", "--hidden", "8,"], "--hidden 8,"),
                                (["mlp", "--hidden", "0"], "--hidden 0"),
                                (["lenet", "--hidden", "8"], "no choice of hidden layers")):
            done = millrace("model", *arguments)
            self.assertIn(done.returncode, (1, 2), arguments)
            self.assertEqual(done.stdout, "")
            self.assertIn(text, done.stderr)

    def explain(self, folder, *more, code=0):
        (folder / "model.pbtxt").write_text(millrace("model", "resnet18").stdout)
        (folder / "job.pbtxt").write_text(
            f'model: "model.pbtxt" train: "{EXAMPLES}/train.pbtxt" epochs: 1\n')
        done = millrace("explain", *more, "--var", f"DATA={folder}", "--var", "BATCH=64")
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def test_explain_shows_the_model_of_a_job(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            job = folder / "job.pbtxt"
            text = self.explain(folder, job)
            self.assertIn("parameters       11,689,512 (44.6 MiB)", text)
            self.assertIn("1.81 G multiply-adds", text)
            self.assertIn("learning rate: not shown", text)
            self.assertEqual(self.explain(folder, "--job", job), text)
            self.assertIn('"layer4.1.add" -> ', self.explain(folder, "--dot", job))
            # A model by itself.
            model = millrace("explain", folder / "model.pbtxt")
            self.assertEqual(model.returncode, 0, model.stderr)
            self.assertIn("parameters   11,689,512 (44.6 MiB)", model.stdout)
            # Without the plan's variables.
            plan = (EXAMPLES / "train.pbtxt").read_text()
            (folder / "train.pbtxt").write_text(re.sub(r"\$\{DATA:-[^}]*", "${DATA", plan))
            unset_job = folder / "unset.pbtxt"
            unset_job.write_text('model: "model.pbtxt" train: "train.pbtxt" epochs: 1\n')
            unset = millrace("explain", unset_job)
            self.assertEqual(unset.returncode, 0, unset.stderr)
            self.assertIn("not shown, because", unset.stdout)
            self.assertIn("--var DATA=VALUE", unset.stdout)
            # A plan is still a plan, whatever is said of it.
            plan = EXAMPLES / "train.pbtxt"
            self.assertIn("--dot is of jobs", self.explain(folder, "--dot", plan, code=2))
            self.assertIn("--rank and --world are of plans",
                          self.explain(folder, job, "--world", "2", code=2))
            self.assertIn("is not a field of Job", self.explain(folder, "--job", plan, code=1))

    def test_a_job_trains_a_network_that_was_written(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            convert_slice(folder, "train", 256, 2)
            written = millrace("model", "resnet18", "--classes", "10", "--image", "28x28x1")
            (folder / "model.pbtxt").write_text(written.stdout)
            (folder / "job.pbtxt").write_text(
                f'model: "model.pbtxt" train: "{EXAMPLES}/train.pbtxt" epochs: 1 seed: 1\n'
                'optimizer { base_lr: 0.05 momentum: 0.9 } log_every_steps: 1\n')
            done = millrace("train", folder / "job.pbtxt", "--var", f"DATA={folder}", "--var",
                            "BATCH=64")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("step 4/4", done.stdout)


if __name__ == "__main__":
    unittest.main()
