r"""Images as each client's noise model shows them.

The corruptions are those of the library `imagecorruptions`. It draws from NumPy's global generator; `impulse_noise`
and `glass_blur` make generators of their own (the latter inside Numba) from a seed that they take. Here a corrupted
image depends on (seed, sample, noise model) alone: each image has a seed made from these, the global generator starts
from it, and gets its state back afterwards. Another processor may differ in the last bit of a pixel, as the library
filters in floating point, so what is made here is recorded by its digest and compared with none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbayes.data.draws import Draws
from fedbayes.reading import ConfigError
from fedbayes.shifts import CORRUPTIONS, NoiseModel, NoisyClients

Images = NDArray[np.uint8]  # (sample, channel, height, width)
Indices = NDArray[np.int64]

# Corruptions that never look at NumPy's global generator, but take a seed.
SEEDED = frozenset({"impulse_noise", "glass_blur"})

# Last numbers of a stream's path. Paths of six numbers are of no split rule.
CHOICE, NOISE = 0, 1


def choose(shift: NoisyClients, clients: int, seed: int) -> tuple[NoiseModel, ...]:
    """The noise model of each client."""
    models, draws = shift.noise_models, Draws(seed, 0, 0, 0, 0, CHOICE)
    if shift.choice == "distinct":
        chosen = draws.shuffle(np.arange(len(models)))[:clients]
    else:
        chosen = draws.below(len(models), clients)
    return tuple(models[number] for number in chosen)


def noisy(inputs: Images, held: Sequence[Indices], shift: NoisyClients, seed: int) -> tuple[Images, list[NoiseModel]]:
    """The samples that clients hold, corrupted, client by client; and each client's noise model.

    Args:
        inputs: images of the whole dataset.
        held: all samples of each client, as positions in the dataset.
        shift: who gets which noise.
        seed: of the choice and of the noise itself.
    """
    if inputs.dtype != np.uint8:
        raise ConfigError(f"the shift cannot be made: the dataset holds {inputs.dtype} numbers; expected uint8 images")
    if objection := shift.objection(inputs.shape[1:], len(held)):
        raise ConfigError(f"the shift cannot be made: {objection}")
    models = choose(shift, len(held), seed)
    images = np.empty((sum(map(len, held)), *inputs.shape[1:]), np.uint8)
    first = 0
    for own, model in zip(held, models, strict=True):
        clean = wrapped_around(inputs[own]) if shift.wraps_around else inputs[own]
        images[first : first + len(own)] = corrupted(clean, own, model, seed)
        first += len(own)
    return images, list(models)


def corrupted(images: Images, samples: Indices, model: NoiseModel, seed: int) -> Images:
    """Images after a corruption.

    Args:
        images: clean ones.
        samples: the position of each in its dataset.
        model: corruption and severity.
        seed: any non-negative number.
    """
    found = np.empty_like(images)
    place = CORRUPTIONS.index(model.corruption)
    with _global_generator_kept():
        for row, (image, sample) in enumerate(zip(images, samples, strict=True)):
            own_seed = Draws(seed, int(sample), place, model.severity, 0, NOISE).below(2**32, 1)
            found[row] = _corrupted(image, model, int(own_seed[0]))
    return found


@cache
def _library() -> Any:
    """The corrupting function; imported late: it takes a second, which jobs that only read images should not pay."""
    try:
        from imagecorruptions import corrupt
    except ImportError as error:
        raise ConfigError(
            f"the package imagecorruptions-imaug cannot be imported ({error}); where its OpenCV misses libraries of a "
            "screen, run 'pip install --no-deps --force-reinstall opencv-python-headless'"
        ) from None
    return corrupt


def _corrupted(image: Images, model: NoiseModel, seed: int) -> Images:
    """One image (channel, height, width).

    The library answers in three channels to a grey image as well. Of these the green one is kept: it is the nearest to
    what a grey camera would see, while a mean of all three would weaken noise that is drawn for each of them.
    """
    corrupt = _library()
    np.random.seed(seed)  # noqa: NPY002 (the library's generator)
    own = {"seed": seed} if model.corruption in SEEDED else {}
    pixels = np.ascontiguousarray(image.transpose(1, 2, 0))
    try:
        with np.errstate(invalid="raise"):
            found = corrupt(pixels, model.severity, model.corruption, **own)
    except FloatingPointError:
        if model.corruption != "spatter":
            raise
        # No drop fell on the image; the library would divide 0 by 0 and return a black one.
        return image
    channels: Images = found.transpose(2, 0, 1)
    return channels if len(image) == 3 else channels[1:2]


def wrapped_around(images: Images) -> Images:
    r"""The bytes that the public code of LR-BPFL corrupts in place of the images (`gen_noisy_data.py`).

    With pixels $v$ in 0-255 it computes, in single precision, $255 (v / 255 - 0.5) / 0.5 = 2 v - 255$ and casts that to
    a byte: towards zero, and modulo 256 where it is negative. Rounding leaves the values of 64 <= v < 128 a little
    above a whole number, so that they end at the next one; the outcome is

        v < 64: 2 v + 1;    64 <= v < 128: (2 v + 2) mod 256;    128 <= v: 2 v - 255.

    So both halves of the scale are stretched over all of it. What comes out of the corruption the public code divides
    by 255 and does not normalise again: `preprocess: {mean: [0], std: [1]}`.
    """
    single = np.float32
    normalised = (np.arange(256, dtype=single) / single(255) - single(0.5)) / single(0.5)
    # By way of wide integers: what a cast of a negative float to a byte gives is left to the processor.
    table = np.trunc(normalised * single(255)).astype(np.int64).astype(np.uint8)
    wrapped: Images = table[images]
    return wrapped


@contextmanager
def _global_generator_kept() -> Iterator[None]:
    """Give NumPy's global generator its state back."""
    state = np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
