"""Sharing, declared: which weights of a network travel, which a client keeps, which start anew at every visit.

A method names layers (`body`, `head`, `first 2`, `all but last 1`); the network says which weights a layer has. Nothing
else in a method knows a weight by name. FedPer, FedRep and LG-FedAvg differ in these words and in the order of steps.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import Field

from fedbayes.models.network import Network
from fedbayes.reading import ConfigError
from fedbayes.tensors import Params

# Layers are counted from the input side; `head` is the last one, `body` all others.
Layers = Annotated[str, Field(pattern=r"^(all|none|body|head|(all but )?(first|last) [1-9]\d*)$")]


class Sharing(NamedTuple):
    """Names of weights by what becomes of them; each name stands in one of the three."""

    shared: tuple[str, ...]  # sent, trained, uploaded and averaged
    kept: tuple[str, ...]  # stay with the client from visit to visit
    reset: tuple[str, ...]  # begin every visit as they began the first

    @property
    def private(self) -> tuple[str, ...]:
        """What never travels."""
        return self.kept + self.reset


def sharing(network: Network, names: tuple[str, ...], shared: str, reset: str = "none") -> Sharing:
    """Who has which weights.

    Args:
        network: whose layers are meant.
        names: of all its weights.
        shared: layers that travel, as `Layers` writes them.
        reset: of the others, those that no client keeps.
    """
    travelling, anew = layers(network, shared), layers(network, reset)
    both = [layer for layer in travelling if layer in anew]
    if both:
        raise ConfigError(f"layer {both[0]} is shared ({shared!r}) and cannot be reset ({reset!r}) as well")
    roles: dict[bool | None, list[str]] = {True: [], None: [], False: []}
    for name in names:
        layer = name.rsplit(".", 1)[0]
        roles[True if layer in travelling else False if layer in anew else None].append(name)
    return Sharing(tuple(roles[True]), tuple(roles[None]), tuple(roles[False]))


def layers(network: Network, words: str) -> tuple[str, ...]:
    """Layers of a network by words such as `body` or `all but first 1`."""
    known = network.layers
    words = {"all": "first 0", "head": "last 1", "body": "all but last 1"}.get(words, words)
    if words == "none":
        return ()
    if words == "first 0":
        return known
    where, count = words.split()[-2], int(words.split()[-1])
    if count > len(known):
        raise ConfigError(f"{words!r} asks for {count} layers; the network has {len(known)}: {', '.join(known)}")
    chosen = known[:count] if where == "first" else known[len(known) - count :]
    return tuple(layer for layer in known if layer not in chosen) if words.startswith("all but") else chosen


def part(params: Params, names: tuple[str, ...]) -> Params:
    """Some of the weights."""
    return {name: params[name] for name in names}
