#!/usr/bin/env python3
"""Tests of bench/peers: turns, tables, the chart and why peers are skipped; no peer is needed."""
import io
import pathlib
import sys
import tarfile
import tempfile
import unittest
import xml.etree.ElementTree
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "peers"))
import chart  # noqa: E402
import ddp  # noqa: E402
import goals  # noqa: E402
import install  # noqa: E402
import torch_rows  # noqa: E402
import train_path  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def turns(figures):
    """Takes the turns of {name: list of values or Skips}, one after the other."""
    left = {name: iter(values) for name, values in figures.items()}

    def take(name):
        value = next(left[name])
        if isinstance(value, Exception):
            raise value
        return value, "1.0"

    return take


class TurnsTest(unittest.TestCase):
    def setUp(self):
        self.enterContext(mock.patch("sys.stderr", io.StringIO()))

    def test_loaders_take_turns_and_the_figures_are_medians_by_that_of_raw_decode(self):
        order = []
        take = turns({"raw": [100, 300, 200], "millrace": [900, 300, 400]})
        rows = train_path.measure(["raw", "millrace"], 3,
                                  lambda name: (order.append(name), take(name))[1])
        self.assertEqual(["raw", "millrace"] * 3, order)
        self.assertEqual((200, 1.0, 1.0), train_path.figures(rows["raw"], rows))
        self.assertEqual((400, 2.0, 1.5), train_path.figures(rows["millrace"], rows))
        self.assertIn("| 400 | 2.00 | 150% |", train_path.table(rows))

    def test_a_loader_that_fails_once_is_skipped_with_the_reason_and_the_others_go_on(self):
        rows = train_path.measure(["raw", "dali", "pillow"], 2, turns({
            "raw": [100, 100], "dali": [50, train_path.Skip("no | memory")], "pillow": [25, 25]}))
        self.assertIsNone(train_path.figures(rows["dali"], rows))
        self.assertEqual(25, train_path.figures(rows["pillow"], rows)[0])
        self.assertIn("| skipped: no \\| memory | | |", train_path.table(rows))

    def test_without_raw_decode_there_is_no_ratio(self):
        for names in (["pillow"], ["raw", "pillow"]):
            rows = train_path.measure(names, 1, turns({"raw": [train_path.Skip("gone")],
                                                       "pillow": [25]}))
            self.assertEqual((25, None, 0), train_path.figures(rows["pillow"], rows))
            self.assertIn("| 25 |  | 0% |", train_path.table(rows))
            xml.etree.ElementTree.fromstring(train_path.chart(rows, ["today"]))

    def test_a_program_that_fails_hangs_lacks_or_prints_nonsense_is_a_skip_that_says_so(self):
        def skip(*command, timeout=60):
            with self.assertRaises(train_path.Skip) as caught:
                train_path.last_json(train_path.run(command, timeout))
            return str(caught.exception)

        python = (sys.executable, "-c")
        self.assertEqual("ModuleNotFoundError: No module named 'no_such_peer'",
                         skip(*python, "import no_such_peer"))
        self.assertEqual("no end after 0.1 s", skip("sleep", "600", timeout=0.1))
        self.assertIn("No such file", skip(ROOT / "no_such_program"))
        self.assertIn("'nonsense'", skip(*python, "print('nonsense')"))
        self.assertIn("no figures", skip(*python, ""))

    def test_a_peer_that_could_not_be_installed_is_skipped_with_the_reason(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "dali.failed").write_text("ERROR: no network", encoding="utf-8")
            with mock.patch.object(train_path, "STATE", pathlib.Path(folder)):
                with self.assertRaisesRegex(train_path.Skip, "not installed: ERROR: no network"):
                    train_path.turn("dali", pathlib.Path(folder), None)

    def test_files_are_unpacked_into_folders_by_class(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            with tarfile.open(folder / "images.tar", "w") as tar:
                for member, data in (("000.jpg", b"a"), ("000.cls", b"7"), ("001.jpg", b"b"),
                                     ("001.cls", b"12")):
                    info = tarfile.TarInfo(member)
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
            train_path.unpack(folder / "images.tar", folder / "files")
            self.assertEqual(
                {"0007/000.jpg": b"a", "0012/001.jpg": b"b"},
                {str(path.relative_to(folder / "files")): path.read_bytes()
                 for path in (folder / "files").rglob("*.jpg")})


class InstallTest(unittest.TestCase):
    def test_the_reason_is_the_last_error_else_the_last_line(self):
        self.assertEqual("ERROR: b", install.reason("ERROR: a\nERROR: b\n\nnotice: c\n"))
        self.assertEqual("c", install.reason("a\nc\n"))
        self.assertEqual("it said nothing", install.reason("\n"))

    def test_a_peer_is_installed_once_and_a_failure_is_kept_until_it_works(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch("sys.stderr", io.StringIO()), \
                mock.patch.object(install, "STATE", pathlib.Path(folder)):
            failed = pathlib.Path(folder, "dali.failed")
            with mock.patch.object(install, "PIP", [sys.executable, "-c", "raise OSError('off')"]):
                self.assertEqual("OSError: off", install.install("dali"))
                self.assertEqual("OSError: off", failed.read_text(encoding="utf-8"))
            with mock.patch.object(install, "PIP", [sys.executable, "-c", ""]):
                self.assertIsNone(install.install("dali"))
                self.assertFalse(failed.exists())
            with mock.patch.object(install, "PIP", ["no_such_pip"]):
                self.assertIsNone(install.install("dali"))

    def test_every_row_has_its_requirements_and_every_version_is_pinned(self):
        for peer in {peer for _, _, peer in train_path.ROWS.values() if peer}:
            lines = (install.REQUIREMENTS / f"{peer}.txt").read_text(encoding="utf-8").splitlines()
            for line in lines:
                if not line.startswith(("#", "--extra-index-url")):
                    self.assertRegex(line, r"^[\w-]+==[\d.]+$")


class ChartTest(unittest.TestCase):
    BARS = [("limit", 400.0, "400", "limit"), ("a <b> & c", 100.0, "100", "own"),
            ("gone", None, "skipped", "peer")]

    def setUp(self):
        self.svg = xml.etree.ElementTree.fromstring(
            chart.bar_chart("t & u", "s", "images per second", self.BARS, ["machine", "<date>"]))

    def texts(self):
        return [text.text for text in self.svg.iter(f"{SVG}text")]

    def test_it_is_well_formed_and_names_axes_machine_and_date(self):
        for words in ("t & u", "s", "a <b> & c", "skipped", "images per second", "machine", "<date>"):
            self.assertIn(words, self.texts())

    def test_bars_are_as_long_as_their_values_say_and_a_skipped_row_has_none(self):
        widths = {bar.get("class"): float(bar.get("width")) for bar in self.svg.iter(f"{SVG}rect")}
        self.assertAlmostEqual(widths["limit"], 4 * widths["own"], delta=0.5)
        self.assertNotIn("peer", widths)

    def test_the_axis_begins_at_zero_and_reaches_the_longest_bar(self):
        for largest in (0.7, 3, 400, 3012, 81_234):
            step = chart.axis_step(largest)
            self.assertTrue(2 < largest / step <= 8, (largest, step))
        self.assertIn("0", self.texts())
        self.assertIn("400", self.texts())

    def test_everything_lies_inside_the_picture_with_the_names_there_are(self):
        rows = {name: {"values": [100.0], "version": "1.0"} for name in train_path.ROWS}
        svg = xml.etree.ElementTree.fromstring(train_path.chart(rows, ["machine"]))
        for text in svg.iter(f"{SVG}text"):
            # Of a label that ends at x: a letter of 13 px is about 7 px wide.
            left = len(text.text) * 7 if text.get("text-anchor") == "end" else 0
            self.assertTrue(left <= float(text.get("x")) <= chart.WIDTH, text.text)
            self.assertTrue(0 <= float(text.get("y")) <= float(svg.get("height")))

    def test_the_packages_that_ran_are_named_with_their_versions(self):
        rows = {"raw": {"values": [9], "version": ""}, "dali": {"values": [3], "version": "2.4"},
                "torchvision": {"values": [2], "version": "2.15"},
                "pillow": {"values": [1], "version": "2.15"}, "tf.data": {"skipped": "gone"}}
        self.assertEqual(["DALI 2.4, PyTorch 2.15"], train_path.versions(rows))
        self.assertEqual([], train_path.versions({"tf.data": {"skipped": "gone"}}))

    def test_nothing_to_show_is_a_chart_too(self):
        xml.etree.ElementTree.fromstring(chart.bar_chart("t", "s", "x", self.BARS[2:], []))


def row_of(name, value, limit, **more):
    return {"name": name, "value": value, "unit": "us", "limit": limit, "ratio": value / limit,
            "value_spread": 0.1, "limit_spread": 0.2, "repeats": 3} | more


class GoalsTest(unittest.TestCase):
    def measure(self, *benches, names=None):
        with mock.patch.object(goals, "ROWS", benches):
            return goals.measure(names, 3, lambda row: None)

    def test_every_goal_has_a_row_and_is_described(self):
        described = (ROOT / "bench" / "rows.md").read_text(encoding="utf-8")
        self.assertEqual(list(goals.BARS), [row.__name__ for row in goals.ROWS])
        for name in goals.BARS:
            self.assertIn(f"**`{name}`**", described)

    def test_a_goal_that_is_missed_says_so(self):
        def python_batch(repeats):
            return row_of("python_batch", value, 0.5)

        for value, word in ((2.9, "<= 3 us: met"), (3.1, "<= 3 us: **missed**")):
            rows = self.measure(python_batch)
            self.assertIn(word, goals.table(rows, "goal"))
        self.assertEqual("0 of 1 goals met, 1 missed, 0 not told", goals.counts(rows, "goals"))

    def test_a_row_that_cannot_be_measured_says_why_and_the_others_go_on(self):
        def torch_rate(repeats):
            raise torch_rows.Skip("no | torch")

        def python_open(repeats):
            return row_of("python_open", 1, 5, note="a | b")

        rows = self.measure(torch_rate, python_open)
        self.assertIn("| skipped: no \\| torch | | | | ratio >= 0.99: not measured |",
                      goals.table(rows, "goal"))
        self.assertIn("1 us; a \\| b |", goals.table(rows, "goal"))
        self.assertEqual("1 of 2 goals met, 0 missed, 1 not told", goals.counts(rows, "goals"))
        self.assertEqual(1, len(self.measure(torch_rate, python_open, names=["python_open"])))

    def test_the_best_of_the_peers_is_the_limit(self):
        figures = {"millrace.torch": [300, 310, 290], "dali": [90, 99, 95],
                   "tf.data": [100, 98, 101]}
        rows = {name: {"values": values} for name, values in figures.items()}
        row = torch_rows.peers_row(rows)
        self.assertEqual((300, 100), (row["value"], row["limit"]))
        self.assertEqual("dali 95; tf.data 100", row["note"])
        self.assertIs(True, torch_rows.BARS["torch_peers"][1](row))

    def test_beside_a_peer_that_did_not_run_the_goal_is_not_told_but_may_be_missed(self):
        def met(own):
            return torch_rows.BARS["torch_peers"][1](torch_rows.peers_row(
                {"millrace.torch": {"values": [own]}, "dali": {"skipped": "gone"},
                 "tf.data": {"values": [100]}}))

        self.assertIsNone(met(400))
        self.assertIs(False, met(200))
        with self.assertRaisesRegex(torch_rows.Skip, "dali skipped: gone"):
            torch_rows.peers_row({"millrace.torch": {"values": [1]}, "dali": {"skipped": "gone"}})

    def test_sums_of_gradients_are_compared_by_what_they_add_to_their_turn(self):
        seconds = {"none": [0.03, 0.13, 0.05], "gloo": [0.13, 0.23, 0.15],
                   "hook": [0.08, 0.18, 0.10], "own": [0.05, 0.15, 0.07]}
        self.assertAlmostEqual(0.02, ddp.added_seconds(seconds)["own"][1])
        self.assertAlmostEqual(0.5, torch_rows.gradient_row("hook", seconds)["ratio"])
        self.assertAlmostEqual(0.2, torch_rows.gradient_row("own", seconds)["ratio"])

    def test_the_document_has_the_marks_of_the_table(self):
        text = (ROOT / "bench" / "README.md").read_text(encoding="utf-8")
        self.assertTrue(all(text.count(mark) == 1 for mark in goals.MARKS))


class PublishTest(unittest.TestCase):
    def publish(self, text):
        with tempfile.TemporaryDirectory() as name:
            document = pathlib.Path(name, "README.md")
            document.write_text(text, encoding="utf-8")
            train_path.publish("new\n", document, pathlib.Path(name, "x.svg"), "<svg/>")
            return document.read_text(encoding="utf-8")

    def test_only_what_lies_between_the_marks_is_replaced(self):
        begin, end = train_path.MARKS
        self.assertEqual(f"a\n{begin}new\n{end}b\n", self.publish(f"a\n{begin}old\nold\n{end}b\n"))

    def test_a_document_without_the_marks_is_left_alone(self):
        for text in ("a\n", train_path.MARKS[0] + "a\n", train_path.MARKS[1] + "a\n"):
            with self.assertRaisesRegex(ValueError, "marks"):
                self.publish(text)

    def test_the_document_that_is_published_into_has_the_marks(self):
        text = (ROOT / "bench" / "README.md").read_text(encoding="utf-8")
        self.assertTrue(all(text.count(mark) == 1 for mark in train_path.MARKS))


if __name__ == "__main__":
    unittest.main()
