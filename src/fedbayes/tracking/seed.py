"""What the files of one finished run say, as the MLflow run that shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric

from fedbayes.io import followed_model, read_json
from fedbayes.plan import digest
from fedbayes.tracking.store import CELL, NOTE, PARENT, RUN, Entry, digest_of

FILES = ("run.json", "rounds.parquet", "evaluation.parquet")
NAMES = ("paper", "experiment", "setting", "variant", "method", "preset", "scale")  # of a cell, apart from its seed
POOLED = -1  # `client` of the pooled rows of evaluation.parquet


@dataclass(frozen=True)
class Seed:
    """One cell of the plan with its seed, and the folder of the run that fills it."""

    cell: Mapping[str, Any]
    folder: Path

    @cached_property
    def record(self) -> dict[str, Any]:
        """What `run.json` says."""
        return dict(read_json(self.folder / "run.json"))

    @cached_property
    def params(self) -> dict[str, str]:
        """Everything that changes the run's numbers, flat: `method.lr`, `training.rounds`."""
        return dict(_flat(self.record["spec"]))

    @cached_property
    def cell_id(self) -> str:
        """What makes a cell this cell: its names and all its settings but the seed."""
        spec = {key: value for key, value in self.record["spec"].items() if key != "seed"}
        return digest([[self.cell[name] for name in NAMES], spec])

    @property
    def cell_name(self) -> str:
        """What people call the cell; with the experiment, because settings of two experiments may share a name."""
        cell = self.cell
        return f"{cell['setting']} / {cell['method']} ({cell['preset']}) / {cell['experiment']} @ {cell['scale']}"

    @property
    def child_name(self) -> str:
        """What people call the run."""
        return f"seed{self.cell['seed']} / {self.cell_name}"

    @property
    def name(self) -> str:
        """The run in this cell."""
        return f"{self.record['run']}/{self.cell_id}"

    @cached_property
    def digest(self) -> str:
        """A digest of the run's files and of the cell's words."""
        return digest_of(
            json.dumps({key: str(word) for key, word in self.cell.items()}, sort_keys=True),
            [self.folder / file for file in FILES],
        )

    @property
    def start(self) -> int:
        """When training started, in milliseconds."""
        return _milliseconds(self.record["started"])

    @property
    def end(self) -> int:
        """When the run was over, in milliseconds."""
        return _milliseconds(self.record["started"] + self.record["seconds"])

    @property
    def cell_tags(self) -> dict[str, str]:
        """Tags a cell shares with its seeds; what is empty is left out."""
        words = {name: self.cell[name] for name in (*NAMES, "dataset", "stand_in_for", "marks", "reduction")}
        words["partition"] = Path(self.record["split"]["path"]).parent.name
        words |= {CELL: self.cell_id, "mlflow.source.name": "snakemake", "mlflow.source.type": "LOCAL"}
        return {name: str(word) for name, word in words.items() if word}

    @property
    def description(self) -> str:
        """One or two sentences: what ran, on what, and what a smaller scale changed."""
        cell = self.cell
        data = cell["dataset_title"] + (f", standing in for {cell['stand_in_for']}" if cell["stand_in_for"] else "")
        variant = f" ({cell['variant']})" if cell["variant"] else ""
        changes = f" Changed from the paper: {cell['reduction']}." if cell["reduction"] else ""
        what = f"**{cell['method']}**, preset `{cell['preset']}`, in {cell['experiment']} / {cell['setting']}{variant}"
        return f"{what}, at scale `{cell['scale']}` on {data}.{changes}"

    def entry(self, parent: str) -> Entry:
        """The child run, read from its files."""
        cell, record = self.cell, self.record
        tags = self.cell_tags | {RUN: self.name, PARENT: parent, NOTE: self.description, "seed": str(cell["seed"])}
        tags |= {"outcome": record["outcome"], "data.md5": record["split"]["md5"], "git.commit": record["commit"]}
        if record["commit"] != "unknown":
            tags["mlflow.source.git.commit"] = record["commit"]
        return Entry(
            name=self.child_name,
            digest=self.digest,
            tags=tags,
            params=self.params,
            start=self.start,
            end=self.end,
            status="FINISHED" if record["outcome"] == "finished" else "FAILED",
            metrics=[*self.round_metrics(), *self.tested_metrics()],
            datasets=[_dataset(record)],
            artifacts=[(self.folder / "run.json", None)],
        )

    def round_metrics(self) -> Iterator[Metric]:
        """What was measured along the way, at its round: `gm/clean/accuracy`, `gm/clean/accuracy/worst`."""
        for row in self.rows("rounds.parquet"):
            if row["model"] == "train":
                name = f"train/{row['metric']}"
            else:
                name = metric_name(row["model"], row["condition"], row["metric"], row["scope"])
            yield Metric(name, row["value"], self.time_of(row["round"]), row["round"])

    def tested_metrics(self) -> Iterator[Metric]:
        """What was tested afterwards, pooled: `final/...` of the last state, `best/...` of each model's best one.

        They stand at step 0, as the means over seeds do: MLflow draws such values as bars, one for each run.
        """
        tested: dict[str, dict[str, Any]] = {}
        for row in self.rows("evaluation.parquet"):
            kind = {"last": "final", f"best-{followed_model(row['model'])}": "best"}.get(row["state"])
            if kind and row["client"] == POOLED:
                tested[f"{kind}/" + metric_name(row["model"], row["condition"], row["metric"])] = row
                if kind == "best":
                    tested[f"best/{row['model']}/clean/round"] = row | {"value": row["round"]}
        for name, row in tested.items():
            yield Metric(name, row["value"], self.time_of(row["round"]), 0)

    def rows(self, file: str) -> list[dict[str, Any]]:
        """The rows of one of the run's tables."""
        return list(pq.read_table(self.folder / file).to_pylist())

    def time_of(self, round_: int) -> int:
        """When a round ended, in milliseconds; round 0 is the start."""
        return _milliseconds(self.record["round_ended"][round_ - 1]) if round_ else self.start


def metric_name(model: str, condition: str, metric: str, scope: str = "pooled") -> str:
    """`gm/clean/accuracy` over all test samples, `gm/clean/accuracy/worst` over clients."""
    return f"{model}/{condition}/{metric}" + ("" if scope == "pooled" else f"/{scope}")


def _dataset(record: Mapping[str, Any]) -> DatasetInput:
    """The data as MLflow shows them: name, the split's digest, where the split is. No samples."""
    split, data = record["split"], record["dataset"]
    source, profile = json.dumps({"uri": split["path"]}), json.dumps({"num_rows": data["samples"]})
    dataset = Dataset(data["name"], split["md5"], "local", source, profile=profile)
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
