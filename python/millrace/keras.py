"""Batches for Keras 3, whatever its backend."""
from __future__ import annotations

import json
import os
from typing import Any

import keras

from .batch import Batch
from .errors import OutOfRange
from .loader import Loader

__all__ = ["Dataset", "Resume", "make_dataset"]


class Dataset(keras.utils.PyDataset):  # type: ignore[misc]
    """A PyDataset of (x, y, sample_weight), from a loader (Plan.keras).

    Keras asks for batches by their numbers, which it shuffles. They are taken as a count: the order
    is that of the plan. Each pass over the dataset is an epoch. One that Keras begins and does not
    finish, to learn shapes or to read ahead, is begun again.
    """

    def __init__(self, loader: Loader, x: str, y: str | None) -> None:
        super().__init__(workers=1, use_multiprocessing=False)
        self.loader = loader
        self._x, self._y = x, y
        self._epoch, self._count = 0, 0  # of the batch that comes next

    @property
    def num_batches(self) -> int:
        """The number of batches of an epoch."""
        return len(self.loader)

    @property
    def finished_epochs(self) -> int:
        """The number of passes that were finished, those before a resume included."""
        return self._epoch + (self._count == self.num_batches)

    def on_epoch_begin(self) -> None:
        """Begins the next pass, as Keras asks."""
        self.start_epoch(self.finished_epochs)

    def start_epoch(self, epoch: int) -> None:
        """Makes the next pass that of an epoch of the plan."""
        self._epoch, self._count = epoch, 0

    def __getitem__(self, index: int) -> Any:
        if self._count == self.num_batches:
            self.on_epoch_begin()
        if self._count == 0:
            self.loader.set_epoch(self._epoch)
        batch = self.loader.next()
        if batch is None:
            raise OutOfRange(f"the plan ends before epoch {self._epoch}")
        self._count += 1
        return self._tuple(batch)

    def _tuple(self, batch: Batch) -> Any:
        x = batch[self._x]
        if self._y is None:
            return (x,)
        if batch.trimmed:
            return x, batch[self._y]
        # Always, since TensorFlow takes tuples of one length only.
        return x, batch[self._y], batch.valid.astype("float32")


class Resume(keras.callbacks.Callback):  # type: ignore[misc]
    """Keeps the number of a dataset's epoch in a file, beside keras.callbacks.BackupAndRestore: it is
    written behind each epoch, and read here, if the file is there.

    dataset: what Plan.keras returned.
    path: the file.
    """

    def __init__(self, dataset: Dataset, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self._dataset = dataset
        self._path = os.fspath(path)
        # Before training begins: Keras looks at a batch first.
        if os.path.exists(self._path):
            with open(self._path, encoding="utf-8") as file:
                dataset.start_epoch(json.load(file)["epoch"])

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Writes the number, as Keras asks."""
        part = self._path + ".part"
        with open(part, "w", encoding="utf-8") as file:
            json.dump({"epoch": self._dataset.finished_epochs}, file)
        os.replace(part, self._path)


def make_dataset(plan: Any, x: str, y: str | None, **options: Any) -> Dataset:
    """Makes the dataset of Plan.keras."""
    return Dataset(Loader(plan, **options), x, y)
