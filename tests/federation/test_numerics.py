"""The engine's results on a toy, to the bit: a change of these bytes is a change of NUMERICS.

If this fails after an edit of `federation/` or `evaluation/`, decide: either the edit was not meant to change results
(undo it), or it was (raise NUMERICS in `federation/__init__.py`, which re-runs every run, and put the new digest here).
Rounding differs between kinds of processors, so values are compared rounded to 5 significant digits.
"""

from __future__ import annotations

import hashlib
import json

import torch

import toy
from fedbayes.evaluation.evaluate import predict_gm, predict_pm, scores
from fedbayes.federation import NUMERICS, trees
from fedbayes.federation.contract import Feed

EXPECTED = {1: "5eb8c5727ee2"}
# Metrics that came after the digest: a new one changes no result, and must not re-run anything.
ADDED = {"mce10"}

FEEDS = (Feed(4, 3), Feed(4, 2, "epochs", "shuffled"), Feed(3, 4, order="iid"), Feed(1, 2, order="full"))


def fingerprint() -> str:
    """A digest of states and scores after two rounds, for every order of batches and both kinds of participation."""
    found = []
    for feed in FEEDS:
        for trains in ("selected", "all"):
            federation = toy.federation(sizes=(7, 12, 4, 9), feed=feed, clients_per_round=3, trains=trains)
            state = toy.after(federation, 2)
            found += [leaf.double().flatten().tolist() for leaf in trees.leaves(state)]
            for predictions in (predict_pm(federation, state), predict_gm(federation, state)):
                assert predictions is not None
                told = scores(predictions, range(4))
                found += [[s.pooled, *s.clients] for name, s in told.items() if name not in ADDED]
    rounded = [[f"{value:.4e}" for value in values] for values in found]
    return hashlib.sha256(json.dumps(rounded).encode()).hexdigest()[:12]


def test_results_change_only_with_numerics() -> None:
    torch.set_num_threads(1)
    assert EXPECTED.get(NUMERICS) == fingerprint()
