"""Stopping `millrace run` and going on in another process, at another world, also with cuts.
MILLRACE_KILLS says how many times all ranks are killed."""

import json
import os
import pathlib
import random
import re
import subprocess
import tempfile
import time
import unittest

from cli_testutil import BIN, TIMEOUT, convert_slice, millrace, run_json

KILLS = int(os.environ.get("MILLRACE_KILLS", "8"))
PACE = 100  # rows a second of all ranks: batches of 0.1 s and more leave time to kill between them
PARSE = ('parse_example { feature { key: "image/class/label" name: "label" dtype: INT64 } '
         'feature { key: "image/encoded" name: "png" dtype: BYTES } }')
FILES = 'tfrecord { files: "${DATA}/train*.tfrecord" }'
PLANS = {
    "no cut": [FILES, "global_shuffle {}", "repeat { epochs: 2 }", PARSE,
               'decode_image { field: "png" output: "image" channels: 1 }', "resize { height: 28 width: 28 }",
               "flip {}", "normalize { mean: 72 stddev: 90 }", "batch { size: 24 }"],
    "filter, shuffle, take": [
        FILES, "interleave { cycle_length: 3 block_length: 2 shuffle_files: true }", PARSE,
        'filter { predicate: "label in (0, 1, 4, 7, 9)" }', "shuffle { buffer_size: 20 }",
        "take { count: 90 }", 'filter { predicate: "label != 4 or len(png) > 350" }',
        'decode_image { field: "png" output: "image" channels: 1 }', "resize { height: 28 width: 28 }",
        "flip {}", "batch { size: 12 }", "repeat { epochs: 2 }"],
    "buckets": [FILES, "global_shuffle {}", PARSE,
                'bucket_by_length { field: "png" boundary: 300 boundary: 450 batch_size: 24 '
                "batch_size: 12 batch_size: 12 }", "repeat { epochs: 2 }", "skip { count: 2 }"],
    "ragged, joined": [
        "mix { " + " ".join(f"input {{ stage {{ {FILES} }} stage {{ shuffle {{ buffer_size: {n} }} }} }} "
                            f"weight: {w}" for n, w in ((9, 3), (30, 1))) + " }",
        PARSE, 'filter { predicate: "label < 8" }', "ragged_batch { size: 16 drop_remainder: true }"],
}


def batch_of(token):
    return int(re.search(r"batch=(\d+)", token)[1]) if token else 0


class ResumeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        convert_slice(cls.folder, "train", 160, 4)
        cls.wholes = {name: cls.whole(name) for name in PLANS}
        cls.audits = {name: cls.audit_of_one_process(name) for name in PLANS}

    @classmethod
    def plan(cls, name):
        file = cls.folder / f"{re.sub('[^a-z]', '_', name)}.pbtxt"
        if not file.exists():
            stages = "\n".join(f"stage {{ {stage} }}" for stage in PLANS[name])
            file.write_text(f"seed: 3 lanes: 4\n{stages}\n")
        return [file, "--var", f"DATA={cls.folder}"]

    @classmethod
    def whole(cls, name):
        """The digests and tokens of all batches, each batch by a process of its own."""
        digests, tokens = [], [""]
        while True:
            token_file = cls.folder / "whole.token"
            token_file.write_text(tokens[-1] + "\n" if tokens[-1] else "")
            if not tokens[-1]:
                token_file.unlink()
            report = run_json(*cls.plan(name), "--token-file", token_file, "--batches", 1, "--digest")
            if report["batches"] == 0:
                return digests, tokens
            digests.append(int(report["digest"], 16))
            tokens.append(token_file.read_text().strip())

    @classmethod
    def audit_of_one_process(cls, name):
        log = cls.folder / "one.audit"
        log.unlink(missing_ok=True)
        run_json(*cls.plan(name), "--audit", log)
        return json.loads(millrace("audit", log, "--json").stdout)

    def start(self, name, rank, world, token, *args):
        """The command line of a rank that goes on from a token, and the file that keeps its
        tokens."""
        token_file = self.folder / f"rank{rank}.token"
        token_file.unlink(missing_ok=True)
        if token:
            token_file.write_text(token + "\n")
        return [*self.plan(name), "--token-file", token_file, "--rank", rank, "--world", world,
                *args], token_file

    def test_batches_made_one_by_one_are_those_of_one_process(self):
        # S-STATE-1.
        for name in PLANS:
            with self.subTest(name):
                digests, tokens = self.wholes[name]
                self.assertGreater(len(digests), 5)
                report = run_json(*self.plan(name), "--digest")
                self.assertEqual(report["batches"], len(digests))
                self.assertEqual(int(report["digest"], 16), sum(digests) % 2**64)
                self.assertEqual(len(set(tokens)), len(tokens))

    def test_every_batch_goes_on_in_a_new_process_at_another_world(self):
        # S-STATE-1, S-STATE-10, S-RANK-2.
        rng = random.Random(5)
        for name in PLANS:
            digests, tokens = self.wholes[name]
            for i, digest in enumerate(digests):
                world, seen = rng.choice((2, 3, 4)), 0
                for rank in range(world):
                    command, token_file = self.start(name, rank, world, tokens[i])
                    report = run_json(*command, "--batches", 1, "--digest")
                    self.assertEqual(report["batches"], 1)
                    seen += int(report["digest"], 16)
                    self.assertEqual(token_file.read_text().strip(), tokens[i + 1])
                self.assertEqual(seen % 2**64, digest, f"{name}, batch {i}, world {world}")

    def kill_all(self, name, world, token, logs, rng):
        """Starts all ranks, kills them when each has gone on by some batches, returns the least of
        their tokens."""
        started = [self.start(name, rank, world, token, "--audit", logs[rank], "--pace", PACE / world)
                   for rank in range(world)]
        def least():
            return min((file.read_text().strip() if file.exists() else "" for _, file in started),
                       key=batch_of)
        wanted = batch_of(token) + rng.randrange(4)
        processes = [subprocess.Popen([BIN, "run", *map(str, command)], stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL) for command, _ in started]
        guard = time.monotonic() + TIMEOUT
        while (batch_of(least()) < wanted and any(p.poll() is None for p in processes)
               and time.monotonic() < guard):
            time.sleep(rng.uniform(0, 0.01))  # leaves the cores to the ranks, and varies the moment
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
        self.assertLess(time.monotonic(), guard)
        return least()

    def run_ranks(self, name, world, token, logs):
        """Runs all ranks to the end of the stream and returns the sum of their digests."""
        total = 0
        for rank in range(world):
            command, _ = self.start(name, rank, world, token, "--audit", logs[rank], "--digest")
            total += int(run_json(*command)["digest"], 16)
        return total % 2**64

    def audit(self, logs):
        done = millrace("audit", *filter(pathlib.Path.exists, logs), "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def kill_chain(self, name, most, rng):
        """Kills at most so many runs, each of which goes on from the token of the one before,
        finishes the last and has all of them audited. Returns the tokens that the kills left."""
        digests, tokens = self.wholes[name]
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        logs = [pathlib.Path(scratch.name) / f"rank{rank}.audit" for rank in range(4)]
        token, saved = "", []
        while len(saved) < most and token != tokens[-1]:
            token = self.kill_all(name, rng.choice((1, 2, 4)), token, logs, rng)
            self.assertIn(token, tokens)
            saved.append(token)
        rest = self.run_ranks(name, rng.choice((1, 2, 4)), token, logs)
        self.assertEqual(rest, sum(digests[tokens.index(token):]) % 2**64, name)
        # None twice, and of each epoch as many as one process visits.
        killed, whole = self.audit(logs), self.audits[name]
        self.assertEqual(killed["epochs"], whole["epochs"])
        self.assertEqual(killed["exactly_once"], whole["exactly_once"])
        return saved

    def test_killed_at_any_moment_the_last_saved_token_goes_on_with_the_same_bits(self):
        # S-STATE-1, S-VISIT-2, S-VISIT-3: kill -9 of all ranks; what their files hold is a token of
        # the whole stream, and their logs prove that nothing was lost or came twice.
        rng = random.Random(7)
        in_mid_stream = kills = 0
        for name in PLANS:
            tokens = self.wholes[name][1]
            left = max(1, KILLS // len(PLANS))
            while left > 0:
                saved = self.kill_chain(name, left, rng)
                left -= len(saved)
                kills += len(saved)
                in_mid_stream += sum(token in tokens[1:-1] for token in saved)
        self.assertGreaterEqual(2 * in_mid_stream, kills)
        self.assertTrue(self.audits["no cut"]["exactly_once"])

    def test_a_token_of_several_megabytes_goes_on(self):
        # S-STATE-1, S-STATE-13, S-CUT-19: a large shuffle behind a filter.
        plan, token = self.folder / "large.pbtxt", self.folder / "large.token"
        plan.write_text("""
            stage { range { count: 700000 } }
            stage { filter { predicate: "value >= 100000" } }
            stage { shuffle { buffer_size: 500000 } }
            stage { batch { size: 60000 } }""")
        whole = run_json(plan, "--digest")
        first = run_json(plan, "--digest", "--token-file", token, "--batches", 4)
        self.assertGreater(token.stat().st_size, 1 << 20)
        rest = run_json(plan, "--digest", "--token-file", token)
        self.assertEqual((first["batches"], rest["batches"]), (4, 6))
        self.assertEqual((int(first["digest"], 16) + int(rest["digest"], 16)) % 2**64,
                         int(whole["digest"], 16))

    def test_force_goes_on_with_other_data_and_says_what_is_lost(self):
        # S-STATE-2, S-STATE-21.
        other = self.folder / "other"
        other.mkdir()
        convert_slice(other, "train", 150, 4)
        digests, tokens = self.wholes["no cut"]
        token = tokens[8]
        plan = self.plan("no cut")
        changed = [plan[0], "--var", f"DATA={other}"]
        refused = millrace("run", *changed, "--resume", token)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("data fingerprint", refused.stderr)
        forced = millrace("run", *changed, "--resume", token, "--force", "--json")
        self.assertEqual(forced.returncode, 0, forced.stderr)
        self.assertEqual(json.loads(forced.stdout)["batches"], 13 - 8)  # 300 samples in batches of 24
        self.assertRegex(forced.stderr, (
            r"^millrace: warning: resuming by force: .* differs in: data fingerprint \(token [0-9a-f]+, here "
            r"[0-9a-f]+\)\. The stream goes on with batch 8 of epoch 1\. Samples of this epoch before that "
            r"batch are not delivered again; of the changed data samples may be missing or come twice\."))
        same = millrace("run", *plan, "--resume", token, "--force", "--json")
        self.assertEqual((same.returncode, same.stderr), (0, ""))
        self.assertEqual(json.loads(same.stdout)["batches"], len(digests) - 8)
        newer = millrace("run", *plan, "--resume", token.replace("semantics=1", "semantics=2"), "--force")
        self.assertEqual(newer.returncode, 1)
        self.assertIn("semantics_version", newer.stderr)

    def test_force_without_a_token_is_a_wrong_command_line(self):
        done = millrace("run", *self.plan("no cut"), "--force")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--force goes with --resume or --token-file", done.stderr)

    def test_damaged_tokens_and_those_of_other_plans_are_errors_that_say_so(self):
        # S-STATE-2, S-STATE-12.
        rng = random.Random(9)
        for name in PLANS:
            token = self.wholes[name][1][2]
            for other in PLANS:
                if other == name:
                    continue
                done = millrace("run", *self.plan(other), "--resume", token)
                self.assertEqual(done.returncode, 1)
                self.assertIn("plan fingerprint", done.stderr)
            for _ in range(4):
                done = millrace("run", *self.plan(name), "--batches", 1, "--resume",
                                token[:rng.randrange(1, len(token) - 1)])
                self.assertIn(done.returncode, (0, 1), done.stderr)  # 0: "batch=12" cut to "batch=1"
                if done.returncode == 1:
                    self.assertRegex(done.stderr, "token|state .* is damaged")

    def test_more_ranks_than_lanes_divide_rows(self):
        # S-CUT-21, S-RANK-2.
        for name, world in (("buckets", 9), ("filter, shuffle, take", 7), ("ragged, joined", 16)):
            with self.subTest(name):
                reports = [run_json(*self.plan(name), "--rank", rank, "--world", world, "--digest")
                           for rank in range(world)]
                digests = self.wholes[name][0]
                self.assertEqual({report["batches"] for report in reports}, {len(digests)})
                self.assertEqual(sum(int(report["digest"], 16) for report in reports) % 2**64,
                                 sum(digests) % 2**64)

    def test_more_ranks_than_rows_are_refused(self):
        # S-CUT-21.
        done = millrace("run", *self.plan("buckets"), "--rank", 4, "--world", 13)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the smallest of the global batches, of 12 rows", done.stderr)

    def test_more_ranks_than_lanes_of_an_endless_cut_are_refused_with_the_advice(self):
        # S-CUT-11.
        file = self.folder / "endless.pbtxt"
        file.write_text(f"lanes: 4 stage {{ {FILES} }} stage {{ repeat {{}} }} stage {{ {PARSE} }} "
                        'stage { filter { predicate: "label < 8" } } stage { ragged_batch { size: 8 } }')
        done = millrace("run", file, "--var", f"DATA={self.folder}", "--rank", 4, "--world", 5)
        self.assertEqual(done.returncode, 1)
        self.assertIn("set lanes: 5", done.stderr)
        self.assertIn("repeat behind the batch stage", done.stderr)


if __name__ == "__main__":
    unittest.main()
