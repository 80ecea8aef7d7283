"""FEMNIST with its natural writers, from the JSON files that LEAF's scripts write (Caldas et al., arXiv 1812.01097).

`femnist/train/*.json` and `femnist/test/*.json`, each a mapping with `users`, `num_samples` and `user_data`; a user has
`x`, rows of 784 numbers from 0 to 1, and `y`, classes 0 to 61 (digits, capitals, lower case). LEAF makes the files from
NIST's scans, so there is neither a download nor a published sum.

Memory: one file is read at a time, and the pixels of a user become bytes as soon as they are parsed. So the largest
file is held twice, as bytes and as text (LEAF's own files of a hundred writers have some 150 MB), and so is one byte
a pixel of all images while the users are joined (630 MB for LEAF's 805,263): below 2 GB, not 20 as Python's numbers.
"""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedbayes.data.sources import VARIABLE, RawData, RawFile, described
from fedbayes.reading import ConfigError

CLASSES = 62
SIDE = 28
FOLDERS = ("femnist/train", "femnist/test")


class User(NamedTuple):
    """What one user has in one part."""

    file: Path
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]


def read(target: Path, data_root: Path | None) -> RawData:
    """The training files' samples, then the test files', each part by user in the order of their names.

    A user may be in both parts (LEAF's `-t sample`) or in one (`-t user`), and has one number. The division of the
    files is only an order here: a split rule cuts each user's samples anew. LEAF's paper is white, EMNIST's black.
    """
    if data_root is None:
        raise ConfigError(
            f"femnist-leaf cannot be downloaded: make it with LEAF's scripts and let {VARIABLE} or execution.data_root "
            f"point to the folder that holds {' and '.join(f'{folder}/*.json' for folder in FOLDERS)}"
        )
    files: list[RawFile] = []
    parts = [_part(data_root, folder, files) for folder in FOLDERS]
    numbers = {name: number for number, name in enumerate(sorted(set(chain(*parts))))}
    owned = [(numbers[name], part[name]) for part in parts for name in sorted(part)]
    if not owned:
        raise ConfigError(f"{data_root / FOLDERS[0]}: LEAF's files hold no user; put good copies there")
    return RawData(
        np.concatenate([user.images for _, user in owned]),
        np.concatenate([user.labels for _, user in owned]),
        files,
        str(data_root),
        {"users": np.repeat([number for number, _ in owned], [len(user.labels) for _, user in owned]).astype(np.int64)},
    )


def _part(root: Path, folder: str, files: list[RawFile]) -> dict[str, User]:
    """All users of a folder's files by name; the files are added to `files`."""
    paths = sorted((root / folder).glob("*.json"))
    if not paths:
        raise ConfigError(f"{root / folder}: expected LEAF's files *.json there, found none")
    found: dict[str, User] = {}
    for path in paths:
        content = path.read_bytes()
        files.append(described(content, path.relative_to(root).as_posix()))
        for name, user in _users(path, content).items():
            if name in found:
                raise ConfigError(f"{path}: user {name!r} is also in {found[name].file.name}; expected each user once")
            found[name] = user
    return found


def _users(path: Path, content: bytes) -> dict[str, User]:
    """All users of one file."""
    try:
        whole = json.loads(content.decode("utf-8"), object_pairs_hook=_mapping)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start}); put a good copy there") from None
    except _Twice as error:
        raise ConfigError(f"{path}: the key {str(error)!r} is written twice; expected each user once") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON ({error}); put a good copy there") from None
    kinds = {"users": list, "num_samples": list, "user_data": dict}
    for key, kind in kinds.items():
        if not isinstance(whole, dict) or not isinstance(whole.get(key), kind):
            raise ConfigError(f"{path}: {key}: expected a {'list' if kind is list else 'mapping'}, as LEAF writes it")
    names, counts, data = (whole[key] for key in kinds)
    if sorted(map(repr, names)) != sorted(map(repr, data)) or len(counts) != len(names):
        raise ConfigError(
            f"{path}: its {len(names)} users, {len(counts)} num_samples and {len(data)} entries of user_data do not "
            "belong together; expected one of each for every user"
        )
    return {name: _user(path, name, data[name], count) for name, count in zip(names, counts, strict=True)}


class _Twice(ValueError):
    """A key that JSON would silently take the last value of."""


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A mapping just parsed, its pixels as bytes if it has any: as Python's numbers they take thirty times as much."""
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise _Twice(key)
        mapping[key] = value
    pixels = _pixels(mapping["x"]) if "x" in mapping else None
    return mapping if pixels is None else mapping | {"x": pixels}


def _pixels(rows: Any) -> NDArray[np.uint8] | None:
    """255 times the numbers, rounded: (sample, 1, height, width); None if they are not rows of 784 from 0 to 1."""
    try:
        numbers = np.asarray(rows)
    except ValueError:  # rows of unequal length
        return None
    if numbers.dtype.kind not in "fiu" or numbers.shape[1:] != (SIDE**2,):
        return None
    if not ((numbers >= 0) & (numbers <= 1)).all():
        return None
    return np.asarray(np.rint(255 * numbers), np.uint8).reshape(-1, 1, SIDE, SIDE)


def _user(path: Path, name: str, data: Any, count: Any) -> User:
    """Images and labels of a user, whom every sentence names."""
    who = f"{path}: user {name!r}"
    if not isinstance(data, dict) or not {"x", "y"} <= data.keys() or not isinstance(data["y"], list):
        raise ConfigError(f"{who}: expected a mapping with the lists 'x' and 'y'; put a good copy there")
    images, labels = data["x"], data["y"]
    if len(labels) == 0:
        raise ConfigError(f"{who}: has no sample; leave such users out")
    if not isinstance(images, np.ndarray):
        raise ConfigError(f"{who}: x: expected rows of {SIDE**2} numbers from 0 to 1; put a good copy there")
    if not count == len(images) == len(labels):
        raise ConfigError(f"{who}: num_samples is {count}, but x has {len(images)} rows and y {len(labels)}")
    wrong = [label for label in labels if type(label) is not int or not 0 <= label < CLASSES]
    if wrong:
        raise ConfigError(f"{who}: y: found {wrong[0]!r}; allowed: whole numbers from 0 to {CLASSES - 1}")
    return User(path, images, np.array(labels, np.int64))
