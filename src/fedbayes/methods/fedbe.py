r"""FedBE: the server draws models from a posterior over what clients sent, and distils their ensemble into one model.

Paper: Chen, Chao, "FedBE: Making Bayesian Model Ensemble Applicable to Federated Learning", ICLR 2021,
arXiv:2009.01974, Algorithm 1.

Idea: a mean of clients' models is a poor model where their data differ. Many models, those of the clients and others
drawn around them, predict better together; their predictions on unlabeled data at the server teach one student.

Notation: $w^t$ -> `Server.weights`; $w_i$ -> `up`; teachers $w^{(m)}$ -> `teachers`; $M$ -> `samples`; pseudo-labels
$P$ -> `pseudo_labels`; the student's $Q$ -> its softmax outputs.

Deviations: [P] is the text, [C] the authors' code hongyouc/FedBE@7eeb965.
    1. Gaussian sampler: [C] works tensor by tensor with directions $g_i = (w_i - w^t) / \|w_i - w^t\|$; a draw is
       $w^t + \bar n\,(\bar g + 0.1 \sqrt{s}\, \epsilon)$, where $\bar n$ is the mean length and $s$ the variance over
       clients. [P] fits a Gaussian to the weights themselves: mean and variance of the $w_i$ -> `directions`.
    2. Dirichlet sampler: a mixture of the $w_i$ [P, C]; here with weights in proportion to $\gamma_i p_i$,
       $\gamma \sim Dir(\alpha, ..., \alpha)$ and $p_i$ the clients' shares [D] -> `sampler`, `concentration`.
    3. Pseudo-labels are sharpened, $P^{1/0.5}$ normalised [C] -> `temperature`.
    4. The student's loss is the mean over samples and classes of $P (\log P - \log Q)$ [C].
    5. SWA: the mean of the student's weights at some steps is broadcast [P, C]; where a server set is too small for a
       step of SWA, the last student is [D].
    6. The server's unlabeled set is a share of all samples that no client gets (`server_share` of the split), because
       LR-BPFL does not name the one it used [D]. [C] takes 10,000 of CIFAR-10's training images.
    7. The clients' learning rate falls at 30, 60 and 90 % of the rounds in [C]; not here.
    8. The personal model is the global one after one more local visit, as for FedAvg [D].

Reduces to: FedAvg when epochs = 0.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveInt
from torch import Tensor
from torch.nn import functional as F

from fedbayes.autodiff import grad_and_value
from fedbayes.bayes.layers import plain
from fedbayes.config import MethodConfig
from fedbayes.federation import rng, trees
from fedbayes.federation.contract import Cohort, Key, Method
from fedbayes.models.network import Network
from fedbayes.optim import optimiser
from fedbayes.parts.average import Weighting, shares, weighted_mean
from fedbayes.parts.local_sgd import LocalSgd
from fedbayes.parts.one_model import OneModel, Server
from fedbayes.parts.weights import dtype_of
from fedbayes.tensors import Params

# Samples that the teachers predict at once, which bounds the server's memory and changes no number.
AT_ONCE = 1000


class Config(MethodConfig):
    """Fields of FedBE."""

    model_config = ConfigDict(json_schema_extra={"needs": "server_share"})

    lr: float = Field(ge=0, description="Step size of the clients.")
    momentum: float = Field(ge=0, lt=1, description="Momentum of the clients, restarted at every visit.")
    weighting: Weighting = Field(description="p_i: n_i / n, or 1 / S.")
    sampler: Literal["gaussian", "dirichlet"] = Field(description="What further teachers are drawn from.")
    samples: NonNegativeInt = Field(description="M, teachers that are drawn.")
    directions: bool = Field(description="The Gaussian's moments are those of the updates' directions, or of weights.")
    spread: float = Field(ge=0, description="Factor before the Gaussian's standard deviation.")
    concentration: float = Field(gt=0, description="alpha of the Dirichlet sampler.")
    temperature: float = Field(gt=0, description="Pseudo-labels are raised to its inverse and normalised.")
    epochs: NonNegativeInt = Field(description="Epochs of the student over the server's samples; 0: no distillation.")
    batch: PositiveInt = Field(description="Batch of the student.")
    student_lr: float = Field(ge=0, description="Step size of the student.")
    student_momentum: float = Field(ge=0, lt=1, description="Momentum of the student.")
    student_decay: float = Field(ge=0, description="L2 pull of the student.")
    swa_start: NonNegativeInt = Field(description="Steps before the first one that counts in the mean of weights.")
    swa_every: PositiveInt = Field(description="Steps between two that count.")


def build(config: Config, network: Network) -> Method:
    """FedBE for a network."""
    server, clients = OneModel(network, config.weighting), LocalSgd(network, config.lr, config.momentum)

    def merge(state: Server, up: Params, cohort: Cohort, key: Key) -> Server:
        """Algorithm 1: teachers, pseudo-labels, a student that begins at the average."""
        p = shares(cohort, config.weighting, dtype_of(up))
        average = weighted_mean(up, p)
        if config.epochs == 0:
            return Server(average)
        if cohort.unlabeled is None:
            raise ValueError("FedBE needs samples at the server: a split with server_share")
        drawn = [draw(config, state.weights, up, p, rng.fold(key, 0, m)) for m in range(config.samples)]
        sent = [trees.take(up, i) for i in range(len(cohort.ids))]
        targets = pseudo_labels([average, *drawn, *sent], network, cohort.unlabeled, config.temperature)
        return Server(distil(config, network, average, cohort.unlabeled, targets, rng.fold(key, 1)))

    return Method(
        init=server.init,
        join=clients.join,
        send=server.send,
        train=clients.train,
        merge=merge,
        adapt=clients.fine_tuned,
        newcomer=clients.fine_tuned,
        common=server.common,
        predict=server.predict,
    )


def draw(config: Config, old: Params, up: Params, p: Tensor, key: Key) -> Params:
    """One teacher.

    Args:
        config: which sampler.
        old: the weights that were broadcast.
        up: the clients' weights, stacked.
        p: the clients' shares.
        key: names the draw.
    """
    if config.sampler == "dirichlet":
        stream = np.random.default_rng(int(key) & 0x7FFF_FFFF_FFFF_FFFF)
        mixed = p * torch.from_numpy(stream.dirichlet([config.concentration] * len(p))).to(p)
        return weighted_mean(up, mixed / mixed.sum())
    found = {}
    for place, (name, sent) in enumerate(up.items()):
        noise = rng.normal(rng.fold(key, place), old[name].numel(), sent.dtype).to(sent.device).view(old[name].shape)
        if config.directions:
            update = sent - old[name]
            length = torch.linalg.vector_norm(update.flatten(1), dim=1)
            direction = update / length.clamp_min(torch.finfo(sent.dtype).tiny).view(-1, *[1] * old[name].dim())
            mean, std = direction.mean(0), direction.var(0, correction=0).sqrt()
            found[name] = old[name] + length.mean() * (mean + config.spread * std * noise)
        else:
            mean = torch.tensordot(p, sent, dims=1)
            variance = torch.tensordot(p, (sent - mean) ** 2, dims=1)
            found[name] = mean + config.spread * variance.sqrt() * noise
    return found


@torch.no_grad()
def pseudo_labels(teachers: list[Params], network: Network, x: Tensor, temperature: float) -> Tensor:
    """The ensemble's mean probabilities `[sample, class]`, sharpened."""
    mean = torch.cat(
        [
            torch.stack([F.softmax(network.apply(plain(weights), part), -1) for weights in teachers]).mean(0)
            for part in torch.split(x, AT_ONCE)
        ]
    )
    sharp = mean ** (1 / temperature)
    return sharp / sharp.sum(1, keepdim=True)


def distil(config: Config, network: Network, start: Params, x: Tensor, targets: Tensor, key: Key) -> Params:
    """The mean of the student's weights along SGD on the pseudo-labels."""
    descent = optimiser("sgd", config.student_lr, config.student_momentum, config.student_decay, decays_biases=True)
    weights, state = start, descent.start(start)
    mean, counted, step = {name: torch.zeros_like(w) for name, w in start.items()}, 0, 0
    for epoch in range(config.epochs):
        order = torch.randperm(len(x), generator=rng.generator(rng.fold(key, epoch))).to(x.device)
        for rows in torch.split(order, config.batch):
            grads, _ = grad_and_value(divergence)(weights, network, x[rows], targets[rows])
            weights, state = descent.step(weights, grads, state)
            step += 1
            if step > config.swa_start and (step - config.swa_start) % config.swa_every == 0:
                counted += 1
                mean = {name: m + (weights[name] - m) / counted for name, m in mean.items()}
    return mean if counted else weights


def divergence(weights: Params, network: Network, x: Tensor, targets: Tensor) -> Tensor:
    """P (log P - log Q), the mean over samples and classes."""
    log_q = F.log_softmax(network.apply(plain(weights), x), dim=-1)
    return (torch.xlogy(targets, targets) - targets * log_q).mean()
