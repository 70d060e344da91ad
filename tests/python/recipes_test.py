"""Recipes are the example files, and check_op finds ops that depend on more than the sample."""
import os
import unittest

import numpy as np

import data
import millrace as mr

EXAMPLES = os.path.join(os.environ["MILLRACE_SOURCE_DIR"], "examples")


class Recipes(unittest.TestCase):
    def test_imagenet_train_is_the_example(self):
        recipe = mr.recipes.imagenet_train("/data/*.tfrecord")
        example = mr.load(os.path.join(EXAMPLES, "imagenet", "train.pbtxt"), DATA="/data")
        self.assertEqual(recipe, example)
        self.assertEqual(recipe.fingerprint, example.fingerprint)

    def test_they_read_images(self):
        files = data.shards(12)
        train = mr.recipes.imagenet_train(files, 4, size=16, dtype="float16").numpy()
        self.assertEqual(len(train), 3)
        self.assertEqual(set(train.spec), {mr.Field("image", "float16", (16, 16, 3)),
                                           mr.Field("label", "int64", ())})
        test = mr.recipes.imagenet_eval(files, 4, size=16, resize=20).numpy(("image", "label"))
        images, labels = next(iter(test))
        self.assertEqual(labels.tolist(), [0, 2, 4, 6])
        # Images of one colour: 0, 2, 4 and 6 in every channel.
        expected = (np.arange(0, 8, 2)[:, None] - [123.675, 116.28, 103.53]) / [58.395, 57.12, 57.375]
        np.testing.assert_allclose(images.mean(axis=(1, 2)), expected, rtol=1e-5)


@mr.op(reads="value", writes=mr.field("value", "int64"))
def sound(rows):
    rows.out["value"] = rows["value"] + (1000 * rows.uniform()).astype(np.int64)


@mr.op(reads="value", writes=mr.field("value", "int64"))
def by_place(rows):
    rows.out["value"] = rows["value"] + np.arange(len(rows))


class Counter:
    calls = 0


@mr.op(reads="value", writes=mr.field("value", "int64"))
def by_call(rows):
    Counter.calls += 1
    rows.out["value"] = rows["value"] + Counter.calls


def plan_of(op):
    return mr.range(200).op(op).batch(32).options(seed=1)


class CheckOp(unittest.TestCase):
    def test_an_op_on_samples_passes(self):
        mr.testing.check_op(plan_of(sound))

    def test_an_op_that_looks_at_the_place_of_a_row_is_found(self):
        with self.assertRaisesRegex(AssertionError, "'value' of the sample"):
            mr.testing.check_op(plan_of(by_place))

    def test_an_op_that_counts_its_calls_is_found(self):
        with self.assertRaisesRegex(AssertionError, "read again: field 'value'"):
            mr.testing.check_op(plan_of(by_call))


if __name__ == "__main__":
    unittest.main()
