"""Log-mel images against closed forms: tones, Parseval's equation, triangles that add up to one, silence."""

from __future__ import annotations

import numpy as np
import pytest

from fedbayes.data import logmel
from fedbayes.data.draws import Floats
from fedbayes.data.logmel import BANDS, FRAMES, RATE, SAMPLES, SHAPE, WINDOW, log_mel, mel_triangles, power_spectra

PEAKS = logmel.to_hertz(np.linspace(logmel.to_mel(logmel.LOWEST_HERTZ), logmel.to_mel(RATE / 2), BANDS + 2))


def tone(hertz: float, gain: float = 1.0) -> Floats:
    """A second of a tone, as the only clip."""
    return gain * np.sin(2 * np.pi * hertz * np.arange(SAMPLES) / RATE)[np.newaxis]


def test_the_mel_scale_is_htks() -> None:
    assert logmel.to_mel(0) == 0
    assert logmel.to_mel(700) == pytest.approx(2595 * np.log10(2))
    assert logmel.to_mel(1000) == pytest.approx(1000, abs=0.02)
    assert logmel.to_hertz(np.array([logmel.to_mel(f) for f in (60.0, 440.0, 4000.0)])) == pytest.approx(
        [60, 440, 4000]
    )


def test_neighbouring_triangles_add_up_to_one_between_the_outer_peaks() -> None:
    weights = mel_triangles()
    bins = np.arange(WINDOW // 2 + 1) * RATE / WINDOW
    inside = (bins >= PEAKS[1]) & (bins <= PEAKS[-2])
    assert weights.shape == (BANDS, len(bins)) and inside.sum() > 100
    assert weights.sum(0)[inside] == pytest.approx(1)
    assert weights.min() == 0 and (weights.max(1) > 0.4).all(), "no band is empty"
    assert (weights[:, (bins <= PEAKS[0]) | (bins >= PEAKS[-1])] == 0).all()


def test_a_tone_on_a_bin_has_the_spectrum_of_the_hann_window() -> None:
    powers = power_spectra(tone(32 * RATE / WINDOW))
    expected = np.zeros((1, FRAMES, WINDOW // 2 + 1))
    expected[..., 31:34] = 0.25, 1, 0.25
    assert powers == pytest.approx(expected, abs=1e-12)


def test_spectra_hold_the_energy_of_the_frames() -> None:
    """Parseval: both sides of the spectrum add up to N times the energy under the window, here with a gain of 4 / N."""
    sounds = np.random.default_rng(0).normal(size=(2, SAMPLES))
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    both_sides = np.r_[1, np.full(WINDOW // 2 - 1, 2), 1]
    found = (power_spectra(sounds) * both_sides).sum(-1)
    for frame in (0, 7, FRAMES - 1):
        energy = ((sounds[:, frame * logmel.HOP :][:, :WINDOW] * hann) ** 2).sum(1)
        assert found[:, frame] == pytest.approx(energy * WINDOW * (4 / WINDOW) ** 2)


@pytest.mark.parametrize("band", range(BANDS))
def test_a_tone_at_the_peak_of_a_band_is_loudest_there(band: int) -> None:
    image = log_mel(tone(PEAKS[band + 1], gain=0.1))
    assert image.shape == (1, *SHAPE) and image.dtype == np.uint8
    assert set(image[0, 0].argmax(0)) == {band}


def test_ten_times_the_amplitude_is_a_quarter_of_the_range() -> None:
    quiet, loud = (log_mel(tone(1000.0, gain)).astype(float).max() for gain in (0.01, 0.1))
    assert loud - quiet == pytest.approx(255 * 20 / 80, abs=1)


def test_silence_is_nought_and_what_is_too_loud_is_cut() -> None:
    assert (log_mel(np.zeros((2, SAMPLES))) == 0).all()
    assert log_mel(tone(1000.0, 1e-6)).max() == 0
    assert log_mel(tone(1000.0, 1e6)).max() == 255


def test_a_click_is_seen_at_its_time_only() -> None:
    sound = np.zeros((1, SAMPLES))
    sound[0, 4000] = 1.0
    lit = np.flatnonzero(log_mel(sound)[0, 0].any(0))
    # Frames begin every 128 samples and are 256 long.
    assert lit.tolist() == [30, 31]
