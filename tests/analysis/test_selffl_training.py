"""Self-FL's Figures 7 to 9: which runs they are of, where the warm start's rounds go, what the captions admit."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from matplotlib.axes import Axes

from artefacts import ROOT, make_plan, write_run
from fedbayes.analysis.drawing import Drawn, caption_of
from fedbayes.analysis.figures import figure
from fedbayes.analysis.figures.selffl_training import FIGURES
from fedbayes.analysis.figures.sources import Sources, read_logged
from fedbayes.analysis.summarize import read_index

LOGGED = ROOT / "config/curves.csv"
EXPERIMENTS = ("figure7-mnist", "femnist", "sent140", "sent140-subset")
TITLES = make_plan(papers=["selffl"]).setting_titles("selffl")
PLANNED = [cell.row() for cell in make_plan(papers=["selffl"], scale="paper").cells]


def campaign(folder: Path, scale: str) -> Path:
    """Invented runs of the figures' experiments; on training samples accuracy is 0.05 higher. Returns their index."""
    cells = [c for c in make_plan(papers=["selffl"], scale=scale, seeds=[0, 1]).cells if c.experiment in EXPERIMENTS]
    for cell in cells:
        write_run(folder, cell.run)
        file = folder / cell.run.folder / "rounds.parquet"
        rounds = pd.read_parquet(file)
        tested = rounds[rounds["model"] != "train"]
        higher = tested.assign(condition="train", value=tested["value"] + 0.05)
        pd.concat([rounds, higher]).to_parquet(file)
    index = folder / "index.csv"
    pd.DataFrame([cell.row() for cell in cells]).to_csv(index, index=False)
    return index


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return campaign(tmp_path_factory.mktemp("smoke"), "smoke")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return campaign(tmp_path_factory.mktemp("full"), "paper")


def title(panel: Axes) -> str:
    return panel.get_title(loc="left") or panel.get_title()


def drawn(index: Path, name: str) -> Drawn:
    sources = Sources(read_index(index), TITLES, index.parent, read_logged(LOGGED, f"selffl/{name}"))
    return FIGURES[name](sources)


def test_figure_7_has_both_algorithms_on_training_samples(full: Path) -> None:
    found = drawn(full, "figure7")
    titles = [title(panel) for panel in found.figure.axes]
    assert titles == ["MNIST, two digits a client", "FEMNIST, three letters a client"], "variants have no panel"
    for panel in found.figure.axes:
        assert [line.get_label() for line in panel.get_lines()] == ["Self-FL (Algorithm 1)", "Self-FL (Algorithm 2)"]
        assert (panel.get_xlabel(), panel.get_ylabel()) == ("communication round", "training accuracy (%)")
        # The last round of the invented runs: 0.5 + 0.4 (198 / 200 - 0.01) and half a point for two seeds, 0.05 higher.
        assert panel.get_lines()[0].get_ydata()[-1] == pytest.approx(100 * (0.5 + 0.4 * 0.98 + 0.005 + 0.05))
        markers = {line.get_marker() for line in panel.get_lines()}
        assert len(markers) == 2, "told apart without colour"


def test_figure_7_marks_the_half_that_did_not_run(smoke: Path) -> None:
    first, second = drawn(smoke, "figure7").figure.axes
    assert title(first) == "MNIST" and not first.get_lines()
    assert [text.get_text() for text in first.texts] == ["not run at this scale"]
    assert not first.get_xlabel() and not first.get_ylabel(), "nothing to read off"
    assert title(second) == "FEMNIST: characters by writer" and len(second.get_lines()) == 2


def test_figure_8_has_the_warm_start_on_training_and_test_samples(full: Path) -> None:
    found = drawn(full, "figure8")
    (panel,) = found.figure.axes
    lines = {line.get_label(): line for line in panel.get_lines()}
    assert len(lines) == 4 and title(panel) == "Sent140, natural users", "the paper's own data first"
    trained, tested = (lines[f"global model, {kind} samples"] for kind in ("training", "test"))
    assert trained.get_xdata()[-1] == 200 and tested.is_dashed() and not trained.is_dashed()
    assert trained.get_ydata()[-1] - tested.get_ydata()[-1] == pytest.approx(5.0)


def test_figure_9_goes_on_where_figure_8_ends(full: Path) -> None:
    training, tests = drawn(full, "figure9").figure.axes
    for panel, label in ((training, "training accuracy (%)"), (tests, "test accuracy (%)")):
        assert panel.get_ylabel() == label
        names = [line.get_label() for line in panel.get_lines()]
        assert names == ["FedAvg", "DITTO", "pFedMe", "Per-FedAvg", "Self-FL"]
        for line in panel.get_lines():
            # Of long lines every n-th point is drawn, the last one always.
            assert 200 <= line.get_xdata()[0] <= 202 and line.get_xdata()[-1] == 600


def test_captions_say_what_ran_and_what_did_not(smoke: Path, tmp_path: Path) -> None:
    captions = {}
    for name in FIGURES:
        files = tmp_path / f"{name}.svg", tmp_path / f"{name}.png"
        figure(f"selffl/{name}", smoke, smoke.parent, TITLES, LOGGED, *files, planned=PLANNED)
        captions[name] = caption_of(files[0])
        assert captions[name].startswith(f"Figure {name[-1]}. ") and "Scale smoke, ran on" in captions[name]
    assert "Not run at this scale: DITTO, pFedMe, Per-FedAvg; Sent140, natural users." in captions["figure9"]
    assert "Sent140-like (stands in for Sent140)" in captions["figure8"]


def test_nothing_ran_is_said(smoke: Path) -> None:
    index = read_index(smoke).assign(experiment="other")
    for name, draw in FIGURES.items():
        found = draw(Sources(index, TITLES, smoke.parent, read_logged(LOGGED, f"selffl/{name}")))
        assert found.caption == f"Figure {name[-1]}: not run at this scale."
