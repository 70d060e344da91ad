"""`millrace top`, and `run --top` and `train --top`, as users see them in a terminal."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from cli_testutil import BIN, SOURCE, TIMEOUT, convert_slice, millrace
from pty_testutil import Screen, Terminal

EXAMPLES = SOURCE / "examples/fashion_mnist"
JOB = """
model: "{examples}/model.pbtxt"
train: "{examples}/train.pbtxt"
epochs: 1000
seed: 7
log_every_steps: 20
optimizer {{ base_lr: 0.05 base_batch: 64 }}
"""


def wait_for(condition, what):
    end = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what} does not come")
        time.sleep(0.01)


class TopTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        convert_slice(cls.folder, "train", 500, 3)
        cls.data = ["--var", f"DATA={cls.folder}", "--var", "BATCH=16"]
        cls.plan = [EXAMPLES / "train.pbtxt", *cls.data]

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def setUp(self):
        self.runtime = tempfile.TemporaryDirectory()
        self.addCleanup(self.runtime.cleanup)
        self.env = {"XDG_RUNTIME_DIR": self.runtime.name}
        self.sockets = pathlib.Path(self.runtime.name) / "millrace"

    def sockets_of(self, pid):
        return list(self.sockets.glob(f"{pid}-*.sock"))

    @contextlib.contextmanager
    def running(self, *args):
        """A program that runs until the test is over."""
        with subprocess.Popen([BIN, *map(str, args)], env={**os.environ, **self.env},
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
            try:
                wait_for(lambda: self.sockets_of(program.pid), "the socket")
                yield program
            finally:
                program.kill()

    def run_plan(self):
        """A run that an emulated accelerator paces."""
        return self.running("run", *self.plan, "--pace", 400, "--seconds", 3600)

    def top(self, *args):
        return millrace("top", *args, env=self.env)

    def test_once_prints_the_figures_since_the_beginning(self):
        with self.run_plan() as program:
            done = self.top(program.pid, "--once")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], rf"^run {program.pid} fashion_mnist_train ")
        names = [line.split()[0] for line in lines if line[0] != " "]
        for name in ("samples/s", "verdict", "waits", "workers", "reads", "memory"):
            self.assertIn(name, names)
        self.assertLessEqual(max(map(len, lines)), 80)

    def test_json_is_an_object_for_each_look(self):
        with self.run_plan() as program:
            once = json.loads(self.top("--once", "--json").stdout)
            command = [BIN, "top", "--json", "--every", "0.1"]
            with subprocess.Popen(command, env={**os.environ, **self.env}, text=True,
                                  stdout=subprocess.PIPE) as top:
                looks = [json.loads(top.stdout.readline()) for _ in range(3)]
                top.terminate()
                self.assertEqual(top.wait(TIMEOUT), 0)
        self.assertEqual(once["pid"], program.pid)
        self.assertEqual(once["command"], "run")
        self.assertEqual(once["asked_samples_per_second"], 400)
        elapsed = [look["ranks"][0]["profile"]["elapsed_ns"] for look in looks]
        self.assertEqual(elapsed, sorted(elapsed))
        self.assertGreater(elapsed[-1], 0)

    def test_a_terminal_is_redrawn_and_given_back(self):
        for key in (b"q", b"\x03"):
            with self.run_plan() as program, Terminal("top", "--every", "0.1",
                                                      env=self.env) as top:
                top.wait_for_text(r"^samples/s +[1-9].* of 400 ")
                first = top.screen.lines()[0]
                top.wait_for(lambda screen: screen.lines()[0] != first, "a second screen")
                self.assertFalse(top.screen.cursor_shown)
                self.assertIn("q quits", top.screen.text())
                self.assertIn(f"run {program.pid} ", first)
                top.type(key)
                self.assertEqual(top.end(), 0)
                self.assertTrue(top.is_restored())

    def test_a_stopped_top_gives_the_terminal_back_meanwhile(self):
        with self.run_plan(), Terminal("top", "--every", "0.1", env=self.env) as top:
            top.wait_for_text("q quits")
            top.type(b"\x1a")
            os.waitpid(top.process.pid, os.WUNTRACED)
            top.wait_for(lambda _: top.is_restored(), "the terminal")
            os.kill(top.process.pid, signal.SIGCONT)
            top.wait_for(lambda screen: not screen.cursor_shown, "the screen")
            top.type(b"q")
            self.assertEqual(top.end(), 0)
            self.assertTrue(top.is_restored())

    def test_w_shows_what_changes_would_bring_and_the_figures_again(self):
        with self.run_plan(), Terminal("top", "--every", "0.1", env=self.env) as top:
            top.wait_for_text("^workers ")
            self.assertIn("w what if", top.screen.text())
            top.type(b"w")
            top.wait_for_text(r"^what if +samples/s +gain  by$")
            top.wait_for_text(r"^consumer twice as fast +[\d,.]+ +\+\d+ %")
            self.assertNotRegex(top.screen.text(), "(?m)^workers ")
            self.assertIn("w figures", top.screen.text())
            top.type(b"w")
            top.wait_for_text("^workers ")
            self.assertNotRegex(top.screen.text(), "(?m)^what if ")

    def test_t_writes_a_trace(self):
        folder = pathlib.Path(self.runtime.name)
        with self.run_plan() as program, \
                Terminal("top", "--every", "0.1", "--trace-seconds", "0.2", env=self.env,
                         cwd=folder) as top:
            top.wait_for_text("^samples/s +[1-9]")
            top.type(b"t")
            name = f"millrace-trace-{program.pid}.json"
            top.wait_for_text(f"^wrote {name}$")
        events = json.loads((folder / name).read_text())["traceEvents"]
        names = {event["name"] for event in events}
        self.assertLessEqual({"batch", "process", "ready batches"}, names)
        processes = [event["args"]["name"] for event in events if event["name"] == "process_name"]
        self.assertEqual(processes, ["rank 0"])

    def test_a_program_that_writes_a_trace_is_not_traced_again(self):
        trace = ["--trace", self.folder / "own.json", "--trace-seconds", 3600]
        with self.running("run", *self.plan, "--pace", 400, "--seconds", 3600, *trace), \
                Terminal("top", "--every", "0.1", env=self.env, cwd=self.runtime.name) as top:
            top.wait_for_text("^samples/s ")
            top.type(b"t")
            top.wait_for_text(r"^no trace: the program writes a trace itself \(--trace\)$")
        self.assertEqual(list(pathlib.Path(self.runtime.name).glob("millrace-trace*")), [])

    def test_a_training_and_its_replicas_can_be_traced(self):
        folder = pathlib.Path(self.runtime.name)
        with self.running(*self.train("--replicas", 2)) as program, \
                Terminal("top", program.pid, "--every", "0.1", "--trace-seconds", "0.2",
                         env=self.env, cwd=folder) as top:
            top.wait_for_text("^ranks +2 of 2 here ")
            top.type(b"t")
            top.wait_for_text("^wrote millrace-trace-")
        text = (folder / f"millrace-trace-{program.pid}.json").read_text()
        processes = {event["args"]["name"] for event in json.loads(text)["traceEvents"]
                     if event["name"] == "process_name"}
        self.assertEqual(processes, {"rank 0", "rank 1"})

    def test_the_end_of_the_program_is_said_and_its_socket_removed(self):
        with self.run_plan() as program, Terminal("top", "--every", "0.1", env=self.env) as top:
            top.wait_for_text("^samples/s ")
            program.kill()
            self.assertEqual(top.end(), 0)
            self.assertIn(f"run {program.pid} fashion_mnist_train has ended", top.screen.text())
            self.assertTrue(top.is_restored())
            self.assertEqual(self.sockets_of(program.pid), [])

    def test_a_stale_socket_is_ignored_and_removed(self):
        with self.run_plan() as program:
            program.kill()
            program.wait()
            self.assertEqual(len(self.sockets_of(program.pid)), 1)
            done = self.top()
            self.assertEqual(done.returncode, 1)
            self.assertIn("no `millrace run` or `millrace train` of this user runs here",
                          done.stderr)
            self.assertEqual(self.sockets_of(program.pid), [])

    def test_a_run_that_ends_removes_its_socket(self):
        done = millrace("run", *self.plan, "--batches", 2, env=self.env)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(list(self.sockets.iterdir()), [])

    def test_several_programs_are_listed_and_chosen_by_number(self):
        with self.run_plan() as one, self.run_plan() as other:
            for args in ((), ("fashion_mnist_train",)):
                listed = self.top(*args)
                self.assertEqual(listed.returncode, 0, listed.stderr)
                for program in (one, other):
                    self.assertRegex(listed.stdout, rf"(?m)^ *{program.pid}  fashion_mnist_train ")
            chosen = json.loads(self.top(other.pid, "--once", "--json").stdout)
            self.assertEqual(chosen["pid"], other.pid)
            self.assertEqual(self.top("no_such_name").returncode, 1)

    def test_ranks_of_one_run_are_shown_together(self):
        args = ["run", *self.plan, "--pace", 400, "--seconds", 3600, "--world", 2]
        with self.running(*args, "--rank", 1), self.running(*args, "--rank", 0):
            done = self.top("fashion_mnist_train", "--once")
        self.assertRegex(done.stdout, r"(?m)^ranks +2 of 2 here ")

    def test_a_stopped_program_is_told_from_one_that_has_ended(self):
        with self.run_plan() as program, Terminal("top", "--every", "0.1", env=self.env) as top:
            top.wait_for_text("^samples/s ")
            program.send_signal(signal.SIGSTOP)
            top.wait_for_text("^no answer for .* the program may be stopped")
            program.send_signal(signal.SIGCONT)
            top.wait_for(lambda screen: "no answer" not in screen.text(), "an answer")

    def test_where_there_is_no_terminal_each_look_is_a_line(self):
        with self.run_plan():
            command = [BIN, "top", "--every", "0.1"]
            with subprocess.Popen(command, env={**os.environ, **self.env}, text=True,
                                  stdout=subprocess.PIPE) as top:
                lines = [top.stdout.readline() for _ in range(3)]
                top.send_signal(signal.SIGINT)
                self.assertEqual(top.wait(TIMEOUT), 0)
        for line in lines:
            self.assertRegex(line, r"^00:\d\d:\d\d  .* batches  .* samples/s  AU .*  waits ")
            self.assertNotIn("\x1b", line)

    def test_a_folder_that_others_may_use_is_refused_but_the_run_goes_on(self):
        self.sockets.mkdir(mode=0o777)
        self.sockets.chmod(0o777)
        done = millrace("run", *self.plan, "--batches", 2, env=self.env)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("warning: `millrace top` cannot show this program: ", done.stderr)
        self.assertIn("other users may use it", done.stderr)
        refused = self.top()
        self.assertEqual(refused.returncode, 1)
        self.assertIn("other users may use it", refused.stderr)

    def test_a_client_that_does_not_read_holds_up_nobody(self):
        with self.run_plan() as program:
            clients = [socket.socket(socket.AF_UNIX) for _ in range(20)]
            for client in clients:
                client.connect(str(self.sockets_of(program.pid)[0]))
            self.assertEqual(self.top("--once").returncode, 0)
            program.terminate()
            program.wait(TIMEOUT)
            for client in clients:
                client.close()

    def test_run_shows_the_screen_of_top_and_takes_it_off(self):
        with Terminal("run", *self.plan, "--pace", 400, "--batches", 100, "--top",
                      env=self.env) as run:
            run.wait_for_text("^samples/s ")
            self.assertEqual(run.end(), 0)
        text = run.screen.text()
        self.assertIn("emulated accelerator", text)
        self.assertNotIn("verdict ", text)

    def test_an_interrupted_run_takes_its_screen_off(self):
        with Terminal("run", *self.plan, "--pace", 400, "--seconds", 3600, "--top",
                      env=self.env) as run:
            run.wait_for_text("^samples/s ")
            run.type(b"\x03")
            self.assertEqual(run.end(), -signal.SIGINT)
            self.assertEqual(run.screen.text().strip(), "")

    def train(self, *more):
        job = pathlib.Path(self.runtime.name) / "job.pbtxt"
        job.write_text(JOB.format(examples=EXAMPLES))
        return ["train", job, *self.data, *more]

    def test_the_lines_of_a_training_stand_above_its_screen(self):
        with Terminal(*self.train("--top"), env=self.env) as train:
            train.wait_for_text("^training +loss ")
            train.wait_for_text(r"(?s)^step \d+/.*\n\ntrain .*^training +loss ")
            train.process.send_signal(signal.SIGTERM)
            self.assertEqual(train.end(), 1)
        text = train.screen.text()
        self.assertRegex(text, r"stopped after step \d+")
        self.assertNotIn("verdict ", text)

    def test_a_training_with_its_replicas_can_be_asked(self):
        with self.running(*self.train("--replicas", 2)) as program:
            def look():
                found = self.top(program.pid, "--once", "--json")
                return found.returncode == 0 and json.loads(found.stdout)
            wait_for(lambda: len((look() or {"ranks": []})["ranks"]) == 2, "both ranks")
            wait_for(lambda: look()["ranks"][0]["steps"]["steps"] > 0, "a step")
            seen = look()
        self.assertEqual([rank["rank"] for rank in seen["ranks"]], [0, 1])
        self.assertEqual(seen["command"], "train")
        self.assertEqual(seen["world"], 2)
        self.assertGreater(seen["ranks"][0]["steps"]["samples"], 0)
        self.assertEqual(*[rank["host"] for rank in seen["ranks"]])  # the shares of one process

    def test_screens_are_parsed_as_a_terminal_does(self):
        screen = Screen(columns=4, rows=2)
        screen.feed(b"abcde\r\nx\x1b[A\x1b[")
        screen.feed(b"Ky\x1b[H\x1b[J")
        self.assertEqual(screen.lines(), ["", ""])


if __name__ == "__main__":
    unittest.main()
