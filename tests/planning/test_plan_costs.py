"""What a plan costs: closed forms, finished runs, guesses, and how many runs each paper has."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest

from artefacts import ROOT, make_plan, write_run
from fedbayes.costs import (
    RATES,
    START_UP_SECONDS,
    Measured,
    Rates,
    Size,
    passes,
    size_of,
    summary,
    test_passes,
    training_passes,
)
from fedbayes.plan import Run

test_passes.__test__ = False  # type: ignore[attr-defined]  # passes of tests, not a test of passes

PAPERS = ["pfedbayes", "selffl", "bpfed", "lrbpfl", "feduab"]
# Runs of each paper. An experiment that is added changes a number here, and that is meant to be seen.
RUNS = {
    "smoke": {"pfedbayes": 16, "selffl": 21, "bpfed": 17, "lrbpfl": 16, "feduab": 15},
    "reduced": {"pfedbayes": 70, "selffl": 32, "bpfed": 82, "lrbpfl": 13, "feduab": 44},
    "paper": {"pfedbayes": 678, "selffl": 411, "bpfed": 771, "lrbpfl": 1180, "feduab": 645},
}
SMOKE_SECONDS = 10.0  # of training and tests by the measured rates, beside what every job takes to start
SPEC = {
    "training": {"rounds": 10, "clients_per_round": 4, "trains": "selected"},
    "local": {"batch": 50, "amount": 5, "unit": "batches", "order": "cyclic"},
    "protocol": {"models": ["pm", "gm"], "every": 4},
}
SIZE = Size(clients=20, train=2000.0, test=600.0)


def changed(section: str, **values: object) -> dict[str, dict[str, object]]:
    spec = copy.deepcopy(SPEC)
    spec[section] |= values
    return spec


def measured(method: str, network: str, dataset: str, seconds: float, thousands: float = 1.0) -> Measured:
    return Measured(method, network, dataset, 1, thousands, seconds, 500.0, 2.0, "by hand", 1.0, 10)


@pytest.mark.parametrize("scale", RUNS)
def test_runs_of_each_paper(scale: str) -> None:
    plan = make_plan(scale=scale, papers=PAPERS)
    assert {paper: len(plan.runs_of(paper)) for paper in plan.papers} == RUNS[scale]


def test_training_is_rounds_times_clients_times_steps_times_three_passes_a_sample() -> None:
    assert training_passes(SPEC, SIZE) == 10 * 4 * 5 * 50 * 3
    assert training_passes(changed("training", rounds=20), SIZE) == 2 * training_passes(SPEC, SIZE)
    assert training_passes(changed("training", trains="all"), SIZE) == 5 * training_passes(SPEC, SIZE)
    # A client has 100 samples: an epoch is two batches of 50, or one of everything.
    assert training_passes(changed("local", unit="epochs"), SIZE) == 10 * 4 * 5 * 100 * 3
    assert training_passes(changed("local", order="full"), SIZE) == 10 * 4 * 5 * 100 * 3


def test_tests_are_those_of_the_schedule() -> None:
    # Rounds 0, 4, 8 and 10, two models.
    assert test_passes(SPEC, SIZE, 0.0) == 4 * 2 * 600
    assert test_passes(changed("protocol", gm_tests="whole"), SIZE, 1000.0) == 4 * (600 + 1000)


def test_a_split_that_is_not_committed_is_as_large_as_its_rule_says() -> None:
    plan = make_plan(scale="paper")
    for run in list(plan.runs.values())[::40]:
        other = Run(run.spec | {"seed": 999})
        assert plan.split_file(run) in plan.committed_splits and plan.split_file(other).startswith("results/splits")
        assert size_of(plan, other) == size_of(plan, run)


def test_the_nearest_measured_rate_is_taken() -> None:
    plan = make_plan()
    run = next(run for run in plan.runs.values() if run.method == "fedavg" and run.dataset == "mnist-5k")
    work = passes(plan, run) / 1000

    def seconds(*rows: Measured) -> float:
        return Rates(rows).cost(plan, run).seconds - Rates([]).cost(plan, run).seconds

    here, elsewhere = measured("fedavg", "mlp", "mnist-5k", 2.0), measured("fedavg", "mlp", "mnist", 5.0)
    assert seconds(here, elsewhere) == pytest.approx(2 * work)
    assert seconds(elsewhere) == pytest.approx(5 * work)
    # Long runs count for more: 5 + 3 seconds for 1 + 3 thousand passes.
    assert seconds(elsewhere, measured("fedavg", "mlp", "other", 3.0, 3.0)) == pytest.approx(2 * work)


def test_a_method_without_a_rate_is_marked_and_scaled_from_fedavg() -> None:
    plan = make_plan()
    run = next(run for run in plan.runs.values() if run.method == "pfedbayes")
    start, work = Rates([]).cost(plan, run).seconds, passes(plan, run) / 1000
    plain = measured("fedavg", "mlp", "mnist", 2.0)
    beside = [measured("fedavg", "cnn", "cifar10", 4.0), measured("pfedbayes", "cnn", "cifar10", 20.0)]
    never, elsewhere = Rates([plain]).cost(plan, run), Rates([plain, *beside]).cost(plan, run)
    assert never.guessed and never.seconds - start == pytest.approx(3 * 2 * work)
    assert elsewhere.guessed and elsewhere.seconds - start == pytest.approx(5 * 2 * work)
    assert not Rates([measured("pfedbayes", "mlp", "mnist", 1.0)]).cost(plan, run).guessed
    assert "guessed: their method" in summary(plan, Rates([plain]), Path("nowhere"))


def test_memory_grows_with_what_clients_keep_and_with_the_data() -> None:
    plan = make_plan(scale="paper", papers=["pfedbayes"], seeds=[0])
    run = next(run for run in plan.runs.values() if run.method == "pfedbayes" and run.dataset == "cifar10")
    clients, pixels = size_of(plan, run).clients, 4e-6 * 60_000 * 3072
    assert clients == 20
    here = [measured("pfedbayes", "cnn", "cifar10", 1.0)]
    assert Rates(here).cost(plan, run).memory_mb == 500 + 2 * (20 - 10)
    assert Rates(here).cost(plan, run).disk_mb == 2 * 20 + 1
    smaller = [replace(here[0], dataset="cifar10-like")]
    smaller_pixels = 4e-6 * 6000 * 3072
    assert Rates(smaller).cost(plan, run).memory_mb == pytest.approx(520 + pixels - smaller_pixels)
    # Never measured with this network: FedAvg's memory, and as many of its servers a client as elsewhere.
    guess = [measured("fedavg", "cnn", "cifar10", 1.0), measured("pfedbayes", "mlp", "mnist", 1.0)]
    guess[0] = replace(guess[0], server_mb=7.0, disk_mb=0.0)
    assert Rates(guess).cost(plan, run).memory_mb == 500 + 2 * 7 * (20 - 10)
    assert Rates(guess).cost(plan, run).disk_mb == 2 * 7 * 20 + 7
    # Rows that know hours only say nothing of memory.
    hours = [replace(here[0], memory_mb=0.0, disk_mb=0.0, server_mb=0.0, memory_clients=0), *smaller]
    assert Rates(hours).cost(plan, run).memory_mb == Rates(smaller).cost(plan, run).memory_mb


def test_no_job_is_planned_with_less_memory_than_its_state() -> None:
    plan, rates = make_plan(scale="paper", papers=PAPERS, seeds=[0]), Rates.read(ROOT)
    for run in plan.runs.values():
        cost = rates.cost(plan, run)
        assert cost.memory_mb > cost.disk_mb, run.spec


def test_finished_runs_cost_nothing_and_shared_ones_count_once(tmp_path: Path) -> None:
    plan = make_plan(papers=PAPERS, scale="paper", seeds=[0])
    rates = Rates.read(ROOT)

    def total() -> list[str]:
        return next(line for line in summary(plan, rates, tmp_path).splitlines() if line.startswith("total")).split()

    assert total()[1:4] == [f"{len(plan.runs):,}", "0", f"{len(plan.runs):,}"]
    small = make_plan()
    # A second paper whose cells are filled by the same runs.
    papers = small.papers | {"twin": small.papers["pfedbayes"]}
    twice = replace(small, papers=papers, cells=small.cells + tuple(replace(c, paper="twin") for c in small.cells))
    said = summary(twice, rates, tmp_path / "new")
    assert f"the total is {len(small.runs)} less, as papers share runs" in said
    assert "less, as papers share runs" not in summary(small, rates, tmp_path / "new")
    counts = {line.split()[0]: line.split()[1] for line in said.splitlines()[2:5]}
    assert counts == dict.fromkeys(("pfedbayes", "twin", "total"), str(len(small.runs)))
    for run in small.runs.values():
        write_run(tmp_path, run)
    done = next(line for line in summary(small, rates, tmp_path).splitlines() if line.startswith("total")).split()
    assert done == ["total", *[str(len(small.runs))] * 2, "0", "0.0", "0.0", "GB", "0.0", "GB", "0"]


def test_a_smoke_run_takes_ten_seconds_at_most() -> None:
    plan, rates = make_plan(papers=PAPERS), Rates.read(ROOT)
    seconds = {run.id: rates.cost(plan, run).seconds - START_UP_SECONDS for run in plan.runs.values()}
    names = {cell.run.id: f"{cell.paper} {cell.method}" for cell in plan.cells}
    assert {names[run]: round(took, 1) for run, took in seconds.items() if took > SMOKE_SECONDS} == {}


def test_the_committed_table_is_whole() -> None:
    rows = Rates.read(ROOT).rows
    assert rows and all(row.passes > 0 and row.seconds > 0 and row.source for row in rows), RATES
    assert len({(row.method, row.network, row.dataset) for row in rows}) == len(rows)
