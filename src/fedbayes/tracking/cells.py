"""The comparison with the paper and the client split on the parent runs; tables and figures as a run of their own."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from mlflow.entities import Metric, Run

from fedbayes.reading import complain
from fedbayes.tracking.reach import reaching
from fedbayes.tracking.seed import metric_name
from fedbayes.tracking.store import (
    CELL,
    DIGEST,
    NOTE,
    RUN,
    Artifact,
    Entry,
    PaperInfo,
    Shelf,
    digest_of,
    settle,
    stands,
)

SUMMARY = "fedbayes.summary"  # digest of the comparison and the split that a parent shows

# Columns of the reproduction file that are read here; `compare` writes more.
COLUMNS = ["status", "experiment", "our_setting", "method", "preset", "scale", "model", "our_metric", "scope"]
COLUMNS += ["condition", "ours", "std", "ours_last", "published", "published_std", "difference", "verdict"]
COLUMNS += ["why_no_verdict", "seeds", "runs"]

# An experiment's saved views are tags to MLflow's pages; other readers ignore them.
VIEW = "mlflow.sharedViewState.reproduction"


def publish_cells(
    uri: str,
    publisher: str,
    paper: PaperInfo,
    reproduction_csv: Path,
    figures: Sequence[Path],
    tables: Sequence[Path],
    splits: Mapping[str, Path],
) -> None:
    """Show comparison and client split on the parents of the paper's runs, tables and figures as `report @ <scale>`.

    Args:
        uri: the store, as `MLFLOW_TRACKING_URI` has it.
        publisher: who publishes; one process at a time may do so under one name.
        paper: the paper the comparison is of; its runs must have been published.
        reproduction_csv: `results/<scale>/reproduction/<paper>.csv`.
        figures: files to show under `figures/`.
        tables: files to show under `tables/`.
        splits: pictures of the settings' client splits by `<experiment>/<setting>`, shown under `splits/` of parents.
    """
    compared = [row for row in read_reproduction(reproduction_csv) if row["status"] == "run"]
    artifacts = [(reproduction_csv, None), *((f, "figures") for f in figures), *((t, "tables") for t in tables)]
    with reaching(uri):
        shelf = Shelf(uri, publisher, paper)
        for scale in sorted({row["scale"] for row in compared}):
            rows = [row for row in compared if row["scale"] == scale]
            settle(partial(_publish_scale, shelf, paper, scale, rows, splits, artifacts))
        printed = [row for row in compared if row["published"]] or compared
        shelf.describe(VIEW, _view(sorted({_name(row) for row in printed})))


def _publish_scale(
    shelf: Shelf,
    paper: PaperInfo,
    scale: str,
    compared: Sequence[Mapping[str, str]],
    splits: Mapping[str, Path],
    artifacts: Sequence[Artifact],
    first: bool,
) -> bool:
    """All that is compared at one scale; says whether there was anything to do."""
    published = shelf.runs("scale", scale)
    families: dict[str, list[Mapping[str, str]]] = {}
    for row in compared:
        families.setdefault(_cell_of(row, published, artifacts[0][0]), []).append(row)
    done = []
    for cell_id, rows in families.items():
        family = [run for run in published if run.data.tags[CELL] == cell_id]
        split = splits[f"{rows[0]['experiment']}/{rows[0]['our_setting']}"]
        done.append(_publish_summary(shelf, family, rows, split, first))
    end = max(run.info.end_time for run in published if run.data.tags[CELL] in families)
    done.append(_publish_report(shelf, paper, scale, end, artifacts, first))
    return any(done)


def read_reproduction(file: Path) -> list[dict[str, str]]:
    """The rows of a reproduction file, as text."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines)
        missing = [column for column in COLUMNS if column not in (rows.fieldnames or ())]
        if missing:
            raise complain(str(file), "header", f"the column {missing[0]!r} is missing")
        return list(rows)


def _cell_of(row: Mapping[str, str], published: Sequence[Run], file: Path) -> str:
    """The identity of the cell that the runs of a row fill."""
    wanted = {"experiment": row["experiment"], "setting": row["our_setting"]}
    wanted |= {"method": row["method"], "preset": row["preset"]}
    for run in published:
        tags = run.data.tags
        if tags.get(RUN, "").split("/")[0] in row["runs"].split() and wanted.items() <= tags.items():
            return str(tags[CELL])
    where = " / ".join(wanted.values())
    raise complain(str(file), where, f"found the runs {row['runs']}, which are not in the MLflow store: publish them")


def _publish_summary(
    shelf: Shelf, family: Sequence[Run], rows: Sequence[Mapping[str, str]], split: Path, first: bool
) -> bool:
    """Mean, spread, printed number, difference, verdict and client split of one cell, on the parent of its seeds.

    The parent is made anew: values added to the one that stands could be cut off half-way or stand beside older ones.
    """
    parent = next((run for run in family if RUN not in run.data.tags), None)
    if parent is None:
        return True  # another publisher is just replacing it
    digest = digest_of(json.dumps([parent.info.end_time, rows, split.name], sort_keys=True), [split])
    run, shown = parent.info.run_id, parent.data.tags.get(SUMMARY)
    renewed = shown is None or (first and shown != digest)
    if renewed:
        run = shelf.put(_with_summary(parent, rows, split, digest), parent)
    return shelf.adopt(run, [child for child in family if child is not parent]) or renewed


def _with_summary(parent: Run, rows: Sequence[Mapping[str, str]], split: Path, digest: str) -> Entry:
    """The parent as `publish_runs` made it, and the comparison."""
    info, tags = parent.info, dict(parent.data.tags)
    metrics = {name: value for row in rows for name, value in _metrics(row).items() if math.isfinite(value)}
    return Entry(
        name=info.run_name,
        digest=tags.pop(DIGEST),
        tags=tags | {"seeds": rows[0]["seeds"], "verdict": _verdict(rows), SUMMARY: digest},
        params=parent.data.params,
        start=info.start_time,
        end=info.end_time,
        status=info.status,
        metrics=[Metric(name, value, info.end_time, 0) for name, value in metrics.items()],
        artifacts=[(split, "splits")],
    )


def _name(row: Mapping[str, str]) -> str:
    return metric_name(row["model"], row["condition"], row["our_metric"], row["scope"])


def _metrics(row: Mapping[str, str]) -> dict[str, float]:
    """One comparison; `best/` and `final/` mean what they mean on the children, so that columns agree."""
    name = _name(row)
    texts = {
        f"best/{name}": row["ours"],
        f"best/{name}/std": row["std"],
        f"final/{name}": row["ours_last"],
        f"published/{name}": row["published"],
        f"published/{name}/std": row["published_std"],
        f"difference/{name}": row["difference"],
    }
    return {key: float(text) if text else math.nan for key, text in texts.items()}


def _verdict(rows: Sequence[Mapping[str, str]]) -> str:
    """The verdict, or why there is none; for each metric apart where they differ."""
    rows = [row for row in rows if row["published"]] or rows  # what the paper does not print gets none
    verdicts = {_name(row): row["verdict"] or f"none ({row['why_no_verdict']})" for row in rows}
    if len(set(verdicts.values())) == 1:
        return next(iter(verdicts.values()))
    return "; ".join(f"{name}: {verdict}" for name, verdict in verdicts.items())


def _publish_report(
    shelf: Shelf, paper: PaperInfo, scale: str, end: int, artifacts: Sequence[Artifact], first: bool
) -> bool:
    """The run that holds the comparison, tables and figures; dated like the last run they show."""
    identity = f"report {scale}"
    places = [[file.name, folder] for file, folder in artifacts]
    digest = digest_of(json.dumps([identity, end, places]), [file for file, _ in artifacts])
    old = next(iter(shelf.runs(CELL, identity)), None)
    if stands(old, digest) or (old is not None and not first):
        return False
    note = f"Tables and figures of *{paper.title}* at scale `{scale}`, ours beside the printed numbers: see Artifacts."
    tags = {CELL: identity, NOTE: note, "paper": paper.key, "scale": scale, "mlflow.source.name": "snakemake"}
    entry = Entry(f"report @ {scale}", digest, tags, {}, end, end, artifacts=artifacts)
    shelf.put(entry, old)
    return True


def _view(names: Sequence[str]) -> str:
    """The saved view *Ours beside theirs*: the columns to compare, in order, and room for the runs' names."""
    columns = [f"metrics.`{kind}/{name}`" for name in names for kind in ("best", "published", "difference")]
    columns += [f"tags.`{tag}`" for tag in ("verdict", "scale", "seeds", "dataset")]
    widths = {"attributes.`Run Name`": 380, "runDateAndNestInfo": 130} | {
        column: 210 if column.startswith("metrics") else 110 for column in columns
    }
    state = {"selectedColumns": columns, "columnOrder": list(widths), "columnWidths": widths}
    return json.dumps({"name": "Ours beside theirs", "createdAt": 0, "updatedAt": 0, "state": json.dumps(state)})
