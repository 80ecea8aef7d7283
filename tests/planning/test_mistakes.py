"""Every mistake in what a user may write is one sentence, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from config_copy import at, edit
from pfedbayes_copy import PAPER, complaint, row

FEDAVG = "methods/fedavg.yaml"


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


def test_rounds_that_are_kept_must_be_reached(clone: Path) -> None:
    def too_late(paper: Any) -> None:
        paper["experiments"]["figure3"]["protocol"]["keep"] = [0, 11]

    edit(clone, "papers/pfedbayes.yaml", too_late)
    assert "protocol.keep: found 11; allowed: at most 10 (training.rounds)" in complaint(clone)


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
