"""Arrays in files: written to the same bytes everywhere, read with one sentence for a file that is not whole."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbayes.reading import ConfigError

# What NumPy raises for a file that is cut, empty or something else, depending on where it is broken.
BROKEN = (ValueError, EOFError, KeyError, OSError, zipfile.BadZipFile, zlib.error)


def npz_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Arrays as `.npz`, byte by byte the same everywhere.

    `np.savez` forces ZIP64 headers, whose bytes differ between versions of Python.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy")
            info.create_system, info.external_attr = 3, 0o644 << 16
            archive.writestr(info, member.getvalue())
    return buffer.getvalue()


def read_npz(path: Path, *expected: str) -> dict[str, NDArray[Any]]:
    """All arrays of an `.npz` file, by name; `expected` are names it must have."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays}
    except FileNotFoundError:
        raise ConfigError(f"{path}: the file does not exist; let the workflow make it") from None
    except BROKEN as error:
        raise _broken(path, error) from None
    missing = [name for name in expected if name not in found]
    if missing:
        raise ConfigError(f"{path}: has no array {missing[0]!r}; delete the file to have it made again")
    return found


def read_npy(path: Path, on_disk: bool = False) -> NDArray[Any]:
    """The array of an `.npy` file; `on_disk` leaves it there until it is touched."""
    try:
        found: NDArray[Any] = np.load(path, mmap_mode="r" if on_disk else None, allow_pickle=False)
    except FileNotFoundError:
        raise ConfigError(f"{path}: the file does not exist; delete its folder to have it made again") from None
    except BROKEN as error:
        raise _broken(path, error) from None
    return found


def _broken(path: Path, error: Exception) -> ConfigError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return ConfigError(f"{path}: not a complete file of arrays ({reason}); delete it to have it made again")
