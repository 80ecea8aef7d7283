"""The printed numbers: units, repetitions, and what may not stand in the file."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from artefacts import ROOT
from fedbayes.analysis.published import KEY, MEANINGS, read_published
from fedbayes.analysis.unprinted import own_metrics
from fedbayes.reading import ConfigError

HEADER = "paper,table,dataset,setting,method,metric,value,std,doubtful,note\n"
FILE = ROOT / "config" / "published.csv"


def write(folder: Path, *lines: str) -> Path:
    file = folder / "published.csv"
    file.write_text(HEADER + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file


def test_percent_becomes_a_fraction_and_the_text_stays(tmp_path: Path) -> None:
    file = write(tmp_path, "P,Table1,MNIST,small,FedAvg,acc_GM_pct,90.60,0.19,,")
    row = read_published(file).iloc[0]
    assert (row["value"], row["std"]) == (0.906, 0.0019)
    assert (row["printed"], row["unit"]) == ("90.60 ± 0.19", "%")


def test_what_is_no_number_is_kept_as_text(tmp_path: Path) -> None:
    row = read_published(write(tmp_path, "P,Table1,-,all,FedPop,time_factor,2Z,,,")).iloc[0]
    assert row["value"] != row["value"] and row["printed"] == "2Z"


def test_a_number_printed_twice_comes_once_with_both_notes(tmp_path: Path) -> None:
    line = "P,Table2,MNIST,medium,X,acc_PM_pct,97.45,,,"
    rows = read_published(write(tmp_path, line + "sign restored", line + "printed twice"))
    assert list(rows["note"]) == ["sign restored; printed twice"]


def test_two_different_numbers_for_one_place_are_refused(tmp_path: Path) -> None:
    lines = [f"P,Table2,MNIST,medium,X,acc_PM_pct,{value},,," for value in ("97.45", "97.54")]
    with pytest.raises(ConfigError, match=r"97\.45 and as 97\.54"):
        read_published(write(tmp_path, *lines))


def test_an_unknown_metric_is_named_with_its_neighbour(tmp_path: Path) -> None:
    file = write(tmp_path, "P,Table1,MNIST,small,FedAvg,acc_GN_pct,90.60,,,")
    with pytest.raises(ConfigError, match=r"found 'acc_GN_pct'.*did you mean 'acc_GM_pct'"):
        read_published(file)


def test_a_mistyped_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"found '90\.6O'"):
        read_published(write(tmp_path, "P,Table1,MNIST,small,FedAvg,acc_GM_pct,90.6O,,,"))


def test_every_row_of_the_project_is_read_once() -> None:
    rows = read_published(FILE)
    with FILE.open(encoding="utf-8", newline="") as lines:
        places = {tuple(line[column] for column in KEY) for line in csv.DictReader(lines)}
    assert len(rows) == len(places) == 878
    assert not rows.duplicated(KEY).any()
    worked_out = {meaning.beside for meaning in MEANINGS.values() if meaning.beside}
    also = {metric for meaning in MEANINGS.values() for metric in meaning.also}
    ours = {*own_metrics([]), *own_metrics(["ECE_pct"])}
    assert set(rows["metric"]) | worked_out | also | ours == set(MEANINGS)
    assert not set(rows["metric"]) & (worked_out | also)
    accuracies = rows[rows["metric"].str.contains("acc")]["value"]
    assert accuracies.between(0.09, 1.0).all()


def test_calibration_in_lrbpfl_is_a_mean_over_clients_and_in_bpfed_pooled() -> None:
    assert {MEANINGS[name].scope for name in ("ECE", "MCE", "A-ECE")} == {"mean"}
    assert {MEANINGS[name].scope for name in ("ECE_pct", "MCE_pct", "ECE_PM", "ECE_GM")} == {"pooled"}
    rows = read_published(FILE)
    assert set(rows.loc[rows["metric"].isin(["ECE", "MCE"]), "paper"]) == {"LR-BPFL"}
    # Why: Table 2 prints of the paper's own method what Tables 4 and 6 call the average over clients.
    own = rows[rows["method"] == "LR-BPFL"].set_index(["table", "metric", "setting"])["value"].sort_index()
    for table in ("Table4", "Table6"):
        assert (own["Table2", "ECE"] - own[table, "A-ECE"]).abs().max() == pytest.approx(0.001)
