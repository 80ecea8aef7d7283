"""A server that keeps one model, broadcasts it and averages what comes back, as FedAvg's does."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from fedbayes.federation import rng
from fedbayes.federation.contract import Cohort, Key
from fedbayes.models.network import Network
from fedbayes.parts.average import Weighting, shares, weighted_mean
from fedbayes.parts.weights import dtype_of, probabilities
from fedbayes.tensors import Params


class Server(NamedTuple):
    """The global weights."""

    weights: Params


class OneModel(NamedTuple):
    """The server's side of a method and its predictions, as functions of the contract."""

    network: Network
    weighting: Weighting

    def init(self, key: Key, population: int) -> Server:
        """Initial weights."""
        return Server(self.network.init(rng.generator(key)))

    def send(self, server: Server, client: Tensor) -> Params:
        """Everybody gets the same."""
        return server.weights

    def merge(self, server: Server, up: Params, cohort: Cohort, key: Key) -> Server:
        """w^{t+1} = sum_i p_i w_i (McMahan et al. 2017, Algorithm 1, last line)."""
        return Server(weighted_mean(up, shares(cohort, self.weighting, dtype_of(up))))

    def common(self, server: Server) -> Params:
        """The global model."""
        return server.weights

    def predict(self, weights: Params, x: Tensor, key: Key) -> Tensor:
        """Class probabilities of plain weights."""
        return probabilities(self.network, weights, x)
