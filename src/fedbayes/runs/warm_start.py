"""A network whose initial weights are those that another run ended with.

Every method begins by asking its network for initial weights, so a warm start is a change of the network and of no
method (Self-FL's Figure 9: 200 rounds of FedAvg, then each method from there).
"""

from __future__ import annotations

from pathlib import Path

import torch

from fedbayes.io import read_state
from fedbayes.models.network import Network
from fedbayes.reading import complain
from fedbayes.tensors import Params

# Where the state of a method with one global model of plain weights, as FedAvg's, keeps them at the end.
WEIGHTS = "last/server/weights/"


def warm_started(network: Network, state_file: Path) -> Network:
    """The network, its `init` giving the global weights in a state file whatever the generator.

    Args:
        network: whose weights are wanted.
        state_file: `state.safetensors` of a finished run; refused unless names and shapes are the network's own.
    """
    state = read_state(state_file)
    weights = {name.removeprefix(WEIGHTS): leaf for name, leaf in state.items() if name.startswith(WEIGHTS)}
    wanted, found = _shapes(network.init(torch.Generator())), _shapes(weights)
    if found != wanted:
        name = next(name for name in sorted(wanted | found) if wanted.get(name) != found.get(name))
        what = f"found {_shown(found, name)}; expected {_shown(wanted, name)}, as the network has it"
        raise complain(str(state_file), f"{WEIGHTS}{name}", f"{what}: a warm start needs the same network")

    def init(generator: torch.Generator) -> Params:
        # In the network's own order, which is that of every method's sums.
        return {name: weights[name].clone() for name in wanted}

    return network._replace(init=init)


def _shapes(weights: Params) -> dict[str, tuple[int, ...]]:
    return {name: tuple(leaf.shape) for name, leaf in weights.items()}


def _shown(shapes: dict[str, tuple[int, ...]], name: str) -> str:
    return f"shape {shapes[name]}" if name in shapes else "no such weights"
