"""Records that a program writes, and conversions between containers."""
from __future__ import annotations

import json
import os
import struct
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable, NamedTuple, Union, cast

from . import _core
from ._progress import Progress, Shown
from .errors import Error

__all__ = ["ConvertReport", "TFRecordWriter", "convert"]

Path = Union[str, "os.PathLike[str]"]

# The numbers of mr_dtype.
_BYTES, _INT64, _FLOAT32 = 0, 3, 6
_INT64_MAX = (1 << 63) - 1


class TFRecordWriter:
    """Writes records into TFRecord shards PREFIX-00000-of-00064.tfrecord.

        with mr.TFRecordWriter("out/train", shards=64) as writer:
            writer.write({"image/encoded": jpeg, "image/class/label": 3})

    The shards appear when the block ends, all at once; an exception in it leaves none. Shard s of N
    holds the records from s * n / N up to (s + 1) * n / N of n, as `millrace records convert` cuts
    them: one after the other, the shards give the records in their order. Until then records of
    several shards wait in a hidden file beside the shards, which takes as much room as they do.

    prefix: of the shards' paths; the folder is made.
    shards: from 1 to 99999, at most one per record.
    compression: "none", "gzip", "zlib" or "zstd", for which compression_level is 1 to 9.
    overwrite: True to replace the shards of this prefix that exist.
    progress: is called with (done, total) records while several shards are cut, when the block
        ends; True shows a bar of tqdm.

    One thread may use a writer at a time. In a forked child it cannot be used.
    """

    def __init__(self, prefix: Path, shards: int = 1, *, compression: str = "none",
                 compression_level: int = 6, overwrite: bool = False,
                 progress: Progress = None) -> None:
        self._core: Any = _core.Writer(
            os.fspath(prefix), shards=_positive("shards", shards), compression=compression,
            compression_level=_positive("compression_level", compression_level),
            overwrite=overwrite)
        self._progress = progress

    def write(self, example: Mapping[str, Any]) -> None:
        """Appends a tf.train.Example, with the features in their order.

        A str, bytes, or list of them becomes a bytes_list; an int, bool, or list or array of them
        an int64_list; a float, or list or array of them, a float_list, whose values are rounded to
        32 bits. Arrays of several dimensions are written row by row.

        TypeError: a value of another type; it names the key. Or `example` is no mapping.
        ValueError: a number that int64 or float32 cannot hold; it names the key.
        """
        if not isinstance(example, Mapping):
            raise TypeError(f"an example is a mapping of names to values, not "
                            f"{type(example).__name__}; write_raw() takes bytes")
        self._core.write_example([_feature(key, value) for key, value in example.items()])

    def write_raw(self, payload: Any) -> None:
        """Appends a record as it is: bytes or a buffer."""
        if isinstance(payload, (str, int)):
            raise TypeError(f"a record is bytes or a buffer, not {type(payload).__name__}")
        self._core.write(payload)

    def close(self) -> None:
        """Moves the shards into place. Where that fails, nothing has changed under their names."""
        with Shown(self._progress, "records") as progress:
            self._core.close(progress)

    def abort(self) -> None:
        """Ends the writer without shards."""
        self._core.abort()

    @property
    def closed(self) -> bool:
        """True behind close and abort."""
        return self._core.closed  # type: ignore[no-any-return]

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, kind: Any, error: object, _: Any) -> None:
        if error is not None:
            self.abort()
        elif not self.closed:
            self.close()


class ConvertReport(NamedTuple):
    """The outcome of a conversion."""

    files: tuple[str, ...]  #: the shards, in order
    records: int  #: in the shards
    left_out: int  #: records that could not be converted
    images_not_read: int  #: images of other kinds than JPEG and PNG
    file_bytes: int  #: of all shards


def convert(source: Union[Path, Iterable[Path], Iterable[Mapping[str, Any]]], prefix: Path, *,
            from_: str | None = None, to: str | None = None, shards: int = 1,
            progress: Progress = None, bad: Callable[[Error], Any] | None = None,
            **options: Any) -> ConvertReport:
    """Copies records of one container into shards of another.

        mr.convert("photos", "out/train", from_="images", shards=8, shuffle=1)
        mr.convert("rows-*.csv", "out/rows", from_="csv", header=True,
                   schema="label:int64,text:bytes")
        mr.convert(({"x": x} for x in range(100)), "out/numbers", shards=4)

    It does what `millrace records convert` does, with the options of the same names
    (docs/convert.md), and writes the same bytes.

    source: a file, pattern or URL, or several; of "images" the folder or tar, of "idx" the file of
        images. Or an iterable of dicts, as TFRecordWriter.write takes them; options are then those
        of TFRecordWriter.
    prefix: of the shards' paths; the folder is made.
    from_: the format of the source: "tfrecord", "text", "fixed_length", "csv", "jsonl", "tar",
        "idx" or "images"; None: dicts.
    to: the format of the shards, as from_; None: "tfrecord".
    progress: is called with (done, total) records, ten times a second, of dicts after each; the
        total is 0 where it is not known. True shows a bar of tqdm.
    bad: is called with the exception of each record that cannot be converted.
    options: classes and quarantine are paths, shuffle is a seed, label a number, features
        "NAME,NAME=NEW" or a dict of names and new names; index_folder is that of Loader.

    Nothing appears under the names of the shards unless all do. Ctrl-C ends the conversion when the
    files are open; as when it is killed, the same call then goes on behind the shards that are
    whole.
    """
    if from_ is None:
        if isinstance(source, (str, os.PathLike)):
            raise TypeError("convert() needs from_, the format of the source, such as 'images'")
        if to not in (None, "tfrecord") or bad is not None:
            raise TypeError("convert() writes dicts as tfrecord, and none of them can be bad")
        return _convert_dicts(source, prefix, shards, progress, options)
    paths = [source] if isinstance(source, (str, os.PathLike)) else cast("Iterable[Path]", source)
    names = [os.fspath(path) for path in paths]
    given = {name: _plain(value) for name, value in options.items()}
    if from_ in ("images", "idx"):
        if len(names) != 1:
            raise TypeError(f"convert() reads {from_} from one path")
        given["images"] = names.pop()
    with Shown(progress, "records") as shown:
        *numbers, told = _core.convert(
            names, shown, bad, prefix=os.fspath(prefix), to=to,
            shards=_positive("shards", shards), **{"from": from_}, **given)
    for warning in told:
        warnings.warn(warning, stacklevel=2)
    return ConvertReport(_files_of(prefix), *numbers)


def _convert_dicts(examples: Any, prefix: Path, shards: int, progress: Progress,
                   options: dict[str, Any]) -> ConvertReport:
    total = len(examples) if hasattr(examples, "__len__") else 0
    with Shown(progress, "records") as shown, TFRecordWriter(prefix, shards, **options) as writer:
        count = 0
        for count, example in enumerate(examples, 1):
            if not isinstance(example, Mapping):
                raise TypeError(f"record {count - 1}: a {type(example).__name__}, not a dict")
            writer.write(example)
            if shown is not None:
                shown(count, total)
    files = _files_of(prefix)
    return ConvertReport(files, count, 0, 0, sum(os.path.getsize(file) for file in files))


def _files_of(prefix: Path) -> tuple[str, ...]:
    """Returns the shards that the manifest of a prefix lists."""
    with open(f"{os.fspath(prefix)}.manifest.json", encoding="utf-8") as file:
        manifest = json.load(file)
    folder = os.path.dirname(prefix)
    return tuple(os.path.join(folder, shard["file"]) for shard in manifest["shards"])


def _plain(value: Any) -> Any:
    """Returns the value of an option as the library takes it."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return ",".join(f"{name}={new}" for name, new in value.items())
    return value


def _positive(name: str, number: int) -> int:
    """Returns the number; the library takes 0 for its default."""
    if number < 1:
        raise ValueError(f"{name} is {number}, and must be 1 or more")
    return number


# Features of Examples.


def _feature(key: Any, value: Any) -> tuple[str, int, Any]:
    if not isinstance(key, str):
        raise TypeError(f"{key!r}: keys are str, not {type(key).__name__}")
    if isinstance(value, bytes):
        return key, _BYTES, [value]
    if isinstance(value, str):
        return key, _BYTES, [value.encode()]
    if isinstance(value, (bytearray, memoryview)):
        return key, _BYTES, [bytes(value)]
    if isinstance(value, (list, tuple)):
        return _feature_of_list(key, value)
    if isinstance(value, (int, float)):
        return _feature_of_number(key, value)
    if hasattr(value, "__array__"):
        import numpy
        return _feature_of_array(key, numpy.asarray(value))
    raise TypeError(f"{key!r}: {type(value).__name__} is no type of features; they are bytes, str, "
                    "int, bool, float, and lists and arrays of these")


def _feature_of_number(key: str, value: int | float) -> tuple[str, int, bytes]:
    is_float = isinstance(value, float)
    try:
        return key, _FLOAT32 if is_float else _INT64, struct.pack("<f" if is_float else "<q", value)
    except (OverflowError, struct.error):
        raise _too_large(key, "float32" if is_float else "int64") from None


def _feature_of_list(key: str, values: Sequence[Any]) -> tuple[str, int, Any]:
    if not values:
        raise TypeError(f"{key!r}: an empty list has no type; numpy.zeros(0, dtype) has one")
    if all(isinstance(value, (bytes, str)) for value in values):
        return key, _BYTES, [value.encode() if isinstance(value, str) else value
                             for value in values]
    import numpy as np
    for value in values:
        if not isinstance(value, (bool, int, float, np.number, np.bool_)):
            raise TypeError(f"{key!r}: a list with {type(value).__name__} in it; lists are of "
                            "bytes and str, or of numbers")
    is_float = any(isinstance(value, (float, np.inexact)) for value in values)
    try:
        array = np.asarray(values, np.float64 if is_float else np.int64)
    except OverflowError:
        raise _too_large(key, "float32" if is_float else "int64") from None
    return _feature_of_array(key, array)


def _feature_of_array(key: str, array: Any) -> tuple[str, int, Any]:
    import numpy as np
    kind = array.dtype.kind
    if kind in "SU" or kind == "O" and array.size:
        values = array.ravel().tolist()
        return _feature_of_list(key, values) if values else (key, _BYTES, [])
    if kind in "biu":
        if kind == "u" and array.size and int(array.max()) > _INT64_MAX:
            raise _too_large(key, "int64")
        return key, _INT64, array.astype("<i8").tobytes()
    if kind == "f":
        with np.errstate(over="ignore"):
            numbers = array.astype("<f4")
        if np.any(np.isinf(numbers) & ~np.isinf(array)):
            raise _too_large(key, "float32")
        return key, _FLOAT32, numbers.tobytes()
    raise TypeError(f"{key!r}: an array of {array.dtype} is no feature")


def _too_large(key: str, dtype: str) -> ValueError:
    return ValueError(f"{key!r}: a number that {dtype} cannot hold")
