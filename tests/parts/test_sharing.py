"""Sharing is declared by words about layers."""

from __future__ import annotations

import pytest

from fedbayes.models import load_network
from fedbayes.parts.sharing import layers, sharing
from fedbayes.reading import ConfigError

NETWORK = load_network("mlp", {"hidden": (4, 3)}, (2,), 2)
NAMES = tuple(f"{layer}.{part}" for layer in ("hidden0", "hidden1", "head") for part in ("weight", "bias"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("all", ("hidden0", "hidden1", "head")),
        ("none", ()),
        ("body", ("hidden0", "hidden1")),
        ("head", ("head",)),
        ("first 1", ("hidden0",)),
        ("last 2", ("hidden1", "head")),
        ("all but first 1", ("hidden1", "head")),
        ("all but last 2", ("hidden0",)),
        ("first 3", ("hidden0", "hidden1", "head")),
        ("all but first 3", ()),
    ],
)
def test_words(words: str, expected: tuple[str, ...]) -> None:
    assert layers(NETWORK, words) == expected


def test_every_weight_has_one_role() -> None:
    roles = sharing(NETWORK, NAMES, shared="body", reset="none")
    assert roles == (NAMES[:4], NAMES[4:], ())
    roles = sharing(NETWORK, NAMES, shared="first 1", reset="head")
    assert roles == (NAMES[:2], NAMES[2:4], NAMES[4:])
    assert roles.private == NAMES[2:]


def test_too_many_layers_and_two_roles_are_refused() -> None:
    with pytest.raises(ConfigError, match="asks for 4 layers; the network has 3: hidden0, hidden1, head"):
        layers(NETWORK, "last 4")
    with pytest.raises(ConfigError, match=r"layer head is shared .* and cannot be reset"):
        sharing(NETWORK, NAMES, shared="all", reset="head")
