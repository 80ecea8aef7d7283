"""Figures of a whole paper without a run: cells of the real plan, and invented numbers where files would be read."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from artefacts import ROOT, make_plan
from fedbayes.analysis.drawing import STYLE, Drawn
from fedbayes.analysis.figures import FIGURES
from fedbayes.analysis.figures.sources import Sources, read_logged
from fedbayes.io import TRAITS

PAPERS = ("bpfed", "feduab", "lrbpfl", "pfedbayes", "selffl")
CLIENTS, SAMPLES, TESTS = 10, 60, 40
KEYS = sorted(FIGURES)
# What rule figures tells of the cells at scale paper.
PLANNED = ["experiment", "setting", "variant", "method", "preset", "published_dataset"]
UNCERTAINTIES = [f"{part}-{way}" for part in ("aleatoric", "epistemic") for way in ("trace", "predicted")]


class Pretended:
    """One paper at one scale; what its figures read is made up from the cell that asks."""

    def __init__(self, paper: str, scale: str, seeds: Sequence[int] | None = (0,)) -> None:
        self.paper = paper
        self.plan = make_plan(papers=[paper], scale=scale, seeds=None if seeds is None else list(seeds))
        self.index = pd.DataFrame([cell.row() for cell in self.plan.cells])
        whole = make_plan(papers=[paper], scale="paper", seeds=[0])
        self.planned = pd.DataFrame([cell.row() for cell in whole.cells])[PLANNED]
        self.tables: dict[tuple[str, str], pd.DataFrame] = {}
        self.whole: dict[str, Drawn] = {}
        self.specs = {cell.run.folder: cell.run.spec for cell in self.plan.cells}

    def sources(self, name: str, index: pd.DataFrame | None = None) -> Sources:
        logged = read_logged(ROOT / "config/curves.csv", f"{self.paper}/{name}")
        titles = self.plan.setting_titles(self.paper)
        return Sources(self.index if index is None else index, titles, Path(), logged, {}, self.planned)

    def draw(self, name: str, index: pd.DataFrame | None = None) -> Drawn:
        """A figure of some cells; of all of them it is drawn once."""
        if index is None and name in self.whole:
            return self.whole[name]
        with mpl.rc_context(STYLE):
            found = FIGURES[f"{self.paper}/{name}"](self.sources(name, index))
        if index is None:
            self.whole[name] = found
        return found

    def read_runs(self, cells: pd.DataFrame, root: Path, name: str) -> pd.DataFrame:
        tables = [
            self.table(folder, name).assign(seed=seed)
            for folder, seed in zip(cells["folder"], cells["seed"], strict=True)
        ]
        return pd.concat(tables, ignore_index=True)

    def table(self, folder: str, name: str) -> pd.DataFrame:
        """What a file of a run holds."""
        make = {"rounds": rounds, "evaluation": evaluation, "predictions": predictions, "visits": visits}
        if (folder, name) not in self.tables:
            spec = self.specs[folder]
            self.tables[folder, name] = make[name.removesuffix(".parquet")](spec, _stream(spec))
        return self.tables[folder, name]

    def read_json(self, file: Path) -> dict[str, Any]:
        return {"spec": self.specs[str(file.parent)]}


def rounds(spec: dict[str, Any], stream: np.random.Generator) -> pd.DataFrame:
    last = spec["training"]["rounds"]
    at = np.unique(np.linspace(0, last, min(last, TESTS) + 1).astype(int))
    ends, speed = stream.uniform(0.7, 0.97), stream.uniform(3, 12)
    ends -= 0.01 * spec["seed"]
    parts = []
    for model in spec["protocol"]["models"]:
        accuracy = 0.1 + (ends - 0.1 - 0.08 * (model == "gm")) * (1 - np.exp(-speed * at / last))
        accuracy += 0.004 * stream.standard_normal(len(at))
        for condition, shift in (("clean", 0.0), ("train", 0.02)):
            for metric, values in (("accuracy", accuracy + shift), ("nll", -np.log(accuracy))):
                own = {"round": at, "model": model, "condition": condition, "scope": "pooled", "metric": metric}
                parts.append(pd.DataFrame(own | {"value": values}))
    return pd.concat(parts)


def evaluation(spec: dict[str, Any], stream: np.random.Generator) -> pd.DataFrame:
    metrics = {"accuracy": (0.5, 0.9), "ece15": (0.02, 0.3), "error": (0.1, 0.6)}
    metrics |= {"aleatoric-trace": (0.2, 0.5), "epistemic-trace": (0.05, 0.2)}
    scores = ("aleatoric-trace", "epistemic-trace", "confidence")
    metrics |= {f"auroc-{kind}-{score}": (0.5, 0.9) for kind in ("wrong", "ood") for score in scores}
    states = {"last": 1, "best-pm": 1, "best-gm": 1} | {f"round-{at}": at for at in spec["protocol"].get("keep", [])}
    conditions = ("clean", "new", "outsiders", "outsiders-alike", "outsiders-unlike")
    names = ["state", "model", "condition", "client", "metric"]
    places = pd.MultiIndex.from_product([states, ("pm", "gm"), conditions, range(-1, CLIENTS), metrics], names=names)
    tested = places.to_frame(index=False)
    low, high = np.array([metrics[metric] for metric in tested["metric"]]).T
    tested = tested.assign(value=stream.uniform(low, high), round=tested["state"].map(states))
    layers = [f"rank/{layer}" for layer in ("conv1", "conv2", "fc1")]
    ranks = pd.MultiIndex.from_product([["last"], [TRAITS], ["clean"], range(100), layers], names=names)
    own = ranks.to_frame(index=False)
    return pd.concat([tested, own.assign(value=stream.integers(1, 9, len(own)), round=1)], ignore_index=True)


def predictions(spec: dict[str, Any], stream: np.random.Generator) -> pd.DataFrame:
    parts = []
    for model in ("pm", "gm"):
        for condition in ("clean", "outsiders"):
            number = CLIENTS * SAMPLES
            label, sure = stream.integers(0, 10, number), stream.uniform(0.3, 1, number)
            right = stream.random(number) < sure - 0.08
            own = {"model": model, "condition": condition, "client": np.arange(number) % CLIENTS}
            own |= {"sample": np.arange(number) % SAMPLES, "label": label, "predicted": (label + ~right) % 10}
            own |= {"confidence": sure, "resembles": (label < 2) & (condition == "outsiders")}
            doubts = {name: stream.random(number) * (1.2 - sure) for name in UNCERTAINTIES}
            parts.append(pd.DataFrame(own | doubts))
    return pd.concat(parts, ignore_index=True)


def visits(spec: dict[str, Any], stream: np.random.Generator) -> pd.DataFrame:
    rounds = spec["training"]["rounds"]
    at = np.repeat(np.arange(1, rounds + 1), 5)
    steps = stream.integers(5, 60, len(at)).astype(float)
    return pd.DataFrame({"round": at, "client": np.arange(len(at)) % 7, "metric": "steps", "value": steps})


def _stream(spec: dict[str, Any]) -> np.random.Generator:
    """The same for all seeds, so that bands are narrow."""
    return np.random.default_rng(zlib.crc32(repr(spec | {"seed": 0, "warm_start": ""}).encode()))


def picture(self: Sources, dataset: str, sample: int) -> np.ndarray:
    return np.random.default_rng(sample).integers(0, 256, (32, 32, 3), dtype=np.uint8)


@cache
def _made(paper: str, scale: str, seeds: tuple[int, ...] | None) -> Pretended:
    return Pretended(paper, scale, seeds)


def pretend(monkeypatch: pytest.MonkeyPatch, paper: str, scale: str, seeds: tuple[int, ...] | None = (0,)) -> Pretended:
    """The figures of a paper read invented numbers from now on."""
    made = _made(paper, scale, seeds)
    for name, module in list(sys.modules.items()):
        if name.startswith("fedbayes.analysis.figures"):
            for reader in ("read_runs", "read_json"):
                if hasattr(module, reader):
                    monkeypatch.setattr(module, reader, getattr(made, reader))
    monkeypatch.setattr(Sources, "picture", picture)
    return made
