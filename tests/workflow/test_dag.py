"""What a dry run says in a bare clone: quickly, without data, and with one sentence for a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from artefacts import make_plan
from checkout import copy_project, planned, snakemake

RULES = {"fetch", "partition", "train", "evaluate", "index", "summarize", "compare", "tables", "figures",
           "split_pictures", "report", "store", "track", "track_means", "all"}  # fmt: skip


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_project(tmp_path_factory.mktemp("clone"))


def test_smoke_plans_every_rule(clone: Path) -> None:
    jobs, plan = planned(clone), make_plan()
    assert jobs.keys() == RULES
    assert jobs["train"] == jobs["evaluate"] == len(plan.runs) and jobs["partition"] == len(plan.splits)
    assert jobs["split_pictures"] == len(plan.split_pictures["pfedbayes"])
    several = {"train", "evaluate", "partition", "tables", "figures", "split_pictures"}
    assert all(jobs[rule] == 1 for rule in RULES - several)


def test_scale_paper_plans_every_run_once(clone: Path) -> None:
    jobs, plan = planned(clone, "--config", "scale=paper"), make_plan(scale="paper")
    assert jobs["train"] == jobs["evaluate"] == jobs["track"] == len(plan.runs)
    datasets = {run.dataset for run in plan.runs.values()}
    assert (jobs["partition"], jobs["fetch"], jobs["report"]) == (len(plan.splits), len(datasets), 1)
    assert jobs["split_pictures"] == len(plan.split_pictures["pfedbayes"]) < len(plan.splits)


def test_a_dry_run_prints_what_the_plan_costs_once_and_the_linter_does_not(clone: Path) -> None:
    plan = make_plan(scale="paper")
    said = snakemake(clone, "-n", "--quiet", "rules", "--config", "scale=paper").stderr.splitlines()
    at = [number for number, line in enumerate(said) if line == "Plan at scale paper:"]
    assert len(at) == 1 and said[at[0] + 1].startswith("paper  ") and "core-hours left" in said[at[0] + 1]
    assert [line.split()[:3] for line in said[at[0] + 2 : at[0] + 4]] == [
        ["pfedbayes", str(len(plan.runs)), "0"],
        ["total", str(len(plan.runs)), "0"],
    ]
    assert "Plan at scale" not in snakemake(clone, "--lint").stderr


def test_a_job_does_not_print_the_plan_again(clone: Path, tmp_path: Path) -> None:
    # In a directory of its own: what it fetches would change the plans of the other tests.
    said = snakemake(clone, "--cores", "1", "--directory", str(tmp_path), "resources/mnist-5k/manifest.json").stderr
    assert said.count("Plan at scale smoke:") == 1


def test_parts_of_the_campaign_by_name(clone: Path) -> None:
    plan = make_plan(scale="paper")
    for table in ("table2", "table3"):
        own = {cell.run.id for cell in plan.cells if cell.published_table.lower() == table}
        jobs = planned(clone, "--config", "scale=paper", "--", f"results/paper/tables/pfedbayes/{table}.html")
        assert (jobs["train"], jobs["evaluate"], jobs["tables"]) == (len(own), len(own), 1)
        assert 0 < len(own) < len(plan.runs)
    picture = planned(clone, "results/smoke/splits/pfedbayes/mnist-small.svg")
    assert picture == {"fetch": 1, "partition": 1, "split_pictures": 1}
    jobs = planned(clone, "results/paper/reproduction/pfedbayes.csv", "--config", "scale=paper", "seeds=[0]")
    assert jobs["train"] == len(make_plan(scale="paper", seeds=[0]).runs) and "track" not in jobs


def test_a_file_of_another_scale_is_not_made_from_this_one(clone: Path) -> None:
    done = snakemake(clone, "-n", "results/paper/reproduction/pfedbayes.csv", check=False)
    sentence = (
        "fedbayes: results/paper/reproduction/pfedbayes.csv is of scale paper, and this plan is of scale smoke: "
        "add --config scale=paper"
    )
    assert done.returncode != 0 and done.stderr.splitlines()[-1] == sentence


def test_a_run_of_another_scale_is_told_in_one_sentence(clone: Path) -> None:
    run = next(iter(make_plan(scale="paper").runs.values()))
    done = snakemake(clone, "-n", f"{run.folder}/evaluation.parquet", check=False)
    said = done.stderr.splitlines()[-1]
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert said.startswith(f"fedbayes: run {run.id} is not in the plan of scale smoke: a run of another scale")


def test_a_table_that_does_not_exist_is_told_in_one_sentence(clone: Path) -> None:
    done = snakemake(clone, "-n", "results/smoke/tables/pfedbayes/table9.html", check=False)
    said = done.stderr.splitlines()[-1]
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert said.startswith("fedbayes: ") and "unknown table: found 'table9'" in said


def test_a_configuration_without_execution_gets_the_defaults(clone: Path) -> None:
    file = clone / "config/config.yaml"
    before = file.read_text()
    file.write_text("scale: smoke\npapers: [pfedbayes]\n")
    assert planned(clone).keys() == RULES
    file.write_text(before)


def test_noisy_images_are_made_once_for_all_methods_of_a_setting(clone: Path) -> None:
    file = clone / "config/papers/pfedbayes.yaml"
    before = file.read_text()
    paper = yaml.safe_load(before)
    setting = paper["experiments"]["table1"]["settings"]["mnist-small"]
    setting |= {"dataset": "cifar10", "shift": {"kind": "noisy-clients", "choice": "distinct"}}
    file.write_text(yaml.safe_dump(paper, sort_keys=False))
    jobs = planned(clone, "--config", "scale=paper", "seeds=[0]")
    file.write_text(before)
    assert jobs["corrupt"] == 1
    assert jobs["train"] == jobs["evaluate"] == len(make_plan(scale="paper", seeds=[0]).runs)


def test_the_literal_slurm_profile_is_found(clone: Path) -> None:
    done = snakemake(clone, "--profile", "slurm", "-n")
    assert "train" in done.stdout and "slurm" in done.stdout + done.stderr


def test_a_planning_process_imports_neither_torch_nor_mlflow(clone: Path) -> None:
    (clone / "spy").mkdir(exist_ok=True)
    for name in ("torch", "mlflow", "torchvision"):
        (clone / "spy" / f"{name}.py").write_text(f"raise ImportError('{name} was imported while planning')")
    path = f"{clone / 'src'}:{clone / 'spy'}"
    assert snakemake(clone, "-n", PYTHONPATH=path).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["scale=papr"], ["scale", "did you mean 'paper'?"]),
        (["papers=[pfedbaies]"], ["unknown paper", "did you mean 'pfedbayes'?"]),
        (["sedes=[0]"], ["unknown key", "did you mean 'seeds'?"]),
        (["execution={device: gpu}"], ["execution.device", "'gpu'"]),
    ],
)
def test_a_mistake_is_one_sentence_without_traceback(clone: Path, arguments: list[str], words: list[str]) -> None:
    done = snakemake(clone, "-n", "--config", *arguments, check=False)
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("fedbayes: ")]
    assert done.returncode != 0 and len(said) == 1 and "Traceback" not in done.stdout + done.stderr
    for word in words:
        assert word in said[0]
