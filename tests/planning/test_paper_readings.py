"""What single papers say of their own experiments, held against the plan at scale `paper`."""

from __future__ import annotations

from typing import Any

import pytest

from artefacts import make_plan
from fedbayes.plan import Cell, Run


def cells_of(paper: str) -> list[Cell]:
    return make_plan(scale="paper", papers=[paper], seeds=[0]).cells


def without(run: Run, section: str, *keys: str) -> dict[str, Any]:
    """A run's specification but for some keys of a section."""
    left = {key: value for key, value in run.spec[section].items() if key not in keys}
    return run.spec | {section: left}


def test_algorithm_1_of_pfedbayes_trains_all_clients_and_its_code_the_selected_ones() -> None:
    cells = [cell for cell in cells_of("pfedbayes") if cell.method == "pFedBayes" and cell.run.dataset == "cifar10"]
    found = {(cell.setting, cell.preset): cell.run.spec["training"]["trains"] for cell in cells}
    sizes = ("cifar10-small", "cifar10-medium", "cifar10-large")
    who = {"paper": "all", "reference": "selected"}
    assert found == {(size, preset): trains for size in sizes for preset, trains in who.items()}


def test_all_methods_of_bpfed_have_one_network_on_cifar10_and_bayesian_ones_the_codes_besides() -> None:
    cells = [cell for cell in cells_of("bpfed") if cell.published_dataset == "CIFAR-10"]
    code = [cell for cell in cells if "206,006 weights" in cell.variant]
    main = [cell for cell in cells if cell not in code]
    assert {tuple(cell.run.spec["network"]["pooled"]) for cell in main} == {(True, True)}
    assert {tuple(cell.run.spec["network"]["pooled"]) for cell in code} == {(True, False)}
    assert {cell.method for cell in code} == {"pFedBayes", "FedSOUL", "BPFed"} < {cell.method for cell in main}


def test_visits_of_newcomers_are_no_reduction_where_there_are_none() -> None:
    for cell in make_plan(papers=["bpfed"]).cells:
        assert ("newcomer_visits 2 (paper 100)" in cell.reduction) == (cell.experiment == "new-client")
        assert "paper None" not in cell.reduction


def test_pfedbayes_in_bpfeds_tables_is_its_codes_fork_and_the_public_code() -> None:
    runs = [cell.run for cell in cells_of("bpfed") if cell.method == "pFedBayes"]
    first = [cell.run.spec["method"] for cell in make_plan(papers=["bpfed"]).cells if cell.method == "pFedBayes"]
    kinds = {(m["likelihood"], m["global_kl"], m["zeta"] / m["kl_divisor"]) for m in (r.spec["method"] for r in runs)}
    assert kinds == {("mean", "exchanged", 0.5), ("batch", "weighted", 0.5)}
    assert {method["likelihood"] for method in first} == {"mean"}, "one preset at scale smoke"


def test_three_clients_are_held_out_in_turn() -> None:
    cells = [cell for cell in cells_of("bpfed") if cell.experiment in ("new-client", "new-client-cifar10")]
    held = {cell.variant: cell.run.spec["split"]["newcomers"] for cell in cells}
    assert held == {"": [0], "second client new": [1], "third client new": [2]}
    for variant in held:
        own = {(cell.setting.split("-new")[0], cell.method) for cell in cells if cell.variant == variant}
        assert len(own) == 6 * 5 + (4 + 6) * (variant == ""), "FedAvg and local training are in no figure"


def test_of_the_drawn_clients_alone_train_those_that_bpfed_s_code_lets_train() -> None:
    cells = [cell for cell in cells_of("bpfed") if cell.published_dataset == "CIFAR-10"]
    trains = {(cell.method, cell.run.spec["training"]["trains"]) for cell in cells}
    everybody = {"FedPer", "FedRep", "LG-FedAvg", "pFedMe"}
    assert trains == {(method, "all" if method in everybody else "selected") for method, _ in trains}


def test_a_tenth_of_the_writers_is_active() -> None:
    cells = [cell for cell in cells_of("selffl") if cell.experiment == "femnist"]
    active = {cell.setting: cell.run.spec["training"]["clients_per_round"] for cell in cells}
    assert active == {"femnist-power-law": 20, "femnist-power-law-5": 20, "writers": 83, "leaf": 355}


@pytest.mark.parametrize("dataset", ["MNIST", "FMNIST", "CIFAR-10"])
def test_bpfed_as_its_text_has_it_is_in_both_tables(dataset: str) -> None:
    cells = [
        cell
        for cell in cells_of("bpfed")
        if (cell.method, cell.preset, cell.published_dataset) == ("BPFed", "paper", dataset)
    ]
    runs = {
        table: {cell.published_setting: cell.run.id for cell in cells if cell.published_table == table}
        for table in ("TableI", "TableII")
    }
    assert runs["TableI"] == runs["TableII"] and runs["TableI"].keys() == {"small", "large"}
    # Batches of 50, ten epochs.
    assert {(c.run.spec["local"]["batch"], c.run.spec["local"]["amount"]) for c in cells} == {(50, 10)}


def test_fedbe_is_where_the_other_methods_of_lrbpfl_are_with_a_share_for_its_server() -> None:
    cells = cells_of("lrbpfl")
    for experiment in ("new-clients", "noisy"):
        own = {cell.setting: cell.run for cell in cells if cell.experiment == f"{experiment}-fedbe"}
        others = {
            cell.setting: cell.run
            for cell in cells
            if (cell.experiment, cell.variant, cell.method) == (experiment, "", "FedAvg")
        }
        assert len(own) == len(others)
        for mine, theirs in zip(own.values(), others.values(), strict=True):
            assert mine.spec["split"]["server_share"] == 0.02
            assert without(mine, "split", "server_share")["split"] == theirs.spec["split"]
            assert mine.spec.get("shift") == theirs.spec.get("shift")


def test_more_clients_a_round_is_all_that_differs_from_table_8() -> None:
    cells = cells_of("feduab")

    def runs(experiment: str) -> dict[tuple[str, str, str], Run]:
        chosen = [cell for cell in cells if cell.experiment == experiment]
        return {(cell.setting, cell.variant, cell.method): cell.run for cell in chosen}

    table8, more = runs("table8-mnist"), runs("participation")
    shares = set()
    for (setting, variant, method), run in more.items():
        # mnist-small-only2-50, and mnist-small-only2-50-stored where that is so in Table 8, too.
        size, law, share, *stored = setting.split("-")[1:]
        shares.add((size, law, share))
        printed = table8["-".join(["mnist", size, law, *stored]), variant, method]
        assert run.spec["training"]["clients_per_round"] == int(share)
        assert without(run, "training", "clients_per_round") == without(printed, "training", "clients_per_round")
    assert shares == {(n, law, k) for n in ("all", "small") for law in ("dirichlet", "only2") for k in ("50", "100")}
    assert {method for _, _, method in more} == {"FedUAB-5", "BPFed"}


def test_a_penalty_per_sample_is_the_printed_one_times_a_client_s_samples() -> None:
    runs = {
        (cell.setting, cell.preset): cell.run
        for cell in cells_of("lrbpfl")
        if (cell.experiment, cell.method) == ("table4", "LR-BPFL")
    }
    for setting in ("2of10-train10", "5of10-train10", "5of100-train10"):
        printed, scaled = runs[setting, "paper"], runs[setting, "penalty-per-sample"]
        assert without(scaled, "method", "penalty") == without(printed, "method", "penalty")
        # 60,000 images, of CIFAR-100 on average.
        samples = 60_000 / printed.spec["split"]["clients"] * printed.spec["split"]["train_share"]
        assert scaled.spec["method"]["penalty"] == pytest.approx(printed.spec["method"]["penalty"] * samples)


@pytest.mark.parametrize(
    ("fixed", "adaptive", "fields"),
    [
        ("fixed-rank", "paper", ("gate", "penalty", "threshold")),
        ("kept-fixed-rank", "kept-masks", ("gate", "penalty", "threshold")),
        ("reference", "reference-adaptive", ("gate", "penalty")),
    ],
)
def test_table_4_has_pairs_that_differ_in_the_gates_alone(fixed: str, adaptive: str, fields: tuple[str, ...]) -> None:
    runs = {
        (cell.method, cell.preset): cell.run
        for cell in cells_of("lrbpfl")
        if (cell.experiment, cell.setting) == ("table4", "5of10-train10")
    }
    without_gates, with_gates = runs["LR-BPFL w/o ARS", fixed], runs["LR-BPFL", adaptive]
    assert without(without_gates, "method", *fields) == without(with_gates, "method", *fields)
    assert without_gates.spec["method"]["gate"] == "none" != with_gates.spec["method"]["gate"]


def test_all_clients_of_lrbpfls_pfedme_train_in_a_variant_of_tables_2_and_5() -> None:
    cells = [cell for cell in cells_of("lrbpfl") if cell.method == "pFedMe" and cell.experiment in ("table2", "table5")]
    everyone = {(cell.experiment, cell.preset): cell.run for cell in cells if cell.variant == "all clients train"}
    selected = {
        (cell.experiment, cell.preset): cell.run
        for cell in cells
        if (cell.setting, cell.variant) == ("5of10-train10", "")
    }
    assert everyone.keys() == selected.keys() and len({run.id for run in everyone.values()}) == 2
    for key, run in everyone.items():
        assert (run.spec["training"]["trains"], selected[key].spec["training"]["trains"]) == ("all", "selected")
        assert without(run, "training", "trains") == without(selected[key], "training", "trains")


def test_each_of_feduabs_ablations_on_cifar10_exchanges_one_field_of_its_table() -> None:
    cells = cells_of("feduab")
    runs = {cell.method: cell.run for cell in cells if cell.experiment == "ablations-cifar10"}
    own = runs.pop("FedUAB-5")
    assert own.id in {cell.run.id for cell in cells if cell.published_table == "Table6"}
    assert own.spec["network"]["channels"], "a network with convolutions"
    fields = {
        "averaged rho": "aggregation",
        "equal variances": "variance_reduction",
        "weights drawn to predict": "prediction",
    }
    assert runs.keys() == fields.keys()
    for method, field in fields.items():
        assert without(runs[method], "method", field) == without(own, "method", field)
        assert runs[method].spec["method"][field] != own.spec["method"][field]
