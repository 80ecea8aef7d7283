"""FedUAB's figures: curves of one model, examples by their rules, distributions and AUROC, the same bytes twice."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from artefacts import ROOT, make_plan, write_run
from fedbayes.analysis.drawing import caption_of
from fedbayes.analysis.figures import figure
from fedbayes.analysis.figures.lines import ACCURACY, LOSS, quantities_by_round
from fedbayes.analysis.figures.uncertainty import (
    ALEATORIC,
    EPISTEMIC,
    auroc_in_words,
    least,
    middle,
    most,
    one_after_another,
)
from fedbayes.analysis.summarize import read_index
from fedbayes.io import EVALUATION_COLUMNS, write_rows

SAMPLES = 60
RULES = {
    "surest": least,
    "aleatoric": lambda rows: most(rows, ALEATORIC),
    "both": lambda rows: most(rows, ALEATORIC, EPISTEMIC),
    "middle": lambda rows: middle(rows, EPISTEMIC),
}


def uncertain(*pairs: tuple[float, float]) -> pd.DataFrame:
    return pd.DataFrame(pairs, columns=[ALEATORIC, EPISTEMIC])


def test_every_rule_takes_what_the_rules_before_it_have_left() -> None:
    rows = uncertain((0.1, 0.1), (0.9, 0.2), (0.8, 0.25), (0.3, 0.5), (0.4, 0.3))
    chosen = [example.row.name for example in one_after_another(rows, "d", RULES)]  # type: ignore[union-attr]
    # Left for the last rule are epistemic 0.3 and 0.5, the lower of which is the middle.
    assert chosen == [0, 1, 2, 4]


def test_a_rule_without_samples_shows_that_there_is_none() -> None:
    assert [example.row for example in one_after_another(uncertain(), "d", RULES)] == [None] * 4


def test_auroc_is_of_the_best_state_with_its_spread_over_seeds() -> None:
    rows = [("best-gm", "gm", "outsiders", "auroc", 0.7), ("best-gm", "gm", "outsiders", "auroc", 0.9)]
    rows += [("last", "gm", "outsiders", "auroc", 0.1), ("best-gm", "pm", "outsiders", "auroc", 0.2)]
    table = pd.DataFrame(rows, columns=["state", "model", "condition", "metric", "value"])
    assert auroc_in_words(table, "outsiders", "auroc") == "0.800 ± 0.141"
    assert auroc_in_words(table[:1], "outsiders", "auroc") == "0.700"
    assert auroc_in_words(table, "outsiders-alike", "auroc") == ""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FedUAB at scale smoke with invented numbers, predictions and pictures."""
    folder, plan = tmp_path_factory.mktemp("feduab"), make_plan(papers=["feduab"])
    for run in plan.runs.values():
        write_run(folder, run)
        if run.id in plan.outsiders:
            write_predictions(folder / run.folder)
    stream = np.random.default_rng(0)
    for name in plan.pictured("feduab"):
        file = folder / "resources" / name / "inputs.npy"
        file.parent.mkdir(parents=True)
        np.save(file, stream.integers(0, 256, (SAMPLES, 3, 32, 32), dtype=np.uint8))
    cells = pd.DataFrame([cell.row() for cell in plan.cells])
    cells.to_csv(folder / "index.csv", index=False)
    return folder


def write_predictions(target: Path) -> None:
    """Every third known sample is predicted wrongly; every fifth outsider resembles a known class."""
    stream, place = np.random.default_rng(1), np.arange(SAMPLES)
    parts = []
    for condition in ("clean", "outsiders"):
        known = condition == "clean"
        doubt = {f"{part}-{way}": stream.random(SAMPLES) for part in ("aleatoric", "epistemic")
                 for way in ("trace", "predicted")}  # fmt: skip
        own = {"sample": place, "label": place % 10, "predicted": (place + (place % 3 == 0)) % 10}
        own |= {"confidence": stream.random(SAMPLES), "resembles": (place % 5 == 0) & (not known)}
        parts.append(pd.DataFrame(own | doubt).assign(state="best-gm", model="gm", condition=condition, client=-1))
    pd.concat(parts).to_parquet(target / "predictions.parquet")
    aurocs = [("clean", "wrong", 0.61), ("outsiders", "ood", 0.72), ("outsiders-alike", "ood", 0.5)]
    rows = [
        ("best-gm", 2, "gm", condition, -1, SAMPLES, f"auroc-{kind}-{score}", value)
        for condition, kind, value in aurocs
        for score in ("confidence", ALEATORIC, EPISTEMIC)
    ]
    before = pd.read_parquet(target / "evaluation.parquet").itertuples(index=False)
    write_rows(target / "evaluation.parquet", EVALUATION_COLUMNS, [*map(tuple, before), *rows])


def draw(folder: Path, name: str, number: int = 1) -> Path:
    plan = make_plan(papers=["feduab"])
    svg, png = (folder / f"{name}-{number}.{kind}" for kind in ("svg", "png"))
    figure(
        f"feduab/{name}",
        folder / "index.csv",
        folder,
        plan.setting_titles("feduab"),
        ROOT / "config/curves.csv",
        svg,
        png,
        {"cifar10-like": ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]},
    )
    return svg


def test_a_row_for_each_quantity_and_unrun_settings_say_so(finished: Path) -> None:
    cells = read_index(finished / "index.csv")
    cells = cells[cells["setting"] == "mnist-small-only2"]
    titles = {"mnist-small-only2": "MNIST", "cifar10-small-only2": "CIFAR-10"}
    drawn = quantities_by_round(cells, titles, finished, [ACCURACY, LOSS], "pm")
    above, unrun, below, _ = drawn.axes
    assert (above.get_ylabel(), below.get_ylabel()) == ("test accuracy (%)", "test loss (NLL)")
    assert [text.get_text() for text in unrun.texts] == ["not run at this scale"]
    labels = [line.get_label() for line in above.get_lines()]
    assert labels == ["FedAvg (paper), PM", "FedUAB-5 (reference), PM", "BPFed (own-bpfed), PM"]
    # At the last round the invented accuracy is 0.5 + 0.4 * 3 / 5 - 0.01 * 0.4, and the loss one minus it.
    best = max(line.get_ydata().max() for line in above.get_lines())
    assert best == pytest.approx(74.0) and above.get_lines()[0].get_ydata()[-1] == pytest.approx(73.6)
    assert below.get_lines()[0].get_ydata()[-1] == pytest.approx(1 - 0.736)
    assert below.get_ylim()[1] > max(line.get_ydata()[1:].max() for line in below.get_lines())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("figure6", ["Figure 6. Global models", "whole test part", "one seed, so no band", "rounds 5 (paper 2000)"]),
        ("figure7", ["Figure 7. Personal models", "one more local training", "MNIST-5k (stands in for MNIST)"]),
        ("figure8", ["Figure 8.", "neither which number", "(trace): AUROC 0.610,", "draws 2 (paper 5)"]),
        (
            "figure9",
            [
                "Figure 9.",
                "part of CIFAR-100-like (stands in for CIFAR-100).",
                "our own list",
                "all unknown 0.720, like 0.500; by",
            ],
        ),
    ],
)
def test_captions_say_what_is_shown_and_files_are_the_same_twice(finished: Path, name: str, words: list[str]) -> None:
    first, again = draw(finished, name), draw(finished, name, 2)
    assert first.read_bytes() == again.read_bytes()
    caption = caption_of(first)
    for word in words:
        assert word in caption


def test_examples_name_their_class_and_panels_their_auroc(finished: Path) -> None:
    with mpl.rc_context({"svg.fonttype": "none"}):
        known, outside = draw(finished, "figure8", 3).read_text(), draw(finished, "figure9", 3).read_text()
    assert "surest and right" in known and "AUROC 0.610" in known and "taken for" in known
    assert "all unknown 0.720" in outside and "like 0.500" in outside and "class " in outside
    stand_ins = "CIFAR-10-like (stands in for CIFAR-10), 1 seed"
    assert f"ran on {stand_ins}</text>" in known
    assert f"ran on {stand_ins}; unknown classes of CIFAR-100-like (stands in for CIFAR-100)</text>" in outside
    # 60 outsiders, of which 12 resemble a known class.
    assert "unknown, like a known class (12)" in outside and "unknown, unlike (48)" in outside
