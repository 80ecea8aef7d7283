"""A cell: one place of a paper's table, what must be known where its number stands, and the run that fills it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from fedbayes.plan.run import Run

# Columns of a cell's row that its run tells.
OF_RUN = ("run", "folder", "dataset", "method_file", "window_first", "window_last", "rounds")


@dataclass(frozen=True)
class Cell:
    """One place of a paper's table at one scale and seed, and the run that fills it."""

    paper: str
    experiment: str
    setting: str
    variant: str
    method: str
    preset: str
    scale: str
    seed: int
    run: Run = field(hash=False)
    dataset_title: str = ""
    stand_in_for: str = ""
    marks: str = ""  # what must be known of the method's fields wherever the number stands
    reduction: str = ""
    published_table: str = ""
    published_dataset: str = ""
    published_setting: str = ""
    published_condition: str = "clean"  # what the number beside the printed one is tested on
    baseline: str = ""  # folder of the run that relative metrics compare with
    outsiders: str = ""  # dataset of unknown classes that the global model is shown in the evaluation
    outsiders_title: str = ""
    outsiders_stand_in_for: str = ""
    experiment_title: str = ""
    setting_title: str = ""
    own_table: str = ""  # file name of the table it stands in where the paper prints none

    def row(self) -> dict[str, Any]:
        """The cell as a row of `results/<scale>/index/<paper>.csv`."""
        flat = {k: v for k, v in self.__dict__.items() if k != "run"}
        run, (first, last) = self.run, self.run.spec["protocol"]["window"]
        told = (run.id, run.folder, run.dataset, run.method, first, last, run.spec["training"]["rounds"])
        return flat | dict(zip(OF_RUN, told, strict=True))

    @classmethod
    def columns(cls) -> list[str]:
        """The columns of `row`, in order: an index has them even where nothing runs."""
        return [field.name for field in fields(cls) if field.name != "run"] + list(OF_RUN)
