#!/usr/bin/env python3
"""Tests of scripts/count_tests.py and say-test-data.sh, and of the first on the output of a real
ctest run."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import count_tests  # noqa: E402


def gtest_lines(**cases):
    lines = []
    for name, verdict in cases.items():
        lines.append(f"[ RUN      ] Suite.{name}")
        if verdict:
            lines.append(f"[{verdict:>10}] Suite.{name} (0 ms)")
    return "\n".join(lines) + "\n[==========] done\n"


class CountTestsTest(unittest.TestCase):
    def count(self, *testcases):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "junit.xml")
            path.write_text("<testsuite>" + "".join(testcases) + "</testsuite>", encoding="utf-8")
            return count_tests.count_files([path])

    @staticmethod
    def case(output="", status="run", inside=""):
        return (f'<testcase name="x" status="{status}">{inside}'
                f"<system-out>{output}</system-out></testcase>")

    def test_cases_are_counted_and_not_programs(self):
        output = gtest_lines(A="OK ", B="OK ", C="SKIPPED ")
        self.assertEqual([2, 0, 1], self.count(self.case(output)))

    def test_a_failed_case_counts_once_though_listed_twice(self):
        output = gtest_lines(A="OK ", B="FAILED ") + "[  FAILED  ] Suite.B\n"
        self.assertEqual([1, 1, 0], self.count(self.case(output, "fail", "<failure/>")))

    def test_parametrised_and_typed_names_are_names(self):
        output = ("[ RUN      ] P/Suite.Case/0\n[       OK ] P/Suite.Case/0 (1 ms)\n"
                  "[ RUN      ] P/Suite.Case/1\n"
                  "[  FAILED  ] P/Suite.Case/1, where GetParam() = 2 (1 ms)\n")
        self.assertEqual([1, 1, 0], self.count(self.case(output, "fail", "<failure/>")))

    def test_a_crash_fails_the_case_under_way(self):
        output = gtest_lines(A="OK ", B="")
        self.assertEqual([1, 1, 0], self.count(self.case(output, "fail", "<failure/>")))

    def test_a_failure_after_the_last_case_is_a_failure(self):
        output = gtest_lines(A="OK ")
        self.assertEqual([1, 1, 0], self.count(self.case(output, "fail", "<failure/>")))

    def test_two_ranks_count_once(self):
        output = gtest_lines(A="OK ") + gtest_lines(A="OK ")
        self.assertEqual([1, 0, 0], self.count(self.case(output)))

    def test_programs_without_cases_count_as_one(self):
        self.assertEqual([1, 1, 0], self.count(
            self.case("fine"), self.case("bad", "fail", "<failure/>")))

    def test_a_program_that_could_not_run_has_failed(self):
        self.assertEqual([0, 1, 0], self.count(self.case(
            "", "notrun", '<skipped message="Unable to find executable: x"/>')))

    def test_skips_by_return_code_and_disabled_tests_are_skipped(self):
        self.assertEqual([0, 0, 2], self.count(
            self.case("", "notrun", '<skipped message="SKIP_RETURN_CODE=77"/>'),
            self.case("", "disabled")))

    def test_cases_of_unittest_are_counted(self):
        output = ("test_a (m.T.test_a) ... ok\n"
                  "test_b (m.T.test_b)\nSays what it does. ... skipped 'no data'\n"
                  "test_c (m.T) ... printed\nok\n"
                  "test_d (m.T.test_d) ... \n  test_d (m.T.test_d) (i=1) ... FAIL\n"
                  "test_e (m.T.test_e) ... ERROR\n"
                  "test_f (m.T.test_f) ... expected failure\n")
        self.assertEqual([3, 2, 1], self.count(self.case(output, "fail", "<failure/>")))

    def test_a_hang_of_unittest_fails_the_case_under_way(self):
        output = "test_a (m.T.test_a) ... ok\ntest_b (m.T.test_b) ... "
        self.assertEqual([1, 1, 0], self.count(self.case(output, "fail", "<failure/>")))

    def test_a_real_unittest_is_understood(self):
        text = ("import unittest\nclass T(unittest.TestCase):\n"
                " def test_a(self): 'Says so.'\n"
                " def test_b(self): self.skipTest('nothing there')\n"
                " def test_c(self):\n  with self.subTest(i=1): self.fail()\n"
                "@unittest.skip('never')\nclass U(unittest.TestCase):\n def test_d(self): pass\n")
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "m.py").write_text(text, encoding="utf-8")
            done = subprocess.run([sys.executable, "-m", "unittest", "-v", "m"], cwd=folder,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  check=False)
        self.assertEqual((1, 1, 2), count_tests.count_cases(done.stdout, True))

    def test_a_file_that_skips_itself_is_skipped(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "m_test.py").write_text(
                "import unittest\nraise unittest.SkipTest('nothing there')\n", encoding="utf-8")
            done = subprocess.run([sys.executable, "-m", "unittest", "discover", "-v", "-p",
                                   "m_test.py"], cwd=folder, capture_output=True, text=True,
                                  check=False)
            printed = pathlib.Path(folder, "printed.txt")
            printed.write_text(done.stderr, encoding="utf-8")
            self.assertEqual([0, 0, 1], count_tests.count_files([str(printed)]))

    def test_what_was_skipped_for_want_of_test_data_is_said(self):
        skip = "a_test.cc:7: Skipped\nMILLRACE_TEST_DATA is not set\n\n"
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "junit.xml")
            path.write_text(self.case(skip + skip + "b.cc:1: Skipped\nno GPU\n"), encoding="utf-8")

            def said(data):
                environment = {**os.environ, "MILLRACE_TEST_DATA": data}
                return subprocess.run([ROOT / "scripts" / "say-test-data.sh", path], text=True,
                                      env=environment, stdout=subprocess.PIPE, check=True).stdout

            self.assertIn("MILLRACE_TEST_DATA IS NOT SET: 2 of the skipped cases", said(""))
            self.assertEqual("", said("/data"))

    def test_real_ctest_output_is_understood(self):
        with tempfile.TemporaryDirectory() as folder:
            ok = "import sys; print('[ RUN      ] S.A\\n[       OK ] S.A (0 ms)'); sys.exit({})"
            lines = [f'add_test(good "{sys.executable}" "-c" "{ok.format(0)}")',
                     f'add_test(bad "{sys.executable}" "-c" "{ok.format(1)}")',
                     f'add_test(skip "{sys.executable}" "-c" "{ok.format(77)}")',
                     'set_tests_properties(skip PROPERTIES SKIP_RETURN_CODE 77)',
                     'add_test(absent "/no/such/program")']
            # ctest reads \\n as a newline inside a quoted argument, Python as part of its literal.
            text = "\n".join(lines).replace("\\n", "\\\\n")
            pathlib.Path(folder, "CTestTestfile.cmake").write_text(text, encoding="utf-8")
            junit = os.path.join(folder, "junit.xml")
            subprocess.run(["ctest", "--test-dir", folder, "--output-junit", junit],
                           check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.assertEqual([2, 2, 1], count_tests.count_files([junit]))


if __name__ == "__main__":
    unittest.main()
