"""Devices and states: levels, what is mixed in, impulse responses and noise, each against what it should be exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbayes.data import acoustics
from fedbayes.data.acoustics import (
    ALARM,
    COMBINATIONS,
    DEVICES,
    LEVEL_DB,
    alarm,
    at_power,
    babble,
    heard,
    impulse_response,
    noise,
    placed,
)
from fedbayes.data.draws import Draws, Floats
from fedbayes.data.logmel import RATE, SAMPLES


def decibels(sound: Floats) -> float:
    return float(10 * np.log10(np.mean(sound**2)))


def test_five_types_have_thirteen_states_and_two_have_no_alarm() -> None:
    assert [device.name for device in DEVICES] == list("ABCDE")
    assert len(COMBINATIONS) == 13
    assert {DEVICES[device].name for device, state in COMBINATIONS if state == ALARM} == set("BDE")


@given(st.floats(-80, 20), st.floats(1e-6, 1e6))
def test_power_is_what_was_asked_for(wanted: float, gain: float) -> None:
    sound = gain * np.sin(np.arange(100.0))
    changed = at_power(sound, wanted)
    assert decibels(changed) == pytest.approx(wanted)
    assert changed / changed[1] == pytest.approx(sound / sound[1]), "but for its power it is the same sound"


def test_silence_has_no_other_power() -> None:
    assert (at_power(np.zeros(5), -20.0) == 0).all()


@given(st.integers(1, SAMPLES), st.integers(0, 99))
def test_a_word_is_put_whole_into_a_silent_second(length: int, seed: int) -> None:
    clip = 1.5 + np.sin(np.arange(float(length)))
    sound = placed(clip, Draws(seed))
    heard_at = np.flatnonzero(sound)
    assert len(sound) == SAMPLES and len(heard_at) == length == heard_at[-1] - heard_at[0] + 1
    assert sound[heard_at] == pytest.approx(at_power(clip, LEVEL_DB))


def test_words_begin_anywhere() -> None:
    starts = [np.flatnonzero(placed(np.ones(4000), Draws(seed)))[0] for seed in range(200)]
    assert min(starts) < 200 and max(starts) > 3800 and np.mean(starts) == pytest.approx(2000, abs=300)


def test_of_a_longer_clip_the_loudest_second_is_kept() -> None:
    clip = np.full(20_000, 0.1)
    clip[7000:15_000] = 0.2
    assert placed(clip, Draws(0)) == pytest.approx(np.full(SAMPLES, 10 ** (LEVEL_DB / 20)))


def test_babble_is_some_voices_turned_round_and_below_the_word() -> None:
    clicks = list(np.eye(6, SAMPLES))
    for seed in range(20):
        mixture = babble(clicks, 0, Draws(seed))
        assert decibels(mixture) == pytest.approx(LEVEL_DB - acoustics.PLAYBACK_SNR_DB)
        assert 1 <= np.count_nonzero(mixture) <= acoustics.VOICES
        assert np.flatnonzero(mixture)[-1] > 6


@pytest.mark.parametrize("own", range(4))
@pytest.mark.parametrize("audible", range(4))
def test_all_voices_babble_but_the_clips_own(own: int, audible: int) -> None:
    voices = [np.full(SAMPLES, float(at == audible)) for at in range(4)]
    assert any(babble(voices, own, Draws(seed)).any() for seed in range(30)) == (own != audible)


def test_an_only_voice_babbles_over_itself() -> None:
    assert babble([np.ones(SAMPLES)], 0, Draws(0)).any()


def test_an_alarm_is_beeps_of_three_tones() -> None:
    sound = alarm(Draws(3))
    assert decibels(sound) == pytest.approx(LEVEL_DB - acoustics.ALARM_SNR_DB)
    assert sound[: SAMPLES // 4] == pytest.approx(sound[SAMPLES // 4 : SAMPLES // 2], abs=1e-9), "four a second"
    assert 0.45 < np.mean(np.abs(sound) < 1e-9) < 0.65
    power = np.abs(np.fft.rfft(sound)) ** 2
    assert set(np.argsort(power)[-3:]) == {800, 1600, 2400}
    assert not np.array_equal(alarm(Draws(3)), alarm(Draws(4)))


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_a_click_rings_as_the_impulse_response_says(device: acoustics.Device) -> None:
    response = impulse_response(device)
    assert np.sum(response**2) == pytest.approx(1)
    # The direct sound, and each reflection, followed by its tilt.
    direct = response[0]
    for delay, gain in ((0.0, 1.0), *device.reflections):
        at = round(delay * RATE / 1000)
        assert response[at : at + 2] / direct == pytest.approx([gain, -gain * device.tilt])
    clicks = np.zeros((2, SAMPLES))
    clicks[0, 100], clicks[1, SAMPLES - 3] = 1, -2
    found = heard(device, clicks)
    assert found[0, 100 : 100 + len(response)] == pytest.approx(response)
    assert found[0, :100] == pytest.approx(0) and found[1, -3:] == pytest.approx(-2 * response[:3])
    assert found.shape == (2, SAMPLES)


def test_types_differ() -> None:
    responses = [impulse_response(device) for device in DEVICES]
    spectra = [np.abs(np.fft.rfft(response, 1024)) for response in responses]
    for at, spectrum in enumerate(spectra):
        for other in spectra[at + 1 :]:
            assert np.abs(20 * np.log10(spectrum / other)).mean() > 2
    assert len({(device.noise_db, device.colour) for device in DEVICES}) == 5


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_noise_has_its_power_and_its_colour(device: acoustics.Device) -> None:
    sounds = np.stack([noise(device, Draws(seed)) for seed in range(8)])
    assert [decibels(sound) for sound in sounds] == pytest.approx([device.noise_db] * 8)
    powers = np.mean(np.abs(np.fft.rfft(sounds)) ** 2, 0)
    # Around 2,000 Hz against around 500 Hz: 4^-colour. Means of 8 x 200 exponential draws err by 2.5 %.
    ratio = powers[1900:2100].mean() / np.mean(powers[400:600] * (np.arange(400, 600) / 500) ** device.colour)
    assert ratio * np.mean((np.arange(1900, 2100) / 2000) ** device.colour) == pytest.approx(
        4.0**-device.colour, rel=0.15
    )
    assert not np.array_equal(sounds[0], sounds[1])
