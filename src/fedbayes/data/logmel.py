r"""One second of sound as an image: log-mel bands, the usual input of a small keyword detector.

Frames of 32 ms under a Hann window, one every 16 ms; their power spectrum, weighed by triangles that stand at equal
distances on the mel scale; decibels, cut off below -80 and above 0, in 255 equal steps. 0 dB is a tone of full scale,
$|x_t| \le 1$. Computed in float64 and stored as uint8: processors that differ in the last digit make the same image.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedbayes.data.draws import Floats

RATE = 8000  # samples a second
SAMPLES = 8000  # one second
WINDOW = 256
HOP = 128
BANDS = 40
FRAMES = 1 + (SAMPLES - WINDOW) // HOP
SHAPE = (1, BANDS, FRAMES)
LOWEST_HERTZ = 60.0
FLOOR_DB = -80.0


def log_mel(sounds: Floats) -> NDArray[np.uint8]:
    """Sounds (clip, sample) as images (clip, 1, band, frame): low bands first, 0 is silence."""
    bands = power_spectra(sounds) @ mel_triangles().T
    decibels = 10 * np.log10(np.maximum(bands, 10 ** (FLOOR_DB / 10)))
    levels = np.rint(np.clip(1 - decibels / FLOOR_DB, 0, 1) * 255)
    return np.ascontiguousarray(levels.astype(np.uint8).swapaxes(1, 2)[:, np.newaxis])


def power_spectra(sounds: Floats) -> Floats:
    r"""Power of each frequency of each frame (clip, frame, bin): 1 for a tone of full scale on a bin.

    $P_k = |\sum_n w_n x_n e^{-2 \pi i k n / N}|^2 (2 / \sum_n w_n)^2$, with the periodic Hann window $w$ of length $N$.
    """
    window = np.sin(np.pi * np.arange(WINDOW) / WINDOW) ** 2
    frames = np.lib.stride_tricks.sliding_window_view(sounds, WINDOW, axis=1)[:, ::HOP]
    spectra = np.fft.rfft(frames * (window * 2 / window.sum()))
    return np.asarray(spectra.real**2 + spectra.imag**2)


def mel_triangles() -> Floats:
    """Weights (band, bin): triangles of height 1, each from the peak of its left to that of its right neighbour."""
    peaks = to_hertz(np.linspace(to_mel(LOWEST_HERTZ), to_mel(RATE / 2), BANDS + 2))
    bins = np.fft.rfftfreq(WINDOW, 1 / RATE)
    left, middle, right = (peaks[at : at + BANDS, np.newaxis] for at in range(3))
    return np.maximum(0, np.minimum((bins - left) / (middle - left), (right - bins) / (right - middle)))


def to_mel(hertz: float) -> float:
    """The mel scale in HTK's formula: 2595 lg(1 + f / 700)."""
    return float(2595 * np.log10(1 + hertz / 700))


def to_hertz(mel: Floats) -> Floats:
    """Its inverse."""
    return 700 * (10 ** (mel / 2595) - 1)
