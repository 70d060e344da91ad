"""The ways in which a plan's batches reach a program: the last method of a chain."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterable, cast

if TYPE_CHECKING:
    from ._page import Page
    from .context import Context
    from .device import DeviceLoader
    from .jax import JaxLoader
    from .keras import Dataset
    from .loader import Keys, Loader
    from .plan import Plan
    from .tf import TfLoader
    from .torch import TorchLoader


class SinkMethods:
    """Methods of a plan that open it. Their further options are those of Loader."""

    __slots__ = ()

    def numpy(self, keys: Keys = None, **options: Any) -> Loader:
        """Returns a Loader of NumPy arrays: of Batch, a mapping; with a name as `keys`, of arrays;
        with several, of tuples of arrays."""
        from .loader import Loader
        return Loader(cast("Plan", self), keys, **options)

    def cuda(self, keys: Keys = None, *, device: int = 0, **options: Any) -> DeviceLoader:
        """Returns a DeviceLoader, whose batches lie in the memory of a CUDA device: of DeviceBatch;
        with a name as `keys`, of fields; with several, of tuples of fields. A field has __dlpack__
        and __cuda_array_interface__.

        device: CUDA's number of the device. Further options are those of DeviceLoader.
        """
        from .device import DeviceLoader
        return DeviceLoader(cast("Plan", self), keys, device=device, **options)

    def torch(self, keys: Keys = None, *, device: Any = None, layout: str | None = None,
              last: str = "trim", **options: Any) -> TorchLoader:
        """Returns a torch DataLoader of tensors that share the batches' memory.

        keys: as for numpy; without any, batches are dicts.
        device: "cuda", "cuda:1", a torch.device or a number: the CUDA device on which batches lie.
            Further options are then those of DeviceLoader too. None, "cpu": the host.
        layout: "channels_last" gives images as [n, c, h, w], as torch takes them, in the memory
            format torch.channels_last.
        """
        from .torch import make_loader
        return make_loader(self, keys, device=device, layout=layout, last=last, **options)

    def jax(self, sharding: Any = None, keys: Keys = None, *, device: Any = None,
            last: str = "pad", **options: Any) -> JaxLoader:
        """Returns a loader of JAX arrays.

        sharding: a jax.sharding.Sharding: then arrays are global, and each process brings its rows.
            None: arrays of this process that share the batches' memory where JAX runs on the CPU.
        keys: as for numpy; without any, batches are dicts, and have a field `valid` where rows are
            padding: a bool per row.
        device: without a sharding, a jax.Device of this process, its number in jax.local_devices(),
            or such as "cpu", "gpu", "cuda:1": the device on which arrays lie. None: JAX's default.
        """
        from .jax import JaxLoader
        return JaxLoader(self, sharding, keys, device, last=last, **options)

    def keras(self, x: str, y: str | None = None, *, last: str = "pad",
              **options: Any) -> Dataset:
        """Returns a keras.utils.PyDataset of (x, y, sample_weight), for any backend of Keras 3. The
        weight of a row is 1, and of padding 0."""
        from .keras import make_dataset
        return make_dataset(self, x, y, last=last, **options)

    def tf(self, keys: Keys = None, *, last: str = "trim", **options: Any) -> TfLoader:
        """Returns a loader of TensorFlow tensors that share the batches' memory."""
        from .tf import TfLoader
        return TfLoader(self, keys, last=last, **options)

    def explain(self, *, context: Context | None = None, rank: int = 0, world: int = 1,
                **options: Any) -> str:
        """Returns the text of `millrace explain`: the plan, the rules that were applied to it, and
        what the opened files hold. With rank=-1 the files stay closed."""
        from ._explain import explain
        return explain(cast("Plan", self), context, rank, world, **options)

    def show(self, rows: int = 32, *, batches: int = 1, rank: int = 0, world: int = 1) -> Page:
        """Returns a page of the first batches: images or a table of values, labels, stages, as the
        command `millrace show` makes it. A notebook shows the page; `page.save(path)` writes it.

        rows: the rows of each batch, at most.
        batches: the number of batches.
        rank, world: the rank whose rows are shown, and the number of ranks.

        FailedPrecondition: the plan has functions, memory or pushed records of this program.
        Error: the command's message.
        """
        from ._page import page_of
        return page_of(cast("Plan", self), rows, batches, rank, world)


def gather(batch: Any, keys: Keys, names: Iterable[str], convert: Callable[[Any, str], Any]) -> Any:
    """Returns a batch as `for` gives it: a value, a tuple, or a dict of all names."""
    if keys is None:
        return {name: convert(batch, name) for name in names}
    if isinstance(keys, str):
        return convert(batch, keys)
    return tuple([convert(batch, key) for key in keys])
