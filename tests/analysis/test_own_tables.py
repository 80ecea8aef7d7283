"""What no paper prints is seen all the same: tables of experiments of our own, and metrics beneath printed ones."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from artefacts import ROOT, make_plan
from campaign import Campaign
from fedbayes.analysis.compare import compare, printed_only, read_reproduction
from fedbayes.analysis.freeze import freeze, paper_table
from fedbayes.analysis.report import chapters_of, report
from fedbayes.analysis.tables import make_table, table
from fedbayes.analysis.terminal import terminal_table
from fedbayes.plan import Plan
from made_up import PAPERS, compared, full_plan


@pytest.fixture(scope="module")
def bpfed(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return reproduction_of("bpfed", ("ablations", "new-client", "table2"), tmp_path_factory)


@pytest.fixture(scope="module")
def feduab(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return reproduction_of("feduab", ("participation", "table8-mnist"), tmp_path_factory)


@pytest.fixture(scope="module")
def selffl(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return reproduction_of("selffl", ("synthetic-ditto", "table4", "audio-central"), tmp_path_factory)


def reproduction_of(paper: str, experiments: tuple[str, ...], folders: pytest.TempPathFactory) -> pd.DataFrame:
    plan = make_plan(scale="paper", papers=[paper], seeds=[0], experiments=list(experiments))
    return read_reproduction(compared(paper, plan, folders.mktemp(paper)))


@pytest.mark.parametrize("paper", PAPERS)
def test_every_run_stands_in_a_table_or_is_a_baseline(paper: str) -> None:
    plan = full_plan(paper)
    keys, baselines = set(plan.shown(paper, "Table")), {cell.baseline for cell in plan.cells if cell.baseline}
    printed = {re.sub(r"[^a-z0-9]", "", cell.published_table.lower()) for cell in plan.cells if cell.published_table}
    assert printed <= keys
    for cell in plan.cells:
        assert bool(cell.published_table) + bool(cell.own_table) + (cell.run.folder in baselines) == 1, cell
        assert not cell.own_table or cell.own_table in keys


def test_file_names_are_those_of_experiments_that_run() -> None:
    assert [key for key in full_plan("feduab").shown("feduab", "Table") if key.startswith("ours")] == [
        "ours-participation",
        "ours-ablations",
        "ours-ablations-cifar10",
    ]
    smoke = make_plan(papers=["lrbpfl"]).shown("lrbpfl", "Table")
    assert "ours-new-clients" in smoke and "ours-noisy-reference" not in smoke
    assert all(re.fullmatch(r"ours-[a-z0-9-]+|table[a-z0-9]+", key) for key in smoke)
    assert "ours-audio-central" not in full_plan("selffl").shown("selffl", "Table")


@pytest.mark.parametrize("paper", PAPERS)
def test_rows_of_a_table_can_be_told_apart_by_what_it_shows(paper: str) -> None:
    plan = full_plan(paper)
    names = [
        (cell.own_table, cell.dataset_title, cell.setting_title, cell.variant, cell.method, cell.preset)
        for cell in plan.cells
        if cell.own_table
    ]
    assert len(names) == len(set(names))


def test_accuracy_likelihood_and_calibration_of_both_models_at_new_clients_too(bpfed: pd.DataFrame) -> None:
    rows = bpfed[(bpfed["table"] == "ours-new-client") & (bpfed["method"] == "FedAvg")]
    rows = rows[rows["our_setting"] == "mnist-small-new"]
    assert list(zip(rows["model"], rows["condition"], rows["our_metric"], strict=True)) == [
        (model, condition, metric)
        for model in ("pm", "gm")
        for condition in ("clean", "new")
        for metric in ("accuracy", "nll", "ece10")
    ], "ECE by as many bins as the paper's own"
    assert set(rows["setting"]) == {"small, first client new"} and set(rows["dataset"]) == {"MNIST"}
    new = rows[rows["condition"] == "new"]
    assert (new["ours"] == new["ours_last"]).all(), "newcomers are tested once training has ended"
    assert not len(printed_only(rows)) and set(rows["why_no_verdict"]) == {"not in the paper"}


def test_estimates_have_errors_instead(selffl: pd.DataFrame) -> None:
    rows = selffl[selffl["table"] == "ours-synthetic-ditto"]
    assert list(rows["our_metric"].unique()) == ["error", "distance"]
    reading = make_table(selffl, "ours-synthetic-ditto").reading
    assert (
        "all seeds share the data of these repeats" in reading and "repeats" not in make_table(selffl, "table4").reading
    )
    assert rows["ours"].notna().all() and set(rows["method"]) == {"DITTO, lambda 0.01", "DITTO, lambda 0.001"}
    assert set(selffl.loc[selffl["experiment"] == "audio-central", "table"]) == {""}


def test_the_table_has_a_row_for_each_cell_and_no_columns_about_printed_numbers(feduab: pd.DataFrame) -> None:
    made = make_table(feduab, "ours-participation")
    assert made.own and made.heading == "Half and all of the clients in every round on MNIST"
    assert "No number of this is printed in the paper" in made.reading and made.listing is not None
    assert made.listing.groups == [("PM", 3), ("GM", 3)]
    assert made.listing.sources == ["accuracy (%)", "negative log-likelihood", "ECE, 15 bins"] * 2
    first, second = made.listing.items[:2]
    assert (first.setting, first.method) == ("All-Dirichlet, 50 % of the clients", "FedUAB-5 (reference)")
    assert [entry.missing for entry in first.entries] == [False] * 6
    assert second.method == "BPFed (own-bpfed)" and [entry.text for entry in second.entries[3:]] == ["–"] * 3
    assert len(made.listing.items) == 8 * 2 + 8
    stood_in = make_table(feduab.assign(ran_on="MNIST-5k", stand_in_for="MNIST"), "ours-participation").listing
    assert stood_in is not None and {item.dataset for item in stood_in.items} == {"MNIST-5k (stands in for MNIST)"}
    assert not {"Published", "Difference", "Verdict"} & set(made.ran[0]) and "Metric" in made.ran[0]


def test_files_of_such_a_table(feduab: pd.DataFrame, tmp_path: Path) -> None:
    feduab.to_csv(tmp_path / "rows.csv", index=False)
    files = [tmp_path / f"ours-participation.{kind}" for kind in ("html", "tex", "csv")]
    table(tmp_path / "rows.csv", "ours-participation", *files)
    for file in files:
        assert "All-Only2, 100 % of the clients" in file.read_text(encoding="utf-8").replace(r"\%", "%")


def test_metrics_that_the_paper_leaves_out_stand_beneath_those_it_prints(bpfed: pd.DataFrame) -> None:
    rows = bpfed[(bpfed["table"] == "TableII") & (bpfed["status"] == "run")]
    assert set(rows["our_metric"]) == {"ece10", "mce10", "brier"}
    unprinted = rows[rows["our_metric"] != "ece10"]
    assert set(unprinted["printed"]) == {""} and set(unprinted["verdict"]) == {""}
    lines = [line for line in make_table(bpfed, "tableii").matrix.lines if line.method == "pFedBayes"]
    assert [(line.model, line.source) for line in lines] == [
        ("PM ECE, 10 bins (%)", "published"),
        *((f"PM {metric}", f"ours, {preset}")
          for metric in ("ECE, 10 bins (%)", "MCE, 10 bins (%)", "Brier score") for preset in ("bpfed", "reference")),
    ]  # fmt: skip
    # CIFAR-10 is in experiments that are not asked for here.
    assert {entry.text for line in lines if not line.published for entry in line.entries[4:]} == {"not run"}


def test_global_models_on_the_clients_test_sets_stand_beneath_personal_ones(feduab: pd.DataFrame) -> None:
    rows = feduab[(feduab["table"] == "Table8") & (feduab["condition"] == "local")]
    assert set(rows["model"]) == {"gm"} and set(rows["our_metric"]) == {"accuracy", "nll"}
    assert "BPFed" not in set(rows["method"]), "it has no global model"
    assert (rows["ours"] == 0.7).all()
    kinds = [line.model for line in make_table(feduab, "table8").matrix.lines if line.method == "FedAvg" and line.span]
    assert kinds == [
        "PM accuracy (%)",
        "GM accuracy on the clients' test sets (%)",
        "PM negative log-likelihood",
        "GM negative log-likelihood on the clients' test sets",
    ]


@pytest.fixture(scope="module")
def unprinted(full: Campaign, tmp_path_factory: pytest.TempPathFactory) -> tuple[Campaign, Path]:
    """The campaign with cells of an ablation and of a baseline beside its own, filled by the same runs."""
    summary = pd.read_parquet(full.summary)
    none = dict.fromkeys(("published_table", "published_dataset", "published_setting"), "")
    own = {"experiment": "ablations", "experiment_title": "Ideas exchanged", "own_table": "ours-ablations"}
    parts = [summary, summary.assign(**none, **own), summary.assign(**none, experiment="central", own_table="")]
    folder = tmp_path_factory.mktemp("unprinted")
    pd.concat(parts).to_parquet(folder / "summary.parquet")
    out = folder / "pfedbayes.csv"
    compare(folder / "summary.parquet", ROOT / "config/published.csv", "pFedBayes", "pfedbayes", "paper", out)
    return full, out


def test_such_numbers_are_frozen_and_baselines_are_not(unprinted: tuple[Campaign, Path], tmp_path: Path) -> None:
    campaign, reproduction = unprinted
    freeze(reproduction, campaign.root, tmp_path / "frozen.csv")
    frozen = pd.read_csv(tmp_path / "frozen.csv", keep_default_na=False)
    assert list(frozen["table"].unique()) == ["Table1", "ours-ablations"]
    row = paper_table(tmp_path / "frozen.csv").splitlines()[-1]
    assert "| none: ablations |" in row and row.endswith("| none: not in the paper |")


def test_they_stand_on_the_start_page_under_a_heading_of_their_own(
    unprinted: tuple[Campaign, Path], tmp_path: Path
) -> None:
    campaign, reproduction = unprinted
    tables = [Path("tables/pfedbayes") / f"{key}.html" for key in ("table1", "ours-ablations")]
    plan: Plan = campaign.plan
    left_out = {"pfedbayes": plan.left_out("pfedbayes")}
    chapters = chapters_of(plan.headers, left_out, [reproduction], [campaign.index], tables, [], [])
    report("paper", chapters, campaign.root, "abc123", tmp_path / "index.html")
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    before, heading, after = page.partition('<h3 id="pfedbayes-own">Not printed in the paper</h3>')
    assert heading and '<h4 id="pfedbayes-ours-ablations">Ideas exchanged</h4>' in after
    assert "<summary>What ran, number by number: 6 rows" in after and after.count("<h4>What ran</h4>") == 0
    assert '<h3 id="pfedbayes-table1">' in before and "ours-ablations</" not in page
    assert "1 of 172 printed numbers run" in page


def test_the_terminal_has_their_accuracies_alone(unprinted: tuple[Campaign, Path]) -> None:
    text = terminal_table([unprinted[1]])
    assert text.splitlines()[-1] == "1 of 172 printed numbers run."
    assert text.count("90.90±1.00") == 2 + 2 + 2, "of the table, of the ablation and of the baseline"
