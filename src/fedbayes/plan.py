"""From configuration to the list of runs: everything is decided, named and checked here, before any job starts.

A *run* is one training job; its name is the digest of everything that changes its numbers, and of nothing else. A
*cell* is one place of a paper's table (experiment, setting, method, preset, seed) at a scale; several cells may share a
run. Planning reads YAML and the generated schema only: no torch, no data, no network.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fedbayes.codedigest import code_digest, engine_numerics
from fedbayes.config import (
    OWN_TABLE,
    Changes,
    Config,
    DatasetFacts,
    Experiment,
    Local,
    MethodEntry,
    MethodPresets,
    Paper,
    PaperScale,
    Preprocess,
    Protocol,
    ScaleChanges,
    Setting,
    Training,
)
from fedbayes.reading import ConfigError, choice, complain, fill, kind, parse, read_yaml
from fedbayes.shifts import NoisyClients
from fedbayes.split_rules import RECORDS, SHARED_SAMPLES, Split, split_name, split_of

# Kinds of keys a scale or a method entry may change, and the record that checks the result.
SECTIONS: dict[str, type[Training] | type[Local] | type[Protocol]] = {
    "training": Training,
    "local": Local,
    "protocol": Protocol,
}


@dataclass(frozen=True)
class Run:
    """One training job, named by what changes its numbers."""

    spec: dict[str, Any] = field(hash=False)

    @cached_property
    def id(self) -> str:
        """12 hex digits of the sha256 of the canonical JSON of `spec`."""
        return digest(self.spec)

    @property
    def dataset(self) -> str:
        """Name of the dataset that really runs."""
        return str(self.spec["dataset"])

    @property
    def method(self) -> str:
        """File name of the method."""
        return str(self.spec["method"]["name"])

    @property
    def folder(self) -> str:
        """Where the run's artefacts are."""
        return f"results/runs/{self.dataset}/{self.method}/{self.id}"

    @property
    def split(self) -> Split:
        """The split specification as a record."""
        return split_of(self.spec["split"])

    @property
    def split_stem(self) -> str:
        """`<dataset>/<split>/seed<k>`: where the split's index arrays are, below its root."""
        return f"{self.dataset}/{split_name(self.split)}/seed{self.spec['seed']}"

    @property
    def shift_file(self) -> str | None:
        """Where the shifted samples are; None for a run without a shift."""
        if "shift" not in self.spec:
            return None
        shift = NoisyClients.model_validate(self.spec["shift"])
        return f"results/shifts/{self.dataset}/{split_name(self.split)}/{shift.name}/seed{self.spec['seed']}.npz"

    @property
    def warm_start(self) -> str | None:
        """The run whose global weights this one begins with; None for a run from initial ones."""
        return self.spec.get("warm_start")

    @property
    def code(self) -> str:
        """Digest of the code that makes this run's numbers (the engine by its NUMERICS)."""
        own = code_digest(f"methods.{self.method}", f"models.{self.spec['network']['name']}")
        return f"{own}-engine{engine_numerics()}"


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
        window = self.run.spec["protocol"]["window"]
        return flat | {
            "run": self.run.id,
            "folder": self.run.folder,
            "dataset": self.run.dataset,
            "method_file": self.run.method,
            "window_first": window[0],
            "window_last": window[1],
            "rounds": self.run.spec["training"]["rounds"],
        }


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


@dataclass(frozen=True)
class Plan:
    """All cells of the chosen papers at the chosen scale."""

    config: Config
    papers: dict[str, Paper]
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
        """What the paper's file has and this scale does not run: a row for each setting, method and printed number.

        `cells` counts presets and seeds; the columns `published_...` are those of a cell's row.
        """
        cells = self.cells_of(paper)
        seeds = len({cell.seed for cell in cells})
        ran = {(cell.experiment, cell.setting, cell.method, cell.preset) for cell in cells}
        return [
            {
                "experiment": experiment.title,
                "setting": setting.title,
                "method": label,
                "cells": len(missing) * seeds,
                "published_table": experiment.published_table or "",
                "published_dataset": place.dataset,
                "published_setting": place.setting,
            }
            for key, experiment in self.papers[paper].experiments.items()
            for name, setting in experiment.settings.items()
            for label, entry in experiment.methods.items()
            if (setting.methods is None or label in setting.methods)
            and (missing := [preset for preset in entry.presets if (key, name, label, preset) not in ran])
            for place in setting.places()
        ]

    def shown(self, paper: str, kind: str) -> list[str]:
        """File names of the tables (`Table 1` -> `table1`) or figures a paper's experiments make, in its own order.

        Tables that the paper does not print follow those it prints: of all experiments that have one and run.
        """
        own = dict.fromkeys(cell.own_table for cell in self.cells_of(paper) if cell.own_table and kind == "Table")
        names = [name for experiment in self.papers[paper].experiments.values() for name in experiment.shows]
        numbers = [name.removeprefix(f"{kind} ") for name in names if name.startswith(kind)]
        # Figure 10 comes after Figure 9; Roman numbers up to III are in the order of their letters.
        ordered = sorted(numbers, key=lambda number: (int(number) if number.isdigit() else 0, number))
        return [f"{kind}{number}".lower() for number in ordered] + list(own)

    def setting_titles(self, paper: str) -> dict[str, str]:
        """Titles of a paper's settings by name."""
        return {
            key: setting.title
            for experiment in self.papers[paper].experiments.values()
            for key, setting in experiment.settings.items()
        }

    @cached_property
    def split_pictures(self) -> dict[str, dict[str, SplitPicture]]:
        """Pictures by paper and file name: one for each split of the paper, at its first seed.

        Named after the first setting that has the split; if that name is taken (two experiments may call different
        splits the same), a digest follows it.
        """
        return {paper: self._split_pictures_of(paper) for paper in self.papers}

    def _split_pictures_of(self, paper: str) -> dict[str, SplitPicture]:
        experiments, cells = self.papers[paper].experiments, self.cells_of(paper)
        sharing: dict[str, list[Cell]] = {}
        for cell in cells:
            if cell.seed == cells[0].seed:
                sharing.setdefault(cell.run.split_stem, []).append(cell)
        pictures: dict[str, SplitPicture] = {}
        for stem, having in sharing.items():
            first = having[0]
            titles = {
                f"{cell.experiment}/{cell.setting}": experiments[cell.experiment].settings[cell.setting].title
                for cell in having
            }
            name = re.sub(r"[^A-Za-z0-9_.-]+", "-", first.setting)
            pictures[name if name not in pictures else f"{name}-{digest(stem)}"] = SplitPicture(
                first.run, first.dataset_title, first.stand_in_for, titles
            )
        return pictures

    @cached_property
    def tracking_batches(self) -> dict[str, list[Cell]]:
        """Cells published to MLflow together: a whole paper at `smoke` (start-up would cost most), else one run."""
        batches: dict[str, list[Cell]] = {}
        for cell in self.cells:
            name = f"runs-{cell.paper}" if self.config.scale == "smoke" else f"run-{cell.paper}-{cell.run.id}"
            batches.setdefault(name, []).append(cell)
        return batches

    def split_file(self, run: Run) -> str:
        """Committed splits live in `data/` under DVC, a user's own in `results/splits/`."""
        listed = f"data/{run.split_stem}.npz"
        return listed if listed in self.committed_splits else f"results/splits/{run.split_stem}.npz"


def digest(spec: object) -> str:
    """12 hex digits of the sha256 of canonical JSON."""
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def load_plan(config: dict[str, Any], root: Path) -> Plan:
    """Check everything under `root/config` that `config` asks for and lay out all cells.

    Args:
        config: the mapping Snakemake made of `config/config.yaml`, `--configfile` and `--config`.
        root: the folder that holds `config/`.
    """
    return _Planner(root, parse(Config, config, "config/config.yaml (or --config)")).plan()


class _Planner:
    """Reads the files once and resolves cell by cell; `load_plan` is its only user."""

    def __init__(self, root: Path, config: Config) -> None:
        self.root = root
        self.config = config
        self.schema = json.loads((root / "config/schema.json").read_text(encoding="utf-8"))
        found = read_yaml(root / "config/datasets.yaml", "config/datasets.yaml")
        self.datasets = {k: parse(DatasetFacts, v, "config/datasets.yaml", k) for k, v in found.items()}
        self.check_references()
        self.printed = read_printed(root)
        self.presets: dict[str, MethodPresets] = {}

    def plan(self) -> Plan:
        papers = self.chosen({name: self.paper(name) for name in self.config.papers})
        cells = [cell for name, paper in papers.items() for cell in self.cells(name, paper)]
        self.check_outsiders(cells)
        return Plan(self.config, papers, self.datasets, tuple(cells), read_committed_splits(self.root))

    def check_outsiders(self, cells: list[Cell]) -> None:
        """A run is evaluated once: cells that share it must not ask for different outsiders."""
        asked: dict[str, Cell] = {}
        for cell in cells:
            other = asked.setdefault(cell.run.id, cell) if cell.outsiders else cell
            if other.outsiders != cell.outsiders:
                file, at = f"config/papers/{cell.paper}.yaml", f"experiments.{cell.experiment}.settings.{cell.setting}"
                shared = f"but {other.paper}'s {other.experiment} / {other.setting} has the same run"
                found = f"found {cell.outsiders!r}, {shared} with {other.outsiders!r}; expected one of them"
                raise complain(file, f"{at}.outsiders", found)

    def check_references(self) -> None:
        """Datasets that others name must exist."""
        for name, facts in self.datasets.items():
            for key in ("stand_in_for", "embedded"):
                other = getattr(facts, key)
                if other is not None and other not in self.datasets:
                    raise complain("config/datasets.yaml", f"{name}.{key}", choice(other, self.datasets))

    def check_methods(self, file: str, paper: Paper) -> None:
        """Methods a setting names must be methods of its experiment."""
        for key, experiment in paper.experiments.items():
            for name, setting in experiment.settings.items():
                for label in setting.methods or ():
                    if label not in experiment.methods:
                        at = f"experiments.{key}.settings.{name}.methods"
                        raise complain(file, at, "unknown method: " + choice(label, experiment.methods))

    def check_printed(self, file: str, paper: Paper) -> None:
        """What an experiment says it reproduces must have been printed: a typo would compare nothing."""
        printed = self.printed.get(paper.name)
        if printed is None:
            raise complain(file, "name", "not in config/published.csv: " + choice(paper.name, self.printed))
        for key, experiment in paper.experiments.items():
            at, table = f"experiments.{key}", experiment.published_table
            if table is not None and table not in printed:
                raise complain(file, f"{at}.published_table", choice(table, printed))
            columns = printed[table] if table is not None else set()
            for name, setting in experiment.settings.items():
                for place in setting.places() if setting.published else ():
                    if f"{place.dataset} / {place.setting}" not in columns:
                        found = choice(f"{place.dataset} / {place.setting}", columns)
                        raise complain(file, f"{at}.settings.{name}.published", f"no such column of {table}: {found}")

    def paper(self, name: str) -> Paper:
        known = sorted(file.stem for file in (self.root / "config/papers").glob("*.yaml"))
        if name not in known:
            raise complain("config/config.yaml (or --config)", "papers", "unknown paper: " + choice(name, known))
        file = f"config/papers/{name}.yaml"
        paper = parse(Paper, read_yaml(self.root / file, file), file)
        self.check_scales(file, paper)
        self.check_methods(file, paper)
        self.check_printed(file, paper)
        return paper

    def chosen(self, papers: dict[str, Paper]) -> dict[str, Paper]:
        """The papers with the experiments that are asked for, and with those their relative metrics compare with."""
        asked, at = self.config.experiments, ("config/config.yaml (or --config)", "experiments")
        if asked is None:
            return papers
        known = dict.fromkeys(name for paper in papers.values() for name in paper.experiments)
        for name in asked:
            if name not in known:
                raise complain(*at, "unknown experiment: " + choice(name, known))
        parts = {}
        for key, paper in papers.items():
            own = {name: paper.experiments[name] for name in asked if name in paper.experiments}
            if not own:
                raise complain(
                    *at, f"none of them is in config/papers/{key}.yaml: {choice(asked[0], paper.experiments)}"
                )
            needed = {*own, *(e.baseline.experiment for e in own.values() if e.baseline)}
            kept = {name: experiment for name, experiment in paper.experiments.items() if name in needed}
            parts[key] = paper.model_copy(update={"experiments": kept})
        return parts

    def cells(self, name: str, paper: Paper) -> list[Cell]:
        file = f"config/papers/{name}.yaml"
        scale: ScaleChanges | PaperScale = getattr(paper.scales, self.config.scale)
        cells = []
        for key, experiment in paper.experiments.items():
            for setting_key, setting in experiment.settings.items():
                for label, entry in experiment.methods.items():
                    in_setting = setting.methods is None or label in setting.methods
                    if not (in_setting and _runs_at(scale, key, setting_key, label)):
                        continue
                    where = _Where(file, key, setting_key, label)
                    for preset in entry.presets[: _presets_at(scale, key)]:
                        cells += self.seeds(name, where, paper, preset, scale)
        if not cells:
            raise complain(file, f"scales.{self.config.scale}.only", "leaves nothing to run")
        return cells

    def check_scales(self, file: str, paper: Paper) -> None:
        """Names a scale changes or runs must exist, also those of other scales: a typo must not silently run less."""
        for name, scale in (("smoke", paper.scales.smoke), ("reduced", paper.scales.reduced)):
            self.check_sections(file, f"scales.{name}", scale, paper.experiments.values())
            for key, changes in scale.experiments.items():
                at = f"scales.{name}.experiments"
                if key not in paper.experiments:
                    raise complain(file, at, "unknown experiment: " + choice(key, paper.experiments))
                self.check_sections(file, f"{at}.{key}", changes, [paper.experiments[key]])
            self.check_only(file, paper, f"scales.{name}.only", scale)

    def check_sections(self, file: str, at: str, changes: Changes, experiments: Iterable[Experiment]) -> None:
        """Changes to splits, to sections and to methods' fields name keys and methods that there are."""
        experiments = list(experiments)
        splits = [setting.split for experiment in experiments for setting in experiment.settings.values()]
        fields = {key for split in splits for key in (*type(split).model_fields, split.rule)}
        for key, value in changes.split.items():
            if key not in fields:
                raise complain(file, f"{at}.split", "unknown key: " + choice(key, fields))
            if key in RECORDS:
                self.check_changes(file, f"{at}.split.{key}", value, RECORDS[key].model_fields)
        for section, model in SECTIONS.items():
            self.check_changes(file, f"{at}.{section}", getattr(changes, section), model.model_fields)
        used = {entry.method for experiment in experiments for entry in experiment.methods.values()}
        for method, values in changes.set.items():
            if method not in used:
                raise complain(file, f"{at}.set", "unknown method: " + choice(method, used))
            self.check_changes(file, f"{at}.set.{method}", values, self.schema["methods"][method]["properties"])

    def check_changes(self, file: str, at: str, changes: Any, fields: Mapping[str, Any]) -> None:
        """Changes are keys of a record."""
        if not isinstance(changes, dict):
            raise complain(file, at, f"expected keys and values; found {kind(changes)}")
        for key in changes:
            if key not in fields:
                raise complain(file, f"{at}.{key}", "unknown key: " + choice(key, fields))

    def check_only(self, file: str, paper: Paper, at: str, scale: ScaleChanges) -> None:
        for key, only in scale.only.items():
            if key not in paper.experiments:
                raise complain(file, at, "unknown experiment: " + choice(key, paper.experiments))
            for part, known in (
                ("settings", paper.experiments[key].settings),
                ("methods", paper.experiments[key].methods),
            ):
                for item in getattr(only, part) or ():
                    if item not in known:
                        raise complain(file, f"{at}.{key}.{part}", "unknown name: " + choice(item, known))

    def seeds(
        self,
        name: str,
        where: _Where,
        paper: Paper,
        preset: str,
        scale: ScaleChanges | PaperScale,
    ) -> list[Cell]:
        """The cells of one preset of a method in a setting: one for each printed number and seed."""
        experiment = paper.experiments[where.experiment]
        setting, entry = experiment.settings[where.setting], experiment.methods[where.method]
        exact = self.spec(where, experiment, setting, entry, preset, ScaleChanges(seeds=(0,)))
        actual = exact
        if not isinstance(scale, PaperScale):
            actual = self.spec(where, experiment, setting, entry, preset, scale)
        marks = self.marks(actual["method"])
        outsiders = self.outsiders(where, setting, scale)
        title, stand_in_for = self.names(actual["dataset"])
        outsiders_title, outsiders_stand_in_for = self.names(outsiders) if outsiders else ("", "")
        start, baseline = self.start(where, paper, scale), self.baseline(where, paper, scale)

        def run(seed: int) -> Run:
            warm = {"warm_start": Run(start | {"seed": seed}).id} if start else {}
            return Run(actual | {"seed": seed} | warm)

        return [
            Cell(
                paper=name,
                experiment=where.experiment,
                setting=where.setting,
                variant=", ".join(filter(None, [setting.variant, marks])),
                method=where.method,
                preset=preset,
                scale=self.config.scale,
                seed=seed,
                run=run(seed),
                dataset_title=title,
                stand_in_for=stand_in_for,
                marks=marks,
                reduction=reduction(exact, actual),
                published_table=experiment.published_table or "",
                published_dataset=place.dataset,
                published_setting=place.setting,
                published_condition=place.condition,
                baseline=Run(baseline | {"seed": seed}).folder if baseline else "",
                outsiders=outsiders,
                outsiders_title=outsiders_title,
                outsiders_stand_in_for=outsiders_stand_in_for,
                experiment_title=experiment.title,
                setting_title=setting.title,
                own_table=own_table(paper, where.experiment),
            )
            for place in setting.places()
            for seed in self.config.seeds or scale.seeds
        ]

    def names(self, dataset: str) -> tuple[str, str]:
        """What people call a dataset, and the one it stands in for, if any."""
        facts = self.datasets[dataset]
        return facts.title, self.datasets[facts.stand_in_for].title if facts.stand_in_for else ""

    def baseline(self, where: _Where, paper: Paper, scale: ScaleChanges | PaperScale) -> dict[str, Any] | None:
        """What the experiment's relative metrics compare with, but for the seed: the baseline on the same dataset."""
        experiment = paper.experiments[where.experiment]
        if experiment.baseline is None:
            return None
        at, named = f"experiments.{where.experiment}.baseline", experiment.baseline
        if named.experiment not in paper.experiments:
            found = choice(named.experiment, paper.experiments)
            raise complain(where.file, f"{at}.experiment", f"unknown experiment: {found}")
        other = paper.experiments[named.experiment]
        dataset = experiment.settings[where.setting].dataset
        settings = [key for key, setting in other.settings.items() if setting.dataset == dataset]
        if len(settings) != 1:
            found = f"{named.experiment!r} has {len(settings)} settings on {dataset!r}; expected one"
            raise complain(where.file, f"{at}.experiment", found)
        there = replace(where, experiment=named.experiment, setting=settings[0], method=named.method)
        return self.other_run(there, f"{at}.method", other, scale)

    def start(self, where: _Where, paper: Paper, scale: ScaleChanges | PaperScale) -> dict[str, Any] | None:
        """What a warm-started method begins with, but for the seed: another method's run in the same setting."""
        experiment = paper.experiments[where.experiment]
        named = experiment.methods[where.method].warm_start
        if named is None:
            return None
        at = f"experiments.{where.experiment}.methods.{where.method}.warm_start"
        if named in experiment.methods and experiment.methods[named].warm_start:
            raise complain(where.file, at, f"found {named!r}, which has a warm start itself; expected one from scratch")
        return self.other_run(replace(where, method=named), at, experiment, scale)

    def other_run(
        self, where: _Where, at: str, experiment: Experiment, scale: ScaleChanges | PaperScale
    ) -> dict[str, Any]:
        """The specification, but for the seed, of a run that another one needs: the first preset of a method.

        Args:
            where: the cell that is needed.
            at: the key that names it.
            experiment: the one it is in.
            scale: what is planned; it must run that cell, too.
        """
        if where.method not in experiment.methods:
            raise complain(where.file, at, "unknown method: " + choice(where.method, experiment.methods))
        setting, entry = experiment.settings[where.setting], experiment.methods[where.method]
        in_setting = setting.methods is None or where.method in setting.methods
        if not (in_setting and _runs_at(scale, where.experiment, where.setting, where.method)):
            found = f"found {where.method!r}, which scale {self.config.scale} does not run in {where.setting!r}"
            raise complain(where.file, at, found)
        changes = ScaleChanges(seeds=(0,)) if isinstance(scale, PaperScale) else scale
        return self.spec(where, experiment, setting, entry, entry.presets[0], changes)

    def spec(
        self,
        where: _Where,
        experiment: Experiment,
        setting: Setting,
        entry: MethodEntry,
        preset: str,
        scale: ScaleChanges,
    ) -> dict[str, Any]:
        """Everything that changes the numbers of a cell but its seed, checked against the data's facts."""
        dataset = self.dataset(where, setting, scale)
        facts = self.datasets[dataset]
        everywhere, here = scale.of(where.experiment)
        own = experiment.training.model_dump() | setting.training | entry.training
        changed = _changed_sections(everywhere, here, own["rounds"])
        sections: dict[str, Any] = {
            name: parse(
                model,
                getattr(experiment, name).model_dump()
                | getattr(setting, name, {})
                | getattr(entry, name, {})
                | changed[name],
                where.file,
                f"{where} / {name}",
            )
            for name, model in SECTIONS.items()
        }
        split = self.split(where, setting.split, everywhere, here)
        self.check_fit(where, split, dataset, facts, sections)
        changes = entry.set | setting.set | everywhere.set.get(entry.method, {}) | here.set.get(entry.method, {})
        method = self.method(where, entry, preset, changes)
        needed = self.schema["methods"][entry.method].get("needs")
        if needed and not getattr(split, needed):
            found = f"found {getattr(split, needed)}; the method {entry.method} needs more than that"
            raise complain(where.file, f"{where} / split.{needed}", found)
        return {
            "dataset": dataset,
            "split": split.model_dump(mode="json"),
            **self.shift(where, setting, split, facts, experiment.preprocess),
            "network": self.network(where, experiment),
            "preprocess": self.preprocess(where, experiment, facts),
            "method": method,
            **{name: section.model_dump(mode="json") for name, section in sections.items()},
        }

    def split(self, where: _Where, split: Split, *scale: Changes) -> Split:
        """The split with what the scale changes: of every rule that has the key, and of this rule alone."""
        record, changes = RECORDS[split.rule], dict[str, Any]()
        for each in scale:
            changes |= {key: value for key, value in each.split.items() if key in record.model_fields}
            changes |= each.split.get(split.rule, {})
        return parse(record, split.model_dump() | changes, where.file, f"{where} / split")

    def shift(
        self, where: _Where, setting: Setting, split: Split, facts: DatasetFacts, preprocess: Preprocess
    ) -> dict[str, Any]:
        """The setting's shift; nothing at all without one, so that other runs keep the names they had."""
        if setting.shift is None:
            return {}
        if objection := setting.shift.objection(facts.shape, split.population):
            raise complain(where.file, f"{where} / shift", f"cannot be made from {facts.title}: {objection}")
        at = f"experiments.{where.experiment}.preprocess"
        if preprocess.kind != "channels":
            raise complain(where.file, f"{at}.kind", f"found {preprocess.kind!r}; shifted images need 'channels'")
        if split.rule in SHARED_SAMPLES:
            raise complain(where.file, f"{where} / shift", f"clients of the rule {split.rule!r} may share samples")
        if setting.shift.wraps_around and (set(preprocess.mean or ()), set(preprocess.std or ())) != ({0.0}, {1.0}):
            raise complain(where.file, at, "images that wrap around are not normalised again: expected mean 0, std 1")
        return {"shift": setting.shift.model_dump(mode="json")}

    def outsiders(self, where: _Where, setting: Setting, scale: ScaleChanges | PaperScale) -> str:
        """The dataset of unknown classes that really runs, checked beside the one that is known; empty without one.

        No part of a run's specification: it is looked at after training.
        """
        if setting.outsiders is None:
            return ""
        at = f"experiments.{where.experiment}.settings.{where.setting}.outsiders"
        embedded = not isinstance(scale, PaperScale) and scale.embedded_data
        found, known = (
            self.running(where, at, name, embedded=embedded) for name in (setting.outsiders, setting.dataset)
        )
        facts = self.datasets[found]
        if found == known:
            raise complain(where.file, at, f"found {found!r}, which is trained on; expected a dataset of other classes")
        if len(facts.shape) != 3 or facts.shape != self.datasets[known].shape:
            shapes = f"its samples have the shape {facts.shape}, those of {known!r} {self.datasets[known].shape}"
            raise complain(where.file, at, f"found {found!r}; {shapes}; expected images of the same shape")
        if facts.test_per_class is None:
            raise complain(where.file, at, f"found {found!r}, which has no test part of its own")
        return found

    def dataset(self, where: _Where, setting: Setting, scale: ScaleChanges) -> str:
        """The dataset that really runs."""
        at = f"experiments.{where.experiment}.settings.{where.setting}.dataset"
        return self.running(where, at, setting.dataset, embedded=scale.embedded_data)

    def running(self, where: _Where, at: str, name: str, embedded: bool) -> str:
        """What runs in a dataset's place, by name: itself, or its embedded set where the scale says so."""
        if name not in self.datasets:
            raise complain(where.file, at, "unknown dataset: " + choice(name, self.datasets))
        if not embedded:
            return name
        found = self.datasets[name].embedded
        if found is None:
            raise complain("config/datasets.yaml", f"{name}.embedded", "names no embedded set for smoke")
        return found

    def check_fit(
        self, where: _Where, split: Split, dataset: str, facts: DatasetFacts, sections: dict[str, Any]
    ) -> None:
        """The split fits the data, the participation fits the split and the window fits the rounds."""
        objection = split.objection(facts)
        if objection:
            raise complain(where.file, f"{where} / split", f"cannot be made from {dataset!r}: {objection}")
        training, protocol = sections["training"], sections["protocol"]
        trained = None if split.population is None else split.population // split.replicates - len(split.held_out())
        if trained is not None and training.clients_per_round > trained:
            raise complain(
                where.file,
                f"{where} / training.clients_per_round",
                f"found {training.clients_per_round}; allowed: at most the {trained} clients of the split that train",
            )
        first, last = protocol.window
        if not 0 <= first <= last <= training.rounds:
            raise complain(
                where.file,
                f"{where} / protocol.window",
                f"found [{first}, {last}]; allowed: 0 <= first <= last <= {training.rounds} (training.rounds)",
            )
        for model in protocol.models:
            key = "pm_every" if model == "pm" and protocol.pm_every else "every"
            every = getattr(protocol, key)
            if last < training.rounds and not any(r % every == 0 for r in range(first, last + 1)):
                found = f"no round of [{first}, {last}] is tested: protocol.{key} is {every}"
                raise complain(where.file, f"{where} / protocol.window", found)
        if late := [round_ for round_ in protocol.keep if round_ > training.rounds]:
            found = f"found {late[0]}; allowed: at most {training.rounds} (training.rounds)"
            raise complain(where.file, f"{where} / protocol.keep", found)
        if protocol.gm_tests == "whole" and facts.test_per_class is None:
            found = f"found 'whole', but {dataset!r} has no test part of its own"
            raise complain(where.file, f"{where} / protocol.gm_tests", found)

    def network(self, where: _Where, experiment: Experiment) -> dict[str, Any]:
        name, at = experiment.model.name, f"experiments.{where.experiment}.model"
        known = self.schema["networks"]
        if name not in known:
            raise complain(where.file, f"{at}.name", "unknown network: " + choice(name, known))
        own = {k: v for k, v in experiment.model.model_dump().items() if k != "name"}
        return {"name": name} | fill(known[name], own, where.file, at)

    def preprocess(self, where: _Where, experiment: Experiment, facts: DatasetFacts) -> dict[str, Any]:
        preprocess, at = experiment.preprocess, f"experiments.{where.experiment}.preprocess"
        images = preprocess.kind in ("channels", "pixelwise")
        if images != (len(facts.shape) == 3):
            what = "images (channel, height, width)" if images else "texts and features (position,)"
            found = f"the kind {preprocess.kind!r} is for {what}; a sample of {facts.title} has shape {facts.shape}"
            raise complain(where.file, f"{at}.kind", found)
        for key in ("mean", "std"):
            values = getattr(preprocess, key)
            if values is not None and len(values) not in (1, facts.shape[0]):
                allowed = f"allowed: 1 or {facts.shape[0]}, one a channel"
                raise complain(where.file, f"{at}.{key}", f"found {len(values)} values; {allowed}")
        return preprocess.model_dump(mode="json")

    def method(self, where: _Where, entry: MethodEntry, preset: str, changes: dict[str, Any]) -> dict[str, Any]:
        """The method's fields: the preset's values, changed by `set` of the entry, of the setting and of the scale."""
        at = f"experiments.{where.experiment}.methods.{where.method}"
        known = self.schema["methods"]
        if entry.method not in known:
            hint = ""
            if (self.root / f"src/fedbayes/methods/{entry.method}.py").exists():
                hint = " (its file exists: run 'make schema' to have it known)"
            raise complain(where.file, f"{at}.method", "unknown method: " + choice(entry.method, known) + hint)
        file = f"config/methods/{entry.method}.yaml"
        if entry.method not in self.presets:
            presets = parse(MethodPresets, read_yaml(self.root / file, file), file)
            for name, values in presets.presets.items():
                fill(known[entry.method], values, file, f"presets.{name}")
            self.presets[entry.method] = presets
        presets = self.presets[entry.method]
        if preset not in presets.presets:
            raise complain(where.file, f"{at}.presets", "unknown preset: " + choice(preset, presets.presets))
        values = presets.presets[preset] | changes
        return {"name": entry.method} | fill(known[entry.method], values, where.file, f"{at}.set")

    def marks(self, method: dict[str, Any]) -> str:
        """Values of a method's fields whose schema says that they mark a result: `adapted on test data`."""
        fields = self.schema["methods"][method["name"]]["properties"]
        found = [field.get("marks", {}).get(str(method[name])) for name, field in fields.items()]
        return ", ".join(filter(None, found))


@dataclass(frozen=True)
class _Where:
    """The place in a paper's file a complaint is about."""

    file: str
    experiment: str
    setting: str
    method: str

    def __str__(self) -> str:
        return f"experiments.{self.experiment} / settings.{self.setting} / methods.{self.method}"


def _runs_at(scale: ScaleChanges | PaperScale, experiment: str, setting: str, method: str) -> bool:
    only = None if isinstance(scale, PaperScale) else scale.only.get(experiment)
    if only is None:
        return True
    return (only.settings is None or setting in only.settings) and (only.methods is None or method in only.methods)


def _presets_at(scale: ScaleChanges | PaperScale, experiment: str) -> int | None:
    """How many presets of each method a scale runs; None for all."""
    only = None if isinstance(scale, PaperScale) else scale.only.get(experiment)
    return only.presets if only else None


def _changed_sections(everywhere: Changes, here: Changes, rounds: int) -> dict[str, dict[str, Any]]:
    """What a scale changes of an experiment's sections; one that has no more rounds keeps its rounds and window."""
    changed = {name: getattr(everywhere, name) | getattr(here, name) for name in SECTIONS}
    if changed["training"].get("rounds", 0) >= rounds:
        changed["training"].pop("rounds")
        changed["protocol"].pop("window", None)
    return changed


def own_table(paper: Paper, experiment: str) -> str:
    """File name of the table of an experiment whose numbers the paper does not print.

    Empty where it prints them, and for an experiment that only serves others, as what their numbers are relative to.
    """
    serving = {other.baseline.experiment for other in paper.experiments.values() if other.baseline}
    if paper.experiments[experiment].published_table is not None or experiment in serving:
        return ""
    return OWN_TABLE + re.sub(r"[^a-z0-9]+", "-", experiment.lower()).strip("-")


def reduction(exact: dict[str, Any], actual: dict[str, Any]) -> str:
    """What a scale changed, in words made from the two specifications: `rounds 20 (paper 800)`."""
    changes = []
    for section in ("split", "training", "local", "protocol", "method"):
        for key in exact[section] | actual[section]:
            ours, theirs = (spec[section].get(key) for spec in (actual, exact))
            if ours != theirs:
                changes.append(f"{key} {_plain(ours)} (paper {_plain(theirs)})")
    return "; ".join(changes)


def _plain(value: object) -> str:
    return "-".join(map(str, value)) if isinstance(value, list) else str(value)


def read_printed(root: Path) -> dict[str, dict[str, set[str]]]:
    """Columns (`dataset / setting`) of every printed table, by paper and table."""
    printed: dict[str, dict[str, set[str]]] = {}
    with (root / "config/published.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            columns = printed.setdefault(row["paper"], {}).setdefault(row["table"], set())
            columns.add(f"{row['dataset']} / {row['setting']}")
    return printed


def read_committed_splits(root: Path) -> dict[str, dict[str, str]]:
    """Rows of `config/splits.csv` by path: the splits `data.dvc` pins."""
    file = root / "config/splits.csv"
    if not file.exists():
        return {}
    with file.open(encoding="utf-8", newline="") as lines:
        return {row["path"]: row for row in csv.DictReader(lines)}


__all__ = [
    "Cell",
    "ConfigError",
    "Plan",
    "Run",
    "SplitPicture",
    "digest",
    "load_plan",
    "own_table",
    "read_committed_splits",
    "reduction",
]
