"""What the papers print of each number's setting, read independently of `config/papers/`, and what a run must then be.

`differences` holds every cell that claims a printed number against three things: the text of its setting in
`config/published.csv`, the method that is behind the printed name, and the sizes that the paper states for all of a
table. [P] is printed in the paper, [C] read from the public code, [A] in Self-FL's appendix, [D] our choice where a
paper says nothing; sections are those of the papers. Variants may differ in exactly what they say they do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fedbayes.analysis.published import meaning_of
from fedbayes.plan import Cell, Plan

Expected = dict[str, Any]  # by path in a run's specification: `method.lr`, or `dataset`


class Shape(NamedTuple):
    """Sizes of an experiment: rounds, clients a round and in all, batch, local work, rounds of the printed number."""

    rounds: int
    active: int
    clients: int | None  # None where natural users are the clients
    batch: int
    amount: int
    unit: str
    window: tuple[int, int]

    def expected(self) -> Expected:
        return {
            "training.rounds": self.rounds,
            "training.clients_per_round": self.active,
            "split.clients": self.clients,
            "local.batch": self.batch,
            "local.amount": self.amount,
            "local.unit": self.unit,
            "protocol.window": list(self.window),
        }


# 800 rounds, S = 10 of N = 10 clients (CIFAR-10: 20), highest of rounds 700 to 800 [P 5.1 to 5.3]; batch 100 and
# 20 batches a round [C]. A step of pFedGP sees all data of a client.
PFEDBAYES = Shape(800, 10, 10, 100, 20, "batches", (700, 800))
# S = 10 of 10 clients (CIFAR-10: 20), highest of all rounds, batch 50, ten epochs [P V]; 800 rounds, 20 batches [C].
BPFED = Shape(800, 10, 10, 50, 20, "batches", (0, 800))
BPFED_TEXT = BPFED._replace(amount=10, unit="epochs")
# K = 50, tau = 0.2 [P 5.1]; T = 1000, batch 32, 20 local steps [P B.4].
LRBPFL = Shape(1000, 10, 50, 32, 20, "batches", (0, 1000))
# 100 clients, 10 a round, 2000 rounds, batch 10, E = 5, highest accuracy attainable [P 5.1].
FEDUAB = Shape(2000, 10, 100, 10, 5, "epochs", (0, 2000))
# 20 clients [A G.5]; rounds and local work are not stated [D].
AUDIO = Shape(200, 20, None, 10, 1, "epochs", (0, 200))

EXPERIMENTS: dict[str, dict[str, Shape]] = {
    "pfedbayes": {
        "table1": PFEDBAYES,
        "table1-bnfed": PFEDBAYES,
        "table1-pfedgp": PFEDBAYES._replace(amount=1),
        "table1-cifar10": PFEDBAYES._replace(clients=20),
        "table1-cifar10-pfedbayes": PFEDBAYES._replace(clients=20),
        "table1-cifar10-bnfed": PFEDBAYES._replace(clients=20),
        "table1-cifar10-pfedgp": PFEDBAYES._replace(clients=20, amount=1),
        "table2": PFEDBAYES,
        "table3": PFEDBAYES,
        "table3-bnfed": PFEDBAYES,
        "table3-pfedgp": PFEDBAYES._replace(amount=1),
    },
    "selffl": {
        "table4": AUDIO,  # full participation
        "table5": AUDIO._replace(active=5),  # C = 0.25
        "table6": AUDIO._replace(active=5),
        "table6-few": AUDIO._replace(active=2),  # C = 0.1
    },
    "bpfed": {
        "table1": BPFED,
        "table2": BPFED,
        "table1-text": BPFED_TEXT,
        "table2-text": BPFED_TEXT,
        "table1-cifar10": BPFED._replace(clients=20),
        "table2-cifar10": BPFED._replace(clients=20),
        "table1-text-cifar10": BPFED_TEXT._replace(clients=20),
        "table2-text-cifar10": BPFED_TEXT._replace(clients=20),
        "table1-cifar10-code": BPFED._replace(clients=20),
        "table2-cifar10-code": BPFED._replace(clients=20),
        "table1-cifar10-perfedavg": BPFED._replace(clients=20),
    },
    "lrbpfl": dict.fromkeys(
        ("table1", "table2", "table3", "table4", "table5", "table6", "table2-fedbe", "table3-fedbe", "table5-fedbe",
         "table2-code", "table5-code"),
        LRBPFL,
    ),
    "feduab": dict.fromkeys(
        ("mnist", "mnist-small", "cifar10", "cifar10-small", "cnews", "cnews-small", "table1", "table4",
         "table4-cifar10", "table4-cnews", "table8-mnist", "table8-cifar10", "table8-cnews"),
        FEDUAB,
    ),
}  # fmt: skip

# The method behind a printed name, and the fields that its paper states for all its rows.
METHODS: dict[str, dict[str, tuple[str, Expected]]] = {
    "pfedbayes": {  # [P 5.2]; Tables 2 and 3 print others, which win
        "FedAvg": ("fedavg", {"lr": 0.01}),
        "FedProx": ("fedprox", {"lr": 0.01, "mu": 0.001}),
        "BNFed": ("pfnm", {"lr": 0.5}),
        "Per-FedAvg": ("perfedavg", {"alpha": 0.01}),
        "pFedMe": ("pfedme", {"lr": 0.01, "lr_personal": 0.01, "lam": 15.0}),
        "HeurFedAMP": ("heurfedamp", {"lr": 0.01, "self_weight": 0.5}),
        "pFedGP": ("pfedgp", {"lr": 0.05}),
        "pFedBayes": ("pfedbayes", {"lr_personal": 0.001, "lr_global": 0.001, "zeta": 10.0, "initial_rho": -2.5}),
    },
    "selffl": {  # [A G.5]
        "Self-FL (Algorithm 1)": ("selffl", {"algorithm": 1, "clients_per_cluster": None}),
        "Self-FL (Algorithm 2)": ("selffl", {"algorithm": 2, "clients_per_cluster": None}),
        "Self-FL (client-level)": ("selffl", {"algorithm": 1, "clients_per_cluster": None}),
        "Self-FL (cluster-level)": ("selffl", {"algorithm": 1, "clients_per_cluster": 4}),
    },
    "bpfed": {  # run_Exp.sh [C]
        "FedAvg": ("fedavg", {"lr": 0.001}),
        "Per-FedAvg": ("perfedavg", {"alpha": 0.001, "beta": 0.1}),
        "pFedMe": ("pfedme", {"lr": 0.01, "lr_personal": 0.01, "lam": 15.0}),
        "FedPer": ("fedper", {"lr": 0.001}),
        "LG-FedAvg": ("lgfedavg", {"lr": 0.001}),
        "FedRep": ("fedrep", {"lr": 0.001}),
        "pFedBayes": ("pfedbayes", {"lr_personal": 0.001, "lr_global": 0.001, "zeta": 10.0, "kl_divisor": 20.0}),
        "FedSOUL": ("fedpop", {}),
        "BPFed": ("bpfed", {"lr": 0.001, "lr_copy": 0.001}),
    },
    "lrbpfl": {  # [P B.4]
        "FedAvg": ("fedavg", {"lr": 0.1}),
        "Per-FedAvg": ("perfedavg", {"alpha": 0.01, "beta": 0.01}),
        "FedBE": ("fedbe", {"lr": 0.01}),
        "pFedMe": ("pfedme", {"lr": 0.01, "lr_personal": 0.01, "lam": 15.0}),
        "MetaVD": ("metavd", {}),
        "pFedGP": ("pfedgp", {"lr": 0.05}),
        "pFedBayes": ("pfedbayes", {"lr_personal": 0.001, "lr_global": 0.001, "zeta": 10.0}),
        "LR-BPFL": ("lrbpfl", {"lr": 0.001, "lr_mask": 0.01, "draws": 4}),
        "LR-BPFL w/o ARS": ("lrbpfl", {"lr": 0.001, "lr_mask": 0.01, "draws": 4, "gate": "none", "threshold": None}),
        "LR-BPFL (joint)": ("lrbpfl", {"lr": 0.001, "lr_mask": 0.01, "draws": 4, "w_steps": "joint"}),
    },
    "feduab": {  # [P 5.1]; FedProx's 0.01, and pFedBayes as the paper means it [C]
        "all": ("fedavg", {"lr": 0.05}),
        "FedAvg": ("fedavg", {"lr": 0.05}),
        "FedProx": ("fedprox", {"lr": 0.05, "mu": 0.01}),
        "FedPop": ("fedpop", {"steps": 50}),  # M of Table 1 [P]
        **{
            f"FedUAB-{draws}": (
                "feduab",
                {"lr": 0.05, "draws": draws, "kl_weight": 0.0001, "variance_reduction": 2.0,
                 "aggregation": "conflation", "shared": "all"},
            )
            for draws in (1, 2, 5)
        },
        "pFedBayes": ("feduab", {"lr": 0.05, "draws": 5, "kl_weight": 0.0001, "variance_reduction": 1.0,
                                 "aggregation": "rho", "shared": "all"}),
        "BPFed": ("feduab", {"lr": 0.05, "draws": 5, "kl_weight": 0.0001, "variance_reduction": 1.0, "shared": "body"}),
        "pFedBayes / FedUAB": ("feduab", {"lr": 0.05, "draws": 5, "kl_weight": 0.0001}),
    },
}  # fmt: skip
# Presets whose source is another one than the paper's text, and what that source has instead.
PRESETS: dict[tuple[str, str, str], Expected] = {
    ("pfedbayes", "pFedBayes", "reference"): {"initial_rho": -3.0},  # AllenBeau/pFedBayes, main.py
    ("pfedbayes", "BNFed", "reference"): {"lr": 0.01},  # PFNM's own code
    ("bpfed", "pFedBayes", "bpfed"): {"likelihood": "mean"},  # nn.NLLLoss
    ("bpfed", "pFedBayes", "reference"): {"likelihood": "batch"},
    # Bernie0115/LR-BPFL, pFBModel.py: 0.001, and a likelihood over the number of classes, here ten.
    ("lrbpfl", "pFedBayes", "lrbpfl"): {"lr_personal": 0.0001, "lr_global": 0.0001, "zeta": 1.0},
    ("lrbpfl", "LR-BPFL", "paper"): {"rank": 8, "gate": "sigmoid", "threshold": 0.95},  # [P B.4]
    ("lrbpfl", "LR-BPFL (joint)", "joint"): {"rank": 8, "gate": "sigmoid", "threshold": 0.95},
}
# Methods of which a paper prints one accuracy and means the global model's.
GLOBAL = {("BPFed", "FedAvg"), ("LR-BPFL", "FedAvg"), ("LR-BPFL", "FedBE")}

# The printed letters of Tables 2 and 3 of pFedBayes, by method [P 5.2].
LETTERS: dict[str, dict[str, str]] = {
    "pFedBayes": {"rho": "initial_rho", "zeta": "zeta", "eta1": "lr_personal", "eta2": "lr_global"},
    "pFedMe": {"eta1": "lr_personal", "eta2": "lr", "lambda": "lam"},
    "HeurFedAMP": {"eta1": "lr", "alpha_self": "self_weight"},
    "Per-FedAvg": {"eta1": "alpha"},
    "pFedGP": {"eta1": "lr"},
    "FedAvg": {"eta2": "lr"},
    "FedProx": {"eta2": "lr", "lambda": "mu"},
    "BNFed": {"eta2": "lr"},
}
DATASETS = {"MNIST": "mnist", "FMNIST": "fashion-mnist", "CIFAR-10": "cifar10", "CIFAR-100": "cifar100",
            "CNews": "cnews", "-": "mnist"}  # fmt: skip
# Samples of a class at a client for training and test [P 5.1 of pFedBayes; P V of BPFed].
OF_A_CLASS = {
    ("MNIST", "small"): (50, 950), ("MNIST", "medium"): (200, 800), ("MNIST", "large"): (900, 300),
    ("FMNIST", "small"): (50, 950), ("FMNIST", "medium"): (200, 800), ("FMNIST", "large"): (900, 300),
    ("CIFAR-10", "small"): (25, 475), ("CIFAR-10", "medium"): (100, 400), ("CIFAR-10", "large"): (450, 150),
}  # fmt: skip
# Training samples of a client of FedUAB with all data; with little data it has 50 [P 5.1].
ALL = {"MNIST": 600, "CIFAR-10": 500, "CNews": 500}

# What a variant may do otherwise, and nothing else.
VARIANTS: dict[str, Expected] = {
    "stratified split": {"split.stratified": True},
    "batch 20": {"local.batch": 20},
    "pixels in [0, 1]": {"preprocess.mean": [0.0], "preprocess.std": [1.0]},
    "206,006 weights": {"network.pooled": [True, False]},
    "16 clients": {"split.clients": 16},
    "25 / 450 a class": {"split.train_per_class": 25, "split.test_per_class": 450},
    "475 / 150 a class": {"split.train_per_class": 475, "split.test_per_class": 150},
    "adapted on test data": {"method.adapt_on": "test"},
    "PFLlib's random shares": {"split.holders": "ceil", "split.shares": "random"},
    "PFLlib's slots": {"split.holders": "ceil"},
    "all clients train": {"training.trains": "all"},
    "2 % at the server": {"split.server_share": 0.02},
    "concentrations on a grid": {"split.concentration": "grid"},
    "titles instead of articles": {"dataset": "cnews-titles"},
    "few articles, dealt several times": {"dataset": "cnews-articles"},
    "tested as stored": {"protocol.personal": "trained"},
    "stand-in for proprietary audio, Speech Commands": {"dataset": "wakeword-speech-commands"},
    "stand-in for proprietary audio": {"dataset": "wakeword-fsdd"},
}


def differences(plan: Plan, printed: list[dict[str, str]]) -> list[str]:
    """Every way in which a cell that claims a printed number is not what the paper prints of it."""
    metrics: dict[tuple[str, ...], set[str]] = {}
    for row in printed:
        metrics.setdefault(tuple(row[key] for key in ("paper", "table", "dataset", "setting", "method")), set()).add(
            row["metric"]
        )
    said = []
    for cell in plan.cells:
        name = plan.papers[cell.paper].name
        place = (name, cell.published_table, cell.published_dataset, cell.published_setting, cell.method)
        if place in metrics:
            at = f"{' / '.join(place)} [{cell.experiment}, {cell.preset}, {cell.variant}]"
            said += [f"{at}: {difference}" for difference in _of(cell, name, metrics[place])]
    return list(dict.fromkeys(said))


def _of(cell: Cell, name: str, metrics: set[str]) -> Iterator[str]:
    spec = cell.run.spec
    if cell.method not in METHODS[cell.paper] or cell.experiment not in EXPERIMENTS[cell.paper]:
        yield "printed, but not described here"
        return
    for path, value in expected(cell).items():
        found = _at(spec, path)
        if found != value:
            yield f"{path} is {found!r}, the paper's is {value!r}"
    for metric in sorted(metrics):
        model = meaning_of(metric).model or ("gm" if (name, cell.method) in GLOBAL else "pm")
        tested = spec["protocol"]["models"]
        # Where a paper names no model, the personal one is compared if it was tested.
        chosen = meaning_of(metric).model or ("pm" if "pm" in tested else "gm")
        if model != "cost" and (model not in tested or chosen != model):
            yield f"{metric} is of the model {model!r}, tested are {tested}"


def _at(spec: Mapping[str, Any], path: str) -> Any:
    value: Any = spec
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def expected(cell: Cell) -> Expected:
    """What must stand in the specification of a cell's run."""
    file, fields = METHODS[cell.paper][cell.method]
    fields = {"name": file} | fields | PRESETS.get((cell.paper, cell.method, cell.preset), {})
    found = EXPERIMENTS[cell.paper][cell.experiment].expected()
    found |= {f"method.{key}": value for key, value in fields.items()}
    if file == "perfedavg":
        found["method.adapt_on"] = "train"
    found |= {
        "pfedbayes": _five_labels,
        "bpfed": _five_labels,
        "lrbpfl": _labels_and_share,
        "feduab": _law_and_size,
        "selffl": _audio,
    }[cell.paper](cell)
    return found | variant(cell.variant)


def variant(text: str) -> Expected:
    """What a variant, or several, joined by commas, changes."""
    found: Expected = {}
    for part, changes in VARIANTS.items():
        if part in text:
            text = text.replace(part, "", 1)
            found |= changes
    assert not text.strip(", "), f"a variant that is not described here: {text!r}"
    return found


def _five_labels(cell: Cell) -> Expected:
    """`medium rho=-1 zeta=10`: pFedBayes and BPFed, five of ten labels a client [P 5.1 and V]."""
    size, *letters = cell.published_setting.split()
    train, test = OF_A_CLASS[cell.published_dataset, size]
    found: Expected = {
        "dataset": DATASETS[cell.published_dataset],
        "split.rule": "pfedbayes",
        "split.labels_per_client": 5,
        "split.train_per_class": train,
        "split.test_per_class": test,
        "split.stratified": False,  # [C]
        "preprocess.mean": [0.5] * (3 if cell.published_dataset == "CIFAR-10" else 1),  # [C]
    }
    if cell.method == "BNFed":
        found |= {"preprocess.mean": [0.0] * len(found["preprocess.mean"])}  # PFNM's code
    for letter, value in (text.split("=") for text in letters):
        found[f"method.{LETTERS[cell.method][letter]}"] = float(value)
    if cell.paper == "bpfed":
        found |= _of_bpfeds_code(cell, size)
    return found


def _of_bpfeds_code(cell: Cell, size: str) -> Expected:
    """What run_Exp.sh has for single methods and datasets [C]."""
    found: Expected = {}
    if cell.method in ("BPFed", "pFedBayes") and "-text" not in cell.experiment:
        found["local.batch"] = 100
    if cell.published_dataset == "CIFAR-10":
        found["network.pooled"] = [True, True]
        if cell.method == "FedAvg":
            found["method.lr"] = 0.01
        if cell.method == "Per-FedAvg" and size == "small":
            found |= {"method.alpha": 0.01, "method.beta": 0.5}
    return found


def _labels_and_share(cell: Cell) -> Expected:
    """`5/10 train40%`: labels of a client, labels in all, share of training samples [P 5.1]."""
    found: Expected = {"dataset": DATASETS[cell.published_dataset], "split.rule": "labels"}
    if cell.published_table == "Table1":  # times and sizes; which data is not said
        assert cell.published_setting in ("RTX 4090", "CNN")
        return found
    labels, classes, share = map(int, re.fullmatch(r"(\d+)/(\d+) train(\d+)%", cell.published_setting).groups())  # type: ignore[union-attr]
    assert cell.published_dataset == f"CIFAR-{classes}"
    return found | {
        "split.labels_per_client": labels,
        "split.train_share": share / 100,
        "split.holders": "even",
        "split.shares": "equal",
        "split.server_share": None,
    }


def _law_and_size(cell: Cell) -> Expected:
    """`Small-Dirichlet`: how much a client has, and by which law its labels are drawn [P 5.1]."""
    found: Expected = {"dataset": DATASETS[cell.published_dataset], "split.rule": "feduab"}
    if cell.published_table in ("Table1", "Table4"):  # costs and numbers of weights; how the data are dealt is not said
        assert cell.published_setting in ("complexity factor vs FedAvg", "model")
        return found
    size, law = cell.published_setting.split("-")
    found |= {
        "split.train_per_client": {"All": ALL[cell.published_dataset], "Small": 50}[size],
        "split.test_per_client": 100,
        "split.law": law.lower(),
        "split.concentration": "uniform" if law == "Dirichlet" else None,
    }
    if cell.published_table == "Table8":
        return found | {"protocol.personal": "fine-tuned"}
    return found | {"protocol.gm_tests": "whole"}


def _audio(cell: Cell) -> Expected:
    """`global model, 20 clients, client-level, C=0.25, state alarm, device D`."""
    found: Expected = {"split.rule": "users"}
    state = device = ""
    for part in cell.published_setting.split(", "):
        if share := re.fullmatch(r"C=(0\.\d+)", part):
            found["training.clients_per_round"] = round(20 * float(share[1]))
        elif part == "full participation":
            found["training.clients_per_round"] = 20
        elif named := re.fullmatch(r"(?:state (\w+)|(\w+) state)", part):
            state = named[1] or named[2]
        elif named := re.fullmatch(r"device ([A-E])", part):
            device = named[1]
        elif part == "client-level":
            found["method.clients_per_cluster"] = None
        else:
            assert part in ("global model", "20 clients"), part
    assert cell.published_condition == f"{state}-{device}", "ours is tested elsewhere than printed"
    return found
