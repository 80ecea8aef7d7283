"""IDX, the file format of MNIST and its relatives: a magic number, the length of each axis, then the values.

Read from a stream and a few rows at a time, so that a file inside an archive is neither unpacked nor held whole.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedbayes.reading import ConfigError

# Values are big-endian; the third byte of the magic number says of which type, the fourth how many axes there are.
CODES = {"u1": 8, "i4": 12}
BLOCK_BYTES = 1 << 24


class Bytes(Protocol):
    """A stream that gives as many bytes as it is asked for, fewer only at its end."""

    def read(self, size: int, /) -> bytes:
        """The next bytes."""


def read(
    stream: Bytes, shown: str, dtype: str, row: tuple[int, ...], keep: NDArray[np.bool_] | None = None
) -> NDArray[Any]:
    """The rows of an IDX file, or those of them that are wanted.

    Args:
        stream: the file's content, unpacked, from its first byte.
        shown: the file's name for a sentence about it.
        dtype: `u1` or `i4`.
        row: shape of one row, which is that of the array without its first axis.
        keep: which rows to return; they must be as many as the file holds.
    """
    rows = _rows(stream, shown, dtype, row)
    if keep is not None and len(keep) != rows:
        raise ConfigError(
            f"{shown}: found {rows} rows, expected {len(keep)}, one for each label; put a good copy there"
        )
    stored = np.dtype(f">{dtype}")
    row_bytes = math.prod(row) * stored.itemsize
    step = max(1, BLOCK_BYTES // row_bytes)
    parts = [np.empty((0, *row), stored)]
    for first in range(0, rows, step):
        last = min(first + step, rows)
        content = stream.read((last - first) * row_bytes)
        if len(content) < (last - first) * row_bytes:
            raise ConfigError(f"{shown}: ends before the {rows} rows that its header announces; put a good copy there")
        block = np.frombuffer(content, stored).reshape(-1, *row)
        parts.append(block if keep is None else block[keep[first:last]])
    if stream.read(1):
        raise ConfigError(f"{shown}: goes on after the {rows} rows that its header announces; put a good copy there")
    return np.concatenate(parts).astype(dtype, copy=False)


def _rows(stream: Bytes, shown: str, dtype: str, row: tuple[int, ...]) -> int:
    """How many rows the header announces."""
    magic, found = bytes([0, 0, CODES[dtype], 1 + len(row)]), stream.read(4)
    if found != magic:
        raise ConfigError(
            f"{shown}: not the expected IDX file: it begins with 0x{found.hex()}, not with the magic number "
            f"0x{magic.hex()}; put a good copy there"
        )
    header = stream.read(4 * (1 + len(row)))
    if len(header) < 4 * (1 + len(row)):
        raise ConfigError(f"{shown}: ends within its header; put a good copy there")
    lengths = np.frombuffer(header, ">u4").tolist()
    if tuple(lengths[1:]) != row:
        raise ConfigError(f"{shown}: found rows of shape {lengths[1:]}, expected {list(row)}; put a good copy there")
    return int(lengths[0])
