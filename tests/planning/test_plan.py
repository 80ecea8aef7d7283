"""The plan: names by digest, exact sizes at scale `paper`, every mistake one sentence before anything runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import config_copy
from artefacts import ROOT, make_plan
from config_copy import at, edit
from fedbayes.plan import Run, digest, load_plan, reduction


def complaint(clone: Path, **config: Any) -> str:
    return config_copy.complaint(clone, **{"scale": "paper", "papers": ["pfedbayes"]} | config)


def test_scale_paper_is_exactly_the_papers_setting() -> None:
    plan = make_plan(scale="paper")
    small = next(cell for cell in plan.cells if cell.setting == "mnist-small")
    spec = small.run.spec
    assert spec["training"] == {"rounds": 800, "clients_per_round": 10, "trains": "selected"}
    assert (spec["split"]["clients"], spec["split"]["train_per_class"], spec["split"]["test_per_class"]) == (
        10,
        50,
        950,
    )
    assert spec["dataset"] == "mnist" and spec["network"] == {"name": "mlp", "hidden": [100]}
    assert (small.reduction, small.stand_in_for) == ("", "")
    assert {cell.seed for cell in plan.cells} == {0, 1, 2}


def test_smoke_runs_the_embedded_set_and_says_what_it_reduces() -> None:
    plan = make_plan()
    assert {cell.run.dataset for cell in plan.cells} == {"mnist-5k"}
    assert {cell.stand_in_for for cell in plan.cells} == {"MNIST"}
    smoke = plan.papers["pfedbayes"].scales.smoke
    for cell in plan.cells:
        size = 950 if cell.setting.startswith("mnist-small") else 800
        assert f"test_per_class 50 (paper {size})" in cell.reduction
        rounds = f"rounds {smoke.training['rounds']} (paper 800)"
        assert (rounds in cell.reduction) == (cell.experiment != "figure3"), "Figure 3 has ten rounds in the paper"


def test_a_run_is_named_by_what_changes_its_numbers_only() -> None:
    cell = make_plan().cells[0]
    same = make_plan(execution={"device": "cuda:1", "checkpoint_seconds": 5, "lift": "loop", "chunk": 3}).cells[0]
    assert same.run.id == cell.run.id
    assert make_plan(seeds=[1]).cells[0].run.id != cell.run.id
    spec = cell.run.spec
    for section, key, value in (
        ("method", "lr", 0.02),
        ("training", "rounds", 21),
        ("split", "stratified", True),
        ("protocol", "every", 2),
        ("local", "batch", 21),
        ("preprocess", "mean", [0.4]),
    ):
        assert Run(spec | {section: spec[section] | {key: value}}).id != cell.run.id


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1}) != digest({"a": 1, "b": [2, 1]})


def test_equal_cells_run_once(clone: Path) -> None:
    def twice(paper: Any) -> None:
        paper["experiments"]["again"] = paper["experiments"]["table1"] | {"title": "the same runs under another name"}

    edit(clone, "papers/pfedbayes.yaml", twice)
    plan = load_plan({"scale": "paper", "papers": ["pfedbayes"]}, clone)
    before = make_plan(scale="paper")
    doubled = [cell for cell in before.cells if cell.experiment == "table1"]
    assert len(plan.cells) == len(before.cells) + len(doubled) and plan.runs.keys() == before.runs.keys()


def test_runs_that_differ_in_their_tests_alone_are_as_many_as_the_architecture_says() -> None:
    plan = make_plan(scale="paper", papers=["pfedbayes", "selffl", "bpfed", "lrbpfl", "feduab"])
    alike: dict[str, list[dict[str, Any]]] = {}
    for run in plan.runs.values():
        alike.setdefault(digest(run.spec | {"protocol": None}), []).append(run.spec["protocol"])
    pairs = [protocols for protocols in alike.values() if len(protocols) > 1]
    assert all(len(pair) == 2 for pair in pairs)
    counts = {key: sum(a.get(key) != b.get(key) for a, b in pairs) for key in ("window", "personal", "on_training")}
    assert counts == {"window": 12, "personal": 60, "on_training": 3} and len(pairs) == sum(counts.values())
    said = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert all(f"by `{key}` {count}" in said for key, count in counts.items()) and f"{len(pairs)} pairs" in said


def test_a_scale_may_run_the_first_presets_alone_and_says_what_it_leaves_out(clone: Path) -> None:
    def first_alone(paper: Any) -> None:
        paper["scales"]["smoke"]["only"]["table1"] = {"settings": ["mnist-small"], "presets": 1}

    edit(clone, "papers/pfedbayes.yaml", first_alone)
    plan = load_plan({"scale": "smoke", "papers": ["pfedbayes"]}, clone)
    methods = plan.papers["pfedbayes"].experiments["table1"].methods
    ran = {cell.method: cell.preset for cell in plan.cells if cell.experiment == "table1"}
    assert ran == {label: entry.presets[0] for label, entry in methods.items()}
    title = plan.papers["pfedbayes"].experiments["table1"].title
    left = {row["method"]: row["cells"] for row in plan.left_out("pfedbayes")
            if (row["experiment"], row["setting"]) == (title, "MNIST small")}  # fmt: skip
    assert left == {label: len(entry.presets) - 1 for label, entry in methods.items() if len(entry.presets) > 1}


def test_single_experiments_are_planned_alone_with_what_they_compare_with() -> None:
    whole, part = make_plan(papers=["bpfed"]), make_plan(papers=["bpfed"], experiments=["table2"])
    assert {cell.experiment for cell in part.cells} == {"table2"}
    assert part.runs.keys() == {cell.run.id for cell in whole.cells if cell.experiment == "table2"}
    assert part.shown("bpfed", "Table") == ["tableii"] and part.shown("bpfed", "Figure") == ["figure6"]
    figures = make_plan(papers=["selffl"]).shown("selffl", "Figure")
    assert figures == [f"figure{number}" for number in range(4, 13)], "as the paper numbers them"
    assert whole.shown("bpfed", "Table") == ["tablei", "tableii", "ours-ablations", "ours-new-client"]
    audio = make_plan(papers=["selffl"], experiments=["table4"])
    assert {cell.experiment for cell in audio.cells} == {"audio-central", "table4"}


@pytest.mark.parametrize(
    ("papers", "words"),
    [
        (["bpfed"], "experiments: unknown experiment: found 'tabel1'"),
        (["bpfed", "feduab"], "experiments: none of them is in config/papers/feduab.yaml"),
    ],
)
def test_an_experiment_that_is_not_there_is_one_sentence(clone: Path, papers: list[str], words: str) -> None:
    asked = ["tabel1"] if len(papers) == 1 else ["new-client"]
    assert words in complaint(clone, papers=papers, experiments=asked)


def test_a_scale_makes_nothing_longer(clone: Path) -> None:
    def ten_rounds_more(paper: Any) -> None:
        paper["scales"]["reduced"] |= {"training": {"rounds": 200}, "protocol": {"window": [100, 200], "every": 5}}

    edit(clone, "papers/pfedbayes.yaml", ten_rounds_more)
    plan = load_plan({"scale": "reduced", "papers": ["pfedbayes"]}, clone)
    specs = {cell.experiment: cell.run.spec for cell in plan.cells}
    assert specs["table1"]["training"]["rounds"] == 200 and specs["table1"]["protocol"]["window"] == [100, 200]
    assert specs["figure3"]["training"]["rounds"] == 10
    assert (specs["figure3"]["protocol"]["window"], specs["figure3"]["protocol"]["every"]) == ([0, 10], 5)


def test_rounds_that_are_kept_must_be_reached(clone: Path) -> None:
    def too_late(paper: Any) -> None:
        paper["experiments"]["figure3"]["protocol"]["keep"] = [0, 11]

    edit(clone, "papers/pfedbayes.yaml", too_late)
    assert "protocol.keep: found 11; allowed: at most 10 (training.rounds)" in complaint(clone)


def test_whole_numbers_and_their_floats_are_one_configuration(clone: Path) -> None:
    before = load_plan({"scale": "smoke", "papers": ["pfedbayes"]}, clone).cells[0].run.id

    def as_integer(presets: Any) -> None:
        presets["presets"]["paper"]["momentum"] = 0

    edit(clone, "methods/fedavg.yaml", as_integer)
    assert load_plan({"scale": "smoke", "papers": ["pfedbayes"]}, clone).cells[0].run.id == before


def test_a_users_own_split_stays_out_of_data() -> None:
    committed, own = make_plan(), make_plan(seeds=[77])
    assert committed.split_file(committed.cells[0].run).startswith("data/mnist-5k/")
    assert own.split_file(own.cells[0].run).startswith("results/splits/mnist-5k/")


def test_a_picture_for_each_split_says_which_settings_share_it() -> None:
    plan = make_plan(scale="paper", seeds=[4, 2])
    pictures = plan.split_pictures["pfedbayes"]
    assert [name for name in pictures if name.startswith("mnist")] == [
        "mnist-small", "mnist-medium", "mnist-large", "mnist-small-stratified",
    ]  # fmt: skip
    assert pictures["mnist-small"].titles == {
        "table1/mnist-small": "MNIST small",
        "table1/mnist-small-batch20": "MNIST small, batch 20",
        "table1-bnfed/mnist-small-unit": "MNIST small",
        "table1-pfedgp/mnist-small": "MNIST small",
        "figure3/mnist-small-early": "MNIST small, first rounds",
    }
    first = {plan.split_file(run) for run in plan.runs.values() if run.spec["seed"] == 4}
    assert {plan.split_file(picture.run) for picture in pictures.values()} == first
    (only,) = make_plan().split_pictures["pfedbayes"].values()
    assert (only.run.dataset, only.dataset_title, only.stand_in_for) == ("mnist-5k", "MNIST-5k", "MNIST")


def test_pictures_of_different_splits_never_share_a_name(clone: Path) -> None:
    def again(paper: Any) -> None:
        other = yaml.safe_load(yaml.safe_dump(paper["experiments"]["table1"]))
        for setting in other["settings"].values():
            setting["split"]["train_per_class"] += 1
        other["settings"] = {"a/b": other["settings"].pop("mnist-large")} | other["settings"]
        paper["experiments"]["again"] = other

    edit(clone, "papers/pfedbayes.yaml", again)
    pictures = load_plan({"scale": "paper", "papers": ["pfedbayes"]}, clone).split_pictures["pfedbayes"]
    again = [picture for picture in pictures.values() if any(at.startswith("again/") for at in picture.titles)]
    assert len(pictures) == len(again) + len(make_plan(scale="paper").split_pictures["pfedbayes"]) and "a-b" in pictures
    (renamed,) = [name for name, picture in pictures.items() if "again/mnist-small" in picture.titles]
    assert renamed.startswith("mnist-small-") and pictures[renamed].run.spec["split"]["train_per_class"] == 51
    assert pictures["mnist-small"].run.spec["split"]["train_per_class"] == 50


def test_reduction_is_empty_for_equal_specifications() -> None:
    spec = make_plan().cells[0].run.spec
    assert reduction(spec, spec) == ""


PAPER, FEDAVG = "papers/pfedbayes.yaml", "methods/fedavg.yaml"


def row(**keys: Any) -> Any:
    """Another method in FedAvg's row of Table 1."""
    return at("experiments", "table1", "methods", "FedAvg", value=keys)


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        (PAPER, at("experiments", "table1", "training", "round", value=3),
         ["config/papers/pfedbayes.yaml", "experiments.table1.training.round", "'round'", "did you mean 'rounds'?"]),
        (PAPER, at("experiments", "table1", "training", "rounds", value="many"),
         ["experiments.table1.training.rounds", "valid integer", "'many' (text)"]),
        (PAPER, at("experiments", "table1", "methods", "FedAvg", "method", value="fedavgg"),
         ["methods.FedAvg.method", "unknown method", "did you mean 'fedavg'?"]),
        (PAPER, at("experiments", "table1", "methods", "FedAvg", "set", value={"lrr": 0.1}),
         ["methods.FedAvg.set", "unknown key", "'lrr'", "did you mean 'lr'?"]),
        (PAPER, at("experiments", "table1", "methods", "FedAvg", "set", value={"lr": "fast"}),
         ["methods.FedAvg.set.lr", "expected number", "'fast' (text)"]),
        (PAPER, at("experiments", "table1", "methods", "FedAvg", "set", value={"weighting": "sample"}),
         ["set.weighting", "'sample'", "did you mean 'samples'?"]),
        (PAPER, at("experiments", "table1", "methods", "FedAvg", "presets", value=["papr"]),
         ["methods.FedAvg.presets", "did you mean 'paper'?"]),
        (PAPER, at("experiments", "table1", "methods", "FedAvg", "local", value={"batchh": 3}),
         ["local.batchh", "did you mean 'batch'?"]),
        (PAPER, at("experiments", "table1", "settings", "mnist-small", "dataset", value="mnits"),
         ["settings.mnist-small.dataset", "unknown dataset", "did you mean 'mnist'?"]),
        (PAPER, at("experiments", "table1", "model", value={"name": "mpl", "hidden": [3]}),
         ["experiments.table1.model.name", "unknown network", "did you mean 'mlp'?"]),
        (PAPER, at("experiments", "table1", "model", value={"name": "mlp"}),
         ["experiments.table1.model", "the key 'hidden' is missing"]),
        (PAPER, at("experiments", "table1", "settings", "mnist-small", "split", "train_per_class", value=900),
         ["settings.mnist-small", "class 0", "5 clients 1850 samples each", "6903"]),
        (PAPER, at("experiments", "table1", "settings", "mnist-small", "split", "labels_per_client", value=11),
         ["labels_per_client is 11", "only 10 classes"]),
        (PAPER, at("experiments", "table1", "training", "clients_per_round", value=11),
         ["training.clients_per_round", "found 11", "at most the 10 clients"]),
        (PAPER, at("experiments", "table1", "protocol", "window", value=[700, 900]),
         ["protocol.window", "[700, 900]", "<= 800"]),
        (PAPER, at("experiments", "table1", "protocol", "models", value=["pmm"]),
         ["protocol.models", "did you mean 'pm'?"]),
        (PAPER, at("experiments", "table1", "preprocess", "mean", value=[0.5, 0.5]),
         ["preprocess.mean", "found 2 values", "1"]),
        (PAPER, at("experiments", "table1", "settings", "mnist-small", "split", "clientz", value=3),
         ["settings.mnist-small.split.clientz: unknown key", "did you mean 'clients'?"]),
        (PAPER, at("experiments", "table1", "settings", "mnist-small", "split", "rule", value="pfedbaye"),
         ["settings.mnist-small.split: 'rule': found 'pfedbaye'", "did you mean 'pfedbayes'?"]),
        (PAPER, at("experiments", "table1", "settings", "mnist-small", "split", value={"clients": 3}),
         ["settings.mnist-small.split: the key 'rule' is missing"]),
        (PAPER, at("experiments", "table1", "settings", "mnist-small", "split", "newcomers", value=[10]),
         ["settings.mnist-small", "newcomers has client 10, but there are only 10 clients"]),
        (PAPER, at("experiments", "table1", "settings", "mnist-small", "split", "newcomers", value=[0]),
         ["training.clients_per_round", "found 10", "at most the 9 clients of the split that train"]),
        (PAPER, at("scales", "smoke", "split", value={"test_per_clas": 50}),
         ["scales.smoke.split: unknown key", "did you mean 'test_per_class'?"]),
        (PAPER, at("experiments", "table1", "preprocess", value={"kind": "vectors"}),
         ["preprocess.kind", "'vectors' is for texts and features", "a sample of MNIST has shape (1, 28, 28)"]),
        (PAPER, at("experiments", "table1", "preprocess", value={"kind": "as-stored"}),
         ["preprocess.kind", "'as-stored' is for texts and features"]),
        (PAPER, at("scales", "smoke", "split", value={"pfedbayes": 5}),
         ["scales.smoke.split.pfedbayes", "expected keys and values; found 5"]),
        (PAPER, at("scales", "smoke", "split", value={"pfedbayes": {"clientz": 5}}),
         ["scales.smoke.split.pfedbayes.clientz: unknown key", "did you mean 'clients'?"]),
        (PAPER, at("scales", "smoke", "set", value={"fedavgg": {"lr": 0.1}}),
         ["scales.smoke.set", "unknown method: found 'fedavgg'", "did you mean 'fedavg'?"]),
        (PAPER, at("scales", "smoke", "set", value={"fedavg": {"lrr": 0.1}}),
         ["scales.smoke.set.fedavg.lrr: unknown key", "did you mean 'lr'?"]),
        (PAPER, at("experiments", "table1", "methods", "FedAvg", value={"method": "fedbe"}),
         ["settings.mnist-small / methods.FedAvg / split.server_share: found 0.0", "the method fedbe needs more"]),
        (PAPER, at("experiments", "table1", "settings", "mnist-large", "split", "server_share", value=0.2),
         ["settings.mnist-large", "cannot be made from 'mnist'"]),
        (PAPER, at("scales", "smoke", "experiments", value={"table11": {}}),
         ["scales.smoke.experiments", "unknown experiment: found 'table11'"]),
        (PAPER, at("scales", "smoke", "experiments", value={"table1": {"local": {"batches": 5}}}),
         ["scales.smoke.experiments.table1.local.batches: unknown key"]),
        (PAPER, at("scales", "smoke", "experiments", value={"table1": {"set": {"fedavg": {"lrr": 0.1}}}}),
         ["scales.smoke.experiments.table1.set.fedavg.lrr: unknown key", "did you mean 'lr'?"]),
        (PAPER, at("scales", "smoke", "training", value={"round": 5}),
         ["scales.smoke.training.round: unknown key", "did you mean 'rounds'?"]),
        (PAPER, at("experiments", "table1", "protocol", value={"models": ["gm"], "every": 100, "window": [701, 750]}),
         ["protocol.window", "no round of [701, 750] is tested: protocol.every is 100"]),
        (PAPER, at("experiments", "table1", "protocol",
                   value={"models": ["pm", "gm"], "every": 1, "pm_every": 100, "window": [701, 750]}),
         ["protocol.window", "no round of [701, 750] is tested: protocol.pm_every is 100"]),
        (PAPER, at("experiments", "table1", "preprocess", value={"kind": "pixelwise", "mean": [0.5]}),
         ["preprocess", "mean belongs to the kind 'channels'"]),
        (PAPER, at("experiments", "table1", "preprocess", value={"kind": "as-stored", "augment": "crop-and-flip"}),
         ["preprocess", "'crop-and-flip' is for images"]),
        (PAPER, at("experiments", "table1", "protocol", "personal", value="adapted"),
         ["protocol", "adapt_batches belongs to `personal: adapted`"]),
        (PAPER, at("experiments", "table1", "protocol", "personal", value="tuned"),
         ["protocol.personal", "'tuned'", "broadcast"]),
        (PAPER, at("experiments", "table1", "methods", "FedAvg", "training", value={"round": 3}),
         ["methods.FedAvg / training", "did you mean 'rounds'?"]),
        (PAPER, row(method="fedper", set={"shared": "bodies"}),
         ["methods.FedAvg.set.shared", "bodies"]),
        (PAPER, row(method="selffl", set={"variance": "known"}),
         ["methods.FedAvg.set", "the key 'sample_variance' is missing"]),
        (PAPER, at("scales", "smoke", value=None), ["scales.smoke", "found nothing"]),
        (PAPER, at("scales", "paper", "seeds", value=[0, 1, 0]), ["scales.paper.seeds", "found 0 twice"]),
        (PAPER, at("name", value="pFedBays"), ["name", "did you mean 'pFedBayes'?"]),
        (PAPER, at("experiments", "table1", "shows", value=["Tabel 1"]), ["experiments.table1.shows.0", "'Tabel 1'"]),
        (PAPER, at("experiments", "table1", "published_table", value="Tabel1"),
         ["experiments.table1.published_table", "did you mean 'Table1'?"]),
        (PAPER, at("experiments", "table1", "settings", "mnist-small", "published", "setting", value="smal"),
         ["settings.mnist-small.published", "no such column of Table1", "did you mean 'MNIST / small'?"]),
        (PAPER, at("experiments", "table1", "settings", "mnist-small", "methods", value=["FedAvgg"]),
         ["settings.mnist-small.methods", "unknown method", "did you mean 'FedAvg'?"]),
        ("datasets.yaml", at("mnist-5k", "stand_in_for", value="mnits"),
         ["config/datasets.yaml", "mnist-5k.stand_in_for", "did you mean 'mnist'?"]),
        (FEDAVG, at("presets", "paper", "lr", value=-1), ["config/methods/fedavg.yaml", "presets.paper.lr"]),
        (FEDAVG, at("presets", value={"paper": {}}), ["config/methods/fedavg.yaml", "'reference' is missing"]),
        ("datasets.yaml", at("mnist", "class_names", value=["zero", "one"]),
         ["config/datasets.yaml: mnist", "class_names has 2 names; expected one for each of the 10 classes"]),
        ("datasets.yaml", at("mnist", "sha256", value="abc"), ["config/datasets.yaml", "mnist.sha256"]),
    ],
)  # fmt: skip
def test_a_mistake_in_a_file_is_one_sentence(clone: Path, file: str, change: Any, words: list[str]) -> None:
    edit(clone, file, change)
    sentence = complaint(clone)
    for word in words:
        assert word in sentence


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"scale": "papr"}, ["config/config.yaml", "scale", "'papr'", "did you mean 'paper'?"]),
        ({"papers": ["pfedbaies"]}, ["papers", "did you mean 'pfedbayes'?"]),
        ({"papers": []}, ["papers"]),
        ({"seeds": ["zero"]}, ["seeds.0", "'zero' (text)"]),
        ({"seeds": [-1]}, ["seeds.0", "-1"]),
        ({"seeds": [1, 1]}, ["seeds", "found 1 twice"]),
        ({"papers": ["pfedbayes", "pfedbayes"]}, ["papers", "found 'pfedbayes' twice"]),
        ({"sedes": [0]}, ["unknown key", "did you mean 'seeds'?"]),
        ({"execution": {"device": "gpu"}}, ["execution.device", "'gpu'"]),
        ({"execution": {"device": "cuda:x"}}, ["execution.device", "'cuda:x'"]),
        ({"execution": {"device": "cuda:01"}}, ["execution.device", "'cuda:01'"]),
        ({"execution": {"devise": "cpu"}}, ["execution.devise", "did you mean 'device'?"]),
    ],
)
def test_a_mistake_on_the_command_line_is_one_sentence(clone: Path, config: dict[str, Any], words: list[str]) -> None:
    sentence = complaint(clone, **config)
    for word in words:
        assert word in sentence


SHIFT = {"kind": "noisy-clients", "choice": "distinct"}


def with_shift(dataset: str = "cifar10", **changes: Any) -> Any:
    """The smallest setting of Table 1 on images large enough to corrupt, with noisy clients."""

    def change(paper: Any) -> None:
        setting = paper["experiments"]["table1"]["settings"]["mnist-small"]
        setting |= {"dataset": dataset, "shift": SHIFT | changes}

    return change


def test_a_field_that_marks_its_results_is_seen_wherever_the_cell_is() -> None:
    cells = [cell for cell in make_plan(scale="paper").cells if cell.method == "Per-FedAvg"]
    found = {cell.preset: (cell.marks, cell.variant, cell.row()["marks"]) for cell in cells}
    mark = "adapted on test data"
    assert found.pop("leak") == (mark, mark, mark)
    assert set(found.values()) == {("", "", "")}


def test_a_method_may_train_and_be_tested_in_its_own_way(clone: Path) -> None:
    own = {"training": {"trains": "all"}, "protocol": {"personal": "adapted", "adapt_batches": 3, "models": ["pm"]}}
    edit(clone, PAPER, row(method="fedavg", **own))
    plan = load_plan({"scale": "smoke", "papers": ["pfedbayes"]}, clone)
    for cell in (cell for cell in plan.cells if cell.experiment == "table1"):
        spec = cell.run.spec
        assert spec["training"]["trains"] == ("all" if cell.method == "FedAvg" else "selected")
        assert spec["protocol"].get("adapt_batches") == (3 if cell.method == "FedAvg" else None)


def test_runs_without_a_shift_keep_the_names_they_had() -> None:
    # FedAvg on MNIST small, as docs/reproduction/pfedbayes.csv lists its runs.
    ids = {cell.seed: cell.run.id for cell in make_plan(scale="paper").cells if cell.method == "FedAvg"
           and (cell.setting, cell.variant) == ("mnist-small", "")}  # fmt: skip
    assert ids == {0: "2d7bbdd41d75", 1: "5ed596f301d5", 2: "fe1c974479fb"}
    assert all("shift" not in run.spec and run.shift_file is None for run in make_plan(scale="paper").runs.values())


@pytest.mark.parametrize("scale", ["paper", "reduced"])
def test_a_shift_is_part_of_a_runs_name_and_its_samples_are_made_once_a_seed(clone: Path, scale: str) -> None:
    names = []
    for change in (at("experiments", "table1", "settings", "mnist-small", "dataset", value="cifar10"),
                   with_shift(), with_shift(choice="replacement"), with_shift(severities=[1, 2])):  # fmt: skip
        edit(clone, PAPER, change)
        plan = load_plan({"scale": scale, "papers": ["pfedbayes"]}, clone)
        cells = [c for c in plan.cells if (c.experiment, c.setting) == ("table1", "mnist-small")]
        names.append(frozenset(cell.run.id for cell in cells))
    assert len(set.union(*map(set, names))) == sum(map(len, names))
    spec = cells[0].run.spec["shift"]
    assert spec == SHIFT | {"severities": [1, 2], "wraps_around": False}
    folder = cells[0].run.split_stem.rsplit("/", 1)[0]
    name = "noisy-clients-distinct-severities1_2"
    seeds = getattr(plan.papers["pfedbayes"].scales, scale).seeds
    assert sorted(plan.shifts) == [f"results/shifts/{folder}/{name}/seed{seed}.npz" for seed in seeds]
    assert {cell.run.shift_file for cell in cells} == set(plan.shifts) and len(cells) > 3
    assert all(cell.reduction == "" for cell in cells) == (scale == "paper")
    clean = next(cell.run for cell in plan.cells if cell.setting == "mnist-medium")
    assert len(plan.data_digest(cells[0].run).split("-")) == len(plan.data_digest(clean).split("-")) + 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_shift("mnist"),
         ["config/papers/pfedbayes.yaml", "settings.mnist-small / methods.FedAvg / shift", "cannot be made from MNIST",
          "the shape (1, 28, 28)", "at least 32 x 32 pixels"]),
        (with_shift(severities=[3, 1]), ["settings.mnist-small.shift.severities", "found [3, 1]", "rising order"]),
        (with_shift(severities=[6]), ["settings.mnist-small.shift.severities.0", "less than or equal to 5"]),
        (with_shift(choice="distinkt"), ["mnist-small.shift.choice", "did you mean 'distinct'?"]),
        (with_shift(kind="noisy"), ["mnist-small.shift.kind", "noisy-clients"]),
        (with_shift(wraps_around=True), ["experiments.table1.preprocess", "expected mean 0, std 1"]),
        (with_shift(wraps_round=True), ["mnist-small.shift.wraps_round", "did you mean 'wraps_around'?"]),
    ],
)  # fmt: skip
def test_a_shift_that_cannot_be_made_is_one_sentence(clone: Path, change: Any, words: list[str]) -> None:
    edit(clone, PAPER, change)
    sentence = complaint(clone)
    for word in words:
        assert word in sentence


def test_more_clients_than_noise_models_are_refused_where_these_must_be_distinct(clone: Path) -> None:
    split = {"rule": "iid", "clients": 58, "train_share": 0.5}
    edit(clone, PAPER, with_shift())
    edit(clone, PAPER, at("experiments", "table1", "settings", "mnist-small", "split", value=split))
    assert "58 clients cannot have distinct noise models: there are 57" in complaint(clone)
    edit(clone, PAPER, with_shift(choice="replacement"))
    assert load_plan({"scale": "paper", "papers": ["pfedbayes"]}, clone).shifts


def test_a_scale_that_runs_smaller_images_is_refused_too(clone: Path) -> None:
    edit(clone, PAPER, with_shift())
    edit(clone, "datasets.yaml", at("cifar10", "embedded", value="mnist-5k"))
    assert "cannot be made from MNIST-5k" in complaint(clone, scale="smoke")


def test_a_typo_under_only_is_refused(clone: Path) -> None:
    edit(clone, PAPER, at("scales", "smoke", "only", value={"table1": {"settings": ["mnist-smal"]}}))
    sentence = complaint(clone, scale="smoke")
    assert "scales.smoke.only.table1.settings" in sentence and "did you mean 'mnist-small'" in sentence


def test_a_method_whose_schema_was_not_made_says_how_to_make_it(clone: Path) -> None:
    (clone / "src/fedbayes/methods").mkdir(parents=True)
    (clone / "src/fedbayes/methods/mine.py").write_text("")
    edit(clone, PAPER, at("experiments", "table1", "methods", "FedAvg", "method", value="mine"))
    assert "make schema" in complaint(clone)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scales: [1\nname: a\n", ["line 2, column 5: not valid YAML: did not find expected ',' or ']'"]),
        ("a: 1\na: 2\n", ["line 2", "'a' is written twice"]),
        ("- 1\n", ["expected a mapping"]),
    ],
)
def test_broken_yaml_is_one_sentence(clone: Path, text: str, words: list[str]) -> None:
    (clone / "config" / PAPER).write_text(text)
    sentence = complaint(clone)
    assert sentence.startswith("config/papers/pfedbayes.yaml: ")
    for word in words:
        assert word in sentence


def test_scientific_notation_is_a_number(clone: Path) -> None:
    file = clone / "config/methods/fedavg.yaml"
    file.write_text(file.read_text().replace("lr: 0.01", "lr: 1e-2"))
    before = make_plan().cells[0].run.id
    assert load_plan({"scale": "smoke", "papers": ["pfedbayes"]}, clone).cells[0].run.id == before


def test_planning_imports_nothing_heavy() -> None:
    code = (
        "import sys; from pathlib import Path; from fedbayes.plan import load_plan; import fedbayes.tracking_uri;"
        f"load_plan({{'papers': ['pfedbayes']}}, Path({str(ROOT)!r}));"
        "print([m for m in ('torch', 'mlflow', 'pandas', 'numpy', 'torchvision') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_scale_may_change_a_method_s_fields_and_says_so(clone: Path) -> None:
    def fedavg() -> list[Any]:
        plan = load_plan({"scale": "smoke", "papers": ["pfedbayes"]}, clone)
        return [cell for cell in plan.cells if (cell.experiment, cell.method) == ("table1", "FedAvg")]

    assert {cell.run.spec["method"]["lr"] for cell in fedavg()} == {0.01}
    edit(clone, PAPER, at("scales", "smoke", "set", value={"fedavg": {"lr": 0.25}}))
    assert {cell.run.spec["method"]["lr"] for cell in fedavg()} == {0.25}
    assert all("lr 0.25 (paper 0.01)" in cell.reduction for cell in fedavg())


def test_a_scale_may_change_one_experiment_alone_and_that_wins(clone: Path) -> None:
    changes = {"training": {"rounds": 3}, "protocol": {"window": [0, 3]}, "set": {"fedavg": {"lr": 0.5}}}
    edit(clone, PAPER, at("scales", "smoke", "set", value={"fedavg": {"lr": 0.25}}))
    edit(clone, PAPER, at("scales", "smoke", "experiments", value={"table1": changes}))
    plan = load_plan({"scale": "smoke", "papers": ["pfedbayes"]}, clone)
    for cell in plan.cells:
        rounds = 3 if cell.experiment == "table1" else plan.papers["pfedbayes"].scales.smoke.training["rounds"]
        assert cell.run.spec["training"]["rounds"] == rounds
        if cell.method == "FedAvg":
            assert cell.run.spec["method"]["lr"] == (0.5 if cell.experiment == "table1" else 0.25)
    assert any(cell.experiment != "table1" for cell in plan.cells)


def test_a_setting_may_have_its_own_number_of_active_clients(clone: Path) -> None:
    place = ("experiments", "table1", "settings", "mnist-small", "training")
    edit(clone, PAPER, at(*place, value={"clients_per_round": 3}))
    plan = load_plan({"scale": "paper", "papers": ["pfedbayes"], "seeds": [0]}, clone)
    for cell in (cell for cell in plan.cells if cell.experiment == "table1"):
        expected = 3 if cell.setting == "mnist-small" else 10
        assert cell.run.spec["training"]["clients_per_round"] == expected


def test_clients_of_a_round_are_counted_by_federation(clone: Path) -> None:
    """200 repeats of 20 clients are 4,000, but each has a server that chooses among 20."""
    experiment, setting = "synthetic-homogeneous", "case1-c1"
    plan = load_plan({"scale": "paper", "papers": ["selffl"], "seeds": [0]}, clone)
    run = next(cell.run for cell in plan.cells if (cell.experiment, cell.setting) == (experiment, setting))
    assert (run.split.population, run.split.replicates) == (4000, 200)
    place = ("experiments", experiment, "settings", setting, "training")
    edit(clone, "papers/selffl.yaml", at(*place, value={"clients_per_round": 21}))
    sentence = complaint(clone, papers=["selffl"])
    assert "training.clients_per_round: found 21; allowed: at most the 20 clients" in sentence
