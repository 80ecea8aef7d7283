"""Noise models: all 57 of them, each image its own draws, and who gets which."""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError

from fedbayes.data import corruptions
from fedbayes.data.corruptions import SEEDED, choose, corrupted, noisy, wrapped_around
from fedbayes.reading import ConfigError
from fedbayes.shifts import CORRUPTIONS, NoiseModel, NoisyClients

PAPER = NoisyClients(kind="noisy-clients", choice="distinct")
PUBLIC = NoisyClients(kind="noisy-clients", choice="replacement", wraps_around=True)
# Those that draw at random, as the library's source has them; the others filter.
RANDOM = {
    "gaussian_noise", "shot_noise", "impulse_noise", "glass_blur", "motion_blur", "snow", "frost", "fog",
    "elastic_transform", "speckle_noise", "spatter",
}  # fmt: skip


def pictures(samples: int, channels: int = 3, side: int = 32) -> NDArray[np.uint8]:
    """Smooth coloured waves, a different one for each sample."""
    stream = np.random.default_rng(3)
    across, down = np.meshgrid(np.arange(side), np.arange(side))
    waves = stream.uniform(0.05, 0.5, (samples, channels, 2, 1, 1)) * np.stack([across, down])
    shade = np.sin(waves.sum(2) + stream.uniform(0, 6, (samples, channels, 1, 1)))
    return (127.5 + 100 * shade).astype(np.uint8)


def test_there_are_19_corruptions_of_the_library_and_57_noise_models() -> None:
    from imagecorruptions import get_corruption_names

    assert list(CORRUPTIONS) == get_corruption_names("all")
    assert len(set(PAPER.noise_models)) == 57 == 19 * 3
    assert str(NoiseModel("fog", 3)) == "fog-3" and NoiseModel("fog", 3) in PAPER.noise_models


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_an_image_depends_on_its_sample_and_the_seed_alone(corruption: str) -> None:
    model, samples = NoiseModel(corruption, 2), np.array([7, 3, 9000, 11])
    images = pictures(4)
    whole = corrupted(images, samples, model, seed=5)
    order = np.array([2, 0, 3, 1])
    np.random.seed(1)  # noqa: NPY002 (whatever the state was before)
    np.testing.assert_array_equal(corrupted(images[order], samples[order], model, seed=5), whole[order])
    np.testing.assert_array_equal(corrupted(images[1:2], samples[1:2], model, seed=5), whole[1:2])
    # The same picture as another sample, and under another seed.
    same = np.stack([images[0]] * 2)
    first, second = corrupted(same, np.array([7, 8]), model, seed=5)
    other = corrupted(same[:1], np.array([7]), model, seed=6)[0]
    assert (first == second).all() == (first == other).all() == (corruption not in RANDOM)


def test_what_is_seeded_by_hand_would_otherwise_differ_from_call_to_call() -> None:
    from imagecorruptions import corrupt

    image, unseeded = np.ascontiguousarray(pictures(1)[0].transpose(1, 2, 0)), set()
    for corruption in CORRUPTIONS:
        found = []
        for _ in range(2):
            np.random.seed(0)  # noqa: NPY002
            found.append(corrupt(image, 3, corruption))
        if not np.array_equal(*found):
            unseeded.add(corruption)
    assert unseeded == SEEDED


def test_two_noise_models_of_one_sample_share_no_draws() -> None:
    flat = np.full((1, 3, 32, 32), 128, np.uint8)
    first, second = (
        corrupted(flat, np.array([0]), NoiseModel("gaussian_noise", severity), 0)[0].astype(float) - 128
        for severity in (1, 2)
    )
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.1


@pytest.mark.parametrize("channels", [1, 3])
def test_shape_and_type_are_kept_and_something_changes(channels: int) -> None:
    images = pictures(2, channels, side=40)
    for model in PAPER.noise_models:
        found = corrupted(images, np.arange(2), model, 0)
        assert found.shape == images.shape and found.dtype == np.uint8
        # Grey has no saturation to change.
        assert (found != images).any() or (channels == 1 and model.corruption == "saturate")


def test_noise_on_grey_images_is_as_strong_as_on_a_channel_of_coloured_ones() -> None:
    flat = {channels: np.full((8, channels, 32, 32), 128, np.uint8) for channels in (1, 3)}
    spread = {
        channels: corrupted(images, np.arange(8), NoiseModel("gaussian_noise", 1), 0).std()
        for channels, images in flat.items()
    }
    assert spread[1] == pytest.approx(spread[3], rel=0.05) and spread[1] == pytest.approx(0.08 * 255, rel=0.05)


def test_a_higher_severity_changes_more() -> None:
    images, samples = pictures(8), np.arange(8)

    def distance(corruption: str, severity: int) -> float:
        found = corrupted(images, samples, NoiseModel(corruption, severity), 0)
        return float(np.abs(found.astype(float) - images).mean())

    distances = np.array([[distance(corruption, severity) for severity in (1, 2, 3)] for corruption in CORRUPTIONS])
    first, second, third = distances.mean(0)
    assert first < second < third
    noises = [CORRUPTIONS.index(name) for name in CORRUPTIONS if name.endswith("_noise")]
    assert (np.diff(distances[noises]) > 0).all()


def test_numpys_global_generator_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    np.random.seed(12)  # noqa: NPY002
    expected = np.random.uniform(size=3)  # noqa: NPY002
    np.random.seed(12)  # noqa: NPY002
    for corruption in CORRUPTIONS:
        corrupted(pictures(1), np.array([0]), NoiseModel(corruption, 1), 0)

    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(corruptions, "_library", lambda: fail)
    with pytest.raises(RuntimeError, match="no memory"):
        corrupted(pictures(1), np.array([0]), NoiseModel("fog", 1), 0)
    np.testing.assert_array_equal(np.random.uniform(size=3), expected)  # noqa: NPY002


def test_an_image_that_no_drop_falls_on_stays_as_it_is() -> None:
    """The library makes about one in forty black at severity 1: it divides by the largest drop."""
    white = np.full((200, 3, 32, 32), 255, np.uint8)
    found = corrupted(white, np.arange(200), NoiseModel("spatter", 1), 0)
    assert found.max((1, 2, 3)).min() > 0
    assert (found == white).all((1, 2, 3)).any()


def test_an_invalid_number_anywhere_else_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corruptions, "_library", lambda: lambda *args, **kwargs: np.zeros(1) / 0)
    with pytest.raises(FloatingPointError):
        corrupted(pictures(1), np.array([0]), NoiseModel("fog", 1), 0)


@pytest.mark.parametrize(
    ("pixel", "by_hand"),
    [
        (0, 1),  # -255 + 256
        (1, 3),  # -253 + 256
        (63, 127),  # -129 + 256
        (64, 130),  # -126.99999 in single precision, towards zero -126, + 256
        (100, 202),  # -54.999996, -54, + 256
        (127, 0),  # -0.99999, towards zero 0
        (128, 1),  # 1
        (200, 145),  # 145
        (255, 255),
    ],
)
def test_wrapped_pixels_are_those_computed_by_hand(pixel: int, by_hand: int) -> None:
    assert wrapped_around(np.full((1, 1, 2, 2), pixel, np.uint8)).tolist() == [[[[by_hand] * 2] * 2]]


def test_wrapped_pixels_are_what_the_docstring_says() -> None:
    v = np.arange(256)
    expected = np.where(v < 64, 2 * v + 1, np.where(v < 128, (2 * v + 2) % 256, 2 * v - 255))
    assert wrapped_around(v.astype(np.uint8)).tolist() == expected.tolist()


def test_the_wrap_around_comes_before_the_corruption() -> None:
    images, held = pictures(6), [np.array([4, 0]), np.array([5])]
    found, models = noisy(images, held, PUBLIC, 2)
    for place, sample, model in ((0, 4, models[0]), (1, 0, models[0]), (2, 5, models[1])):
        rows = np.array([sample])
        np.testing.assert_array_equal(found[place], corrupted(wrapped_around(images[rows]), rows, model, 2)[0])


def test_every_sample_of_a_client_goes_through_that_clients_noise() -> None:
    images, held = pictures(9), [np.array([8, 1, 3]), np.array([], np.int64), np.array([0, 2])]
    found, models = noisy(images, held, PAPER, 4)
    assert len(found) == 5 and models == list(choose(PAPER, 3, 4))
    np.testing.assert_array_equal(found[:3], corrupted(images[held[0]], held[0], models[0], 4))
    np.testing.assert_array_equal(found[3:], corrupted(images[held[2]], held[2], models[2], 4))


@given(clients=st.integers(1, 57), seed=st.integers(0, 2**40))
def test_distinct_models_are_distinct(clients: int, seed: int) -> None:
    chosen = choose(PAPER, clients, seed)
    assert len(set(chosen)) == len(chosen) == clients and set(chosen) <= set(PAPER.noise_models)
    # A client keeps its model when others join.
    assert choose(PAPER, 57, seed)[:clients] == chosen


@given(clients=st.integers(1, 300), seed=st.integers(0, 2**40))
def test_models_drawn_with_replacement_are_of_the_57(clients: int, seed: int) -> None:
    chosen = choose(PUBLIC, clients, seed)
    assert len(chosen) == clients and set(chosen) <= set(PUBLIC.noise_models)
    assert clients <= 57 or len(set(chosen)) < clients


def test_all_models_are_drawn_about_equally_often() -> None:
    counts = Counter(choose(PUBLIC, 57_000, 0))
    assert counts.keys() == set(PUBLIC.noise_models)
    assert min(counts.values()) > 850 and max(counts.values()) < 1150


def test_seeds_choose_differently() -> None:
    assert choose(PAPER, 50, 0) != choose(PAPER, 50, 1) and choose(PAPER, 50, 1) == choose(PAPER, 50, 1)


@pytest.mark.parametrize(
    ("inputs", "clients", "said"),
    [
        (np.zeros((60, 3, 32, 32), np.uint8), 58,
         r"58 clients cannot have distinct noise models: there are 57 \(19 corruptions x 3 severities\)"),
        (np.zeros((60, 1, 28, 28), np.uint8), 2, r"the shape \(1, 28, 28\); only images of 1 or 3 .* 32 x 32 pixels"),
        (np.zeros((60, 2, 32, 32), np.uint8), 2, r"the shape \(2, 32, 32\)"),
        (np.zeros((60, 40), np.uint8), 2, r"the shape \(40,\)"),
        (np.zeros((60, 3, 32, 32), np.float32), 2, "holds float32 numbers; expected uint8 images"),
    ],
)  # fmt: skip
def test_what_cannot_be_corrupted_is_refused_in_one_sentence(
    inputs: NDArray[np.uint8], clients: int, said: str
) -> None:
    with pytest.raises(ConfigError, match=f"^the shift cannot be made: .*{said}") as caught:
        noisy(inputs, [np.array([client]) for client in range(clients)], PAPER, 0)
    assert "\n" not in str(caught.value)


def test_fewer_severities_leave_fewer_models() -> None:
    shift = NoisyClients(kind="noisy-clients", choice="distinct", severities=(5,))
    assert {model.severity for model in choose(shift, 19, 0)} == {5}
    assert "there are 19" in str(shift.objection((3, 32, 32), 20))
    assert PAPER.objection((3, 32, 32), None) is None is PUBLIC.objection((3, 32, 32), 58)


@pytest.mark.parametrize("severities", [(), (0, 1), (6,), (1, 1), (2, 1)])
def test_severities_are_1_to_5_and_rise(severities: tuple[int, ...]) -> None:
    with pytest.raises(ValidationError):
        NoisyClients(kind="noisy-clients", choice="distinct", severities=severities)


def test_names_of_different_shifts_differ() -> None:
    assert PAPER.name == "noisy-clients-distinct-severities1_2_3"
    assert PUBLIC.name == "noisy-clients-replacement-severities1_2_3-wraps_around"


def test_a_library_that_does_not_load_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imagecorruptions", None)
    corruptions._library.cache_clear()
    with pytest.raises(ConfigError, match=r"imagecorruptions-imaug cannot be imported .*opencv-python-headless"):
        corruptions._library()
