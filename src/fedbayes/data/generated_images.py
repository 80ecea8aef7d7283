r"""Generated images in the shapes of CIFAR, Fashion-MNIST and FEMNIST, for trying the workflow without any download.

They show that the machine works and stand for no picture. Each class has a few prototypes, which are smooth random
colour fields; all classes share some backdrops of the same kind. A sample is a prototype $p$ of its class before a
backdrop $b$, both moved by a few pixels, with a contrast $a$ and with noise $e$ of its own:

$$x = 255 \, \mathrm{clip}(l + a s (p + w b + e), 0, 1).$$

The level $l$ and the spread $s$ bring the pixels near those of the dataset that is stood in for. In `femnist-like` each
backdrop is a writer's, who adds it to all letters, and writers have unequal numbers of samples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedbayes.data.draws import Draws, Floats
from fedbayes.data.sources import RawData

SEED = 20240501  # any number, but for ever the same
PROTOTYPES = 3  # of a class
FREQUENCY = 4  # waves across a field, at the most
MOVES = 8  # pixels, along each axis
BACKDROP_WEIGHT = 0.7  # w
CONTRASTS = (0.5, 1.5)  # a is uniform between them
SHARED, CLASS = range(2)  # random streams: one for what all classes share, one a class


class Kind(NamedTuple):
    """What the generated sets differ in."""

    number: int  # keeps the random streams of two sets apart
    shape: tuple[int, int, int]
    classes: int
    train: int  # samples of a class in the training part
    test: int  # in the test part
    level: float  # l
    spread: float  # s
    noise: float  # e is uniform between -noise and noise
    backdrops: int = 30
    unequal: float = 0.0  # standard deviation of the logarithm of how often a backdrop is taken; 0: no writers


# By the dataset that is stood in for.
KINDS = {
    "cifar10": Kind(1, (3, 32, 32), 10, 500, 100, level=0.47, spread=0.15, noise=2.0),
    "cifar100": Kind(2, (3, 32, 32), 100, 60, 12, level=0.47, spread=0.15, noise=1.0),
    "fashion-mnist": Kind(3, (1, 28, 28), 10, 500, 100, level=0.2, spread=0.3, noise=1.0),
    "femnist": Kind(4, (1, 28, 28), 10, 250, 50, level=0.1, spread=0.3, noise=1.0, backdrops=60, unequal=0.5),
}


def generate(kind: Kind) -> RawData:
    """The images, training part first, classes in turn; writers, where there are some, in the table `users`."""
    shared = Draws(SEED, kind.number, SHARED)
    backdrops = _fields(shared, kind.backdrops, kind.shape)
    sizes = np.cumsum(np.exp(kind.unequal * shared.normal(kind.backdrops)))
    each = kind.train + kind.test
    images = np.empty((each, kind.classes, *kind.shape), np.uint8)
    chosen = np.empty((each, kind.classes), np.int64)
    for label in range(kind.classes):
        draws = Draws(SEED, kind.number, CLASS, label)
        chosen[:, label] = np.searchsorted(sizes, sizes[-1] * draws.uniform(each))
        images[:, label] = _samples(draws, kind, backdrops[chosen[:, label]])
    labels = np.tile(np.arange(kind.classes, dtype=np.int64), each)
    tables = {"users": chosen.reshape(-1)} if kind.unequal else {}
    return RawData(images.reshape(-1, *kind.shape), labels, [], "the generated set", tables)


def _samples(draws: Draws, kind: Kind, backdrops: Floats) -> NDArray[np.uint8]:
    """Samples of one class, each before its backdrop."""
    count = len(backdrops)
    prototypes = _fields(draws, PROTOTYPES, kind.shape)[draws.below(PROTOTYPES, count)]
    low, high = CONTRASTS
    contrast = (low + (high - low) * draws.uniform(count))[:, np.newaxis, np.newaxis, np.newaxis]
    noise = kind.noise * (2.0 * draws.uniform(count, *kind.shape) - 1.0)
    scene = _moved(draws, prototypes, kind.shape) + BACKDROP_WEIGHT * _moved(draws, backdrops, kind.shape) + noise
    pixels = 255.0 * np.clip(kind.level + kind.spread * contrast * scene, 0.0, 1.0)
    return np.rint(pixels).astype(np.uint8)


def _fields(draws: Draws, count: int, shape: tuple[int, int, int]) -> Floats:
    """Smooth random fields of variance 1 (count, channel, height, width), larger than images by `MOVES`.

    Sums of waves along both axes whose amplitudes are normal and fall with the frequency.
    """
    channels, *sides = shape
    along = [_waves(side + MOVES) for side in sides]
    amplitudes = draws.normal(count, channels, len(along[0]), len(along[1]))
    return np.asarray(np.einsum("nckl,kh,lw->nchw", amplitudes, *along, optimize=True))


def _waves(length: int) -> Floats:
    """A constant, then cosine and sine of each frequency (wave, position); squares sum to 1 at every position."""
    angles = 2.0 * np.pi * np.arange(length) / length
    rows = [np.ones(length)]
    for frequency in range(1, FREQUENCY + 1):
        rows += [np.cos(frequency * angles) / frequency, np.sin(frequency * angles) / frequency]
    waves = np.stack(rows)
    return np.asarray(waves / np.sqrt((waves**2).sum(axis=0)))


def _moved(draws: Draws, fields: Floats, shape: tuple[int, int, int]) -> Floats:
    """A window of each field (sample, channel, height, width), at a random place."""
    windows = np.lib.stride_tricks.sliding_window_view(fields, shape[1:], axis=(2, 3))
    top, left = (draws.below(MOVES + 1, len(fields)) for _ in range(2))
    return np.asarray(windows[np.arange(len(fields)), :, top, left])
