"""The plan: all cells of the chosen papers at one scale, and the answers to what the workflow asks of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fedbayes.codedigest import code_digest
from fedbayes.config import Config, DatasetFacts, Paper
from fedbayes.plan.cell import Cell
from fedbayes.plan.paper_tables import names_shown, rows_left_out
from fedbayes.plan.run import Run, digest
from fedbayes.plan.split_pictures import SplitPicture, pictures_of
from fedbayes.split_rules import Split


@dataclass(frozen=True)
class Plan:
    """All cells of the chosen papers at the chosen scale.

    `papers` have the experiments that are asked for, `whole` all that their files have.
    """

    config: Config
    papers: dict[str, Paper]
    whole: dict[str, Paper]
    datasets: dict[str, DatasetFacts]
    cells: tuple[Cell, ...]
    committed_splits: dict[str, dict[str, str]]

    @cached_property
    def runs(self) -> dict[str, Run]:
        """Runs by id, each once, in the order of the cells."""
        return {cell.run.id: cell.run for cell in self.cells}

    def cells_of(self, paper: str) -> list[Cell]:
        """Cells of one paper."""
        return [cell for cell in self.cells if cell.paper == paper]

    def runs_of(self, paper: str) -> list[Run]:
        """Runs that fill the cells of one paper, each once."""
        return list({cell.run.id: cell.run for cell in self.cells_of(paper)}.values())

    @property
    def headers(self) -> dict[str, dict[str, str]]:
        """Name, title, citation and address of each paper by its key."""
        return {
            key: paper.model_dump(include={"name", "title", "citation", "url"}) for key, paper in self.papers.items()
        }

    def split_file(self, run: Run) -> str:
        """Committed splits live in `data/` under DVC, a user's own in `results/splits/`."""
        listed = f"data/{run.split_stem}.npz"
        return listed if listed in self.committed_splits else f"results/splits/{run.split_stem}.npz"

    @cached_property
    def splits(self) -> dict[str, Split]:
        """Specification of every split file the runs need, by path."""
        return {self.split_file(run): run.split for run in self.runs.values()}

    @cached_property
    def shifts(self) -> dict[str, Run]:
        """Every file of shifted samples the runs need, by path, with a run that needs it."""
        return {file: run for run in self.runs.values() if (file := run.shift_file)}

    @cached_property
    def outsiders(self) -> dict[str, str]:
        """The dataset of unknown classes that a run's global model is shown, by the run's id, where there is one."""
        return {cell.run.id: cell.outsiders for cell in self.cells if cell.outsiders}

    def outsiders_digest(self, run: Run) -> str:
        """What the evaluation of a run's outsiders hangs on; empty for a run without."""
        name = self.outsiders.get(run.id)
        return f"{self.dataset_digest(name)}-{code_digest('data.outsiders')}" if name else ""

    def pictured(self, paper: str) -> list[str]:
        """Datasets of which a paper's figures may show samples: those with outsiders, and the outsiders."""
        asked = [cell for cell in self.cells_of(paper) if cell.outsiders]
        return list(dict.fromkeys(name for cell in asked for name in (cell.run.dataset, cell.outsiders)))

    def class_names(self, paper: str) -> dict[str, tuple[str, ...]]:
        """What the classes of these datasets are called, where that is known."""
        return {name: names for name in self.pictured(paper) if (names := self.datasets[name].class_names)}

    def committed_sha256(self, run: Run) -> str | None:
        """Digest the run's split must have; None for a user's own split."""
        row = self.committed_splits.get(self.split_file(run))
        return row["sha256"] if row else None

    def reader_code(self, dataset: str) -> str:
        """Digest of the readers' code, for a dataset whose own digest is not known; others answer for themselves."""
        return code_digest("data.datasets") if self.datasets[dataset].sha256 is None else ""

    def data_digest(self, run: Run) -> str:
        """What a run's data hang on: the dataset, the split's committed bytes or its code, the code of a shift."""
        split = self.committed_sha256(run) or code_digest("data.partition")
        shift = f"-{code_digest('data.corruptions')}" if run.shift_file else ""
        return f"{self.dataset_digest(run.dataset)}-{split}{shift}"

    def dataset_digest(self, dataset: str) -> str:
        """A dataset as far as numbers hang on it: its arrays, or what reads them, and its own test part."""
        facts = self.datasets[dataset]
        return f"{facts.sha256 or self.reader_code(dataset)}-{digest(facts.test_per_class)}"

    def start_file(self, run: Run) -> str | None:
        """The state that a warm-started run begins with; None for a run from initial weights."""
        return f"{self.runs[run.warm_start].folder}/state.safetensors" if run.warm_start else None

    def left_out(self, paper: str) -> list[dict[str, Any]]:
        """What the paper's file has and this plan does not run: a row for each setting, method and printed number."""
        return rows_left_out(self.whole[paper], self.cells_of(paper))

    def shown(self, paper: str, kind: str) -> list[str]:
        """File names of the tables (`Table 1` -> `table1`) or figures a paper's experiments make."""
        return names_shown(self.papers[paper], self.cells_of(paper), kind)

    def setting_titles(self, paper: str) -> dict[str, str]:
        """Titles of all settings of a paper by name; a figure names those that did not run, too."""
        return {
            key: setting.title
            for experiment in self.whole[paper].experiments.values()
            for key, setting in experiment.settings.items()
        }

    @cached_property
    def split_pictures(self) -> dict[str, dict[str, SplitPicture]]:
        """Pictures by paper and file name: one for each split of the paper, at its first seed."""
        return {key: pictures_of(paper, self.cells_of(key)) for key, paper in self.papers.items()}

    @cached_property
    def tracking_batches(self) -> dict[str, list[Cell]]:
        """Cells published to MLflow together: a whole paper at `smoke` (start-up would cost most), else one run."""
        batches: dict[str, list[Cell]] = {}
        for cell in self.cells:
            name = f"runs-{cell.paper}" if self.config.scale == "smoke" else f"run-{cell.paper}-{cell.run.id}"
            batches.setdefault(name, []).append(cell)
        return batches
