"""Tables of wake words: relative false accepts from two runs' predictions, in the paper's shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from artefacts import ROOT, make_plan, write_run
from fedbayes.analysis.compare import compare, printed_only, read_reproduction
from fedbayes.analysis.coverage import unrun
from fedbayes.analysis.device_columns import by_device
from fedbayes.analysis.report import counts
from fedbayes.analysis.summarize import summarize
from fedbayes.analysis.tables import make_table
from fedbayes.plan import Plan

GROUPS = [f"{state}-{device}" for state in ("normal", "playback", "alarm") for device in "ABCDE"]
GROUPS = [group for group in GROUPS if group not in ("alarm-A", "alarm-C")]
LABELS = [1, 1, 0, 0, 0, 0]
# No keyword is missed at 0.4, where the baseline accepts two others, the model one and the model in playback four.
BASELINE = [0.4, 0.9, 0.6, 0.5, 0.1, 0.2]
MODEL = [0.4, 0.9, 0.6, 0.1, 0.1, 0.2]
PLAYBACK = [0.4, 0.9, 0.6, 0.5, 0.7, 0.8]


def predictions(state: str, scores: dict[str, list[float]]) -> pd.DataFrame:
    """`predictions.parquet` of a global model in one state, group by group."""
    rows: list[dict[str, Any]] = [
        {"state": state, "model": "gm", "group": group, "label": label, "predicted": int(p >= 0.5),
         "confidence": max(p, 1 - p), "runner-up": min(p, 1 - p)}
        for group, own in scores.items()
        for p, label in zip(own, LABELS, strict=True)
    ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def audio(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, pd.DataFrame]:
    """The smoke runs of the audio tables with invented scores, compared with the paper."""
    folder, plan = tmp_path_factory.mktemp("audio"), make_plan(papers=["selffl"])
    cells = [cell for cell in plan.cells if cell.experiment.startswith(("audio", "table"))]
    # Many cells share a run: a printed number each.
    for cell in {cell.run.id: cell for cell in cells}.values():
        write_run(folder, cell.run)
        ours = {group: PLAYBACK if group.startswith("playback") else MODEL for group in GROUPS}
        scores = dict.fromkeys(GROUPS, BASELINE) if cell.experiment == "audio-central" else ours
        # The best state is another one, whose scores are not those of the printed numbers' readings.
        parts = [predictions("last", scores), predictions("best-gm", dict.fromkeys(GROUPS, PLAYBACK))]
        pd.concat(parts).to_parquet(folder / cell.run.folder / "predictions.parquet")
    pd.DataFrame([cell.row() for cell in cells]).to_csv(folder / "index.csv", index=False)
    summarize(folder / "index.csv", folder, folder / "summary.parquet")
    published = ROOT / "config/published.csv"
    compare(folder / "summary.parquet", published, "Self-FL", "selffl", "paper", folder / "out.csv")
    return plan, read_reproduction(folder / "out.csv")


def test_every_available_number_stands_beside_its_own_group(audio: tuple[Plan, pd.DataFrame]) -> None:
    rows = printed_only(audio[1])
    ran = rows[rows["status"] == "run"]
    assert len(ran) == 10 + 26 + 26 and set(rows["status"]) == {"run"} and "NA" in set(audio[1]["printed"])
    expected = ran["condition"].str.startswith("playback").map({True: 2.0, False: 0.5})
    assert ran["ours"].tolist() == expected.tolist()
    for row in ran.itertuples():
        state, device = row.condition.split("-")
        assert row.setting.endswith(f"device {device}") and state in row.setting
    assert set(ran["model"]) == {"gm"} and set(ran["verdict"]) == {""}
    assert ran["why_no_verdict"].str.contains("stand-in for Wake-word audio").all()


def test_the_table_has_devices_as_columns_and_states_as_rows(audio: tuple[Plan, pd.DataFrame]) -> None:
    table = make_table(audio[1], "table5")
    found = table.matrix
    assert "of the last round" in table.reading and "of the last round" in table.columns
    assert "best round" not in table.columns
    assert table.listing is None and [setting for _, setting in found.columns] == [f"device {d}" for d in "ABCDE"]
    assert found.groups == [("wake-word audio (proprietary): global model, 20 clients, C=0.25", 5)]
    heads = [(line.method, line.model) for line in found.lines if line.span]
    states = ["GM, state normal", "GM, state playback", "GM, state alarm"]
    assert heads == [(f"Self-FL ({level}-level)", state) for level in ("client", "cluster") for state in states]
    alarm = [line for line in found.lines if (line.method, line.part) == ("Self-FL (client-level)", "state alarm")]
    assert [[entry.text for entry in line.entries] for line in alarm] == [
        ["NA", "0.89", "NA", "1.04", "1.00"],
        ["–", "0.50", "–", "0.50", "0.50"],
    ]


def test_the_best_round_stands_beside_the_last_one(audio: tuple[Plan, pd.DataFrame]) -> None:
    table = make_table(audio[1], "table5")
    normal = [line for line in table.matrix.lines if line.part == "state normal" and not line.published]
    # At the best state all scores are alike, the baseline's, too.
    assert {entry.beside for line in normal for entry in line.entries if not entry.missing} == {"best 1.00"}
    first = table.ran[0]
    assert (first["Ours"], first["Last round"], first["Best round"]) == ("0.50", "0.50", "1.00")


def test_numbers_of_different_states_do_not_compete(audio: tuple[Plan, pd.DataFrame]) -> None:
    lines = make_table(audio[1], "table5").matrix.lines
    device_a = {(line.method, line.part): line.entries[0].best for line in lines if line.published}
    # 0.91 against 0.96 in the normal state, 0.93 against 0.86 in playback.
    assert device_a["Self-FL (client-level)", "state normal"] and device_a["Self-FL (cluster-level)", "state playback"]
    assert not device_a["Self-FL (cluster-level)", "state normal"]


def test_an_infinite_ratio_is_explained_and_never_the_best(audio: tuple[Plan, pd.DataFrame]) -> None:
    rows = audio[1]
    assert "accepts nothing falsely" not in make_table(rows, "table5").reading
    lost = (rows["method"] == "Self-FL (cluster-level)") & (rows["condition"] == "normal-A")
    rows = rows.assign(ours=rows["ours"].where(~lost, float("inf")))
    table = make_table(rows, "table5")
    assert "accepts nothing falsely" in table.reading
    first = [x.entries[0] for x in table.matrix.lines if x.part == "state normal" and not x.published]
    assert [(entry.text, entry.best) for entry in first] == [("0.50", False), ("inf", False)], "one alone wins nothing"


def test_both_rates_of_table_6_are_rows(audio: tuple[Plan, pd.DataFrame]) -> None:
    parts = dict.fromkeys(line.part for line in make_table(audio[1], "table6").matrix.lines)
    states = ("normal", "playback", "alarm")
    assert list(parts) == [f"C={rate}, state {state}" for rate in ("0.25", "0.1") for state in states]


def test_what_does_not_exist_is_not_counted_as_missing(audio: tuple[Plan, pd.DataFrame]) -> None:
    plan, rows = audio
    missing = unrun(rows, plan.left_out("selffl"))
    assert sum(part.numbers for part in missing) == 0
    told = counts(rows)
    assert (told["printed"], told["not run"], (rows["printed"] == "NA").sum()) == (62, 0, 8)


def test_settings_without_devices_stay_as_they_are() -> None:
    rows = [{"dataset": "D", "setting": "small"}, {"dataset": "D", "setting": "x, device A"}]
    assert by_device(rows) == [row | {"part": ""} for row in rows]


def test_a_run_is_compared_with_its_baseline_of_the_same_seed(tmp_path: Path) -> None:
    plan = make_plan(papers=["selffl"], seeds=[0, 1])
    cells = [cell for cell in plan.cells if cell.experiment == "table6-few" and cell.published_condition == "normal-A"]
    own = {0: MODEL, 1: PLAYBACK}
    folders = {run.folder: run for run in plan.runs.values()}
    for cell in cells:
        for run, scores in ((cell.run, own[cell.seed]), (folders[cell.baseline], BASELINE)):
            write_run(tmp_path, run)
            predictions("last", {"normal-A": scores}).to_parquet(tmp_path / run.folder / "predictions.parquet")
    pd.DataFrame([cell.row() for cell in cells]).to_csv(tmp_path / "index.csv", index=False)
    summarize(tmp_path / "index.csv", tmp_path, tmp_path / "summary.parquet")
    summary = pd.read_parquet(tmp_path / "summary.parquet").query("metric == 'relative_fa'")
    row = summary.iloc[0]
    assert len(summary) == 1 and (row["condition"], row["selection"], row["scope"]) == ("normal-A", "last", "pooled")
    assert row["mean"] == pytest.approx((0.5 + 2.0) / 2) and row["seed_list"] == "0 1"
