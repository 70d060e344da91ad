"""Batches as notebooks show them: a grid of images, and a table of the rows' other values."""
from __future__ import annotations

import base64
import html
import struct
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .batch import Batch

_MOST_ROWS = 16
_MOST_VALUES = 8


def html_of(batch: Batch) -> str:
    """Returns the first rows of a batch."""
    arrays = {name: _array(batch, name) for name in batch.names}
    names = [name for name, array in arrays.items() if len(array) == batch.rows]
    images = [name for name in names if _is_image(arrays[name])]
    others = [name for name in names if name not in images]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in [*images, *others])
    rows = "".join(_row(arrays, images, others, row) for row in range(min(batch.rows, _MOST_ROWS)))
    left = batch.rows - _MOST_ROWS
    more = f"<p>and {left} more rows</p>" if left > 0 else ""
    return (f"<p>{html.escape(repr(batch))}</p><table><thead><tr>{head}</tr></thead>"
            f"<tbody>{rows}</tbody></table>{more}")


def _array(batch: Batch, name: str) -> Any:
    import numpy as np
    bits = batch.bits(name)
    if batch.dtype(name) != "bfloat16":
        return bits
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _row(arrays: dict[str, Any], images: list[str], others: list[str], row: int) -> str:
    cells = [_image(arrays[name][row]) for name in images]
    cells += [html.escape(_words(arrays[name][row])) for name in others]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _is_image(array: Any) -> bool:
    return bool(array.ndim == 4 and array.shape[3] in (1, 3) and array.dtype.kind in "uf"
                and array.size)


def _image(pixels: Any) -> str:
    import numpy as np
    if pixels.dtype != np.uint8:  # normalised somehow: the whole range is shown
        pixels = np.nan_to_num(pixels.astype(np.float32))
        low, high = float(pixels.min()), float(pixels.max())
        pixels = ((pixels - low) * (255 / max(high - low, 1e-9))).astype(np.uint8)
    text = base64.b64encode(_png(np.ascontiguousarray(pixels))).decode()
    return f'<img src="data:image/png;base64,{text}" style="max-height: 128px">'


def _png(pixels: Any) -> bytes:
    height, width, channels = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    colour = 2 if channels == 3 else 0
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)),
              (b"IDAT", zlib.compress(lines, 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks)


def _words(value: Any) -> str:
    values = value.reshape(-1).tolist() if getattr(value, "ndim", 0) else [value]
    text = ", ".join(f"{one:.6g}" if isinstance(one, float) else str(one)
                     for one in values[:_MOST_VALUES])
    return text + (f", ... ({len(values)})" if len(values) > _MOST_VALUES else "")
