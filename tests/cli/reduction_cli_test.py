"""`millrace train` with the flags of a job's `reduction`."""

import pathlib
import signal
import unittest

from cli_testutil import BIN, mpirun, millrace
from ranks_testutil import ENDED, NO_STALLS, PEER_LOST, Rank, RanksTestCase, free_port


class ReductionTest(RanksTestCase):
    def weights(self, name, ranks, *flags):
        """The checkpoint of a run of one epoch."""
        job, checkpoints = self.job(name, epochs=1)
        self.run_to_the_end(job, ranks, *flags)
        return self.newest(checkpoints).read_bytes()

    def test_exact_sums_have_the_same_bits_over_tcp_and_mpi(self):
        over_tcp = self.weights("exact-tcp", 3, "--exact-reduction")
        job, checkpoints = self.job("exact-mpi", epochs=1)
        done = millrace("train", job, "--var", f"DATA={self.folder}", "--var", "BATCH=64",
                        "--exact-reduction", prefix=mpirun(3))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("exact", done.stdout)
        self.assertEqual(self.newest(checkpoints).read_bytes(), over_tcp)

    def test_a_sharded_optimizer_has_the_bits_of_a_whole_one(self):
        self.assertEqual(self.weights("shards", 2, "--shard-optimizer", "--digest-every", "3"),
                         self.weights("whole", 2))

    def test_a_stop_among_the_batches_of_a_step_continues_bit_for_bit(self):
        flags = ["--accumulate-steps", "8"]  # 3 steps per epoch, the last of 4 batches
        whole, whole_checkpoints = self.job("accumulate-whole", epochs=3)
        ranks = self.run_to_the_end(whole, 2, *flags)
        self.assertIn("3 per epoch, 9 in all", ranks[0].output())
        job, checkpoints = self.job("accumulate", epochs=3)
        ranks = self.start(job, 2, *flags)
        ranks[0].await_line(r"^step 4/")
        ranks[1].process.send_signal(signal.SIGTERM)
        for rank in ranks:
            self.assertEqual(rank.end(), 75, rank.output())
        self.run_to_the_end(job, 2, "--resume", *flags)
        self.assertEqual(self.newest(checkpoints).read_bytes(),
                         self.newest(whole_checkpoints).read_bytes())

    def test_flags_go_before_the_job_and_the_header_says_so(self):
        job, _ = self.job("header", epochs=1)
        job.write_text(job.read_text() + "reduction { clip_norm: 3 digest_every: 7 }\n")
        ranks = self.run_to_the_end(
            job, 2, "--clip-norm", "0.5", "--skip-non-finite", "--max-skipped-steps", "4",
            "--stale-steps", "2", "--synchronous-tail", "5", "--wire-dtype", "bfloat16",
            "--bucket-bytes", "300000", "--edge-bucket-bytes", "1000", "--progress-policy",
            "inline")
        output = ranks[0].output()
        self.assertRegex(output, r"(?m)^gradients +\d buckets: .*; 2 ranks of this host share memory; "
                                 r".*inline \(as asked for\).*plan 0x")
        self.assertRegex(
            output, r"(?m)^reduction +averaged over valid rows; norm clipped to 0\.5; steps that "
            r"are not finite skipped, at most 4 in a row; bfloat16 between hosts; 2 steps late but "
            r"for the last 5; weights compared every 7 steps$")
        self.assertRegex(output, r"(?m)^step 20/20 .* norm \d+\.\d+ \(\d clipped\)( |$)")

    def test_flags_switch_off_what_the_job_switches_on(self):
        job, _ = self.job("off", epochs=1)
        job.write_text(job.read_text() + "reduction { exact: true skip_non_finite: true }\n")
        ranks = self.run_to_the_end(job, 2, "--exact-reduction=false", "--skip-non-finite=false")
        self.assertRegex(ranks[0].output(), r"(?m)^reduction +averaged over valid rows$")
        done = millrace("train", job, "--exact-reduction=maybe")
        self.assertEqual(done.returncode, 2)

    def test_whole_numbers_are_decimal(self):
        job, _ = self.job("decimal", epochs=1)
        ranks = self.run_to_the_end(job, 1, "--accumulate-steps", "010", "--digest-every", "010",
                                    "--threads", "01")
        output = ranks[0].output()
        self.assertRegex(output, r"(?m)^reduction .*; 10 batches a step; weights compared every 10 "
                                 r"steps$")

    def test_values_that_cannot_be_are_refused(self):
        job, _ = self.job("refused")
        for flags in (["--wire-dtype", "int8"], ["--clip-norm", "nan"], ["--stale-steps", "-1"],
                      ["--accumulate-steps", "0"], ["--progress-policy", "stream"]):
            done = millrace("train", job, *flags)
            self.assertEqual(done.returncode, 2, flags)
        done = millrace("train", job, "--var", f"DATA={self.folder}", "--var", "BATCH=64",
                        "--max-skipped-steps", "3")
        self.assertEqual(done.returncode, 1)
        self.assertIn("reduction.max_skipped_steps: it needs skip_non_finite", done.stderr)

    def test_a_lost_shard_of_the_optimizer_is_not_saved_and_said(self):
        job, checkpoints = self.job("lost-shard")
        ranks = self.start(job, 2, "--shard-optimizer", *NO_STALLS)
        ranks[0].await_line(r"^step 5/")
        ranks[1].process.send_signal(signal.SIGKILL)
        self.assertEqual(ranks[0].end(), PEER_LOST, ranks[0].output())
        self.assertRegex(ranks[0].output(), rf"rank 1 is lost.*{ENDED}")
        self.assertRegex(ranks[0].output(), r"nothing saved: a part of the optimizer's state")
        self.assertFalse(list(checkpoints.glob("*.safetensors")))

    def test_a_rank_that_fails_in_a_step_is_lost_to_the_others(self):
        if b"__asan_init" in pathlib.Path(BIN).read_bytes():
            self.skipTest("AddressSanitizer reserves more address space than the limit leaves")
        model = self.folder / "wide-model.pbtxt"
        model.write_text("layer { input_layer { shape: 28 shape: 28 shape: 1 } }\n"
                         "layer { convolution { filters: 4096 kernel: 3 padding: 1 } }\n"
                         "layer { fully_connected { outputs: 10 } }\n"
                         "layer { softmax_cross_entropy {} }\n")
        job, _ = self.job("fails")
        lines = job.read_text().splitlines()
        job.write_text("\n".join(f'model: "{model}"' if line.startswith("model:") else line
                                 for line in lines))
        port = free_port()
        ranks = []
        for rank, limit in enumerate(("unlimited", 1200 * 1024)):
            arguments = " ".join(self.arguments(job, "--rank", str(rank), "--world-size", "2",
                                                "--rendezvous", f"127.0.0.1:{port}"))
            ranks.append(Rank(["sh", "-c", f"ulimit -v {limit}; exec {arguments}"]))
        self.started += ranks
        self.assertEqual(ranks[1].end(), 1, ranks[1].output())
        self.assertEqual(ranks[0].end(), PEER_LOST, ranks[0].output())
        self.assertRegex(ranks[0].output(),
                         r"rank 1 is lost .*: it has failed: (INTERNAL: oneDNN|RESOURCE_EXHAUSTED): ")


if __name__ == "__main__":
    unittest.main()
