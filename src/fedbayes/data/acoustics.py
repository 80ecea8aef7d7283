r"""What five types of devices hear of a spoken word: $y = h * (s + v) + n$.

$s$ is the word, brought to one level and put somewhere into a second of silence; $v$ is what else sounds in a state
(nothing, playback, an alarm); $h$ is the fixed impulse response of a type of device; $n$ is its own noise. A word has
the same $s$ and $v$ at all types, so that types can be compared; the noise is new each time.

Self-FL tests five types A-E in the states normal, playback and alarm, of which A and C have no alarm (its Tables 5, 6).
It describes neither devices nor states: all numbers below are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import signal

from fedbayes.data.draws import Draws, Floats
from fedbayes.data.logmel import RATE, SAMPLES

LEVEL_DB = -20.0  # power of a word over its own length; 0 is the power of a constant of full scale

NOISE_KNEE_HERTZ = 100.0


class Device(NamedTuple):
    """A type of device."""

    name: str
    # Delay in milliseconds and gain of what room and case send back after the direct sound.
    reflections: tuple[tuple[float, float], ...]
    # The microphone hears x_t - tilt x_{t-1}: above 0 it loses bass, below 0 treble.
    tilt: float
    # Power of its own noise, which falls above 100 Hz like f^-colour: 0 is white, 1 pink, 2 brown.
    noise_db: float
    colour: float
    has_alarm: bool


DEVICES = (
    Device("A", ((2.0, 0.40), (5.0, 0.20)), 0.0, -31.0, 0.0, False),
    Device("B", ((4.0, 0.60), (11.0, 0.45), (23.0, 0.30), (41.0, 0.20)), -0.6, -27.0, 1.0, True),
    Device("C", ((1.0, -0.50), (3.0, 0.30)), 0.7, -29.0, 0.5, False),
    Device("D", ((7.0, 0.70), (17.0, 0.55), (31.0, 0.45), (53.0, 0.35), (79.0, 0.25)), 0.3, -25.0, 0.0, True),
    Device("E", ((3.0, -0.35), (13.0, 0.50), (29.0, 0.25)), -0.3, -22.0, 2.0, True),
)

STATES = ("normal", "playback", "alarm")
NORMAL, PLAYBACK, ALARM = range(3)
# Power of a word (over its own length) above that of the playback or the alarm (over the second).
PLAYBACK_SNR_DB = 5.0
ALARM_SNR_DB = 0.0
VOICES = 4
ALARM_HERTZ = (800.0, 1600.0, 2400.0)
ALARM_BEEPS = 4  # a second, each half a period long

# Every (type, state) there is.
COMBINATIONS = tuple(
    (device, state)
    for device, facts in enumerate(DEVICES)
    for state in range(len(STATES))
    if state != ALARM or facts.has_alarm
)


def at_power(sound: Floats, decibels: float) -> Floats:
    """The sound with another power; silence stays silence."""
    power = np.mean(sound**2)
    return sound * np.sqrt(10 ** (decibels / 10) / power) if power > 0 else sound


def placed(clip: Floats, draws: Draws) -> Floats:
    """A second of silence with the clip, at its level, somewhere in it; of a longer clip the loudest second."""
    if len(clip) > SAMPLES:
        energy = np.cumsum(np.concatenate([[0.0], clip**2]))
        loudest = int(np.argmax(energy[SAMPLES:] - energy[:-SAMPLES]))
        clip = clip[loudest : loudest + SAMPLES]
    first = int(draws.below(SAMPLES - len(clip) + 1, 1)[0])
    return np.pad(at_power(clip, LEVEL_DB), (first, SAMPLES - first - len(clip)))


def babble(voices: Sequence[Floats], own: int, draws: Draws) -> Floats:
    """Playback: words of other clips, turned round within the second, all at once.

    Args:
        voices: the placed words to choose from.
        own: a place in `voices` that is left out, unless it is the only one.
        draws: the stream that chooses.
    """
    chosen = (own + 1 + draws.below(len(voices) - 1, VOICES)) % len(voices)
    turns = draws.below(SAMPLES, VOICES)
    together = np.sum([np.roll(voices[voice], turn) for voice, turn in zip(chosen, turns, strict=True)], axis=0)
    return at_power(together, LEVEL_DB - PLAYBACK_SNR_DB)


def alarm(draws: Draws) -> Floats:
    """Beeps of three tones, from a random moment of their period on."""
    time = (np.arange(SAMPLES) + draws.below(SAMPLES, 1)[0]) / RATE
    tones = np.sum([np.sin(2 * np.pi * hertz * time) for hertz in ALARM_HERTZ], axis=0)
    return at_power(tones * ((time * ALARM_BEEPS) % 1 < 0.5), LEVEL_DB - ALARM_SNR_DB)


def impulse_response(device: Device) -> Floats:
    """The direct sound, its reflections and the tilt, with a sum of squares of 1."""
    taps = {0: 1.0} | {round(delay * RATE / 1000): gain for delay, gain in device.reflections}
    room = np.zeros(max(taps) + 1)
    room[list(taps)] = list(taps.values())
    tilted = np.convolve(room, [1.0, -device.tilt])
    return np.asarray(tilted / np.linalg.norm(tilted))


def heard(device: Device, sounds: Floats) -> Floats:
    """What the microphone hears of sounds (clip, sample), without its noise; what rings on after the second is cut."""
    response = impulse_response(device)[np.newaxis]
    return np.asarray(signal.fftconvolve(sounds, response, axes=1)[:, :SAMPLES])


def noise(device: Device, draws: Draws) -> Floats:
    """A second of the microphone's own noise."""
    spectrum = np.fft.rfft(draws.normal(SAMPLES))
    spectrum[0] = 0
    spectrum *= np.maximum(np.fft.rfftfreq(SAMPLES, 1 / RATE), NOISE_KNEE_HERTZ) ** (-device.colour / 2)
    return at_power(np.fft.irfft(spectrum, SAMPLES), device.noise_db)
