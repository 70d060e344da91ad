"""Plans as chains: their text, the places of mistakes, and the way from a plan file and back."""
import contextlib
import glob
import html
import io
import os
import pickle
import re
import subprocess
import sys
import tempfile
import unittest

import data
import millrace as mr
from millrace import _core

ROOT = os.environ["MILLRACE_SOURCE_DIR"]


def here():
    """Returns the number of the caller's line."""
    return sys._getframe(1).f_lineno


def imagenet():
    return (mr.tfrecord("/data/train-*.tfrecord").global_shuffle()
            .parse_example(mr.feature("image/encoded", bytes),
                           mr.feature("image/class/label", int, name="label"))
            .decode_image().random_resized_crop(224, 224, area=(0.1, 1)).flip()
            .normalize(mean=[123.675, 116.28, 103.53], stddev=[58.395, 57.12, 57.375])
            .batch(256).repeat().prefetch(2).options(seed=1))


IMAGENET = '''\
seed: 1
stage { tfrecord { files: "/data/train-*.tfrecord" } }
stage { global_shuffle {} }
stage { parse_example { feature { key: "image/encoded" dtype: BYTES } \
feature { key: "image/class/label" name: "label" dtype: INT64 } } }
stage { decode_image {} }
stage { random_resized_crop { height: 224 width: 224 area: [0.1, 1.0] } }
stage { flip {} }
stage { normalize { mean: [123.675, 116.28, 103.53] stddev: [58.395, 57.12, 57.375] } }
stage { batch { size: 256 } }
stage { repeat {} }
stage { prefetch { batches: 2 } }
'''

IMAGENET_PYTHON = '''\
(mr.tfrecord("/data/train-*.tfrecord")
 .global_shuffle()
 .parse_example(mr.feature("image/encoded", bytes),
                mr.feature("image/class/label", int, name="label"))
 .decode_image()
 .random_resized_crop(224, 224, area=[0.1, 1.0])
 .flip()
 .normalize([123.675, 116.28, 103.53], [58.395, 57.12, 57.375])
 .batch(256)
 .repeat()
 .prefetch(batches=2)
 .options(seed=1))'''


class TextTest(unittest.TestCase):
    def test_a_stage_is_a_line_with_what_was_given(self):
        self.assertEqual(imagenet().text, IMAGENET)

    def test_inputs_of_a_join_are_plans(self):
        evens = mr.range(10).shard(2, 0)
        plan = mr.mix(evens, mr.range(5, stage="odd"), weight=[2, 1]).batch(3)
        self.assertEqual(plan.text, '''\
stage { mix { input { stage { range { count: 10 } } stage { shard { num_shards: 2 index: 0 } } } \
input { stage { name: "odd" range { count: 5 } } } weight: [2.0, 1.0] } }
stage { batch { size: 3 } }
''')
        self.assertEqual(eval(plan.to_python(), {"mr": mr}), plan)

    def test_alternatives_are_one_keyword_whose_type_chooses(self):
        def default(dtype, value):
            return mr.text("a").parse_csv(mr.feature("x", dtype, default=value)).text

        self.assertIn("dtype: INT64 default_int: 7", default(int, 7))
        self.assertIn("dtype: FLOAT32 default_float: 7.0", default(float, 7))
        self.assertIn("dtype: FLOAT32 default_float: 0.5", default("float32", 0.5))
        self.assertIn('dtype: BYTES default_bytes: "a\\377"', default(mr.BYTES, b"a\xff"))
        padded = mr.range(5).padded_batch(2, padding=[mr.padding("a", -1), mr.padding("b", 0.5)])
        self.assertIn('padding { field: "a" int_value: -1 } '
                      'padding { field: "b" float_value: 0.5 }', padded.text)

    def test_words_of_types_are_those_of_python_and_numpy_too(self):
        class Dtype:  # as NumPy's
            name = "uint8"

        for dtype in ("uint8", "UINT8", mr.UINT8, Dtype()):
            self.assertIn("dtype: UINT8", mr.range(2).cast("value", dtype).text)
        # Python's float has 64 bits, NumPy's too; only records have no other than FLOAT32.
        with self.assertRaisesRegex(mr.PlanError, "dtype is <class 'float'> but must be one of"):
            mr.range(2).cast("value", float)

    def test_objects_of_the_program_are_no_part_of_the_text(self):
        for plan in (mr.push(mr.PushSource()).batch(2), mr.memory([b"a"], stage="m").batch(2)):
            self.assertEqual(eval(plan.to_python(), {"mr": mr}), plan)
            self.assertEqual(mr.Plan.from_text(plan.text), plan)

    def test_strings_come_back_whatever_is_in_them(self):
        for name in ('a"b', "a\\b", "tab\t line\n", "${DATA}/$x$$", "gr\u00fc\u00df/\u65e5\u672c",
                     "\x01\x7f", "it's", "a#b{c}"):
            plan = mr.tfrecord(name).batch(2)
            loaded = mr.Plan.from_text(plan.text)
            self.assertEqual(loaded._stages[0].fields["files"], (name,))
            self.assertEqual(loaded, plan)
            self.assertEqual(eval(loaded.to_python(), {"mr": mr}), plan)

    def test_numbers_come_back_as_they_are(self):
        for number in (0.1, 1e-30, 1e30, 1 / 3, -0.0, 123456789.0):
            plan = mr.range(2).scale("value", number).batch(2)
            loaded = mr.Plan.from_text(plan.text)
            self.assertEqual(loaded._stages[1].fields["factor"], (number,))
            self.assertIn(f".scale(\"value\", factor={number})", loaded.to_python())
        # A float of 32 bits is written with the digits that it needs.
        plan = mr.Plan.from_text(mr.range(2).normalize(113.8575, 1 / 3).batch(2).text)
        self.assertIn(".normalize(113.8575, 0.33333334)", plan.to_python())


class FileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.addCleanup(os.chdir, os.getcwd())

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_a_saved_plan_is_loaded_as_it_was(self):
        plan = imagenet()
        plan.save(self.path("train.pbtxt"))
        loaded = mr.load(self.path("train.pbtxt"))
        self.assertEqual(loaded, plan)
        self.assertEqual(loaded.fingerprint, plan.fingerprint)
        self.assertIn('random_resized_crop { field: "image" height: 224', loaded.text)

    def test_the_python_of_a_loaded_plan_is_the_chain(self):
        imagenet().save(self.path("train.pbtxt"))
        self.assertEqual(mr.load(self.path("train.pbtxt")).to_python(), IMAGENET_PYTHON)

    def test_the_example_of_the_documents_runs(self):
        os.chdir(self.folder)
        with open(f"{ROOT}/docs/python_plans.md", encoding="utf-8") as file:
            code = re.search("```python\n(.*?)```", file.read(), re.S)[1]
        shown = io.StringIO()
        names = {}
        with contextlib.redirect_stdout(shown):
            exec(code, names)
        self.assertEqual(eval(shown.getvalue(), names), names["plan"])

    def test_variables_get_their_values(self):
        with open(self.path("plan.pbtxt"), "w", encoding="utf-8") as file:
            file.write('stage { tfrecord { files: "${DATA}/a" skip_crc: ${SKIP} } }\n'
                       'stage { batch { size: ${BATCH:-7} } }\n')
        plan = mr.load(self.path("plan.pbtxt"), DATA="/data", BATCH=5, SKIP=True)
        self.assertEqual(plan, mr.tfrecord("/data/a", skip_crc=True).batch(5))
        with self.assertRaisesRegex(mr.PlanError, "plan.pbtxt:1:.*variable DATA is not set"):
            mr.load(self.path("plan.pbtxt"), SKIP=True)

    def test_relative_names_are_still_those_of_the_same_files(self):
        os.chdir(self.folder)
        os.makedirs("plans [1]/here")
        plan = mr.concatenate(
            mr.tfrecord(["a-*.tfrecord", "{b,c}.tfrecord", "list:names.txt", "/d", "https://e/f"]),
            mr.tfrecord("x")).batch(2)
        plan.save("plans [1]/p.pbtxt")
        loaded = mr.load("plans [1]/p.pbtxt")
        self.assertEqual(loaded._stages[0].fields["input"][0]._stages[0].fields["files"],
                         (f"{self.folder}/a-*.tfrecord", f"{self.folder}/{{b,c}}.tfrecord",
                          f"list:{self.folder}/names.txt", "/d", "https://e/f"))
        os.chdir("plans [1]")
        mr.tfrecord("x*").batch(2).save("here/p.pbtxt")
        self.assertEqual(mr.load("here/p.pbtxt")._stages[0].fields["files"],
                         (f"{self.folder}/plans \\[1\\]/x*",))

    def test_relative_names_stay_beside_their_plan(self):
        os.chdir(self.folder)
        plan = mr.tfrecord("a").batch(2)
        plan.save("p.pbtxt")
        self.assertEqual(mr.load("p.pbtxt"), plan)
        with open("p.pbtxt", encoding="utf-8") as file:
            self.assertEqual(file.read(), plan.text)


class MistakeTest(unittest.TestCase):
    def assertMistake(self, line, text):
        place = re.escape(f"{os.path.relpath(__file__)}:{line}: ")
        return self.assertRaisesRegex(mr.PlanError, f"^{place}{text}")

    def test_a_value_is_refused_at_the_line_of_its_stage(self):
        source = mr.tfrecord("a").decode_image()
        with self.assertMistake(here() + 1, r"stage 'resize': height is 0 but must be in \[1, 65"):
            source.resize(0, 224)
        with self.assertMistake(here() + 1, r"stage 'small': width is 99999 but must be in \[1"):
            source.resize(3, 99999, stage="small")

    def test_each_line_of_a_chain_is_its_own(self):
        with self.assertMistake(here() + 4, "stage 'flip': probability is 2 but must be in"):
            _ = (mr.tfrecord("a")
                 .decode_image()
                 .resize(2, 2)
                 .flip(2)
                 .batch(2))

    def test_a_stage_in_the_wrong_place_is_refused_where_it_is_added(self):
        first = here() + 1
        plan = mr.range(5).batch(2)
        there = re.escape(f"{os.path.relpath(__file__)}:{first}")
        with self.assertMistake(here() + 1, f"stage 'again': a second batch; .* at {there}"):
            plan.batch(3, stage="again")
        lanes = mr.range(5).options(lanes=4)
        with self.assertMistake(here() - 1, f"options: lanes is 4, .* at .*:{here() + 1}$"):
            lanes.batch(2)
        with self.assertMistake(here() + 1, "options: lanes is 4, which does not divide the 2"):
            plan.options(lanes=4)
        with self.assertMistake(here() + 1, "stage 'flip': the first stage must be a source"):
            mr.Plan().flip()

    def test_an_input_is_refused_where_it_is_joined(self):
        batches = mr.range(5).batch(2)
        with self.assertMistake(here() + 1, "stage 'concatenate': batch cannot stand in an input"):
            mr.concatenate(mr.range(3), batches)

    def test_a_chain_may_lack_its_last_stages(self):
        plan = mr.tfrecord("a").repeat().decode_image()
        last = here() + 1
        plan = plan.resize(2, 2)
        with self.assertMistake(last, "stage 'resize': no batch stage; add"):
            plan.check()
        with self.assertMistake(last, "stage 'resize': no batch stage; add"):
            plan.fingerprint
        plan.batch(3).check()

    def test_an_empty_plan_says_what_it_lacks(self):
        with self.assertRaisesRegex(mr.PlanError, "^plan: a plan needs stages"):
            mr.Plan().check()

    def test_numbers_that_no_field_holds_are_refused_at_once(self):
        with self.assertMistake(here() + 1, r"stage 'batch': size is -1 but must be in \[0, 184"):
            mr.range(5).batch(-1)
        with self.assertMistake(here() + 1, r"feature: shape is 9223372036854775808 but must be"):
            mr.feature("a", int, 2 ** 63)
        with self.assertMistake(here() + 1, r"stage 'text': files is '\\udcff', which is not"):
            mr.text("\udcff")
        with self.assertMistake(here() + 1, "feature: dtype is 'uint7' but must be one of BYTES,"):
            mr.feature("a", "uint7")

    def test_a_value_of_another_type_is_a_type_error(self):
        for call, text in (
                (lambda: mr.range("5"), "stage 'range': count must be an int, not str"),
                (lambda: mr.range(5.0), "stage 'range': count must be an int, not float"),
                (lambda: mr.range(True), "stage 'range': count must be an int, not bool"),
                (lambda: mr.csv("a", header=1), "stage 'csv': header must be a bool, not int"),
                (lambda: mr.text(5), "stage 'text': files must be a str or os.PathLike, not int"),
                (lambda: mr.range(5).flip("x"), "stage 'flip': probability must be a number, not"),
                (lambda: mr.range(5).filter(b"x"), "stage 'filter': predicate must be a str, not"),
                (lambda: mr.text("a").parse_csv({"key": "a"}), "must be a Feature, not dict"),
                (lambda: mr.mix("a"), "stage 'mix': input must be a Plan, not str"),
                (lambda: mr.padding("a", "b"), "padding: value must be a number, not str"),
                (lambda: mr.range(5).batch(2, stage=3), "batch: stage must be a str, not int"),
                (lambda: mr.range(5).resize(2, 2, heigth=3), "unexpected .* argument 'heigth'"),
                (lambda: mr.range(5).batch(), "missing 1 required positional argument: 'size'")):
            with self.assertRaisesRegex(TypeError, text):
                call()


class KeywordTest(unittest.TestCase):
    def test_an_unknown_keyword_names_the_nearest(self):
        plan = mr.range(3)
        for act, told in (
                (lambda: plan.resize(heigth=3), "resize() got an unexpected keyword argument "
                                                "'heigth'. Did you mean 'height'?"),
                (lambda: mr.feature("x", int, defualt=3), "Did you mean 'default'?"),
                (lambda: mr.tfrecord("x", comprssion="gzip"), "Did you mean 'compression'?"),
                (lambda: plan.options(sed=1), "Did you mean 'seed'?"),
                (lambda: plan.batch(2, zzz=1), "batch() got an unexpected keyword argument 'zzz'")):
            with self.assertRaises(TypeError) as raised:
                act()
            self.assertTrue(str(raised.exception).endswith(told), raised.exception)
        self.assertEqual(plan.batch(size=2), plan.batch(2))


class UnbuiltTest(unittest.TestCase):
    def test_the_sources_alone_say_that_they_are_not_built(self):
        package = os.path.join(ROOT, "python")
        done = subprocess.run([sys.executable, "-c", "import millrace"], capture_output=True,
                              text=True, timeout=100, check=False,
                              env={**os.environ, "PYTHONPATH": package})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"the package millrace in {package}/millrace is not built", done.stderr)
        self.assertNotIn("circular", done.stderr)


class ObjectTest(unittest.TestCase):
    def test_plans_are_equal_if_their_defaults_make_them_so(self):
        plan = mr.range(5).shuffle(3).batch(2)
        same = mr.range(5).shuffle(buffer_size=3, stage="shuffle").batch(2, drop_remainder=False)
        self.assertEqual(plan, same)
        self.assertEqual(hash(plan), hash(same))
        self.assertNotEqual(plan.text, same.text)
        self.assertNotEqual(plan, plan.repeat())
        self.assertNotEqual(plan, plan.text)
        self.assertEqual(mr.range(5), mr.range(5))  # no batch yet
        self.assertNotEqual(mr.range(5), mr.range(6))

    def test_a_stage_makes_a_new_plan(self):
        plan = mr.range(5)
        plan.batch(2)
        self.assertEqual(plan.text, "stage { range { count: 5 } }\n")
        with self.assertRaises(AttributeError):
            plan.name = "x"
        with self.assertRaises(AttributeError):
            mr.feature("a", int).key = "x"

    def test_later_options_are_added_to_earlier_ones(self):
        plan = mr.range(5).options(seed=1, lanes=2).batch(2).options(seed=3, name="x")
        self.assertEqual(plan.text.split("stage")[0], 'name: "x"\nseed: 3\nlanes: 2\n')

    def test_plans_and_messages_are_pickled(self):
        for plan in (imagenet(), mr.mix(mr.range(3), mr.range(4)), mr.Plan()):
            again = pickle.loads(pickle.dumps(plan))
            self.assertEqual(again.text, plan.text)
        feature = mr.feature("a", float, [3], default=0.5)
        self.assertEqual(pickle.loads(pickle.dumps(feature)), feature)
        self.assertEqual(hash(pickle.loads(pickle.dumps(feature))), hash(feature))

    def test_what_a_terminal_shows_is_short(self):
        self.assertEqual(repr(mr.range(5).batch(2)), "<millrace.Plan of 2 stages: range, batch>")
        self.assertLess(len(repr(imagenet())), 100)
        self.assertEqual(repr(mr.feature("a", "float32", 3)), 'mr.feature("a", float, shape=3)')

    def test_a_notebook_shows_a_table_in_which_nothing_is_markup(self):
        page = mr.tfrecord("<b>&.tfrecord").batch(2, stage="x/y").options(name="<i>")._repr_html_()
        self.assertIn("<td>tfrecord</td><td>files: &quot;&lt;b&gt;&amp;.tfrecord&quot;</td>", page)
        self.assertIn("<td>x/y</td><td>batch</td><td>size: 2</td>", page)
        self.assertNotIn("<i>", page)


class ShowTest(unittest.TestCase):
    """The page of a plan's first batches."""

    def test_the_page_has_the_rows_that_are_asked_for_and_the_stages(self):
        plan = mr.tfrecord(data.shards(12)).parse_example(
            mr.feature("image/encoded", bytes), mr.feature("image/class/label", int, name="label"))
        page = plan.decode_image().resize(32, 40).batch(4).show(3, batches=2)
        self.assertEqual(page.html.count("<img "), 6)
        self.assertIn("decode_image", page.html)
        notebook = page._repr_html_()
        self.assertEqual(html.unescape(re.search('srcdoc="([^"]*)"', notebook)[1]), page.html)
        path = os.path.join(data.folder(), "page.html")
        page.save(path)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), page.html)

    def test_ranks_show_their_own_rows(self):
        plan = mr.range(8).batch(4)
        pages = [plan.show(rank=rank, world=2).html for rank in range(2)]
        self.assertIn("range record 0<", pages[0])
        self.assertIn("range record 3<", pages[1])
        self.assertNotIn("range record 0<", pages[1])

    def test_errors_are_those_of_the_command(self):
        with self.assertRaisesRegex(mr.Error, "no-such.csv"):
            mr.csv("no-such.csv").parse_csv(mr.feature("a", int)).batch(2).show()
        shapes = mr.tfrecord(data.shards(4)).parse_example(mr.feature("image/encoded", bytes))
        shapes = shapes.decode_image().batch(2)
        with self.assertRaisesRegex(mr.PlanError, f"plan_test.py:{here() - 1}: stage 'batch'"):
            shapes.show()
        with self.assertRaises(mr.PlanError):
            mr.range(3).show()
        with self.assertRaisesRegex(mr.Error, "--rank 5"):
            mr.range(3).batch(1).show(rank=5)
        with self.assertRaisesRegex(mr.FailedPrecondition, "peek"):
            mr.push(mr.PushSource()).parse_json(mr.feature("x", int)).batch(1).show()


def drawn_plans():
    """Returns the texts of drawn plans by their seeds."""
    first = int(os.environ.get("MILLRACE_RANDOM_SEED", 0))
    plans = int(os.environ.get("MILLRACE_RANDOM_PLANS", 300))
    done = subprocess.run([os.environ["MILLRACE_PRINT_PLANS"], str(first), str(plans)],
                          stdout=subprocess.PIPE, check=True)
    texts = done.stdout.decode().split("\0")[:-1]
    assert len(texts) == plans
    return enumerate(texts, first)


class RoundTripTest(unittest.TestCase):
    """From the text of a plan to Python and back: it is the same plan."""

    def assertSame(self, plan, fingerprint):
        self.assertEqual(plan.fingerprint, fingerprint)
        chain = eval(plan.to_python(), {"mr": mr})
        self.assertEqual(chain.fingerprint, fingerprint)
        self.assertEqual(chain, plan)
        again = _core.plan_from_text(chain.text, "again", {})
        self.assertEqual(again.fingerprint, fingerprint)
        self.assertEqual(again.text(), plan.core().text())

    def test_examples(self):
        plans = 0
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as words:
            words.write("a\nb\nc\n")
            words.flush()
            for path in sorted(glob.glob(f"{ROOT}/examples/**/*.pbtxt", recursive=True)):
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                if not re.search(r"^stage \{", text, re.M):
                    continue  # a job or a model of the trainer
                variables = {name: value for name, value in (("DATA", "/data"), ("EVAL_DATA", "/data"),
                                                             ("VOCAB", words.name))
                             if "${" + name in text}
                with self.subTest(path):
                    fingerprint = _core.plan_from_file(path, variables).fingerprint
                    self.assertSame(mr.load(path, **variables), fingerprint)
                plans += 1
        self.assertGreaterEqual(plans, 14)

    def test_drawn_plans(self):
        for seed, text in drawn_plans():
            with self.subTest(seed=seed, text=text):
                fingerprint = _core.plan_from_text(text, "drawn", {}).fingerprint
                self.assertSame(mr.Plan.from_text(text), fingerprint)


if __name__ == "__main__":
    unittest.main()
