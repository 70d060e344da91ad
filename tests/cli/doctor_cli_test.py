"""`millrace doctor`: the lines, the JSON and the exit codes, on this machine and on a fake driver."""

import json
import os
import pathlib
import re
import tempfile
import unittest

from cli_testutil import millrace

# No GPU, and libraries that are not there: the same on every machine.
BARE = {"MILLRACE_CUDA_LIBRARY": "/no/such/libcuda.so", "MILLRACE_NCCL_LIBRARY": "/no/such/nccl.so",
        "MILLRACE_CUDNN_LIBRARY": "/no/such/cudnn.so"}
LINE = re.compile(r"(OK  |WARN|FAIL|SKIP)  \S")
INDENT = " " * 22  # of lines below
COUNTS = re.compile(r"(\d+) ok, (\d+) warnings?, (\d+) failures?, (\d+) skipped")


def doctor(*args, **env):
    return millrace("doctor", "--seconds", "0.2", *args, env={**BARE, **env})


def checks(*args, **env):
    """The findings of --json by their names; each name is there once."""
    report = json.loads(doctor("--json", *args, **env).stdout)
    return {check["check"]: check for check in report["checks"]}


class DoctorTest(unittest.TestCase):
    def test_each_check_is_a_line_and_the_counts_are_right(self):
        done = doctor()
        *lines, last = done.stdout.splitlines()
        verdicts = [line.split()[0] for line in lines if LINE.match(line)]
        for line in lines:
            self.assertTrue(LINE.match(line) or line.startswith(INDENT), line)
        counts = COUNTS.fullmatch(last)
        self.assertTrue(counts, last)
        self.assertEqual([int(count) for count in counts.groups()],
                         [verdicts.count(verdict) for verdict in ("OK", "WARN", "FAIL", "SKIP")])
        self.assertIn("decoding", done.stdout)

    def test_json_has_the_lines_of_the_text(self):
        done = doctor("--json")
        report = json.loads(done.stdout)
        self.assertEqual(len(done.stdout.splitlines()), 1)
        self.assertEqual(report["ok"] + report["warnings"] + report["failures"] + report["skipped"],
                         len(report["checks"]))
        names = [check["check"] for check in report["checks"]]
        for name in ("cores", "shared memory", "decoding", "driver", "p2p", "nccl"):
            self.assertIn(name, names)
        text = doctor().stdout
        for name in names:
            self.assertRegex(text, rf"(?m)^(OK|WARN|FAIL|SKIP) +{re.escape(name)} ")
        decoding = next(check for check in report["checks"] if check["check"] == "decoding")
        self.assertGreater(decoding["numbers"]["images_per_second_per_core"], 0)

    def test_a_library_that_was_named_and_is_not_there_is_a_warning(self):
        found = checks()
        self.assertEqual(found["nccl"]["verdict"], "WARN")
        self.assertIn("/no/such/nccl.so (MILLRACE_NCCL_LIBRARY)", found["nccl"]["finding"])

    def test_a_fake_driver_has_two_devices_and_their_pairs(self):
        found = checks(MILLRACE_CUDA_LIBRARY=os.environ["MILLRACE_FAKE_CUDA"])
        self.assertIn("Fake GPU 1", found["device 1"]["finding"])
        self.assertEqual(found["p2p"]["verdict"], "OK")
        self.assertEqual(found["p2p"]["numbers"].keys(),
                         {"0_to_1_bytes_per_second", "1_to_0_bytes_per_second"})

    def test_a_failure_is_the_exit_code(self):
        fake = os.environ["MILLRACE_FAKE_CUDA"]
        done = doctor(MILLRACE_CUDA_LIBRARY=fake, FAKE_CUDA_SPOILS_PEERS="1")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^FAIL  p2p +bytes come wrong: 0 to 1, 1 to 0$")

    def test_data_is_read_and_a_path_that_is_not_there_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "a").write_bytes(bytes(1 << 20))
            found = checks("--data", folder)
            self.assertIn(found["data"]["verdict"], ("OK", "SKIP"))  # SKIP: read in no time
            self.assertIn("1 file, 1.0 MiB", found["data"]["finding"])
            done = doctor("--data", folder, "--data", folder + "/none")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"(?m)^FAIL  data +\S.*/none")

    def test_wrong_command_lines_are_usage_errors(self):
        for args in (["--seconds", "0"], ["--gpu-timeout", "1"], ["--data"], ["what"]):
            self.assertEqual(millrace("doctor", *args).returncode, 2, args)

    def test_help_names_it(self):
        self.assertRegex(millrace("--help").stdout, r"(?m)^ +doctor +Look at this machine")
        self.assertIn("--gpu-timeout", millrace("doctor", "--help").stdout)


if __name__ == "__main__":
    unittest.main()
