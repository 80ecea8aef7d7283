"""Wake words: one spoken word against all others, heard by five types of devices in up to three states.

Self-FL trains on proprietary audio. Here any set of spoken words serves: each clip goes through every type of device in
each of its states (13 combinations, see `acoustics`) and becomes a log-mel image (see `logmel`). So the test sets of
two types in one state hold the same words, and clips of the training part never sound in the test part.

Samples: the training part, then the test part; in each clip after clip, 13 samples a clip in the order of
`COMBINATIONS`. Label 1 is the keyword. Tables: `device` (0-4) and `state` (0-2) of each sample, and `users`: Self-FL
has four clients a type, so the training samples of type d are dealt at random, in equal numbers, to the clients 4 d to
4 d + 3; the test samples likewise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedbayes.data.acoustics import (
    ALARM,
    COMBINATIONS,
    DEVICES,
    NORMAL,
    PLAYBACK,
    STATES,
    alarm,
    babble,
    heard,
    noise,
    placed,
)
from fedbayes.data.draws import Draws, Floats
from fedbayes.data.logmel import SHAPE, log_mel
from fedbayes.data.sources import RawData, RawFile

SEED = 2204_08069  # Self-FL's number at arXiv
CLIENTS_PER_DEVICE = 4
# Second numbers of a stream's path, behind the part: purposes never share bits.
PLACE, VOICES, BEEPS, NOISE, DEAL = range(5)
# Clips that are in memory as sound of one combination at once.
AT_ONCE = 200


class Words(NamedTuple):
    """The clips of a part: sounds at 8 kHz of any length, and whether each is the keyword (1) or not (0)."""

    clips: Sequence[Floats]
    labels: NDArray[np.int64]


def dataset(train: Words, test: Words, files: list[RawFile], read_from: str) -> RawData:
    """The dataset made of two parts, in each of which the keyword and another word are spoken at least once."""
    parts = [_part(number, words) for number, words in enumerate((train, test))]
    inputs, labels, device, state, users = (np.concatenate(same) for same in zip(*parts, strict=True))
    return RawData(inputs, labels, files, read_from, {"device": device, "state": state, "users": users})


def _part(number: int, words: Words) -> tuple[NDArray[Any], ...]:
    """Images, labels, types, states and clients of a part."""
    device, state = np.tile(np.array(COMBINATIONS, np.int64).T, len(words.clips))
    return images(number, words), np.repeat(words.labels, len(COMBINATIONS)), device, state, _deal(number, device)


def groups(tables: Mapping[str, NDArray[Any]]) -> list[str] | None:
    """State and type of device of each sample by name, `normal-A`; None for a dataset that is not about wake words."""
    if not {"device", "state"} <= set(tables):
        return None
    pairs = zip(tables["state"].tolist(), tables["device"].tolist(), strict=True)
    return [f"{STATES[state]}-{DEVICES[device].name}" for state, device in pairs]


def images(number: int, words: Words) -> NDArray[np.uint8]:
    """Images (clip x combination, 1, band, frame) of a part.

    Args:
        number: of the part, for its random numbers.
        words: its clips.
    """
    sounds = np.stack([placed(clip, Draws(SEED, number, PLACE, at)) for at, clip in enumerate(words.clips)])
    # The keyword is never part of the playback: it would be heard where the label says it is not.
    rest = np.flatnonzero(words.labels == 0)
    others = [sounds[row] for row in rest]
    found = np.empty((len(sounds), len(COMBINATIONS), *SHAPE), np.uint8)
    for first in range(0, len(sounds), AT_ONCE):
        rows = range(first, min(first + AT_ONCE, len(sounds)))
        own = sounds[first : rows.stop]
        voices = [babble(others, int(np.searchsorted(rest, row)), Draws(SEED, number, VOICES, row)) for row in rows]
        beeps = [alarm(Draws(SEED, number, BEEPS, row)) for row in rows]
        mixed = {NORMAL: own, PLAYBACK: own + voices, ALARM: own + beeps}
        for at, (device, state) in enumerate(COMBINATIONS):
            floor = [noise(DEVICES[device], Draws(SEED, number, NOISE, row, at)) for row in rows]
            found[first : rows.stop, at] = log_mel(heard(DEVICES[device], mixed[state]) + floor)
    return found.reshape(-1, *SHAPE)


def _deal(number: int, device: NDArray[np.int64]) -> NDArray[np.int64]:
    """The client of each sample."""
    users = np.empty_like(device)
    for kind in range(len(DEVICES)):
        rows = np.flatnonzero(device == kind)
        client = np.arange(len(rows)) % CLIENTS_PER_DEVICE
        users[Draws(SEED, number, DEAL, kind).shuffle(rows)] = CLIENTS_PER_DEVICE * kind + client
    return users
