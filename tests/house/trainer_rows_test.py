#!/usr/bin/env python3
"""Tests of the rows of bench/rows_trainer.py and of their jobs; nothing is measured."""
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import rows  # noqa: E402
import rows_jobs  # noqa: E402
import rows_trainer  # noqa: E402
from rows_testutil import step, with_programs  # noqa: E402


def programs_of(answer, **more):
    """The rows with these programs, data, and a Python with PyTorch."""
    there = {"need_pytorch": lambda: None, "hep_events": lambda: "hep", "imagenet_tar": lambda: "",
             "cosmogan_maps": lambda: "maps", "imagenet_shards": lambda tar: "photographs"}
    return with_programs(answer, (rows_trainer, rows_jobs), **(there | more))


ALONE = (rows_trainer.resnet50_fed, rows_trainer.activation_memory)  # not beside PyTorch


class StepsTest(unittest.TestCase):
    def test_every_row_is_made_of_what_the_programs_print_and_has_a_verdict(self):
        for row in rows_trainer.ROWS:
            stack, _ = programs_of(lambda words: step(10))
            with stack:
                (made,) = rows.run_rows([row], rows_trainer.BARS, 2, lambda made: None)
            self.assertEqual((row.__name__, 2), (made["name"], made["repeats"]))
            self.assertIn("met", made)

    def test_every_row_beside_pytorch_takes_its_network_and_batch_on_both_sides(self):
        ours, theirs = {}, {}
        for row in rows_trainer.ROWS:
            if row in ALONE:
                continue
            stack, programs = programs_of(lambda words: step(10))
            with stack:
                self.assertEqual(row.__name__, row(1)["name"])
            for words in programs.commands:
                if "bench/peers/torch_step_cpu.py" in words:
                    theirs[row.__name__] = words[2], words[words.index("--batch") + 1]
                elif words[0].endswith("bench_trainer_rows"):
                    ours[row.__name__] = words[1], words[2]
                else:
                    batch = next(w for w in words if w.startswith("BATCH="))
                    ours[row.__name__] = pathlib.Path(words[1]).stem, batch.removeprefix("BATCH=")
        self.assertEqual(ours, theirs)
        self.assertEqual(("hep_cnn", "16"), ours["hep_cnn"])

    def test_a_network_of_another_size_in_pytorch_is_an_error(self):
        stack, _ = programs_of(lambda words: step(10, 7 if "--batch" in words else 8))
        with stack, self.assertRaisesRegex(RuntimeError, r"cosmogan.*\[7, 8\]"):
            rows_trainer.cosmogan(1)

    def test_without_pytorch_its_rows_are_skipped_with_the_reason_and_the_others_go_on(self):
        stack, _ = programs_of(lambda words: step(10), need_pytorch=rows_trainer.need_pytorch)
        with stack, tempfile.TemporaryDirectory() as folder:
            missing = pathlib.Path(folder, "python")
            with mock.patch.object(rows_trainer, "PYTORCH", missing):
                rows_trainer.need_pytorch.cache_clear()
                with self.assertRaisesRegex(rows.Skip, f"no {missing}"):
                    rows_trainer.hep_cnn(1)
                rows_trainer.need_pytorch.cache_clear()
            self.assertEqual("resnet50_fed", rows_trainer.resnet50_fed(1)["name"])

    def test_a_python_without_pytorch_is_as_none(self):
        with tempfile.TemporaryDirectory() as folder:
            python = pathlib.Path(folder, "python")
            python.write_text(f"#!/bin/sh\nexec {sys.executable} -I -S \"$@\"\n", encoding="utf-8")
            python.chmod(0o755)
            rows_trainer.need_pytorch.cache_clear()
            with mock.patch.object(rows_trainer, "PYTORCH", python), \
                    self.assertRaisesRegex(rows.Skip, "has no torch and no torchvision"):
                rows_trainer.need_pytorch()
            rows_trainer.need_pytorch.cache_clear()

    def test_a_fed_training_is_compared_by_its_mean_steps_with_that_on_drawn_images(self):
        def answer(words):
            is_fed = "TRAIN=../../examples/imagenet/train.pbtxt" in words
            self.assertIn("DATA=photographs" if is_fed else "DATA=hep", words)
            return step(1, mean_step_ms=125 if is_fed else 100, data_wait=0.01)

        stack, _ = programs_of(answer)
        with stack:
            row = rows_trainer.resnet50_fed(3)
        self.assertAlmostEqual(0.8, row["ratio"])
        self.assertIn("data wait 1.00% of a step", row["note"])


class JobsTest(unittest.TestCase):
    def test_the_files_that_jobs_name_are_there(self):
        jobs = sorted((ROOT / "bench" / "jobs").glob("*.pbtxt"))
        self.assertNotEqual([], jobs)
        for job in jobs:
            for name in re.findall(r'"([^"$]*\.pbtxt)"', job.read_text(encoding="utf-8")):
                self.assertTrue((job.parent / name).exists(), f"{job.name}: {name}")


if __name__ == "__main__":
    unittest.main()
