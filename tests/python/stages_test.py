"""The generated stages: that they are current, that the library knows them as they are, and that
their calls read well."""
import enum
import inspect
import os
import pathlib
import sys
import tempfile
import unittest

import millrace as mr
from millrace import _core, _sources, _stages, _text, _values

ROOT = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"])
sys.path.insert(0, str(ROOT / "python"))

from generate import schema, stages  # noqa: E402

STAGES, SCHEMA, CLASSES = _stages.STAGES, _values.SCHEMA, _values.CLASSES


def function_of(op):
    """Returns the method or function that adds a stage."""
    return getattr(_stages.StageMethods, op, None) or getattr(_sources, op)


def samples(option):
    """Returns values of an option's type, at its ends and of every kind."""
    kind = option.type
    if kind in CLASSES and issubclass(CLASSES[kind], enum.Enum):
        values = list(CLASSES[kind])
    elif kind == "Pipeline":
        values = [mr.range(3), mr.tfrecord("a")]
    elif kind in CLASSES:
        # Every field is set, but one of alternatives.
        alternatives = [o for o in SCHEMA[kind] if o.group] or [None]
        values = [CLASSES[kind].of({
            o.name: samples(o)[-1] for o in SCHEMA[kind] if not o.group or o == chosen})
            for chosen in alternatives]
    else:
        values = {
            "bool": [True, False],
            "int64": [0, -1, 2 ** 63 - 1, -2 ** 63],
            "uint32": [0, 1, 2 ** 32 - 1],
            "uint64": [0, 1, 2 ** 64 - 1],
            "float": [0.0, 0.25, -1e-3, 3e38],
            "double": [0.0, 1 / 3, -1e-300, 1e300],
            "string": ["", "a", 'x "y" \\ \n ${z} \u00fc'],
            "path": ["a", "/b/{c,d}*"],
            "bytes": [b"", b"a\x00\xff\"\\$"],
        }[kind]
    return [(value,) for value in values] + [tuple(values)] if option.repeated else values


def each_option():
    """Yields (op, message, option) of all options of all stages."""
    for op, message in STAGES.items():
        for option in SCHEMA[message]:
            yield op, message, option


class GeneratedTest(unittest.TestCase):
    # With MILLRACE_REGENERATE=1 in the environment the files get the text that they should have.
    def test_files_are_current(self):
        for path, text in stages.modules(ROOT).items():
            if os.environ.get("MILLRACE_REGENERATE"):
                path.write_text(text)
            self.assertTrue(path.read_text() == text,
                            f"{path} is not current: run python/generate/stages.py .")

    def test_lines_are_not_too_long(self):
        for path, text in stages.modules(ROOT).items():
            for number, line in enumerate(text.splitlines(), 1):
                self.assertLessEqual(len(line), 100, f"{path}:{number}")

    def test_a_line_that_is_not_understood_is_refused(self):
        proto = (ROOT / "pipeline/pipeline.proto").read_text()
        with self.assertRaisesRegex(ValueError, "not understood: map<string, int32> m = 3;"):
            schema.ProtoReader("message A {\n  map<string, int32> m = 3;\n}\n")
        page = (ROOT / "docs/pipeline.md").read_text()
        with self.assertRaisesRegex(ValueError, "the table of flip does not have the options"):
            schema.read(proto, page.replace("| | `vertical`", "| | `vertcal`"))
        with self.assertRaisesRegex(ValueError, "the tables do not have the stages"):
            schema.read(proto.replace("Flip flip = 24;", "Flip flip = 24;\n    Flip flop = 25;"),
                        page)


class StagesTest(unittest.TestCase):
    def test_every_option_is_a_keyword_and_has_no_other_default_than_none(self):
        for op, message in STAGES.items():
            parameters = inspect.signature(function_of(op)).parameters
            names = [option.group or option.name for option in SCHEMA[message]]
            self.assertEqual({*names, "stage"}, {*parameters} - {"self"}, op)
            for parameter in parameters.values():
                self.assertIn(parameter.default, (None, parameter.empty))

    def test_no_stage_hides_another_name_of_a_plan(self):
        own = {name for name in dir(mr.Plan) if name not in dir(_stages.StageMethods)}
        methods = {op for op in STAGES if hasattr(_stages.StageMethods, op)}
        self.assertFalse(methods & own)
        self.assertEqual(set(STAGES), methods | {*_sources.__all__, "memory", "push"})
        for name in STAGES.keys() - methods:
            self.assertTrue(callable(getattr(mr, name)))
        for op in methods:
            self.assertIs(getattr(mr.Plan, op), getattr(_stages.StageMethods, op))

    def test_every_call_says_what_it_does(self):
        for op in STAGES:
            doc = inspect.getdoc(function_of(op))
            self.assertRegex(doc.split("\n\n")[0], r"(?s)^([A-Z(\d]|[xy] |ln\().*\.$", op)

    def test_values_of_every_option_come_back_from_the_text(self):
        values = 0
        for op, message, option in each_option():
            for value in samples(option):
                tree = _values.tree_of(message, {option.name: value})
                again = _values.fields_of(message, _text.parse(_text.write(tree)))
                self.assertEqual(again, {option.name: value}, f"{op}.{option.name}")
                values += 1
        self.assertGreater(values, 900)

    def test_the_library_has_every_option_with_its_type(self):
        for op, message, option in each_option():
            for value in samples(option):
                options = _text.write(_values.tree_of(message, {option.name: value}))
                text = f"stage {{ {op} {{ {options} }} }}"
                try:
                    _core.plan_from_text(text, "plan", {})
                except mr.PlanError as error:  # of the plan, not of the text
                    self.assertNotRegex(str(error), "is not a field|Expected|out of range|UTF-8|"
                                                    "is not a value|cannot be parsed", text)

    def test_the_library_has_no_option_more(self):
        """What it fills in is read, and so are all stages that it has."""
        with self.assertRaisesRegex(mr.PlanError, "did you mean") as caught:
            _core.plan_from_text("stage { flipp {} }", "plan", {})
        self.assertIn('"flip"', str(caught.exception))
        for plan in (mr.tfrecord("a").decode_image().random_resized_crop(2, 2, boxes=mr.boxes()),
                     mr.tfrecord("a").parse_example(mr.feature("a", int), mr.feature("b", bytes)),
                     mr.range(3).options(on_damage=mr.on_damage("skip"))):
            plan = plan.batch(2)
            text = plan.core().text()
            again = mr.Plan._of_own_text(text)
            self.assertEqual(_core.plan_from_text(again.text, "again", {}).text(), text)

    def test_an_option_that_only_the_text_has_is_not_dropped(self):
        with self.assertRaisesRegex(mr.PlanError, "knows no option later of Flip"):
            mr.Plan._of_own_text('stage { flip { field: "a" later: 3 } }')

    def test_calls_read_well(self):
        words = tempfile.NamedTemporaryFile("w", suffix=".txt")
        self.addCleanup(words.close)
        words.write("a\n")
        words.flush()
        images = mr.image_folder("train").decode_image()
        for plan, last in (
                (images.random_resized_crop(224, 224, (0.08, 1)),
                 "random_resized_crop { height: 224 width: 224 area: [0.08, 1.0] }"),
                (images.resize(shorter=256), "resize { shorter: 256 }"),
                (images.resize(32, 48), "resize { height: 32 width: 48 }"),
                (images.flip(0.3), "flip { probability: 0.3 }"),
                (images.flip(vertical=True), "flip { vertical: true }"),
                (images.brightness(0.4), "brightness { factor: 0.4 }"),
                (images.hue((-0.1, 0.1)), "hue { factor: [-0.1, 0.1] }"),
                (images.color_jitter(0.4, 0.4, 0.2, 0.1),
                 "color_jitter { brightness: 0.4 contrast: 0.4 saturation: 0.2 hue: 0.1 }"),
                (images.one_hot(10), "one_hot { depth: 10 }"),
                (images.label_smoothing(0.2), "label_smoothing { smoothing: 0.2 }"),
                (images.cast("image", "float16"), 'cast { field: "image" dtype: FLOAT16 }'),
                (images.transpose(), "transpose {}"),
                (images.pad(4, 4, 4, 4), "pad { top: 4 bottom: 4 left: 4 right: 4 }"),
                (images.batch(8).mixup(0.2, num_classes=10),
                 "mixup { alpha: 0.2 num_classes: 10 }"),
                (images.batch(8).take(3), "take { count: 3 }"),
                (images.batch(8).prefetch(2), "prefetch { batches: 2 }"),
                (mr.range(9).shuffle(5), "shuffle { buffer_size: 5 }"),
                (mr.range(9).shard(3, 1), "shard { num_shards: 3 index: 1 }"),
                (mr.range(9).window(3, 1), "window { size: 3 shift: 1 }"),
                (mr.range(9).filter("value > 2"), 'filter { predicate: "value > 2" }'),
                (mr.range(9).repeat(3), "repeat { epochs: 3 }"),
                (mr.range(9).log(["a", "b"]), 'log { field: ["a", "b"] }'),
                (mr.range(9).unbatch("tokens"), 'unbatch { field: "tokens" }'),
                (mr.text("a").vocabulary("record", words.name, oov_buckets=2),
                 f'vocabulary {{ field: "record" file: "{words.name}" oov_buckets: 2 }}'),
                (mr.tfrecord("a").interleave(16, 4),
                 "interleave { cycle_length: 16 block_length: 4 }"),
                (mr.tfrecord("a").bucket_by_length([9], [4, 2], field="tokens"),
                 'bucket_by_length { field: "tokens" boundary: 9 batch_size: [4, 2] }'),
                (mr.fixed_length("a", 16), 'fixed_length { files: "a" record_bytes: 16 }'),
                (mr.zip(mr.range(3), mr.range(4), field=["a", "b"]), 'field: ["a", "b"] }'),
                (mr.tfrecord(pathlib.Path("/data/a")), 'tfrecord { files: "/data/a" }')):
            self.assertTrue(plan.text.rstrip("} \n").endswith(last.rstrip("} ")), plan.text)


if __name__ == "__main__":
    unittest.main()
