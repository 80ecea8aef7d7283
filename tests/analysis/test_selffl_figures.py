"""Self-FL's figures: what is averaged over what, which visits are drawn, and what the captions admit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from artefacts import ROOT, make_plan
from fedbayes.analysis.drawing import caption_of
from fedbayes.analysis.figures import figure
from fedbayes.analysis.figures.selffl_mnist import busiest, step_bins
from fedbayes.analysis.figures.selffl_synthetic import errors
from fedbayes.analysis.summarize import read_index
from fedbayes.io import EVALUATION_COLUMNS, ROUNDS_COLUMNS, VISITS_COLUMNS, write_json, write_rows
from fedbayes.plan import Cell

LOGGED = ROOT / "config" / "curves.csv"
TITLES = make_plan(papers=["selffl"]).setting_titles("selffl")
PLANNED = [cell.row() for cell in make_plan(papers=["selffl"], scale="paper").cells]


def write_index(folder: Path, cells: list[Cell]) -> Path:
    """The index of some cells, and the records of their runs."""
    for cell in cells:
        write_json(folder / cell.run.folder / "run.json", {"spec": cell.run.spec, "outcome": "finished"})
    file = folder / "index.csv"
    pd.DataFrame([cell.row() for cell in cells]).to_csv(file, index=False)
    return file


def cells_of(scale: str, *experiments: str, seeds: tuple[int, ...] = (0,)) -> list[Cell]:
    plan = make_plan(papers=["selffl"], scale=scale, seeds=list(seeds))
    return [cell for cell in plan.cells if cell.experiment in experiments]


def write_errors(folder: Path, cell: Cell, by_repeat: dict[str, list[float]]) -> None:
    """A run with these errors of each repeat, and others that must not be drawn."""
    rows: list[list[Any]] = []
    for model, values in by_repeat.items():
        for repeat, value in [(-1, 99.0), *enumerate(values)]:
            rows.append(["last", 200, model, "clean", repeat, 1, "error", value])
            rows.append(["last", 200, model, "clean", repeat, 1, "distance", 77.0])
    write_rows(folder / cell.run.folder / "evaluation.parquet", EVALUATION_COLUMNS, rows)


def drawn(folder: Path, name: str, index: Path) -> str:
    svg = folder / f"{name}.svg"
    figure(f"selffl/{name}", index, folder, TITLES, LOGGED, svg, svg.with_suffix(".png"), planned=PLANNED)
    return caption_of(svg)


def test_errors_are_means_over_repeats_with_their_standard_error(tmp_path: Path) -> None:
    cells = [
        cell
        for cell in cells_of("paper", "synthetic-homogeneous", seeds=(0, 1))
        if cell.setting == "case1-c02" and cell.method in ("FedAvg", "Self-FL")
    ]
    for cell in cells:
        shift = 1.0 * cell.seed
        write_errors(tmp_path, cell, {"gm": [0.1 + shift, 0.2 + shift, 0.6 + shift], "pm": [0.5, 0.5, 0.5]})
    found = errors(read_index(write_index(tmp_path, cells)), tmp_path).set_index(["model", "method"])
    assert len(found) == 4 and set(found["rate"]) == {4 / 20}
    assert found.loc[("gm", "FedAvg"), "mean"] == pytest.approx(0.3 + 0.5), "seeds are averaged within a repeat"
    assert found.loc[("gm", "FedAvg"), "sem"] == pytest.approx(np.std([0.1, 0.2, 0.6], ddof=1) / np.sqrt(3))
    assert found.loc[("pm", "Self-FL"), "sem"] == 0


@pytest.mark.parametrize("name", ["figure4", "figure5", "figure6"])
def test_figures_of_errors_draw_what_ran_and_say_so(tmp_path: Path, name: str) -> None:
    cells = cells_of("smoke", "synthetic-homogeneous", "synthetic-heterogeneous")
    for cell in cells:
        write_errors(tmp_path, cell, {"gm": [0.1, 0.2], "pm": [0.3, 0.4]})
    index = write_index(tmp_path, cells)
    caption = drawn(tmp_path, name, index)
    assert "Scale smoke, ran on Two-level Gaussian" in caption and "repeats 20 (paper 200)" in caption
    assert "does not state the starting point" in caption
    assert ("Not run at this scale: FedAvg, DITTO, pFedMe, Per-FedAvg;" in caption) == (name == "figure5")
    for case in {"figure4": ["homo"], "figure5": ["hetero"], "figure6": ["homo", "hetero"]}[name]:
        assert f"{case}geneous, C = 0.1, " in caption
    first = (tmp_path / f"{name}.svg").read_bytes()
    drawn(tmp_path, name, index)
    assert (tmp_path / f"{name}.svg").read_bytes() == first
    lines = first.decode()
    assert ("Augmented" in lines, "Algorithm 2" in lines) == (False, name == "figure6")


def test_figures_of_which_nothing_ran_say_so(tmp_path: Path) -> None:
    index = write_index(tmp_path, cells_of("smoke", "table4"))
    for number in (4, 5, 6, 10, 11, 12):
        assert drawn(tmp_path, f"figure{number}", index) == f"Figure {number}: not run at this scale."


def test_the_busiest_client_is_the_first_of_those_with_most_visits() -> None:
    steps = pd.DataFrame({"client": [7, 3, 7, 3, 9], "round": [1, 1, 2, 2, 2]})
    assert busiest(steps) == 3


def test_bins_are_whole_numbers_of_steps_wide_and_hold_every_visit() -> None:
    for taken in ([1.0], [3.0, 3.0, 8.0], [1.0, 500.0], [20.0, 39.0]):
        edges = step_bins(pd.Series(taken))
        assert len(edges) <= 22 and len(set(np.diff(edges))) == 1 and np.diff(edges)[0] % 1 == 0
        assert np.histogram(taken, edges)[0].sum() == len(taken)


def write_visits(folder: Path, cell: Cell, last: int) -> None:
    """Clients 0 and 1 take turns; steps are ten times the round."""
    rows = [[r, r % 2, "steps", 10.0 * r] for r in range(1, last + 1)]
    write_rows(folder / cell.run.folder / "visits.parquet", VISITS_COLUMNS, rows)


def test_the_histogram_is_of_round_100_or_of_the_last_one(tmp_path: Path) -> None:
    cells = [cell for cell in cells_of("paper", "mnist") if cell.method == "Self-FL"]
    for cell, last in zip(cells, (150, 40), strict=True):
        write_visits(tmp_path, cell, last)
    caption = drawn(tmp_path, "figure11", write_index(tmp_path, cells))
    assert "paper: 1 visit in round 100" in caption and "reference: 1 visit in round 40" in caption


def test_the_trajectory_is_of_one_client_and_one_seed(tmp_path: Path) -> None:
    cells = [cell for cell in cells_of("paper", "mnist", seeds=(0, 1)) if cell.method == "Self-FL"]
    for cell in cells:
        write_visits(tmp_path, cell, 7)
    caption = drawn(tmp_path, "figure12", write_index(tmp_path, cells))
    assert "paper: client 1, 4 visits" in caption and "1 seed" in caption


def test_convergence_with_few_active_clients(tmp_path: Path) -> None:
    cells = cells_of("paper", "mnist-few-active")
    for cell in cells:
        rows = [
            [r, model, "clean", "pooled", "accuracy", 0.5 + r / 1000]
            for r in range(0, 201, 10)
            for model in ("pm", "gm")
        ]
        write_rows(tmp_path / cell.run.folder / "rounds.parquet", ROUNDS_COLUMNS, rows)
    caption = drawn(tmp_path, "figure10", write_index(tmp_path, cells))
    assert caption.startswith("Figure 10.") and "2 % of the clients are active" in caption
