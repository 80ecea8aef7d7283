"""What a figure does not show because it did not run is said in its caption and above its panels, in every figure."""

from __future__ import annotations

import pandas as pd
import pytest

from fedbayes.analysis.figures.unrun import not_run
from pretended import KEYS, pretend

TITLES = {"a": "MNIST small", "b": "MNIST, large", "c": "C = 0.1", "d": "C = 0.25", "e": "C = 1"}


def cells(**settings: str) -> pd.DataFrame:
    """`a="A B:x"`: in setting a method A with preset p and B with preset x."""
    rows = [
        (setting, *(item.split(":") if ":" in item else (item, "p")))
        for setting, items in settings.items()
        for item in items.split()
    ]
    return pd.DataFrame(rows, columns=["setting", "method", "preset"])


@pytest.mark.parametrize(
    ("ran", "planned", "words"),
    [
        (cells(a="A B"), cells(a="A B"), ""),
        (cells(a="A"), cells(a="A B C"), "B, C."),
        (cells(a="A"), cells(a="A", b="A"), "MNIST, large."),
        (cells(a="A"), cells(a="A B", b="A B"), "B; MNIST, large."),
        (cells(a="A"), cells(a="A A:x B B:x"), "A (x), B."),
        (cells(a="A B", b="A"), cells(a="A B", b="A B"), "on MNIST, large: B."),
        (cells(a="A B", b="A", c="A"), cells(a="A B", b="A B", c="A B"), "on MNIST, large and on C = 0.1: B."),
        (cells(a="A A:x", b="A"), cells(a="A A:x", b="A A:x"), "on MNIST, large: A (x)."),
        # What a method alone has is not run with it; settings that differ in their last number stand together.
        (cells(a="A"), cells(a="A", b="B"), "B."),
        (cells(a="A"), cells(a="A", c="A", d="A", e="A"), "C = 0.1, 0.25, 1."),
    ],
)
def test_what_did_not_run_in_one_sentence(ran: pd.DataFrame, planned: pd.DataFrame, words: str) -> None:
    assert not_run(ran, planned, TITLES) == (f"Not run at this scale: {words}" if words else "")


# What is left out of the cells at scale paper, and what the figure must say of it.
LEFT_OUT = [
    ("bpfed/figure3", "method == 'BPFed' and setting == 'mnist-large'", "on MNIST large: BPFed."),
    ("bpfed/figure4", "method == 'BPFed' and preset == 'paper'", "BPFed (paper)."),
    ("bpfed/figure5", "method in ['BPFed', 'pFedBayes']", "pFedBayes, BPFed."),
    ("bpfed/figure6", "setting == 'mnist-large'", "MNIST large."),
    ("bpfed/figure7", "method == 'FedRep'", "FedRep."),
    ("bpfed/figure8", "setting == 'fmnist-small-new'", "Fashion-MNIST small, first client new."),
    ("bpfed/figure9", "method == 'BPFed' and setting == 'cifar10-large-new'",
     "on CIFAR-10 large, first client new: BPFed."),
    ("feduab/figure6", "setting == 'cnews-small-dirichlet' and method not in ['FedAvg', 'FedProx']",
     "on CNews Small-Dirichlet: FedUAB-1, FedUAB-2, FedUAB-5, pFedBayes."),
    ("feduab/figure7", "method == 'BPFed'", "BPFed."),
    ("lrbpfl/figure1", "setting == '2of10-train10'", "CIFAR-10 2/10, 10 %."),
    ("lrbpfl/figure3", "setting == '2of10-train10'", "CIFAR-10 2/10, 10 %."),
    ("lrbpfl/figure4", "setting.str.endswith('0.5') or method == 'pFedGP'",
     "pFedGP; new clients, alpha 0.5; new clients, alpha 0.5, 2 % at the server."),
    ("lrbpfl/figure5", "setting == '2of10-train10' and method == 'LR-BPFL'",
     "on CIFAR-10 2/10, 10 %: LR-BPFL."),
    ("lrbpfl/figure6", "setting == '5of10-noisy' and method == 'pFedMe'",
     "on CIFAR-10 5/10, 10 %, noisy clients: pFedMe."),
    ("lrbpfl/figure7", "setting == '5of10-train10'", "CIFAR-10 5/10, 10 %."),
    ("pfedbayes/figure2", "method == 'BNFed' or setting == 'mnist-large'", "BNFed; MNIST large."),
    ("selffl/figure4", "setting in ['case1-c02', 'case1-c08']", "homogeneous, C = 0.2, 0.8."),
    ("selffl/figure5", "setting != 'case2-c01'", "heterogeneous, C = 0.2, 0.5, 0.8, 1."),
    ("selffl/figure6", "experiment == 'synthetic-heterogeneous'", "heterogeneous, C = 0.1, 0.2, 0.5, 0.8, 1."),
    ("selffl/figure7", "experiment == 'femnist' and method.str.endswith('2)')",
     "on FEMNIST, three letters a client: Self-FL (Algorithm 2)."),
    ("selffl/figure8", "experiment == 'sent140'", "Sent140, natural users."),
    ("selffl/figure9", "method == 'DITTO'", "DITTO."),
    ("selffl/figure10", "method == 'DITTO'", "DITTO."),
    ("selffl/figure11", "preset == 'reference'", "Self-FL (reference)."),
    ("selffl/figure12", "preset == 'reference'", "Self-FL (reference)."),
]  # fmt: skip
WHOLE = {"feduab/figure8", "feduab/figure9", "pfedbayes/figure3"}  # of a single cell


@pytest.mark.parametrize(("key", "left_out", "words"), LEFT_OUT, ids=[key for key, *_ in LEFT_OUT])
def test_every_figure_says_what_did_not_run(
    key: str, left_out: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paper, name = key.split("/")
    made = pretend(monkeypatch, paper, "paper")
    gone = made.index.query(left_out, engine="python").index
    found = made.draw(name, made.index.drop(gone))
    assert f"Not run at this scale: {words} Scale paper" in found.caption
    assert f"Not run at this scale: {words}" in " ".join(found.figure.get_suptitle().split())


@pytest.mark.parametrize("key", KEYS)
def test_where_all_ran_nothing_is_said(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paper, name = key.split("/")
    assert key in WHOLE or key in {key for key, *_ in LEFT_OUT}, "every figure is tested for what it leaves out"
    assert "ot run" not in pretend(monkeypatch, paper, "paper").draw(name).caption
