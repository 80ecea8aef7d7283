"""Pictures of client splits: which splits of a paper are drawn, under which names, and which settings share each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fedbayes.config import Paper
from fedbayes.plan.cell import Cell
from fedbayes.plan.run import Run, digest


@dataclass(frozen=True)
class SplitPicture:
    """What a picture of a client split needs to know.

    Attributes:
        run: any run that has the split.
        dataset_title: the dataset that really runs.
        stand_in_for: what it stands in for, if anything.
        titles: titles of all settings of the paper that have the split, by `<experiment>/<setting>`.
    """

    run: Run
    dataset_title: str
    stand_in_for: str
    titles: dict[str, str]


def pictures_of(paper: Paper, cells: Sequence[Cell]) -> dict[str, SplitPicture]:
    """Pictures of a paper by file name: one for each split, at the first seed.

    Named after the first setting that has the split; if that name is taken (two experiments may call different
    splits the same), a digest follows it.
    """
    sharing: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.seed == cells[0].seed:
            sharing.setdefault(cell.run.split_stem, []).append(cell)
    pictures: dict[str, SplitPicture] = {}
    for stem, having in sharing.items():
        first = having[0]
        titles = {
            f"{cell.experiment}/{cell.setting}": paper.experiments[cell.experiment].settings[cell.setting].title
            for cell in having
        }
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", first.setting)
        pictures[name if name not in pictures else f"{name}-{digest(stem)}"] = SplitPicture(
            first.run, first.dataset_title, first.stand_in_for, titles
        )
    return pictures
