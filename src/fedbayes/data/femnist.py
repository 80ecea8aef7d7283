"""Handwriting for the experiments on FEMNIST: ten letters of EMNIST as FedProx takes them, and MNIST by its writers.

EMNIST's files in this format do not say who wrote an image. MNIST's do not either, but QMNIST (Yadav and Bottou 2019,
arXiv 1905.10498) traced each of its 70,000 digits back to its writer.
"""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbayes.data import idx
from fedbayes.data.sources import RawData, RawFile, check_md5, complete_gzip, describe, folder_of, missing
from fedbayes.reading import ConfigError

SIDE = 28
PARTS = ("train", "test")

RAW = "EMNIST/raw"
ARCHIVE = f"{RAW}/gzip.zip"
# Classes of EMNIST's split `byclass`: 0-9, A-Z, a-z. FedProx's FEMNIST has a to j.
BYCLASS = 62
FIRST_LETTER = 36
LETTERS = 10

# Columns of QMNIST's tables of labels, and the test images of MNIST, which are the first of QMNIST's.
COLUMNS, CLASS, WRITER = 8, 0, 2
MNIST_TEST = 10_000


def letters(loader: Any, target: Path, data_root: Path | None) -> RawData:
    """The lower-case letters a to j of EMNIST's split `byclass` as classes 0 to 9, training part first.

    EMNIST stores each image transposed; here it is upright. Files are read inside torchvision's archive, in which the
    images alone are 640 MB once unpacked; where there is no archive, from the same files beside it, packed or not.

    Args:
        loader: torchvision's `EMNIST`, which knows the archive's md5 sum.
        target: folder a download goes to.
        data_root: the user's folder, which is only read; None lets torchvision download.
    """
    root = folder_of(loader, ARCHIVE, target, data_root, split="byclass")
    files = _emnist_files(loader, root)
    parts = [_letters_of(root, part) for part in PARTS]
    images, labels = (np.concatenate(same) for same in zip(*parts, strict=True))
    return RawData(images, labels, files, str(root))


def _names(part: str) -> tuple[str, str]:
    return f"emnist-byclass-{part}-images-idx3-ubyte", f"emnist-byclass-{part}-labels-idx1-ubyte"


def _emnist_files(loader: Any, root: Path) -> list[RawFile]:
    """The archive, with the published sum; else the files beside it, for which no sums are published."""
    archive = root / ARCHIVE
    if archive.is_file():
        found = describe(archive, ARCHIVE)
        check_md5(archive, found, loader.md5)
        return [found]
    paths = [_beside(root, name) for part in PARTS for name in _names(part)]
    if not all(path.is_file() for path in paths):
        raise missing(archive, root, loader.md5)
    return [describe(path, path.relative_to(root).as_posix()) for path in paths]


def _beside(root: Path, name: str) -> Path:
    packed = root / RAW / f"{name}.gz"
    return packed if packed.is_file() else root / RAW / name


def _letters_of(root: Path, part: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Upright images (sample, 1, height, width) and labels of one part."""
    images_file, labels_file = _names(part)
    with _opened(root, labels_file) as (stream, shown):
        labels = idx.read(stream, shown, "u1", ()).astype(np.int64)
    if labels.max(initial=0) >= BYCLASS:
        raise ConfigError(f"{shown}: found label {labels.max()}; allowed: 0 to {BYCLASS - 1}; put a good copy there")
    wanted = (labels >= FIRST_LETTER) & (labels < FIRST_LETTER + LETTERS)
    with _opened(root, images_file) as (stream, shown):
        images = idx.read(stream, shown, "u1", (SIDE, SIDE), keep=wanted)
    return np.ascontiguousarray(images.transpose(0, 2, 1))[:, np.newaxis], labels[wanted] - FIRST_LETTER


@contextmanager
def _opened(root: Path, name: str) -> Iterator[tuple[idx.Bytes, str]]:
    """The content of a file of EMNIST, and its name for a sentence about it."""
    archive, path = root / ARCHIVE, _beside(root, name)
    with ExitStack() as stack:
        if archive.is_file():
            members, member = stack.enter_context(zipfile.ZipFile(archive)), f"gzip/{name}.gz"
            stream, shown = stack.enter_context(members.open(member)), f"{archive}: {member}"
        else:
            stream, shown = stack.enter_context(path.open("rb")), str(path)
        if shown.endswith(".gz"):
            stack.enter_context(complete_gzip(shown))
            yield stack.enter_context(gzip.open(stream)), shown
        else:
            yield stream, shown


def by_writer(mnist: RawData, loader: Any, target: Path, data_root: Path | None) -> RawData:
    """MNIST with the writer of each digit as its user, numbered in the order of NIST's own numbers.

    No writer of a training image has written a test image.

    Args:
        mnist: all images of MNIST, training part first.
        loader: torchvision's `QMNIST`, which knows the md5 sums of the tables.
        target: folder a download goes to.
        data_root: the user's folder, which is only read; None lets torchvision download.
    """
    files, tables = [], []
    for part in PARTS:
        file, table = _writers(loader, part, target, data_root)
        files.append(file)
        tables.append(table)
    rows = np.concatenate([tables[0], tables[1][:MNIST_TEST]])
    shown = " and ".join(f"{mnist.read_from}/{file.name}" for file in files)
    if len(rows) != len(mnist.labels):
        raise ConfigError(
            f"{shown}: found {len(tables[0])} and {len(tables[1])} rows, which do not serve the {len(mnist.labels)} "
            f"images of MNIST: those for training, then {MNIST_TEST} for the test; put good copies there"
        )
    different = np.flatnonzero(rows[:, CLASS] != mnist.labels)
    if len(different):
        first = different[0]
        raise ConfigError(
            f"{shown}: image {first} has class {rows[first, CLASS]}, but class {mnist.labels[first]} in MNIST "
            f"({len(different)} of {len(rows)} differ); put good copies of both there"
        )
    _, users = np.unique(rows[:, WRITER], return_inverse=True)
    return mnist._replace(files=mnist.files + files, tables={"users": users.astype(np.int64)})


def _writers(loader: Any, part: str, target: Path, data_root: Path | None) -> tuple[RawFile, NDArray[np.int32]]:
    """QMNIST's table of labels for a part, with the published sum."""
    url, md5 = loader.resources[part][1]
    name = f"QMNIST/raw/{url.rsplit('/', 1)[-1]}"
    root = folder_of(loader, name, target, data_root, train=part == "train")
    path = root / name
    if not path.is_file():
        raise missing(path, root, md5)
    found = describe(path, name)
    check_md5(path, found, md5)
    with complete_gzip(str(path)), gzip.open(path) as stream:
        return found, idx.read(stream, str(path), "i4", (COLUMNS,))
