"""`millrace train` as users run it: two ranks, kill -9 and resume, signals, refusals."""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest

from cli_testutil import BIN, SOURCE, TIMEOUT, convert_slice, millrace, mpirun

EXAMPLES = SOURCE / "examples/fashion_mnist"
STEPS_PER_EPOCH = 20  # 1,250 images in batches of 64, the last one ragged
EPOCHS = 2

JOB = """
model: "{examples}/model.pbtxt"
train: "{examples}/train.pbtxt"
eval: "{examples}/eval.pbtxt"
epochs: {epochs}
seed: 7
log_every_steps: 1
optimizer {{ base_lr: 0.05 base_batch: 64 momentum: 0.9 weight_decay: 1e-4 warmup_steps: 5 }}
checkpoint {{ folder: "{checkpoints}" every_steps: {every} keep: 2 }}
"""


def processes():
    """(pid, arguments) of every process there is."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            arguments = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:  # it has ended
            continue
        found.append((int(folder.name), arguments))
    return found


class TrainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        convert_slice(cls.folder, "train", 1250, 3)
        convert_slice(cls.folder, "t10k", 203, 2)  # a split that nothing divides
        cls.wholes = {}  # by ranks: the last checkpoint of a run that nobody stops

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def job(self, name, every=7, epochs=EPOCHS):
        """Writes a job file of its own and returns its path and its checkpoints' folder."""
        checkpoints = self.folder / f"{name}-checkpoints"
        path = self.folder / f"{name}.pbtxt"
        path.write_text(JOB.format(examples=EXAMPLES, checkpoints=checkpoints, every=every,
                                   epochs=epochs))
        return path, checkpoints

    def args(self, job, *more):
        return ["train", job, "--var", f"DATA={self.folder}", "--var", "BATCH=64", *more]

    def train(self, job, *more, prefix=()):
        done = millrace(*self.args(job, *more), prefix=prefix)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout

    def interrupt_at(self, job, step, how, *more, prefix=()):
        """Starts a run, sends it signal `how` when it prints `step`, and returns (exit code,
        output)."""
        command = [*prefix, BIN, *map(str, self.args(job, *more))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True) as process:
            lines = []
            for line in process.stdout:
                lines.append(line)
                if re.match(rf"step {step}/", line):
                    process.send_signal(how)
                    break
            rest, _ = process.communicate(timeout=TIMEOUT)
            return process.returncode, "".join(lines) + rest

    def check_killed_in_mid_epoch(self, checkpoints):
        """The newest checkpoint is one of every seven steps, whenever the signal came."""
        step = int(re.search(r"checkpoint-(\d+)", self.newest(checkpoints).name)[1])
        self.assertEqual(step % 7, 0)
        self.assertLess(step, EPOCHS * STEPS_PER_EPOCH)

    def newest(self, checkpoints):
        return sorted(checkpoints.glob("checkpoint-*.safetensors"))[-1]

    def whole(self, ranks):
        if ranks not in self.wholes:
            job, checkpoints = self.job(f"whole-{ranks}")
            self.train(job, prefix=mpirun(ranks) if ranks > 1 else ())
            self.wholes[ranks] = self.newest(checkpoints).read_bytes()
        return self.wholes[ranks]

    def losses(self, output):
        return {int(step): float(loss)
                for step, loss in re.findall(r"^step (\d+)/.*?loss ([\d.]+)", output, re.M)}

    def test_kill_9_in_mid_epoch_and_resume_gives_the_same_weights(self):
        # S-TRAIN-4.
        killed, checkpoints = self.job("killed")
        code, _ = self.interrupt_at(killed, 9, signal.SIGKILL)
        self.assertEqual(code, -signal.SIGKILL)
        self.check_killed_in_mid_epoch(checkpoints)
        self.train(killed, "--resume")
        self.assertEqual(self.newest(checkpoints).read_bytes(), self.whole(1))

    def kill_ranks_at(self, job, step):
        """Starts two ranks and kills both, not their launcher, when rank 0 prints `step`."""
        command = [*mpirun(2), BIN, *map(str, self.args(job))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True) as process:
            for line in process.stdout:
                if re.match(rf"step {step}/", line):
                    break
            ranks = [pid for pid in processes() if pid[1][:1] == [BIN] and str(job) in pid[1]]
            self.assertEqual(len(ranks), 2)
            for pid, _ in ranks:
                os.kill(pid, signal.SIGKILL)
            process.communicate(timeout=TIMEOUT)
            return process.returncode

    def test_two_ranks_killed_in_mid_epoch_resume_to_the_same_weights(self):
        # S-TRAIN-4.
        killed, checkpoints = self.job("killed-mpi")
        self.assertNotEqual(self.kill_ranks_at(killed, 9), 0)
        self.check_killed_in_mid_epoch(checkpoints)
        self.train(killed, "--resume", prefix=mpirun(2))
        self.assertEqual(self.newest(checkpoints).read_bytes(), self.whole(2))

    def test_only_a_thread_that_does_not_compute_takes_stop_signals(self):
        # A kernel of oneDNN has its stack pointer in the heap, where a handler would write.
        job, _ = self.job("signals", epochs=1000)
        command = [BIN, *map(str, self.args(job))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                self.assertTrue(any(line.startswith("step 3/") for line in process.stdout))
                blocked = {}
                for status in pathlib.Path(f"/proc/{process.pid}/task").glob("*/status"):
                    mask = int(re.search(r"SigBlk:\s*(\w+)", status.read_text())[1], 16)
                    blocked[int(status.parent.name)] = mask >> (signal.SIGTERM - 1) & 1
            finally:
                process.kill()
        self.assertEqual(blocked[process.pid], 1, blocked)
        self.assertIn(0, blocked.values())

    def test_sigterm_saves_and_exits_with_75(self):
        job, checkpoints = self.job("sigterm", every=1000)
        code, output = self.interrupt_at(job, 9, signal.SIGTERM)
        self.assertEqual(code, 75, output)
        self.assertEqual(len(list(checkpoints.glob("checkpoint-*.safetensors"))), 1)
        self.train(job, "--resume")
        self.assertEqual(self.newest(checkpoints).read_bytes(), self.whole(1))

    def test_ctrl_c_saves_and_exits_with_75(self):
        job, checkpoints = self.job("sigint", every=1000)
        code, output = self.interrupt_at(job, 9, signal.SIGINT)
        self.assertEqual(code, 75, output)
        self.assertEqual(len(list(checkpoints.glob("checkpoint-*.safetensors"))), 1)
        self.train(job, "--resume")

    def test_sigterm_to_mpirun_saves_on_all_ranks_and_exits_with_75(self):
        job, checkpoints = self.job("sigterm-mpi", every=1000)
        code, output = self.interrupt_at(job, 9, signal.SIGTERM, prefix=mpirun(2))
        self.assertEqual(code, 75, output)
        self.assertIn("stopped after step", output)
        self.assertEqual(len(list(checkpoints.glob("checkpoint-*.safetensors"))), 1)
        self.train(job, "--resume", prefix=mpirun(2))
        self.assertEqual(self.newest(checkpoints).read_bytes(), self.whole(2))

    def run_with_little_memory(self, name, layers, megabytes):
        """Runs two ranks on a model of `layers`, rank 1 with an address space of `megabytes`."""
        if b"__asan_init" in pathlib.Path(BIN).read_bytes():
            self.skipTest("AddressSanitizer reserves more address space than the limit leaves")
        model = self.folder / f"{name}-model.pbtxt"
        model.write_text("layer { input_layer { shape: 28 shape: 28 shape: 1 } }\n" + layers +
                         "layer { fully_connected { outputs: 10 } }\n"
                         "layer { softmax_cross_entropy {} }\n")
        job, _ = self.job(name)
        job.write_text(job.read_text().replace(f"{EXAMPLES}/model.pbtxt", str(model)))
        script = (f'[ "$OMPI_COMM_WORLD_RANK" = 1 ] && ulimit -v {megabytes * 1024}; '
                  f"exec {BIN} train {job} --var DATA={self.folder} --var BATCH=64")
        return subprocess.run([*mpirun(2), "sh", "-c", script], capture_output=True, text=True,
                              timeout=TIMEOUT)

    def test_a_rank_without_memory_for_the_weights_ends_the_job_with_its_reason(self):
        layers = "layer { fully_connected { outputs: 300000 } }\n"  # 0.9 GB
        done = self.run_with_little_memory("weights", layers, 1200)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("millrace: error: "), 1, done.stderr)
        self.assertIn("millrace: error: rank 1: out of memory", done.stderr)

    def test_a_rank_that_fails_in_mid_step_says_why_before_the_job_is_ended(self):
        layers = "layer { convolution { filters: 4096 kernel: 3 padding: 1 } }\n"  # 0.4 GB a batch
        done = self.run_with_little_memory("step", layers, 1200)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("millrace: error: "), 1, done.stderr)
        self.assertIn("millrace: error: rank 1: ", done.stderr)

    def test_a_damaged_record_is_quarantined(self):
        data = self.folder / "damaged"
        data.mkdir()
        for shard in self.folder.glob("*.tfrecord"):
            (data / shard.name).write_bytes(shard.read_bytes())
        bad = sorted(data.glob("train-*.tfrecord"))[1]
        payload = bytearray(bad.read_bytes())
        payload[20] ^= 1
        bad.write_bytes(payload)
        job, _ = self.job("quarantine", epochs=1)
        listed = self.folder / "bad.jsonl"
        done = millrace("train", job, "--var", f"DATA={data}", "--var", "BATCH=64",
                        "--quarantine", listed)
        self.assertEqual(done.returncode, 1, done.stderr)
        places = [json.loads(line) for line in listed.read_text().splitlines()]
        self.assertEqual([(place["file"], place["offset"], place["reason"]) for place in places],
                         [(str(bad), 0, "data_crc")])

    def test_an_error_of_all_ranks_is_said_once(self):
        job, _ = self.job("said-once")
        job.write_text(job.read_text().replace("model.pbtxt", "no-model.pbtxt"))
        done = millrace(*self.args(job), prefix=mpirun(2))
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("millrace: error: "), 1, done.stderr)
        self.assertIn("no-model.pbtxt", done.stderr)

    def test_another_job_is_refused_on_resume_by_its_field_unless_forced(self):
        job, _ = self.job("other-job", epochs=1)
        self.train(job)
        job.write_text(job.read_text().replace("momentum: 0.9", "momentum: 0.5")
                       .replace("epochs: 1", "epochs: 2"))
        done = millrace(*self.args(job, "--resume"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("optimizer.momentum: 0.9 -> 0.5", done.stderr)
        forced = millrace(*self.args(job, "--resume", "--force"))
        self.assertEqual(forced.returncode, 0, forced.stderr)
        self.assertIn("resuming by force: modified: optimizer.momentum: 0.9 -> 0.5", forced.stderr)
        self.assertEqual(sorted(self.losses(forced.stdout)),
                         list(range(STEPS_PER_EPOCH + 1, 2 * STEPS_PER_EPOCH + 1)))

    def test_force_alone_is_a_mistake(self):
        job, _ = self.job("forced")
        done = millrace(*self.args(job, "--force"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("--force goes with --resume", done.stderr)

    def test_devices_that_are_none_are_mistakes(self):
        job, _ = self.job("devices")
        for flags, text in ((("--device", "gpu"), "'gpu' is none of cpu, cuda and cuda:N"),
                            (("--device", "cuda:x"), "'x' is no number of a device"),
                            (("--devices", "0,0"), "device 0 is named twice"),
                            (("--devices", "0,1", "--device", "cpu"), "no --device cpu"),
                            (("--devices", "0,1", "--replicas", "3"), "--replicas 3")):
            done = millrace(*self.args(job, *flags))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(text, done.stderr)

    def test_a_gpu_that_is_not_there_is_named_before_data_is_read(self):
        job, _ = self.job("no-gpu")
        done = millrace(*self.args(job, "--device", "cuda:1023"))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("CUDA", done.stderr)
        self.assertEqual(done.stderr.count("millrace: error: "), 1, done.stderr)

    def test_a_checkpoint_is_never_overwritten_without_resume(self):
        job, checkpoints = self.job("kept", epochs=1)
        self.train(job)
        before = {p.name: p.read_bytes() for p in checkpoints.iterdir()}
        refused = millrace(*self.args(job))
        self.assertEqual(refused.returncode, 1)
        self.assertIn("--resume", refused.stderr)
        self.assertEqual({p.name: p.read_bytes() for p in checkpoints.iterdir()}, before)

    def test_resume_without_a_checkpoint_is_an_error(self):
        job, _ = self.job("nothing")
        done = millrace(*self.args(job, "--resume"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing-checkpoints", done.stderr)

    def test_two_ranks_and_one_rank_give_the_same_losses_and_say_them_once(self):
        # S-TRAIN-2.
        one, _ = self.job("one", epochs=1)
        two, _ = self.job("two", epochs=1)
        single = self.losses(self.train(one))
        output = self.train(two, prefix=mpirun(2))
        double = self.losses(output)
        self.assertEqual(sorted(single), list(range(1, STEPS_PER_EPOCH + 1)))
        self.assertEqual(sorted(double), sorted(single))
        # Sums over half-batches round differently, and momentum carries the difference along.
        for step, loss in single.items():
            self.assertAlmostEqual(loss, double[step], delta=2e-3 * max(1, loss), msg=str(step))
        # Two ranks write once what a run should say.
        self.assertEqual(output.count("step 20/20"), 1, output)
        for expected in ("data wait", "img/s", "input-bound", "learning rate", "cores"):
            self.assertIn(expected, output)

    def test_the_plan_says_the_performance_unless_the_job_does_and_weights_stay(self):
        whole = self.whole(1)
        job, checkpoints = self.job("performance")
        plan = self.folder / "performance-plan.pbtxt"
        plan.write_text((EXAMPLES / "train.pbtxt").read_text() +
                        "performance { threads: 3 io_threads: 7 memory_budget_mib: 96 }")
        text = job.read_text().replace(f"{EXAMPLES}/train.pbtxt", str(plan))
        job.write_text(text)
        output = self.train(job)
        for said in (r"cores .* 3 pipeline", r"I/O +7 threads", r"memory budget +96 MiB"):
            self.assertRegex(output, said)
        self.assertEqual(self.newest(checkpoints).read_bytes(), whole)
        job.write_text(text + "pipeline_threads: 2 memory_budget_mib: 128")
        output = self.train(job, "--resume")
        self.assertRegex(output, r"cores .* 2 pipeline")
        self.assertRegex(output, r"memory budget +128 MiB")

    def test_eight_oversubscribed_ranks_finish_and_count_the_split_once(self):
        # S-TRAIN-3.
        job, _ = self.job("eight", epochs=1)
        output = self.train(job, prefix=mpirun(8))
        self.assertRegex(output, r"test accuracy [\d.]+ \(\d+/203\)")

    def test_a_rank_with_other_settings_is_named(self):
        job, _ = self.job("differs", epochs=1)
        script = ("[ \"$OMPI_COMM_WORLD_RANK\" = 1 ] && batch=32 || batch=64; "
                  f"exec {BIN} train {job} --var DATA={self.folder} --var BATCH=$batch")
        done = subprocess.run([*mpirun(2), "sh", "-c", script], capture_output=True, text=True,
                              timeout=TIMEOUT)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"rank 1")

    def test_a_damaged_checkpoint_is_set_aside_by_name(self):
        job, checkpoints = self.job("damaged", epochs=1)
        self.train(job)
        newest = self.newest(checkpoints)
        data = bytearray(newest.read_bytes())
        data[len(data) // 2] ^= 1
        newest.write_bytes(bytes(data))
        done = millrace(*self.args(job, "--resume"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{newest}: damaged checkpoint", done.stderr)
        self.assertTrue((checkpoints / (newest.name + ".damaged")).exists())
        self.assertTrue(newest.exists(), "its step is saved again")


if __name__ == "__main__":
    unittest.main()
