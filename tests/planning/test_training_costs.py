"""What tests on training samples add to the cost of a run."""

from __future__ import annotations

from fedbayes import costs


def test_training_samples_are_counted_for_each_model_at_each_test() -> None:
    size = costs.Size(clients=20, train=2000.0, test=600.0)
    protocol = {"models": ["pm", "gm"], "every": 4}
    spec = {"training": {"rounds": 10}, "protocol": protocol}
    asked = spec | {"protocol": protocol | {"on_training": True}}
    # Rounds 0, 4, 8 and 10, two models.
    assert costs.test_passes(spec, size, 0.0) == 4 * 2 * 600
    assert costs.test_passes(asked, size, 0.0) == 4 * 2 * (600 + 2000)
