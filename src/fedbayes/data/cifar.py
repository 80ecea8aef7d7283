"""CIFAR-10 and CIFAR-100 from their pickled batches, read without running what a pickle might hold.

Files lie in torchvision's folder (`cifar-10-batches-py/`) or still in its archive (`cifar-10-python.tar.gz`), whose
members are read in place: nothing is unpacked, so no member can leave a folder.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import tarfile
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbayes.data.sources import RawData, check_md5, described, folder_of, missing
from fedbayes.reading import ConfigError

SHAPE = (3, 32, 32)
# All that a pickled batch needs; numpy has moved house since 2009.
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): np._core.multiarray._reconstruct,  # type: ignore[attr-defined]
    ("numpy._core.multiarray", "_reconstruct"): np._core.multiarray._reconstruct,  # type: ignore[attr-defined]
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): lambda text, encoding: text.encode(encoding),
}


def read(loader: Any, key: str, target: Path, data_root: Path | None, any_order: bool = False) -> RawData:
    """All images, those for training first.

    Args:
        loader: `CIFAR10` or `CIFAR100` of torchvision, which knows names and md5 sums.
        key: name of the labels in a batch.
        target: folder a download goes to.
        data_root: the user's folder, which is only read; None lets torchvision download.
        any_order: accept copies that are not the published bytes, and bring the rows of each part into an order that
            depends on their content alone. The dataset's digest then says whether they are the same images.
    """
    root = folder_of(loader, loader.filename, target, data_root)
    # Opened for the first file that the folder lacks, and then once.
    archive = cache(partial(_archive, loader, root))
    parts, files = [], []
    for listed in (loader.train_list, loader.test_list):
        arrays = []
        for name, md5 in listed:
            path = root / loader.base_folder / name
            if not path.is_file() and not (root / loader.filename).is_file():
                raise missing(path, root, md5)
            content = path.read_bytes() if path.is_file() else archive()[f"{loader.base_folder}/{name}"]
            files.append(described(content, f"{loader.base_folder}/{name}"))
            if not any_order:
                check_md5(path, files[-1], md5)
            arrays.append(_arrays(path, content, key))
        images, labels = (np.concatenate(same) for same in zip(*arrays, strict=True))
        parts.append(by_content(images, labels) if any_order else (images, labels))
    images, labels = (np.concatenate(same) for same in zip(*parts, strict=True))
    return RawData(images, labels, files, str(root))


def by_content(images: NDArray[np.uint8], labels: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The same rows sorted by label and by the digest of the image: one order for all copies of a dataset."""
    digests = [hashlib.sha256(image.tobytes()).digest() for image in images]
    order = sorted(range(len(labels)), key=lambda row: (labels[row], digests[row]))
    return images[order], labels[order]


def _archive(loader: Any, root: Path) -> dict[str, bytes]:
    """The files of an archive with the published sum, by name."""
    path = root / loader.filename
    whole = path.read_bytes()
    check_md5(path, described(whole, path.name), loader.tgz_md5)
    with tarfile.open(fileobj=io.BytesIO(whole)) as members:
        return {member.name: stream.read() for member in members if (stream := members.extractfile(member))}


class _Careful(pickle.Unpickler):
    """Builds arrays, lists and strings, and refuses every other callable a pickle names."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no batch of CIFAR needs")
        return _ALLOWED[module, name]


def _arrays(path: Path, content: bytes, key: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images and labels of one pickled batch."""
    try:
        batch = _Careful(io.BytesIO(content), encoding="latin1").load()
    except Exception as error:  # a broken pickle raises whatever its bytes happen to ask for
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ConfigError(f"{path}: not a pickled batch of CIFAR images ({reason}); put a good copy there") from None
    if not isinstance(batch, dict) or not {"data", key} <= batch.keys():
        raise ConfigError(f"{path}: expected a dict with the entries 'data' and {key!r}; put a good copy there")
    return _images(path, batch["data"]), _labels(path, batch[key], len(batch["data"]))


def _images(path: Path, data: Any) -> NDArray[np.uint8]:
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape != (len(data), np.prod(SHAPE)):
        raise ConfigError(f"{path}: 'data': expected uint8 rows of {np.prod(SHAPE)} pixels; put a good copy there")
    return data.reshape(-1, *SHAPE)


def _labels(path: Path, labels: Sequence[int], samples: int) -> NDArray[np.int64]:
    if len(labels) != samples:
        raise ConfigError(f"{path}: {samples} images and {len(labels)} labels; put a good copy there")
    return np.asarray(labels, dtype=np.int64)
