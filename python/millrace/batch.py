"""The batches that loaders deliver."""

from typing import Any, Dict, Sequence

from millrace import _core

__all__ = ["Batch"]


class Batch(_core.Batch):
    """A batch: batch["image"] is the NumPy array of a field, a view of the batch's memory.

    It holds its memory as long as it, or an array of it, lives, also behind the loader's end. Views
    may be written. With last="trim" rows of padding are left out.
    """

    __slots__ = ()

    def items(self) -> Any:
        """The names and arrays of the fields."""
        return [(name, self[name]) for name in self.names]

    def values(self) -> Any:
        """The arrays of the fields."""
        return [self[name] for name in self.names]

    def state_dict(self) -> Dict[str, Any]:
        """The state from which a loader goes on behind this batch.

        It is right where a wrapper reads ahead too, which the state of the loader is not.
        """
        ends = self.ends_epoch
        return {"millrace": self.token, "epoch": self.epoch + ends, "inside": not ends}

    def torch(self, name: str) -> Any:
        """Returns a field as a torch.Tensor that shares the memory."""
        from millrace.torch import tensor_of
        return tensor_of(self, name)

    def to_pandas(self) -> Any:
        """Returns a pandas.DataFrame of the fields, each row's value in a cell."""
        import pandas
        return pandas.DataFrame({name: _cells(self[name]) for name in self.names
                                 if len(self[name]) == self.rows})

    def _repr_html_(self) -> str:
        from millrace._html import html_of
        return html_of(self)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}: {value.dtype}{list(value.shape)}"
                           for name, value in self.items())
        return f"<Batch {self.index} of epoch {self.epoch}: {shapes}>"


def _cells(array: Any) -> Sequence[Any]:
    return array if array.ndim == 1 else list(array)


_core.set_batch_type(Batch)
