"""`millrace run --audit` and `millrace audit`: stitched and killed runs are proven, spoilt logs are
not."""

import json
import pathlib
import random
import re
import subprocess
import tempfile
import time
import unittest

from cli_testutil import BIN, TIMEOUT, convert_slice, millrace, run_json

RECORDS, EPOCHS = 300, 3
PLAN = """
seed: ${SEED:-5}
stage { tfrecord { files: "${DATA}/train*.tfrecord" } }
stage { global_shuffle {} }
stage { repeat { epochs: 3 } }
stage { parse_example { feature { key: "image/class/label" name: "label" dtype: INT64 } } }
stage { batch { size: 16 } }
"""


class AuditTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.data = tempfile.TemporaryDirectory()
        convert_slice(cls.data.name, "train", RECORDS, 3)
        plan = pathlib.Path(cls.data.name) / "plan.pbtxt"
        plan.write_text(PLAN)
        cls.plan = [plan, "--var", f"DATA={cls.data.name}"]
        cls.whole = int(run_json(*cls.plan, "--digest")["digest"], 16)

    @classmethod
    def tearDownClass(cls):
        cls.data.cleanup()

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def log(self, rank):
        return self.folder / f"rank{rank}.audit"

    def token(self, rank):
        return self.folder / f"rank{rank}.token"

    def flags(self, rank, world):
        return ["--rank", rank, "--world", world, "--audit", self.log(rank), "--token-file",
                self.token(rank)]

    def audit(self, *args):
        done = millrace("audit", *args, "--json")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["proven"], done.returncode == 0)
        return report

    def assert_exactly_once(self, report):
        self.assertTrue(report["exactly_once"], report)
        self.assertEqual([(e["finished"], e["visited"], e["lost"], e["duplicates"])
                          for e in report["epochs"]], [(True, RECORDS, 0, 0)] * EPOCHS)

    def test_a_whole_run_is_proven(self):
        # S-VISIT-1.
        run_json(*self.plan, *self.flags(0, 1))
        self.assert_exactly_once(self.audit(self.log(0)))
        text = millrace("audit", self.log(0))
        self.assertEqual(text.returncode, 0)
        self.assertIn("every sample was visited exactly once", text.stdout)
        self.assertIn("epoch 2: 300 of 300 samples, none twice", text.stdout)
        self.assertEqual(millrace("audit", self.log(0), "--epochs", 4).returncode, 1)

    def test_a_run_stitched_over_two_worlds_has_the_same_samples_and_bits(self):
        # S-STATE-1, S-VISIT-2.
        digest = 0
        for rank in (0, 1):
            for batches in (7, 13):  # two starts of each rank
                report = run_json(*self.plan, *self.flags(rank, 2), "--batches", batches, "--digest")
                digest += int(report["digest"], 16)
        token = self.token(1).read_text().strip()
        self.assertEqual(token, self.token(0).read_text().strip())
        self.assertRegex(token, r"batch=20\b")
        report = run_json(*self.plan, "--resume", token, "--audit", self.log(0), "--digest")
        self.assertEqual((digest + int(report["digest"], 16)) % 2**64, self.whole)
        self.assert_exactly_once(self.audit(self.log(0), self.log(1)))

    def kill_while_running(self, rank, world, rng):
        """Starts a rank and kills it once its log has grown by a random number of bytes."""
        log = self.log(rank)
        size = log.stat().st_size if log.exists() else 0
        process = subprocess.Popen(
            [BIN, "run", *map(str, self.plan), *map(str, self.flags(rank, world)),
             "--pace", "6000"], stdout=subprocess.DEVNULL)
        until, deadline = size + rng.randrange(2500), time.monotonic() + TIMEOUT
        while process.poll() is None and time.monotonic() < deadline:
            if log.exists() and log.stat().st_size > until:
                break
        process.kill()
        process.wait()

    def test_runs_killed_at_random_moments_visit_every_sample_once(self):
        # S-VISIT-2, S-VISIT-3: kill -9, then on from the last saved token at another world.
        rng = random.Random(11)
        token, most = "", 0
        for _ in range(6):
            world = rng.choice((1, 2, 3))
            most = max(most, world)
            tokens = []
            for rank in range(world):
                self.token(rank).unlink(missing_ok=True)
                if token:
                    self.token(rank).write_text(token)
                self.kill_while_running(rank, world, rng)
                tokens.append(self.token(rank).read_text() if self.token(rank).exists() else "")
            # What every rank has delivered: the least of their tokens.
            token = min(tokens, key=lambda t: int(re.search(r"batch=(\d+)", t)[1]) if t else -1)
        for rank in range(2):
            self.token(rank).unlink(missing_ok=True)
            if token:
                self.token(rank).write_text(token)
            run_json(*self.plan, *self.flags(rank, 2))
        report = self.audit(*(self.log(rank) for rank in range(max(most, 2))))
        self.assert_exactly_once(report)
        self.assertEqual(report["visits"], RECORDS * EPOCHS)

    def test_a_truncated_log_is_not_proven(self):
        # S-VISIT-3.
        for rank in (0, 1):
            run_json(*self.plan, *self.flags(rank, 2))
        self.assert_exactly_once(self.audit(self.log(0), self.log(1)))
        whole = self.log(1).read_bytes()
        self.log(1).write_bytes(whole[:len(whole) * 2 // 3])
        report = self.audit(self.log(0), self.log(1))
        self.assertFalse(report["proven"])
        self.assertGreater(report["lost_rows"], 0)
        self.assertTrue(any("rank 1 of 2" in text for text in report["messages"]), report)

    def test_a_log_of_another_plan_is_caught_and_not_continued(self):
        # S-VISIT-4.
        run_json(*self.plan, "--rank", 0, "--world", 2, "--audit", self.log(0))
        run_json(*self.plan, "--rank", 1, "--world", 2, "--audit", self.log(1), "--var", "SEED=6")
        report = self.audit(self.log(0), self.log(1))
        self.assertFalse(report["proven"])
        self.assertTrue(any("does not belong to" in text for text in report["messages"]), report)
        done = millrace("run", *self.plan, "--audit", self.log(1))
        self.assertEqual(done.returncode, 1)
        self.assertIn("plan", done.stderr)

    def test_damage_and_wrong_command_lines(self):
        self.assertEqual(millrace("audit").returncode, 2)
        self.assertEqual(millrace("audit", self.folder / "none").returncode, 1)
        self.assertEqual(millrace("run", *self.plan, "--resume", "x", "--token-file",
                                  self.token(0)).returncode, 2)
        self.token(0).write_text("no token\n")
        done = millrace("run", *self.plan, "--token-file", self.token(0))
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{self.token(0)}: the resume token is damaged", done.stderr)
        other = "millrace-state 1 semantics=1 plan=0000000000000001 data=0000000000000002 batch=1"
        self.token(0).write_text(other + "\n")
        done = millrace("run", *self.plan, "--token-file", self.token(0))
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{self.token(0)}: the resume token is of another stream", done.stderr)
        done = millrace("run", *self.plan, "--resume", other)
        self.assertIn("error: the resume token is of another stream", done.stderr)
        (self.folder / "text").write_text("not a log, but something of somebody's\n")
        self.assertEqual(millrace("run", *self.plan, "--audit", self.folder / "text").returncode, 1)
        self.assertIn("something", (self.folder / "text").read_text())
        self.assertEqual(millrace("audit", self.folder / "text").returncode, 1)


if __name__ == "__main__":
    unittest.main()
