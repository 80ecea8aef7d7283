"""Methods and settings that the paper does not print: shown everywhere, counted nowhere as printed numbers."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from campaign import PUBLISHED, Campaign, add_cells, make_campaign
from fedbayes.analysis.compare import compare, printed_only, read_reproduction
from fedbayes.analysis.freeze import freeze, paper_table
from fedbayes.analysis.report import counts
from fedbayes.analysis.tables import make_table, table
from fedbayes.analysis.terminal import terminal_table


def compared(campaign: Campaign, folder: Path, *printed: str, **changes: str) -> pd.DataFrame:
    """The rows without a printed number, of changed cells against a small table."""
    summary = pd.read_parquet(campaign.summary).assign(**changes)
    summary.to_parquet(folder / "summary.parquet")
    header = "paper,table,dataset,setting,method,metric,value,std,doubtful,note"
    (folder / "published.csv").write_text("\n".join([header, *printed]) + "\n", encoding="utf-8")
    compare(folder / "summary.parquet", folder / "published.csv", "P", "pfedbayes", "smoke", folder / "out.csv")
    return read_reproduction(folder / "out.csv").query("why_no_verdict == 'not in the paper'")


def test_the_row_of_a_users_method(extended: Campaign) -> None:
    rows = read_reproduction(extended.reproduction)
    own = rows[rows["method"] == "FedMine"]
    assert list(own["metric"]) == ["acc_GM_pct"]  # the personal model was not followed over the rounds
    row = own.iloc[0]
    assert (row["table"], row["dataset"], row["setting"], row["model"]) == ("Table1", "MNIST", "small", "gm")
    assert (row["status"], row["why_no_verdict"], row["verdict"]) == ("run", "not in the paper", "")
    assert (row["printed"], row["unit"], row["our_metric"]) == ("", "%", "accuracy")
    assert math.isnan(row["published"]) and math.isnan(row["difference"])
    assert row["ours"] == pytest.approx(extended.best)


def test_it_follows_its_own_table(extended: Campaign) -> None:
    rows = read_reproduction(extended.reproduction).reset_index(drop=True)
    place = rows.index[rows["method"] == "FedMine"][0]
    assert rows.loc[place - 1, "table"] == "Table1" and rows.loc[place + 1, "table"] == "Table2"


def test_both_models_are_shown_where_both_were_followed(full: Campaign, tmp_path: Path) -> None:
    summary = pd.read_parquet(full.summary).query("variant == ''").assign(method="FedMine")
    personal = summary[summary["model"] == "gm"].assign(model="pm", mean=lambda rows: rows["mean"] + 0.02)
    pd.concat([summary[summary["model"] == "gm"], personal]).to_parquet(tmp_path / "summary.parquet")
    compare(tmp_path / "summary.parquet", PUBLISHED, "pFedBayes", "pfedbayes", "smoke", tmp_path / "out.csv")
    own = read_reproduction(tmp_path / "out.csv").query("method == 'FedMine'").set_index("metric")
    assert own["ours"].to_dict() == {"acc_PM_pct": pytest.approx(0.929), "acc_GM_pct": pytest.approx(0.909)}


def test_metrics_are_those_of_the_column_then_of_the_table_then_accuracy(smoke: Campaign, tmp_path: Path) -> None:
    column = "P,Table1,MNIST,small,FedX,global_acc_pct,90,,,"
    other = "P,Table1,MNIST,large,FedX,global_loss_nll,0.3,,,"
    assert list(compared(smoke, tmp_path, column, other)["metric"]) == ["global_acc_pct"]
    assert list(compared(smoke, tmp_path, other)["metric"]) == ["global_loss_nll"]
    assert list(compared(smoke, tmp_path, "P,Table1,MNIST,small,FedX,personal_acc_pct,90,,,")["metric"]) == [
        "acc_GM_pct"
    ]
    assert list(compared(smoke, tmp_path, "P,Table1,MNIST,small,FedX,n_weights,90,,,")["metric"]) == ["acc_GM_pct"]


def test_a_setting_the_paper_does_not_have(smoke: Campaign, tmp_path: Path) -> None:
    printed = "P,Table1,MNIST,small,FedAvg,acc_GM_pct,90,,,"
    own = compared(smoke, tmp_path, printed, published_dataset="", published_setting="", setting="tiny")
    assert list(zip(own["dataset"], own["setting"], own["method"], strict=True)) == [("MNIST", "tiny", "FedAvg")]
    found = make_table(read_reproduction(tmp_path / "out.csv"), "table1").matrix
    assert found.columns == [("MNIST", "small"), ("MNIST", "tiny")]
    assert [entry.text for entry in found.lines[0].entries] == ["90", "–"]
    assert [entry.text for entry in found.lines[1].entries] == ["not run", f"{100 * smoke.best:.2f}"]


def test_the_matrix_shows_it_last_without_a_published_line(extended: Campaign) -> None:
    made = make_table(read_reproduction(extended.reproduction), "table1")
    lines = [line for line in made.matrix.lines if line.method == "FedMine"]
    assert made.matrix.lines[-1:] == lines
    assert (lines[0].source, lines[0].model, lines[0].published) == ("ours, paper", "GM", False)
    assert [entry.text for entry in lines[0].entries] == [f"{100 * extended.best:.2f}"] + ["–"] * 8
    assert made.ran[-1]["Method"] == "FedMine" and made.ran[-1]["Verdict"] == "none: not in the paper"
    assert made.ran[-1]["Published"] == "–"
    assert "is not in the paper" in made.reading


def test_counts_are_of_printed_numbers(extended: Campaign) -> None:
    rows = read_reproduction(extended.reproduction)
    assert len(rows) - len(printed_only(rows)) == 1
    found = counts(rows)
    assert (found["printed"], found["run"], found["no verdict"]) == (172, 1, 1)
    text = terminal_table([extended.reproduction])
    assert text.splitlines()[-1] == "1 of 172 printed numbers run."
    (line,) = (line for line in text.splitlines() if line.startswith("FedMine"))
    assert line.split()[4:6] == [f"{100 * extended.best:.2f}", "-"]
    assert "not in the paper" in text


def test_every_file_has_it(extended: Campaign, tmp_path: Path) -> None:
    files = [tmp_path / f"table1.{kind}" for kind in ("html", "tex", "csv")]
    table(extended.reproduction, "table1", *files)
    assert all("FedMine" in file.read_text(encoding="utf-8") for file in files)


def test_it_is_frozen_like_all_others(tmp_path: Path) -> None:
    campaign = make_campaign(tmp_path, "paper")
    add_cells(campaign, method="FedMine")
    freeze(campaign.reproduction, tmp_path, tmp_path / "frozen.csv")
    frozen = pd.read_csv(tmp_path / "frozen.csv", keep_default_na=False)
    assert list(frozen["method"]) == ["FedAvg"] * 2 + ["FedMine"] * 2
    row = paper_table(tmp_path / "frozen.csv").splitlines()[-1]
    assert "| FedMine | paper | GM |" in row and "% | – |" in row and row.endswith("| none: not in the paper |")


def test_a_model_that_no_metric_names_is_known_even_for_a_metric_the_rounds_lack(
    full: Campaign, tmp_path: Path
) -> None:
    summary = pd.read_parquet(full.summary).query("variant == ''")
    personal = summary[summary["model"] == "gm"].assign(model="pm", mean=0.2)
    both = pd.concat([summary[summary["model"] == "gm"], personal])
    both = both[(both["metric"] != "ece15") | (both["selection"] != "mean100")]
    both.to_parquet(tmp_path / "summary.parquet")
    line = "P,Table1,MNIST,small,FedAvg,ECE,0.140,,,"
    (tmp_path / "published.csv").write_text(
        f"paper,table,dataset,setting,method,metric,value,std,doubtful,note\n{line}\n", encoding="utf-8"
    )
    compare(tmp_path / "summary.parquet", tmp_path / "published.csv", "P", "pfedbayes", "smoke", tmp_path / "out.csv")
    row = read_reproduction(tmp_path / "out.csv").iloc[0]
    assert (row["model"], row["ours"]) == ("pm", 0.2)
