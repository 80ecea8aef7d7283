"""Generated images: the same bytes every time, parts and writers in their place, and worth learning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from scipy import special
from torch.nn import functional as F

from fedbayes.config import DatasetFacts
from fedbayes.data import generated_images
from fedbayes.data.datasets import READERS
from fedbayes.data.fetch import array_digest, fetch, load
from fedbayes.data.partition import samples_of
from fedbayes.data.sources import RawData
from fedbayes.models import cnn, mlp
from fedbayes.models.network import Network
from fedbayes.split_rules import split_of

FACTS = yaml.safe_load((Path(__file__).parents[2] / "config/datasets.yaml").read_text(encoding="utf-8"))
NAMES = [f"{name}-like" for name in generated_images.KINDS]


@pytest.fixture(scope="module")
def made() -> dict[str, RawData]:
    """Each set once."""
    return {name: READERS[name](Path("nowhere"), None) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_are_the_committed_ones_every_time(name: str, made: dict[str, RawData], tmp_path: Path) -> None:
    fetch(name, DatasetFacts.model_validate(FACTS[name]), tmp_path, None)
    first = made[name]
    assert load(tmp_path).manifest["sha256"] == FACTS[name]["sha256"]
    assert array_digest(first.inputs, first.labels, first.tables) == FACTS[name]["sha256"]
    assert (first.inputs.dtype, first.labels.dtype) == (np.uint8, np.int64)


def test_a_last_digit_more_changes_no_pixel(made: dict[str, RawData], monkeypatch: pytest.MonkeyPatch) -> None:
    exact = special.ndtri
    monkeypatch.setattr("fedbayes.data.draws.special.ndtri", lambda share: np.nextafter(exact(share), np.inf))
    for name in ("cifar10-like", "femnist-like"):
        np.testing.assert_array_equal(READERS[name](Path("nowhere"), None).inputs, made[name].inputs)


@pytest.mark.parametrize("name", NAMES)
def test_the_test_part_comes_last(name: str, made: dict[str, RawData]) -> None:
    is_test = samples_of(made[name].labels, FACTS[name]["test_per_class"]).is_test
    assert np.array_equal(is_test, np.arange(len(is_test)) >= (~is_test).sum())


def test_each_set_stands_in_for_the_one_it_is_named_after() -> None:
    for name in generated_images.KINDS:
        assert FACTS[f"{name}-like"]["stand_in_for"] == name
        assert FACTS[f"{name}-like"]["shape"] == FACTS[name]["shape"]
        assert FACTS[name]["embedded"] == f"{name}-like"
    assert FACTS["femnist-leaf"]["embedded"] == FACTS["mnist-by-writer"]["embedded"] == "femnist-like"
    assert FACTS["mnist"]["embedded"] == "mnist-5k"


# Mean and standard deviation of the training pixels in 0-1, all channels together; EMNIST's letters resemble MNIST.
PIXELS = {"cifar10": (0.47, 0.25), "cifar100": (0.48, 0.27), "fashion-mnist": (0.29, 0.35), "femnist": (0.17, 0.33)}


@pytest.mark.parametrize("name", PIXELS)
def test_pixels_are_about_as_bright_and_varied_as_the_real_ones(name: str, made: dict[str, RawData]) -> None:
    pixels = made[f"{name}-like"].inputs / 255
    assert (pixels.mean(), pixels.std()) == pytest.approx(PIXELS[name], abs=0.08)


def test_no_image_stands_twice(made: dict[str, RawData]) -> None:
    for name in NAMES:
        images = made[name].inputs
        assert len({image.tobytes() for image in images}) == len(images)


def test_sixty_writers_of_unequal_size_each_shift_what_they_write(made: dict[str, RawData]) -> None:
    raw = made["femnist-like"]
    users = raw.tables["users"]
    sizes = np.bincount(users)
    assert (len(sizes), users.dtype) == (60, np.int64)
    assert sizes.min() >= 10 and sizes.max() > 3 * sizes.min()
    assert all(len(set(raw.labels[users == user].tolist())) >= 4 for user in range(60))

    def between(owners: np.ndarray[Any, Any]) -> float:
        """Variance of the writers' mean images."""
        return float(np.stack([raw.inputs[owners == user].mean(axis=0) for user in range(60)]).var(axis=0).mean())

    assert between(users) > 3 * between(np.random.default_rng(0).permutation(users))
    assert all(not made[name].tables for name in NAMES if name != "femnist-like")


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("cifar10-like", {"rule": "pfedbayes", "clients": 20, "labels_per_client": 5, "train_per_class": 25,
                          "test_per_class": 25, "stratified": True}),
        *(("cifar10-like", {"rule": "labels", "clients": clients, "labels_per_client": labels, "holders": "even",
                            "shares": "equal", "train_share": 0.1})
          for clients in (6, 50) for labels in (2, 5)),
        ("cifar100-like", {"rule": "labels", "clients": 50, "labels_per_client": 5, "holders": "ceil",
                           "shares": "equal", "train_share": 0.1}),
        ("femnist-like", {"rule": "power-law", "clients": 20, "labels_per_client": 3, "sizes": "samples", "mu": 3.0,
                          "sigma": 0.5, "least": 5, "train_share": 0.9}),
    ],
)  # fmt: skip
def test_the_papers_splits_fit(name: str, split: dict[str, Any]) -> None:
    assert split_of(split).objection(DatasetFacts.model_validate(FACTS[name])) is None


# ---------------------------------------------------------------- worth learning

# The papers' own networks, as the docstring of `models/cnn.py` has them.
FEDUAB = cnn.Config(channels=(32, 32, 32), kernel=3, padding=0, pooled=(True, True, False), hidden=(64,))
LR_BPFL = cnn.Config(channels=(32, 64, 128), kernel=3, padding=1, pooled=(True, True, True), hidden=(512, 256))
PERCEPTRON = mlp.Config(hidden=(100,))
LOGISTIC = mlp.Config(hidden=())


def accuracy_after(steps: int, lr: float, network: Network, raw: RawData, training: int) -> float:
    """Test accuracy after some steps of Adam on batches of 50 training images."""
    images, labels = torch.from_numpy(raw.inputs).float() / 255, torch.from_numpy(raw.labels)
    images = (images - images.mean()) / images.std()
    stream = torch.Generator().manual_seed(0)
    params = {name: value.requires_grad_() for name, value in network.init(stream).items()}
    optimizer = torch.optim.Adam(params.values(), lr=lr)

    def logits(rows: Any) -> torch.Tensor:
        return network.apply(lambda name, f, x: f(x, params[f"{name}.weight"], params[f"{name}.bias"]), images[rows])

    for _ in range(steps):
        batch = torch.randint(training, (50,), generator=stream)
        optimizer.zero_grad()
        F.cross_entropy(logits(batch), labels[batch]).backward()
        optimizer.step()
    with torch.no_grad():
        return float((logits(slice(training, None)).argmax(1) == labels[training:]).float().mean())


@pytest.mark.parametrize(
    ("name", "config", "steps", "lr", "low", "high"),
    [
        ("cifar10-like", FEDUAB, 100, 2e-3, 0.5, 0.95),
        ("cifar10-like", LR_BPFL, 50, 1e-3, 0.5, 0.95),
        ("cifar100-like", FEDUAB, 200, 2e-3, 0.1, 0.5),
        ("fashion-mnist-like", PERCEPTRON, 200, 1e-3, 0.5, 0.95),
        ("femnist-like", PERCEPTRON, 200, 1e-3, 0.5, 0.95),
        ("femnist-like", LOGISTIC, 200, 1e-3, 0.3, 0.9),  # Self-FL's network on FEMNIST
    ],
)
def test_the_papers_networks_learn_them_but_not_at_once(
    name: str, config: Any, steps: int, lr: float, low: float, high: float, made: dict[str, RawData]
) -> None:
    facts = DatasetFacts.model_validate(FACTS[name])
    build = mlp.build if isinstance(config, mlp.Config) else cnn.build
    training = sum(facts.counts("train") or ())
    found = accuracy_after(steps, lr, build(config, facts.shape, facts.classes), made[name], training)
    assert low < found < high
