"""The plan: names by digest, exact sizes at scale `paper`, every mistake one sentence before anything runs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from artefacts import ROOT, make_plan
from fedbayes.plan import ConfigError, Run, digest, load_plan, reduction


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of `config/` that a test may spoil."""
    shutil.copytree(ROOT / "config", tmp_path / "config")
    return tmp_path


def edit(clone: Path, file: str, change: Any) -> None:
    path = clone / "config" / file
    content = yaml.safe_load(path.read_text())
    change(content)
    path.write_text(yaml.safe_dump(content, sort_keys=False))


def complaint(clone: Path, **config: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load_plan({"scale": "paper", "papers": ["pfedbayes"]} | config, clone)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


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
        assert "test_per_class 50 (paper 950)" in cell.reduction
        assert f"rounds {smoke.training['rounds']} (paper 800)" in cell.reduction


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
    assert len(plan.cells) == 2 * len(before.cells) and plan.runs.keys() == before.runs.keys()


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


def test_reduction_is_empty_for_equal_specifications() -> None:
    spec = make_plan().cells[0].run.spec
    assert reduction(spec, spec) == ""


PAPER, FEDAVG = "papers/pfedbayes.yaml", "methods/fedavg.yaml"


def at(*keys: str, value: Any) -> Any:
    def change(content: Any) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


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
         ["preprocess.kind", "'vectors' is for texts (position,)", "a sample of MNIST has shape (1, 28, 28)"]),
        (PAPER, at("experiments", "table1", "preprocess", value={"kind": "pixelwise", "mean": [0.5]}),
         ["preprocess", "mean belongs to the kind 'channels'"]),
        (PAPER, at("experiments", "table1", "preprocess", value={"kind": "as-stored", "augment": "crop-and-flip"}),
         ["preprocess", "'crop-and-flip' is for images"]),
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
        ({"execution": {"devise": "cpu"}}, ["execution.devise", "did you mean 'device'?"]),
    ],
)
def test_a_mistake_on_the_command_line_is_one_sentence(clone: Path, config: dict[str, Any], words: list[str]) -> None:
    sentence = complaint(clone, **config)
    for word in words:
        assert word in sentence


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
        ("scales: [", ["line 1"]),
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
