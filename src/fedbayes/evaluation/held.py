"""How large a client's model is: what tables of costs call its parameters."""

from __future__ import annotations

from dataclasses import replace

import torch

from fedbayes.federation import trees
from fedbayes.federation.cohort import Guests, visit_all
from fedbayes.federation.loop import Federation, State, send


def model_size(federation: Federation, state: State) -> int:
    """Numbers of the first client's model: those the server sends it, or those its predictions need if they are more.

    MetaVD sends variances that its predictions do without; LR-BPFL predicts with masks that nobody sends, at their
    largest rank. pFedGP's classifier is the features and labels of the client's samples; its tree and its chains are
    made of them (`Method.stored`) and are not counted.
    """
    # One client, so eagerly: a compiled step serves one number of clients.
    lifting = replace(federation.lifting, compiled=False)
    ids = torch.tensor(federation.trained[:1], device=federation.data.device)
    sent = send(federation, state.server, ids)
    guests = Guests(ids, sent, trees.take(state.clients, ids), state.seen[ids])
    visited = visit_all(
        federation.method.adapt,
        guests,
        federation.data,
        federation.feed,
        federation.key("adapt"),
        int(state.round),
        lifting,
    )
    model, stored = trees.take(visited.out["pm"], 0), federation.method.stored
    return max(trees.numel(sent), trees.numel(stored(model) if stored else model))
