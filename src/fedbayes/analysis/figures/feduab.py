"""Figures of FedUAB."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pandas as pd

from fedbayes.analysis.display import dataset
from fedbayes.analysis.drawing import Drawn
from fedbayes.analysis.figures import uncertainty
from fedbayes.analysis.figures.lines import ACCURACY, LOSS, quantities_by_round, seeds_caption
from fedbayes.analysis.figures.sources import Sources, closing, nothing_ran, read_runs, what_ran
from fedbayes.analysis.figures.uncertainty import ALEATORIC, EPISTEMIC, SCORES, Choice, Group

DATASETS = ("mnist", "cifar10", "cnews")
OPEN = (
    "The paper says neither which number of an uncertainty matrix it shows nor by how many draws: shown are the trace "
    "and, in brackets, the predicted class's entry, by the draws that FedUAB-5 predicts with, each of layer "
    "outputs (local reparameterisation). "
)


def figure6(sources: Sources) -> Drawn:
    """Accuracy and loss of the global model by round, 50 samples a client, labels from Dirichlet laws."""
    text = (
        "Global models where clients hold 50 samples each, their labels drawn from Dirichlet laws: accuracy (above) "
        "and mean negative log-likelihood (below) on the dataset's whole test part"
    )
    return _curves(sources, "Figure 6", "{}-small", "{}-small-dirichlet", "gm", text)


def figure7(sources: Sources) -> Drawn:
    """Accuracy and loss of personal models by round, 50 samples a client, two labels each."""
    text = (
        "Personal models where clients hold 50 samples each, of two labels: the global model after one more local "
        "training, which is then thrown away (BPFed: with its private head). Accuracy (above) and mean negative "
        "log-likelihood (below), pooled over the clients' own test sets, which are of one size"
    )
    return _curves(sources, "Figure 7", "table8-{}", "{}-small-only2", "pm", text)


def _curves(sources: Sources, name: str, experiment: str, setting: str, model: str, text: str) -> Drawn:
    """Accuracy and loss of one model on the three datasets.

    Args:
        sources: what the figure is drawn from.
        name: of the figure.
        experiment: pattern of the experiments' names, by dataset.
        setting: pattern of the settings' names, by dataset.
        model: which model's curves.
        text: what the caption says of it.
    """
    settings = [setting.format(name) for name in DATASETS]

    def chosen(sources: Sources) -> pd.DataFrame:
        cells = pd.concat([sources.cells(experiment.format(name)) for name in DATASETS])
        return cells[cells["setting"].isin(settings)]

    cells, unrun = chosen(sources), sources.unrun(chosen)
    if cells.empty:
        return nothing_ran(name)
    titles = {key: sources.titles[key] for key in settings}
    caption = (
        f"{name}. {text}, against the communication round; in brackets the preset. {seeds_caption(cells)} The first "
        f"rounds may lie outside the axes. {closing(cells, unrun)}"
    )
    return Drawn(quantities_by_round(cells, titles, sources.root, [ACCURACY, LOSS], model, unrun), caption)


def figure8(sources: Sources) -> Drawn:
    """Uncertainty of right and wrong predictions on CIFAR-10."""
    cells, unrun = _uncertain(sources), sources.unrun(_uncertain)
    if cells.empty:
        return nothing_ran("Figure 8")
    known = str(cells["dataset"].iloc[0])
    rows, evaluations = _predictions(sources, cells, "clean"), read_runs(cells, sources.root, "evaluation.parquet")
    first = rows[rows["seed"] == rows["seed"].iloc[0]]
    rules: dict[str, Choice] = {
        "surest and right": lambda left: uncertainty.least(left[uncertainty.is_right(left)]),
        "most aleatoric": lambda left: uncertainty.most(left, ALEATORIC),
        "most epistemic": lambda left: uncertainty.most(left, EPISTEMIC),
        "least sure and wrong": lambda left: uncertainty.most(left[~uncertainty.is_right(left)], ALEATORIC, EPISTEMIC),
    }
    right = uncertainty.is_right(rows)
    groups = [
        Group("right predictions", rows[right], "#0072b2", "-"),
        Group("wrong predictions", rows[~right], "#d55e00", (0, (4, 2))),
    ]
    notes = [
        f"AUROC {uncertainty.auroc_in_words(evaluations, 'clean', f'auroc-wrong-{score}')}, wrong against right"
        for score in SCORES
    ]
    examples = uncertainty.one_after_another(first, known, rules)
    caption = (
        "Figure 8. Uncertainty of FedUAB-5's global model on test images of CIFAR-10, All-Dirichlet, at its best "
        f"round. Above: four images by the written rule, none twice, of the first seed. {OPEN}Below: the same for "
        "all test images: the share of right and of wrong predictions with at most that uncertainty, seeds pooled; "
        f"AUROC is the chance that a wrong prediction is less sure than a right one. {_in_a_line(notes)} "
        f"{closing(cells, unrun)}"
    )
    return Drawn(uncertainty.draw(sources, what_ran(cells), examples, known, groups, notes), caption)


def figure9(sources: Sources) -> Drawn:
    """Uncertainty of images of unknown classes, CIFAR-100's, beside known ones."""
    cells, unrun = _uncertain(sources), sources.unrun(_uncertain)
    if cells.empty:
        return nothing_ran("Figure 9")
    known, outside = str(cells["dataset"].iloc[0]), str(cells["outsiders"].iloc[0])
    strangers = dataset(str(cells["outsiders_title"].iloc[0]), str(cells["outsiders_stand_in_for"].iloc[0]))
    rows, others = (_predictions(sources, cells, condition) for condition in ("clean", "outsiders"))
    evaluations = read_runs(cells, sources.root, "evaluation.parquet")
    first = others[others["seed"] == others["seed"].iloc[0]]
    rules: dict[str, Choice] = {
        "middle epistemic": partial(uncertainty.middle, part=EPISTEMIC),
        "most epistemic": lambda left: uncertainty.most(left, EPISTEMIC),
    }
    examples = [
        uncertainty.Example(f"{kind}:\n{example.rule}", example.row, outside)
        for kind, own in (("like a known class", first[first["resembles"]]), ("unlike", first[~first["resembles"]]))
        for example in uncertainty.one_after_another(own, outside, rules)
    ]
    alike = others["resembles"]
    groups = [
        Group("known classes", rows, "#000000", "-"),
        Group("unknown, like a known class", others[alike], "#0072b2", (0, (1, 1))),
        Group("unknown, unlike", others[~alike], "#d55e00", (0, (4, 2))),
    ]
    conditions = {"all unknown": "outsiders", "like": "outsiders-alike", "unlike": "outsiders-unlike"}
    notes = [
        f"AUROC against known classes\n{_aurocs(evaluations, conditions, f'auroc-ood-{score}')}" for score in SCORES
    ]
    caption = (
        "Figure 9. Uncertainty of FedUAB-5's global model of CIFAR-10, All-Dirichlet, at its best round, for images of "
        f"classes it does not know: the test part of {strangers}. Above: four images by the "
        f"written rule, of the first seed. {OPEN}Which classes are like a known one is our own list (ten of "
        "CIFAR-100's; stand-ins have none). Below: the same for all images: the share with at most that "
        f"uncertainty, seeds pooled; AUROC is the chance that an image of an unknown class is less sure than "
        f"one of a known class. {_in_a_line(notes)} {closing(cells, unrun)}"
    )
    heading = f"{what_ran(cells)}; unknown classes of {strangers}"
    return Drawn(uncertainty.draw(sources, heading, examples, known, groups, notes), caption)


def _uncertain(sources: Sources) -> pd.DataFrame:
    """Cells of FedUAB-5 on CIFAR-10 All-Dirichlet."""
    cells = sources.cells("cifar10")
    return cells[(cells["setting"] == "cifar10-all-dirichlet") & (cells["method"] == "FedUAB-5")]


def _predictions(sources: Sources, cells: pd.DataFrame, condition: str) -> pd.DataFrame:
    rows = read_runs(cells, sources.root, "predictions.parquet")
    return rows[(rows["model"] == "gm") & (rows["condition"] == condition)]


def _in_a_line(notes: list[str]) -> str:
    """What stands above the panels, as a sentence for those who cannot see them."""
    parts = [f"by {label}: {', '.join(note.splitlines())}" for label, note in zip(SCORES.values(), notes, strict=True)]
    return f"Measured {'; '.join(parts)}."


def _aurocs(evaluations: pd.DataFrame, conditions: dict[str, str], metric: str) -> str:
    found = {name: uncertainty.auroc_in_words(evaluations, condition, metric) for name, condition in conditions.items()}
    return "\n".join(f"{name} {value}" for name, value in found.items() if value)


FIGURES: dict[str, Callable[[Sources], Drawn]] = {
    "figure6": figure6,
    "figure7": figure7,
    "figure8": figure8,
    "figure9": figure9,
}
