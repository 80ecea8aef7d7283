"""Where raw files come from: a folder of the user's, torchvision's download, or an installed package.

A folder the user points to is only read: its files are checked and unpacked into a staging folder of ours.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedbayes.reading import ConfigError

VARIABLE = "FEDBAYES_DATA"


class RawFile(NamedTuple):
    """A raw file as the manifest of a dataset lists it."""

    name: str
    bytes: int
    md5: str


class RawData(NamedTuple):
    """What a reader returns.

    `inputs` are (sample, ...): uint8 images (channel, height, width), int32 tokens (position,), or float features;
    `labels` are int64 (sample,). `read_from` names the place for people, `files` what was read there. `tables` hold
    what else belongs to the dataset: `users` (int64, sample: whose it is, counted from 0), and whatever a reader adds.
    """

    inputs: NDArray[Any]
    labels: NDArray[np.int64]
    files: list[RawFile]
    read_from: str
    tables: Mapping[str, NDArray[Any]] = MappingProxyType({})


def data_root(configured: str | None = None) -> Path | None:
    """The folder with the user's own data: `execution.data_root`, else the variable FEDBAYES_DATA, else none."""
    found = configured or os.environ.get(VARIABLE)
    return Path(found).expanduser() if found else None


def describe(path: Path, name: str) -> RawFile:
    """Size and md5 of a file; md5 because that is what torchvision publishes."""
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    return RawFile(name, path.stat().st_size, digest)


def described(content: bytes, name: str) -> RawFile:
    """The same of a file that is in memory."""
    return RawFile(name, len(content), hashlib.md5(content, usedforsecurity=False).hexdigest())


def stage(loader: Any, root: Path, staging: Path) -> list[RawFile]:
    """Unpack the files of a torchvision dataset from `root` to `staging`, both in torchvision's layout.

    Packed files are checked against torchvision's md5 sums and win over unpacked ones, which have no published sum. So
    do packed files that lie in `root` itself, as Debian's `dataset-fashion-mnist` has them: they are packed anew, and
    the digest of the dataset answers for them.

    Args:
        loader: the dataset's class in `torchvision.datasets`, for instance `MNIST`.
        root: folder that holds `MNIST/raw/train-images-idx3-ubyte.gz` and so on.
        staging: a folder of ours.
    """
    raw = Path(loader.__name__) / "raw"
    (staging / raw).mkdir(parents=True)
    files = []
    for name, md5 in loader.resources:
        packed, plain = root / raw / name, root / raw / Path(name).stem
        unpacked = staging / raw / plain.name
        if packed.is_file():
            files.append(describe(packed, (raw / name).as_posix()))
            check_md5(packed, files[-1], md5)
            _unpack(packed, unpacked)
        elif (root / name).is_file():
            files.append(describe(root / name, name))
            _unpack(root / name, unpacked)
        elif plain.is_file():
            files.append(describe(plain, (raw / plain.name).as_posix()))
            unpacked.symlink_to(plain.resolve())
        else:
            raise missing(packed, root, md5)
    return files


def _unpack(packed: Path, target: Path) -> None:
    with complete_gzip(str(packed)), gzip.open(packed) as source, target.open("wb") as stream:
        shutil.copyfileobj(source, stream)


@contextmanager
def complete_gzip(shown: str) -> Iterator[None]:
    """One sentence for a gzip file, shown under this name, that is read inside and is cut short or something else."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ConfigError(f"{shown}: not a complete gzip file ({error}); put a good copy there") from None


def check_md5(path: Path, found: RawFile, md5: str) -> None:
    """Refuse a file that is not the published one."""
    if found.md5 != md5:
        raise ConfigError(f"{path}: the file is corrupt: its md5 is {found.md5}, expected {md5}; put a good copy there")


def missing(path: Path, root: Path, md5: str | None = None) -> ConfigError:
    """What is said when the user's folder lacks a file."""
    folder = "" if root.is_dir() else " (nor does the folder itself)"
    known = f" (md5 {md5})" if md5 else ""
    return ConfigError(
        f"{path}: the file does not exist{folder}; put it there{known}, or let {VARIABLE} or execution.data_root "
        f"point to the folder that holds {path.relative_to(root).as_posix()}; it is now {root}"
    )


def own_file(data_root: Path | None, name: str) -> Path:
    """A file below the user's folder, for data that nothing downloads."""
    if data_root is None:
        raise ConfigError(
            f"{name}: nothing downloads this file; let {VARIABLE} or execution.data_root point to a folder that holds "
            "it"
        )
    path = data_root / name
    if not path.is_file():
        raise missing(path, data_root)
    return path


def folder_of(loader: Any, wanted: str, target: Path, data_root: Path | None, **choice: Any) -> Path:
    """The folder with a dataset's raw files: the user's, or one of ours that torchvision downloads into.

    Args:
        loader: the dataset's class in torchvision.
        wanted: the files, in words, for a user without a network.
        target: folder a download goes below; files that are there already stay.
        data_root: the user's folder, if there is one.
        choice: what else the loader must be told to download the right part.
    """
    if data_root is not None:
        return data_root
    folder = target / "download"
    try:
        loader(folder, download=True, **choice)
    except (RuntimeError, OSError, HTTPException) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"{loader.__name__} could not be downloaded ({reason}); without a network let {VARIABLE} or "
            f"execution.data_root point to a folder that holds {wanted}"
        ) from None
    return folder


def packaged(package: str, file: str) -> Path:
    """Path of a data file inside an installed package, which is not imported."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ConfigError(f"the package {package!r}, which ships {file}, is not installed; run 'pip install {package}'")
    path = Path(spec.origin).parent / file
    if not path.is_file():
        raise ConfigError(f"the installed package {package!r} has no file {file}; install the version in the lock file")
    return path
