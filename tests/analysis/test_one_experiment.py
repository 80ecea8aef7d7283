"""One experiment alone (`--config experiments=[...]`): its figures know the titles of all settings of the paper."""

from __future__ import annotations

import pytest

from artefacts import make_plan
from fedbayes.analysis.figures import FIGURES
from fedbayes.plan import ConfigError, Plan
from pretended import PAPERS, pretend

SCALES = ("smoke", "reduced", "paper")


def alone(paper: str, scale: str) -> dict[str, Plan]:
    """The plan of each experiment of a paper that runs anything at a scale."""
    found = {}
    for name in make_plan(papers=[paper], scale=scale).papers[paper].experiments:
        try:
            found[name] = make_plan(papers=[paper], scale=scale, experiments=[name])
        except ConfigError as error:
            assert "leaves nothing to run" in str(error)
    return found


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("paper", PAPERS)
def test_every_setting_that_a_figure_may_name_has_its_title(paper: str, scale: str) -> None:
    titles = make_plan(papers=[paper]).setting_titles(paper)
    planned = {cell.setting for cell in make_plan(papers=[paper], scale="paper", seeds=[0]).cells}
    assert planned <= titles.keys()
    plans = alone(paper, scale)
    assert plans and all(plan.setting_titles(paper) == titles for plan in plans.values())


@pytest.mark.parametrize("paper", PAPERS)
def test_every_figure_of_a_single_experiment_is_drawn(paper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = pretend(monkeypatch, paper, "smoke", None)
    for _, own in made.index.groupby("experiment", sort=False):
        for name in (key.split("/")[1] for key in FIGURES if key.startswith(f"{paper}/")):
            assert made.draw(name, own).caption.startswith(name.replace("figure", "Figure "))


def test_what_was_not_asked_for_is_left_out_too() -> None:
    plan = make_plan(papers=["bpfed"], experiments=["ablations"])
    left = {row["experiment"] for row in plan.left_out("bpfed")}
    whole = plan.whole["bpfed"].experiments
    assert {whole[name].title for name in whole if name != "ablations"} <= left
