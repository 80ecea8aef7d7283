"""Words that nobody spoke: three gliding tones each, where a voice has its formants.

This is sine-wave speech (Remez, Rubin, Pisoni, Carrell: Science 212, 1981), in which people understand words. It needs
no recordings, so that the whole way from sound to wake words runs anywhere.
"""

from __future__ import annotations

import numpy as np

from fedbayes.data.draws import Draws, Floats
from fedbayes.data.logmel import RATE
from fedbayes.data.sources import RawData
from fedbayes.data.wakeword import SEED, Words, dataset

# The first three formants in Hz (Peterson and Barney 1952, men).
VOWELS = {
    "a": (730.0, 1090.0, 2440.0),
    "e": (530.0, 1840.0, 2480.0),
    "i": (270.0, 2290.0, 3010.0),
    "o": (570.0, 840.0, 2410.0),
    "u": (300.0, 870.0, 2240.0),
}
GAINS = (1.0, 0.5, 0.25)
# The keyword, then the others.
WORDS = ("iao", "oai", "uea", "eou", "aui")
TAKES = 48
TEST_TAKES = 8
SECONDS = (0.35, 0.65)
SPEAKERS = (0.85, 1.15)  # a factor of all formants
STREAM = 2  # wakeword's own streams begin with the number of a part, 0 or 1


def wakeword_like() -> RawData:
    """Every word equally often; the last takes are the test part."""
    train, test = (_takes(takes) for takes in (range(TAKES - TEST_TAKES), range(TAKES - TEST_TAKES, TAKES)))
    return dataset(train, test, files=[], read_from="fedbayes.data.sine_words")


def _takes(takes: range) -> Words:
    clips = [word(vowels, Draws(SEED, STREAM, at, take)) for at, vowels in enumerate(WORDS) for take in takes]
    return Words(clips, np.repeat(np.arange(len(WORDS)) == 0, len(takes)).astype(np.int64))


def word(vowels: str, draws: Draws) -> Floats:
    """One take: its length, its speaker and how each vowel is formed are drawn."""
    length, speaker = (low + (high - low) * draws.uniform(1)[0] for low, high in (SECONDS, SPEAKERS))
    formed = np.array([VOWELS[vowel] for vowel in vowels]) * speaker * (0.95 + 0.1 * draws.uniform(len(vowels), 3))
    time = np.linspace(0, 1, int(length * RATE))
    targets = np.linspace(0, 1, len(vowels))
    tones = [np.interp(time, targets, track) for track in formed.T]
    sound = sum(gain * np.sin(2 * np.pi * np.cumsum(tone) / RATE) for gain, tone in zip(GAINS, tones, strict=True))
    return np.sin(np.pi * time) * sound
