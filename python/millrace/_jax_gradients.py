"""Sums of gradients over ranks, for JAX."""
from __future__ import annotations

from typing import Any, Optional

import jax
import numpy as np

from .collectives import Communicator
from .gradients import Counters, Outcome
from .gradients import Reducer as ArrayReducer

__all__ = ["Reducer"]


class Reducer:
    """Averages pytrees of gradients over ranks, in the memory of the host.

        average = mr.jax.Reducer(params, clip_norm=1.0)
        for batch in loader:
            grads = average(jax.grad(loss)(params, batch))

    example: a pytree with the shapes and types of the gradients, such as the parameters. Leaves are
        float32, float16 or bfloat16.
    communicator: the ranks; None: default_communicator().
    options: those of millrace.Reducer but for `in_place`, `shard` and `micro_batches`.

    Each rank's gradients are multiplied by 1 / ranks, and the products are summed; with
    average_by_rows, the gradients are summed and divided by the rows of all ranks.
    """

    def __init__(self, example: Any, *, communicator: Optional[Communicator] = None,
                 **options: Any) -> None:
        for name in ("in_place", "shard", "micro_batches"):
            if name in options:
                raise TypeError(f"{name} is an option of millrace.Reducer alone")
        paths, tree = jax.tree_util.tree_flatten_with_path(example)
        self._tree: Any = tree
        self._by_rows = bool(options.get("average_by_rows", False))
        self._reducer = ArrayReducer({jax.tree_util.keystr(path) or "gradient": leaf
                                      for path, leaf in paths},
                                     communicator=communicator, **options)
        size = self._reducer.communicator.size
        self._scale = 1.0 if self._by_rows else 1.0 / size
        self.outcome: Optional[Outcome] = None  #: of the last call

    def __call__(self, grads: Any, *, rows: Optional[int] = None) -> Any:
        """Returns the averages over all ranks, as NumPy arrays in a pytree like `grads`, times
        Outcome.clip_factor. Waits for the gradients and for the other ranks.

        rows: with average_by_rows, the rows of this rank's batch.
        """
        leaves, tree = jax.tree_util.tree_flatten(grads)
        if tree != self._tree:
            raise ValueError(f"the gradients are {tree}, and the example was {self._tree}")
        if self._by_rows != (rows is not None):
            raise ValueError("rows are given with average_by_rows, and only then")
        views = [self._reducer.gradient(number) for number in range(len(leaves))]
        for number, (leaf, view) in enumerate(zip(leaves, views)):
            if leaf.shape != view.shape or leaf.dtype != view.dtype:
                raise ValueError(f"gradient {number} is {leaf.dtype}{list(leaf.shape)}, and the "
                                 f"example's was {view.dtype}{list(view.shape)}")
        if rows is not None:
            self._reducer.set_rows(rows)
        for number, (leaf, view) in enumerate(zip(leaves, views)):
            view[...] = _scaled(np.asarray(leaf), self._scale)
            self._reducer.mark_ready(number)
        self.outcome = self._reducer.finish()
        factor = 1.0 if self.outcome.skip else self.outcome.clip_factor
        # Copies: JAX may still read them when the next step fills the buckets.
        return jax.tree_util.tree_unflatten(
            tree, [_scaled(view, factor).astype(view.dtype) for view in views])

    @property
    def counters(self) -> Counters:
        """The cost so far."""
        return self._reducer.counters

    @property
    def summary(self) -> str:
        """A line about buckets, ranks and threads."""
        return self._reducer.summary

    def leave(self, message: str) -> None:
        """As millrace.Reducer.leave."""
        self._reducer.leave(message)

    def __repr__(self) -> str:
        return f"<Reducer: {self.summary}>"


def _scaled(array: Any, factor: float) -> Any:
    """Returns a product in float32: 16 bits would round the factor."""
    return np.multiply(array, np.float32(factor), dtype=np.float32)
