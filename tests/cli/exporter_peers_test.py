"""What the program exports, read back by those whom it is for: Prometheus' own parser, and
TensorBoard. Run by scripts/test-frameworks.sh; skipped without the packages."""

import importlib.util
import unittest

import metrics_cli_test
from cli_testutil import millrace
from metrics_cli_test import EXAMPLES, Serving
from train_cli_test import JOB


def has(package):
    return importlib.util.find_spec(package) is not None


class PeersTest(unittest.TestCase):
    setUpClass = metrics_cli_test.MetricsTest.__dict__["setUpClass"]
    tearDownClass = metrics_cli_test.MetricsTest.__dict__["tearDownClass"]

    @unittest.skipUnless(has("prometheus_client"), "no prometheus_client")
    def test_prometheus_parser_reads_the_page(self):
        from prometheus_client.parser import text_string_to_metric_families
        with Serving(*self.endless, "--metrics", 0) as program:
            program.await_ready()
            page = program.get("/metrics")[2]
        families = {family.name: family for family in text_string_to_metric_families(page)}
        self.assertNotIn("unknown", {family.type for family in families.values()})
        batches = families["millrace_batches"]  # it takes "_total" off
        self.assertEqual(batches.type, "counter")
        self.assertGreater(batches.samples[0].value, 0)
        waits = families["millrace_consumer_wait_seconds"]
        self.assertEqual(waits.type, "histogram")
        self.assertEqual(waits.samples[-1].name, "millrace_consumer_wait_seconds_count")

    @unittest.skipUnless(has("tensorboard"), "no tensorboard")
    def test_tensorboard_reads_the_events_over_a_resume(self):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        job, events = self.folder / "job.pbtxt", self.folder / "events"
        checkpoints = self.folder / "checkpoints"
        for epochs in (1, 2):
            job.write_text(JOB.format(examples=EXAMPLES, checkpoints=checkpoints, every=100,
                                      epochs=epochs))
            done = millrace("train", job, "--var", f"DATA={self.folder}", "--var", "BATCH=64",
                            "--tensorboard", events, *(["--resume"] if epochs == 2 else []))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = EventAccumulator(str(events))
        found.Reload()
        self.assertEqual(found.file_version, 2.0)
        self.assertLessEqual({"train/loss", "train/learning_rate", "train/images_per_second",
                              "train/data_wait_fraction", "evaluation/accuracy",
                              "evaluation/loss"}, set(found.Tags()["scalars"]))
        losses = found.Scalars("train/loss")
        self.assertEqual([event.step for event in losses], list(range(1, 17)))
        self.assertEqual([event.step for event in found.Scalars("evaluation/accuracy")], [8, 16])


if __name__ == "__main__":
    unittest.main()
