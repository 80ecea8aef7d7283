"""LR-BPFL's figures on a few made-up runs: who is chosen, what is averaged, what a figure says that did not run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedbayes.analysis.figures.lrbpfl import FIGURES, final_ranks, middle_client
from fedbayes.analysis.figures.lrbpfl_shifts import accuracy_and_error, new_client_errors
from fedbayes.analysis.figures.reliability import bins, by_client, gaps, mean_bins, mean_gaps
from fedbayes.analysis.figures.sources import Sources, first_presets
from fedbayes.io import EVALUATION_COLUMNS, ROUNDS_COLUMNS

TITLES = {"5of10-train10": "5/10", "new-client-0.1": "0.1", "new-client-0.5": "0.5", "5of10-noisy": "noisy"}
TITLES |= {"5of10-noisy-server": "noisy, server", "5of10-train10-server": "5/10, server"}
TITLES |= {"new-client-server-0.1": "0.1, server", "new-client-server-0.5": "0.5, server"}
SERVER = "FedBE's server holds 2 % of the images"
COLUMNS = ["experiment", "setting", "method", "preset", "seed", "variant", "scale", "dataset_title", "stand_in_for"]
COLUMNS += ["reduction", "folder"]


class Made:
    """Runs written by hand below a folder, and their index."""

    def __init__(self, root: Path) -> None:
        self.root, self.rows = root, []

    def add(
        self,
        experiment: str,
        setting: str,
        method: str,
        evaluated: Sequence[tuple[Any, ...]] = (),
        predicted: Sequence[tuple[int, float, bool]] = (),
        model: str = "pm",
        seed: int = 0,
        variant: str = "",
    ) -> None:
        """A run: rows (state, condition, client, metric, value), and samples (client, confidence, right)."""
        folder = f"run{len(self.rows)}"
        self.rows.append([experiment, setting, method, "paper", seed, variant, "smoke", "CIFAR", "", "", folder])
        (self.root / folder).mkdir(parents=True)
        tested = [(0, model, "clean", "pooled", "accuracy", 0.5)]
        pd.DataFrame(tested, columns=list(ROUNDS_COLUMNS)).to_parquet(self.root / folder / "rounds.parquet")
        rows = [
            (state, 3, "client" if metric.startswith("rank/") else model, condition, client, 9, metric, value)
            for state, condition, client, metric, value in evaluated
        ]
        pd.DataFrame(rows, columns=list(EVALUATION_COLUMNS)).to_parquet(self.root / folder / "evaluation.parquet")
        samples = [(f"best-{model}", model, "clean", client, 1, int(right), sure) for client, sure, right in predicted]
        names = ["state", "model", "condition", "client", "label", "predicted", "confidence"]
        pd.DataFrame(samples, columns=names).to_parquet(self.root / folder / "predictions.parquet")

    @property
    def sources(self) -> Sources:
        return self.of(self.rows)

    def of(self, rows: list[list[Any]]) -> Sources:
        """Some rows as those that ran, all of them as planned."""
        ran, planned = (pd.DataFrame(own, columns=COLUMNS) for own in (rows, self.rows))
        return Sources(ran, TITLES, self.root, pd.DataFrame(), planned=planned)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


# ECE of clients 0, 1, 2: 0.1, 0.4, 0.2.
THREE = [(0, 0.9, True), (1, 0.6, True), (2, 0.8, True)]


def test_bins_of_clients_are_averaged_over_those_that_have_samples_in_them() -> None:
    samples = pd.DataFrame(
        {
            "seed": 0,
            "client": [0, 0, 0, 1, 1],
            "confidence": [0.6, 0.7, 0.9, 0.75, 0.55],
            "label": 1,
            "predicted": [1, 1, 1, 0, 0],
        }
    )
    each = by_client(samples, 4)
    assert list(each) == [(0, 0), (0, 1)]
    found = mean_bins(each)
    # (0.5, 0.75]: client 0 is always right there, client 1 never; (0.75, 1]: client 0 alone.
    assert found["accuracy"][2:].tolist() == [0.5, 1.0] and found["samples"].tolist() == [0, 0, 4, 1]
    assert found["confidence"][2:].tolist() == pytest.approx([0.65, 0.9])
    # Client 0: (2 * 0.35 + 0.1) / 3, client 1: 0.65.
    assert mean_gaps(each) == pytest.approx(((0.8 / 3 + 0.65) / 2, (0.35 + 0.65) / 2))


def test_the_middle_client_has_the_median_error_of_both_runs() -> None:
    def run(errors: list[float]) -> dict[tuple[int, int], pd.DataFrame]:
        return {
            (0, client): bins(pd.DataFrame({"confidence": [1 - error], "label": [1], "predicted": [1]}), 15)
            for client, error in enumerate(errors)
        }

    # Means over both: 0.2, 0.3, 0.1, 0.25; the lower of the two in the middle is client 0's.
    assert middle_client([run([0.1, 0.4, 0.1, 0.3]), run([0.3, 0.2, 0.1, 0.2])]) == (0, 0)
    assert gaps(run([0.25])[0, 0]) == pytest.approx((0.25, 0.25))


def test_the_worst_client_is_the_one_with_the_highest_error(made: Made) -> None:
    made.add("table5", "5of10-train10", "LR-BPFL", predicted=THREE)
    made.add("table5", "5of10-train10", "FedAvg", predicted=[(4, 0.7, True)], model="gm")
    drawn = FIGURES["figure3"](made.sources)
    panels = drawn.figure.axes
    assert [panel.get_title() for panel in panels] == [
        "FedAvg, client 4",
        "Per-FedAvg",
        "pFedBayes",
        "LR-BPFL, client 1",
    ]
    assert panels[3].texts[0].get_text() == "ECE 40.0 %\nMCE 40.0 %"
    assert panels[1].texts[0].get_text() == "not run"


def test_figure_1_shows_the_mean_client(made: Made) -> None:
    made.add("table5", "5of10-train10", "LR-BPFL", predicted=THREE)
    made.add("table5", "5of10-train10", "LR-BPFL", predicted=[(0, 0.5, True)], seed=1)
    panel = FIGURES["figure1"](made.sources).figure.axes[3]
    assert panel.texts[0].get_text() == "ECE 30.0 %\nMCE 30.0 %"  # mean of 0.1, 0.4, 0.2 and 0.5


def new(condition: str, values: list[float]) -> list[tuple[Any, ...]]:
    # After the last round; the best one is no concern of newcomers.
    states = (("last", 0.0), ("best-pm", 0.07))
    return [
        (state, condition, client, "ece15", value + shift)
        for client, value in enumerate(values)
        for state, shift in states
    ]


def test_errors_of_new_clients_by_alpha(made: Made) -> None:
    made.add("new-clients", "new-client-0.1", "LR-BPFL", new("clean", [0.1, 0.3]) + new("new", [0.5, 0.1]))
    made.add("new-clients", "new-client-0.5", "LR-BPFL", new("clean", [0.1, 0.3]) + new("new", [0.2, 0.2]))
    found = new_client_errors(made.sources.index, made.sources).set_index(["alpha", "scope"])["mean"]
    assert found.to_dict() == pytest.approx(
        {(0.0, "mean"): 0.2, (0.0, "worst"): 0.3, (0.1, "mean"): 0.3, (0.1, "worst"): 0.5}
        | {(0.5, "mean"): 0.2, (0.5, "worst"): 0.2}
    )
    drawn = FIGURES["figure4"](made.sources)
    left, right = drawn.figure.axes
    assert left.get_lines()[0].get_ydata().tolist() == pytest.approx([20, 30, 20])
    assert right.get_lines()[0].get_ydata().tolist() == pytest.approx([30, 50, 20])
    assert [tick.get_text() for tick in left.get_xticklabels()] == ["0", "0.1", "0.5"]
    assert SERVER not in drawn.caption


def test_new_clients_of_fedbe_have_splits_of_their_own(made: Made) -> None:
    made.add("new-clients", "new-client-0.1", "LR-BPFL", new("clean", [0.1]) + new("new", [0.5]))
    made.add("new-clients-fedbe", "new-client-server-0.1", "FedBE", new("clean", [0.3]) + new("new", [0.4]))
    drawn = FIGURES["figure4"](made.sources)
    left, _ = drawn.figure.axes
    lines = {line.get_label(): line for line in left.get_lines()}
    assert lines["FedBE"].get_xdata().tolist() == [0.0, 0.1]
    assert lines["FedBE"].get_ydata().tolist() == pytest.approx([30, 40])
    assert SERVER in drawn.caption and "Not run" not in drawn.caption


def pooled(accuracy: float, error: float) -> list[tuple[Any, ...]]:
    return [("best-pm", "clean", -1, "accuracy", accuracy), ("best-pm", "clean", -1, "ece15", error)]


def test_noisy_clients_stand_beside_clean_ones(made: Made) -> None:
    made.add("table5", "5of10-train10", "LR-BPFL", pooled(0.6, 0.04))
    made.add("table5", "5of10-train10", "LR-BPFL", pooled(0.7, 0.08), seed=1)
    made.add("noisy", "5of10-noisy", "LR-BPFL", pooled(0.5, 0.05))
    made.add("table5", "5of10-train10", "pFedMe", pooled(0.55, 0.3))
    own = made.sources.index.query("method == 'LR-BPFL' and experiment == 'table5'")
    spans = accuracy_and_error(own, made.sources)
    assert spans[0] == pytest.approx((65, 60, 70)) and spans[1] == pytest.approx((6, 4, 8))
    drawn = FIGURES["figure6"](made.sources)
    assert "Not run" not in drawn.caption
    made.add("noisy", "5of10-noisy", "pFedMe", pooled(0.5, 0.05))
    assert "Not run at this scale: on noisy: pFedMe." in FIGURES["figure6"](made.of(made.rows[:-1])).caption
    assert len([text for text in drawn.figure.axes[0].texts if text.arrow_patch]) == 1
    assert SERVER not in drawn.caption


def test_seeds_that_agree_have_no_spread(made: Made) -> None:
    for seed in range(3):  # the mean of three times 12.3 is a little more than 12.3
        made.add("table5", "5of10-train10", "LR-BPFL", pooled(0.123, 0.123), seed=seed)
        made.add("noisy", "5of10-noisy", "LR-BPFL", pooled(0.123, 0.1), seed=seed)
    assert FIGURES["figure6"](made.sources).caption.startswith("Figure 6.")


def test_fedbe_stands_in_figure_6_by_its_own_splits(made: Made) -> None:
    made.add("table5", "5of10-train10", "LR-BPFL", pooled(0.6, 0.04))
    made.add("noisy", "5of10-noisy", "LR-BPFL", pooled(0.5, 0.05))
    made.add("table5-fedbe", "5of10-train10-server", "FedBE", pooled(0.4, 0.1), variant="2 % at the server")
    made.add("table2-fedbe", "5of10-train10-server", "FedBE", pooled(0.9, 0.9), variant="2 % at the server")
    made.add("noisy-fedbe", "5of10-noisy-server", "FedBE", pooled(0.3, 0.2))
    unpaired = FIGURES["figure6"](made.of(made.rows[:-1]))
    assert SERVER in unpaired.caption and "Not run at this scale: noisy, server." in unpaired.caption
    drawn = FIGURES["figure6"](made.sources)
    panel = drawn.figure.axes[0]
    assert {text.xyann: text.xy for text in panel.texts} == {(60.0, 4.0): (50.0, 5.0), (40.0, 10.0): (30.0, 20.0)}
    assert "Not run" not in drawn.caption and SERVER in drawn.caption


def test_ranks_by_layer_and_client(made: Made) -> None:
    ranks = [
        ("last", "clean", c, f"rank/{layer}", 8.0 - c - 2 * at) for at, layer in enumerate(("z", "a")) for c in (0, 1)
    ]
    made.add("table4", "5of10-train10", "LR-BPFL", [*ranks, ("best-pm", "clean", 0, "rank/z", 1.0)])
    found = final_ranks(made.sources.index, made.sources)
    assert list(found.index) == ["z", "a"] and found.to_numpy().tolist() == [[8.0, 7.0], [6.0, 5.0]]
    panel = FIGURES["figure7"](made.sources).figure.axes[0]
    assert [text.get_text() for text in panel.texts] == ["8", "7", "6", "5"]


def test_one_client_with_and_without_adaptive_ranks(made: Made) -> None:
    made.add("table4", "5of10-train10", "LR-BPFL w/o ARS", predicted=THREE)
    assert FIGURES["figure5"](made.sources).caption == "Figure 5: not run at this scale.", (
        "one of the two is not enough"
    )
    made.add("table4", "5of10-train10", "LR-BPFL", predicted=THREE)
    titles = [panel.get_title() for panel in FIGURES["figure5"](made.sources).figure.axes]
    assert titles == ["LR-BPFL w/o ARS, client 2", "LR-BPFL, client 2"]


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_of_which_nothing_ran_says_so(name: str, made: Made) -> None:
    made.add("table6", "5of10-train10", "LR-BPFL")
    number = name.removeprefix("figure")
    assert FIGURES[name](made.sources).caption == f"Figure {number}: not run at this scale."


def test_a_method_is_shown_by_its_first_preset() -> None:
    cells = pd.DataFrame(
        [("e", "A", "reference"), ("e", "A", "paper"), ("e", "B", "paper"), ("f", "A", "paper")],
        columns=["experiment", "method", "preset"],
    )
    assert first_presets(cells).index.tolist() == [0, 2, 3]
