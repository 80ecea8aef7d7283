"""Figures: what is drawn, what the caption admits, and the same bytes twice."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from artefacts import ROOT
from campaign import Campaign
from fedbayes.analysis.drawing import caption_of, from_zero
from fedbayes.analysis.figures import figure, lines
from fedbayes.analysis.figures.lines import accuracy_by_round, curves, legend_below
from fedbayes.analysis.figures.sources import closing, heading, one_line_each, read_logged, read_runs, what_ran
from fedbayes.analysis.summarize import read_index
from fedbayes.reading import ConfigError

TITLES = {"mnist-small": "MNIST small", "mnist-small-stratified": "MNIST small, stratified"}

LOGGED = ROOT / "config" / "curves.csv"
NO_LOG = read_logged(LOGGED, "pfedbayes/none")


def draw(campaign: Campaign, folder: Path) -> tuple[Path, Path]:
    svg, png = folder / "figure2.svg", folder / "figure2.png"
    figure("pfedbayes/figure2", campaign.index, campaign.root, TITLES, LOGGED, svg, png)
    return svg, png


def test_curves_are_mean_lowest_and_highest_over_seeds(full: Campaign) -> None:
    index = read_index(full.index)
    values = curves(index[index["setting"] == "mnist-small"], full.root).set_index("round")
    assert set(values["model"]) == {"gm"} and len(values) == 801
    # At round 400: 0.5 + 0.4 / 2 + 0.01 seed.
    assert tuple(values.loc[400, ["mean", "low", "high"]]) == pytest.approx((0.71, 0.70, 0.72))


def test_seeds_that_have_no_value_any_more_end_the_curve(full: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    index = read_index(full.index)
    cells = index[index["setting"] == "mnist-small"]
    rows = read_runs(cells, full.root, "rounds.parquet")
    gone = (rows["seed"] == 1) & (rows["round"] > 400)
    monkeypatch.setattr(lines, "read_runs", lambda *_: rows.assign(value=rows["value"].mask(gone)))
    values = curves(cells, full.root).set_index("round")
    assert values.loc[400, "mean"] == pytest.approx(0.71)
    assert values.loc[401:, ["mean", "low", "high"]].isna().all(axis=None)
    panel = accuracy_by_round(cells, TITLES, full.root, NO_LOG).axes[0]
    assert panel.get_ylim()[0] == 50.0, "the axis does not stumble over missing values"


def test_captions_count_the_seeds_that_diverged(diverged: Campaign, full: Campaign, tmp_path: Path) -> None:
    caption = caption_of(draw(diverged, tmp_path)[0])
    assert "3 seeds. Diverged: 2 of 3 seeds of FedAvg (paper) on MNIST small." in caption
    assert "iverged" not in caption_of(draw(full, tmp_path)[0])


def test_a_panel_for_each_setting_with_labelled_axes(full: Campaign) -> None:
    drawn = accuracy_by_round(read_index(full.index), TITLES, full.root, NO_LOG)
    panels = [panel for panel in drawn.axes if panel.get_lines()]
    assert [panel.get_title(loc="left") or panel.get_title() for panel in panels] == list(TITLES.values())
    for panel in panels:
        assert (panel.get_xlabel(), panel.get_ylabel()) == ("communication round", "test accuracy (%)")
        (line,) = panel.get_lines()
        assert line.get_label() == "FedAvg (paper), GM"
        assert line.get_xdata()[-1] == 800 and line.get_ydata()[-1] == pytest.approx(90.5)
        assert len(line.get_xdata()) <= 201
        assert line.is_dashed() and line.get_marker() == "o"
    assert drawn.get_suptitle() == "Scale paper, ran on MNIST, 3 seeds"


def test_presets_of_a_method_differ_in_how_their_markers_are_filled(full: Campaign) -> None:
    index = read_index(full.index)
    both = pd.concat([index, index.assign(preset="reference")])
    lines = accuracy_by_round(both, TITLES, full.root, NO_LOG).axes[0].get_lines()
    assert {(to_hex(line.get_color()), line.get_marker()) for line in lines} == {("#0072b2", "o")}, "the method's"
    assert len({(line.get_fillstyle(), line.get_markerfacecolor()) for line in lines}) == len(lines) == 2


def test_the_caption_travels_with_the_figure(smoke: Campaign, tmp_path: Path) -> None:
    svg, _ = draw(smoke, tmp_path)
    caption = caption_of(svg)
    assert caption.startswith("Figure 2. Test accuracy")
    assert "Scale smoke, ran on MNIST-5k (stands in for MNIST), 1 seed" in caption
    assert "one seed, so no band" in caption and f"rounds {smoke.rounds} (paper 800)" in caption


def test_the_band_is_explained(full: Campaign, tmp_path: Path) -> None:
    svg, _ = draw(full, tmp_path)
    assert "the band spans the lowest to the highest seed" in caption_of(svg)


def test_the_same_runs_give_the_same_bytes(smoke: Campaign, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for first, second in zip(draw(smoke, tmp_path / "a"), draw(smoke, tmp_path / "b"), strict=True):
        assert first.read_bytes() == second.read_bytes()
        assert first.stat().st_size > 5_000


def test_a_figure_of_which_nothing_ran_says_so(smoke: Campaign, tmp_path: Path) -> None:
    index = pd.read_csv(smoke.index, keep_default_na=False).assign(setting="fmnist-small")
    index.to_csv(tmp_path / "index.csv", index=False)
    svg = tmp_path / "figure2.svg"
    figure("pfedbayes/figure2", tmp_path / "index.csv", smoke.root, TITLES, LOGGED, svg, svg.with_suffix(".png"))
    assert caption_of(svg) == "Figure 2: not run at this scale."


def test_an_unknown_figure_is_named(smoke: Campaign, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="found 'pfedbayes/figure9'"):
        figure("pfedbayes/figure9", smoke.index, smoke.root, TITLES, LOGGED, tmp_path / "a.svg", tmp_path / "a.png")


def test_a_public_log_is_drawn_behind_ours_and_named(full: Campaign) -> None:
    index = read_index(full.index)
    index = index[index["setting"] == "mnist-small"].assign(setting="mnist-medium", rounds=100)
    logged = read_logged(LOGGED, "pfedbayes/figure2")
    (panel,) = accuracy_by_round(index, {"mnist-medium": "MNIST medium"}, full.root, logged).axes
    lines = {line.get_label(): line for line in panel.get_lines()}
    behind = lines["pFedBayes, public log, GM"]
    assert behind.get_xdata()[-1] <= 100 and behind.get_ydata()[-1] == pytest.approx(90.7, abs=0.3)
    highest = max(float(line.get_ydata().max()) for line in lines.values())
    assert panel.get_ylim()[1] > highest, "the log fits into the panel"
    assert behind.get_zorder() < lines["FedAvg (paper), GM"].get_zorder()


def test_a_public_log_stands_alone_where_ours_did_not_run(smoke: Campaign, tmp_path: Path) -> None:
    logged = read_logged(LOGGED, "pfedbayes/figure2")
    titles = {"mnist-small": "MNIST small", "mnist-medium": "MNIST medium"}
    _, panel = accuracy_by_round(read_index(smoke.index), titles, smoke.root, logged).axes
    assert {line.get_label() for line in panel.get_lines()} == {
        "pFedBayes, public log, PM",
        "pFedBayes, public log, GM",
    }
    assert [text.get_text() for text in panel.texts] == ["not run at this scale"]
    assert panel.get_xlabel() == "communication round" and len(panel.get_xticks()) > 1
    svg = tmp_path / "figure2.svg"
    figure("pfedbayes/figure2", smoke.index, smoke.root, titles, LOGGED, svg, svg.with_suffix(".png"))
    assert "Grey, behind or alone: " in caption_of(svg)


def test_variants_have_no_panel_of_their_own(full: Campaign, tmp_path: Path) -> None:
    svg, _ = draw(full, tmp_path)
    assert "stratified" not in svg.read_text()


def test_a_figure_of_many_methods_has_all_readings_of_its_own_and_one_of_the_others() -> None:
    rows = [("table1", "FedAvg", "paper"), ("table1", "FedAvg", "other"), ("table1", "Own", "paper")]
    cells = pd.DataFrame([*rows, ("table1", "Own", "reference")], columns=["experiment", "method", "preset"])
    shown = one_line_each(cells, "Own")
    assert list(zip(shown["method"], shown["preset"], strict=True)) == [
        ("FedAvg", "paper"),
        ("Own", "paper"),
        ("Own", "reference"),
    ]


def test_curves_of_unequal_numbers_of_seeds_are_said() -> None:
    same = {"dataset_title": "MNIST", "stand_in_for": "", "scale": "paper", "setting": "a", "preset": "paper"}
    cells = pd.DataFrame(
        [same | {"method": "A", "seed": seed} for seed in (0, 1, 2)] + [same | {"method": "B", "seed": 0}]
    )
    assert what_ran(cells) == "Scale paper, ran on MNIST, 1 to 3 seeds"
    assert what_ran(cells[cells["method"] == "B"]) == "Scale paper, ran on MNIST, 1 seed"


def test_an_axis_from_zero_has_room_for_the_highest_marker() -> None:
    panel = Figure().subplots()
    panel.plot([0, 1], [9.9, 10.0])
    from_zero(panel)
    assert panel.get_ylim()[0] == 0 and panel.get_ylim()[1] > 10.5


def test_a_long_legend_takes_no_room_from_the_panels() -> None:
    heights = []
    for entries in (3, 12):
        drawn = Figure(figsize=(7.2, 3.6), layout="constrained")
        panel = drawn.subplots()
        for number in range(entries):
            panel.plot([0, 1], [number, 1], label=f"method {number}")
        legend_below(drawn, [panel])
        drawn.draw_without_rendering()
        heights.append(panel.get_window_extent().height)
    assert heights[1] > 0.95 * heights[0]


def test_what_was_reduced_is_said_once() -> None:
    same = {"dataset_title": "MNIST", "stand_in_for": "", "scale": "smoke", "setting": "a", "preset": "p", "seed": 0}
    reductions = ["rounds 5 (paper 800)", "rounds 5 (paper 800); draws 2 (paper 5)", ""]
    cells = pd.DataFrame([same | {"method": str(at), "reduction": text} for at, text in enumerate(reductions)])
    words = "Scale smoke, ran on MNIST, 1 seed. Reduced: rounds 5 (paper 800); draws 2 (paper 5)."
    assert (
        closing(cells) == words and closing(cells, "Not run at this scale: B.") == f"Not run at this scale: B. {words}"
    )


def test_lines_above_a_figure_are_no_wider_than_it() -> None:
    found = heading("Scale smoke", 3.0, "Not run at this scale: " + ", ".join(["method"] * 20), "", "filled: clean")
    lines = found.splitlines()
    assert lines[0] == "Scale smoke" and lines[-1] == "filled: clean" and all(len(line) <= 45 for line in lines)
    assert found.count("method") == 20
