"""FedUAB's plan: one run for global and personal models, and what its tests cost."""

from __future__ import annotations

import pytest

from fedbayes.costs import Size, test_passes, visit_passes

test_passes.__test__ = False  # type: ignore[attr-defined]  # passes of tests, not a test of passes

SPEC = {
    "training": {"rounds": 20, "clients_per_round": 4, "trains": "selected"},
    "local": {"batch": 10, "amount": 5, "unit": "epochs", "order": "shuffled"},
    "protocol": {"models": ["pm", "gm"], "every": 2, "pm_every": 10, "gm_tests": "whole"},
}
SIZE = Size(clients=20, train=1000.0, test=400.0)


def test_personal_models_cost_their_own_tests_and_what_they_train_before() -> None:
    # The global model at rounds 0, 2, ..., 20; personal ones at rounds 0, 10 and 20.
    assert test_passes(SPEC, SIZE, 1000.0) == 11 * 1000 + 3 * 400
    # A client has 50 samples: five epochs, three passes a sample.
    assert visit_passes(SPEC, SIZE) == 5 * 50 * 3
    tuned = SPEC | {"protocol": SPEC["protocol"] | {"personal": "fine-tuned"}}
    assert test_passes(tuned, SIZE, 1000.0) == pytest.approx(11 * 1000 + 3 * (400 + 20 * 5 * 50 * 3))
