"""Sums of gradients of JAX. Skipped where it is not installed."""
import unittest

import data
import millrace as mr
import numpy as np
import ranks

data.needs("jax")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from millrace import jax as mrj  # noqa: E402

PARAMS = {"dense": {"w": jnp.ones((3, 4)), "b": jnp.zeros(4, jnp.bfloat16)}, "scale": jnp.ones(())}


def loss(params, x):
    dense = params["dense"]
    return jnp.mean(params["scale"] * jnp.tanh(x @ dense["w"] + dense["b"]) ** 2)


def gradients(rank, step=0):
    x = np.random.default_rng(10 * rank + step).normal(size=(5, 3)).astype("float32")
    return jax.grad(loss)(PARAMS, x)


class Averages(unittest.TestCase):
    def test_they_are_numpy_s(self):
        def train(group):
            average = mrj.Reducer(PARAMS, communicator=group)
            averages = [average(gradients(group.rank, step)) for step in range(3)]
            self.assertEqual(average.outcome, (0, False, 1, 0, True))
            self.assertEqual(average.counters.steps, 3)
            self.assertIn("bucket", repr(average))
            return averages

        for averages in ranks.in_threads(2, train):
            for step, averaged in enumerate(averages):
                given = [gradients(rank, step) for rank in range(2)]
                self.assertEqual(jax.tree.structure(averaged), jax.tree.structure(given[0]))
                wanted = jax.tree.map(lambda a, b: np.mean(
                    [np.asarray(a, "float32"), np.asarray(b, "float32")], axis=0).astype(a.dtype),
                    *given)
                jax.tree.map(np.testing.assert_array_equal, averaged, wanted)

    def test_results_are_not_changed_by_later_steps(self):
        group, = mr.Communicator.threads(1)
        average = mrj.Reducer(PARAMS, communicator=group)
        first = average(gradients(0))
        kept = jax.tree.map(np.copy, first)
        average(gradients(1))
        jax.tree.map(np.testing.assert_array_equal, first, kept)

    def test_the_norm_is_limited(self):
        group, = mr.Communicator.threads(1)
        average = mrj.Reducer([jnp.zeros(2)], communicator=group, clip_norm=1.0)
        np.testing.assert_allclose(average([jnp.array([3.0, 4.0])])[0], [0.6, 0.8], rtol=1e-6)
        self.assertEqual(average.outcome.norm, 5)

    def test_sums_are_divided_by_the_rows_of_all(self):
        def train(group):
            average = mrj.Reducer(jnp.zeros(2), communicator=group, average_by_rows=True)
            return average(jnp.full(2, 3.0 * (group.rank + 1)), rows=group.rank + 1).tolist()

        self.assertEqual(ranks.in_threads(2, train), [[3, 3]] * 2)


class WrongUse(unittest.TestCase):
    def test_gradients_unlike_the_example(self):
        group, = mr.Communicator.threads(1)
        average = mrj.Reducer({"a": jnp.zeros(2)}, communicator=group)
        for given, options, text in (
                ({"b": jnp.zeros(2)}, {}, "the example was"),
                ({"a": jnp.zeros(3)}, {}, r"float32\[3\].*float32\[2\]"),
                ({"a": jnp.zeros(2, jnp.bfloat16)}, {}, "bfloat16"),
                ({"a": jnp.zeros(2)}, {"rows": 1}, "average_by_rows")):
            with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                average(given, **options)
        with self.assertRaisesRegex(TypeError, "shard"):
            mrj.Reducer({"a": jnp.zeros(2)}, communicator=group, shard=True)
        with self.assertRaisesRegex(mr.PlanError, "int32"):
            mrj.Reducer({"a": jnp.zeros(2, "int32")}, communicator=group)


class Processes(unittest.TestCase):
    def test_they_average(self):
        self.assertEqual(ranks.said_by_all("""
import jax.numpy as jnp
from millrace import jax as mrj
average = mrj.Reducer({"a": jnp.zeros(3)}, communicator=comm)
print(average({"a": jnp.full(3, rank + 1.0)})["a"].tolist())
"""), ["[1.5, 1.5, 1.5]\n"] * 2)


if __name__ == "__main__":
    unittest.main()
