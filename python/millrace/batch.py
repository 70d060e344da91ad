"""The batches that loaders deliver."""

from typing import Any, Dict, Sequence

from millrace import _core

__all__ = ["Batch"]


def state_of(token: str, epoch: int, inside: bool, codes: Dict[str, str]) -> Dict[str, Any]:
    """Returns a state: `ops` is there if the plan has Python ops."""
    state = {"millrace": token, "epoch": epoch, "inside": inside}
    return {**state, "ops": dict(codes)} if codes else state


class FieldMapping:
    """What the batches of all loaders have in common."""

    __slots__ = ()

    def items(self: Any) -> Any:
        """The names and values of the fields."""
        return [(name, self[name]) for name in self.names]

    def values(self: Any) -> Any:
        """The values of the fields."""
        return [self[name] for name in self.names]

    def get(self: Any, name: str, default: Any = None) -> Any:
        """Returns the value of a field, or `default` if there is none."""
        return self[name] if name in self else default

    def state_dict(self: Any) -> Dict[str, Any]:
        """The state from which a loader goes on behind this batch.

        It is right where a wrapper reads ahead too, which the state of the loader is not.
        """
        ends = self.ends_epoch
        return state_of(self.token, self.epoch + ends, not ends, self.codes)


class Batch(FieldMapping, _core.Batch):
    """A batch: batch["image"] is the NumPy array of a field, a view of the batch's memory.

    It holds its memory as long as it, or an array of it, lives, also behind the loader's end. Views
    may be written. With last="trim" rows of padding are left out.
    """

    __slots__ = ()

    def torch(self, name: str) -> Any:
        """Returns a field as a torch.Tensor that shares the memory."""
        from millrace.torch import tensor_of
        return tensor_of(self, name)

    def to_pandas(self) -> Any:
        """Returns a pandas.DataFrame with a row per sample: numbers, or an array in each cell. A
        ragged field has arrays of different lengths. Rows of padding are left out."""
        import pandas
        valid = self.valid
        columns = {name: [cell for cell, is_valid in zip(self._cells(name), valid) if is_valid]
                   for name in self.names if not name.endswith("/row_splits")}
        return pandas.DataFrame(columns)

    def _cells(self, name: str) -> Sequence[Any]:
        """Returns the value of each row."""
        array = self[name]
        if name + "/row_splits" in self:
            splits = self[name + "/row_splits"]
            return [array[begin:end] for begin, end in zip(splits, splits[1:])]
        return array if array.ndim == 1 else list(array)

    def _repr_html_(self) -> str:
        from millrace._html import html_of
        return html_of(self)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}: {self.dtype(name)}{list(self.bits(name).shape)}"
                           for name in self.names)
        return f"<Batch {self.index} of epoch {self.epoch}: {shapes}>"


_core.set_batch_type(Batch)
