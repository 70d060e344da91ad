"""Batches for Keras 3, whatever its backend."""
from __future__ import annotations

import json
import os
from typing import Any

import keras

from .batch import Batch
from .loader import Loader

__all__ = ["Dataset", "Resume", "make_dataset"]


class Dataset(keras.utils.PyDataset):  # type: ignore[misc]
    """A PyDataset of (x, y, sample_weight), from a loader (Plan.keras).

    Keras asks for batches by their numbers, which it shuffles. They are taken as a count: the order
    is that of the plan, and each epoch reads the stream's next one.
    """

    def __init__(self, loader: Loader, x: str, y: str | None) -> None:
        super().__init__(workers=1, use_multiprocessing=False)
        self.loader = loader
        self._x, self._y = x, y

    @property
    def num_batches(self) -> int:
        return len(self.loader)

    def __getitem__(self, index: int) -> Any:
        batch = self.loader.next()
        assert batch is not None  # the plan repeats
        return self._tuple(batch)

    def _tuple(self, batch: Batch) -> Any:
        x = batch[self._x]
        if self._y is None:
            return (x,)
        if batch.trimmed or batch.valid_rows == batch.rows:
            return x, batch[self._y]
        return x, batch[self._y], batch.valid.astype("float32")

    def state_dict(self) -> Any:
        """As Loader.state_dict."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Any) -> None:
        """As Loader.load_state_dict."""
        self.loader.load_state_dict(state)


class Resume(keras.callbacks.Callback):  # type: ignore[misc]
    """Keeps a dataset's state in a file beside keras.callbacks.BackupAndRestore: written behind
    each epoch, and read where training begins, if the file is there.

    dataset: what Plan.keras returned.
    path: the file.
    """

    def __init__(self, dataset: Dataset, path: str) -> None:
        super().__init__()
        self._dataset = dataset
        self._path = path

    def on_train_begin(self, logs: Any = None) -> None:
        if os.path.exists(self._path):
            with open(self._path, encoding="utf-8") as file:
                self._dataset.load_state_dict(json.load(file))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        part = self._path + ".part"
        with open(part, "w", encoding="utf-8") as file:
            json.dump(self._dataset.state_dict(), file)
        os.replace(part, self._path)


def make_dataset(plan: Any, x: str, y: str | None, **options: Any) -> Dataset:
    """Makes the dataset of Plan.keras."""
    return Dataset(Loader(plan, **options), x, y)
