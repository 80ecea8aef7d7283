"""A run's specification, its data and its split as a federation ready to start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedbayes.config import Execution
from fedbayes.data.fetch import Dataset, load
from fedbayes.data.shift_files import shifted
from fedbayes.data.splits import dataset_samples, read_server_samples, read_split_of
from fedbayes.federation.contract import Feed, Method
from fedbayes.federation.feed import steps_in
from fedbayes.federation.inputs import (
    Prepare,
    as_stored,
    crop_and_flip,
    look_up_vectors,
    normalise,
    standardise_pixelwise,
)
from fedbayes.federation.lifting import Lifting, choose_compiled, choose_lift
from fedbayes.federation.loop import Federation
from fedbayes.federation.memory import keep_freed_memory
from fedbayes.federation.protocols import for_newcomers, under_protocol
from fedbayes.federation.resident import Resident, Truth, lay_out
from fedbayes.methods import load_method
from fedbayes.models import load_network
from fedbayes.models.network import Network
from fedbayes.reading import ConfigError
from fedbayes.runs.provenance import split_record
from fedbayes.runs.warm_start import warm_started
from fedbayes.shifts import NoisyClients
from fedbayes.split_rules import split_of


def assemble(
    spec: dict[str, Any],
    dataset_folder: Path,
    split_file: Path,
    split_sha256: str | None,
    execution: Execution,
    shift_file: Path | None = None,
    start_file: Path | None = None,
) -> Federation:
    """The federation of a run on the device of `execution`, as `devices.claimed` gives it.

    Args:
        spec: everything that changes the run's numbers.
        dataset_folder: arrays written by `fetch`.
        split_file: index arrays written by `partition`.
        split_sha256: digest the split must have (config/splits.csv); None for a user's own split.
        execution: device and lifting.
        shift_file: samples written by `corrupt`; None for a run without a shift.
        start_file: state of the run whose global weights this one begins with; None for initial ones.
    """
    keep_freed_memory()
    device = torch.device(execution.device)
    if device.type == "cuda":
        # What names no device (compiled kernels, libraries) would otherwise be put on GPU 0, which is another job's.
        torch.cuda.set_device(device)
    check_split(split_file, split_sha256)
    data = resident(spec, dataset_folder, split_file, shift_file, device)
    check_tokens(spec, data)
    split = split_of(spec["split"])
    newcomers, replicates = split.held_out(), split.replicates
    asked, trained = spec["training"]["clients_per_round"], data.population // replicates - len(newcomers)
    if asked > trained:
        raise ConfigError(f"training.clients_per_round: found {asked}; the split has {trained} clients that train")
    network = load_network(*_named(spec["network"]), data.shape, data.classes)
    if ("warm_start" in spec) != (start_file is not None):
        raise ValueError("a warm-started run needs the state it begins with, and no other run may have one")
    if start_file is not None:
        network = warm_started(network, start_file)
    protocol = spec["protocol"]
    method = load_method(*_named(spec["method"]), network)
    method = for_newcomers(method, protocol.get("newcomer"))
    method = under_protocol(method, protocol.get("personal"), protocol.get("adapt_batches"))
    return Federation(
        method=method,
        data=data,
        feed=Feed(**spec["local"]),
        seed=spec["seed"],
        clients_per_round=spec["training"]["clients_per_round"],
        trains=spec["training"]["trains"],
        lifting=choose_lifting(spec, method, network, data, execution),
        newcomers=newcomers,
        newcomer_visits=protocol.get("newcomer_visits", 1),
        replicates=replicates,
    )


def choose_lifting(
    spec: dict[str, Any], method: Method, network: Network, data: Resident, execution: Execution
) -> Lifting:
    """How this run's clients are lifted: the written rules, or what the user asks for and the method allows."""
    kind = execution.lift
    if kind == "auto" or not method.traceable:
        kind = choose_lift(method, network.kind, data.device)
    steps = steps_in(Feed(**spec["local"]), int(data.train.sizes.max())) * int(spec["training"]["rounds"])
    if execution.compile == "auto":
        return Lifting(kind, choose_compiled(kind, steps, data.device), execution.chunk)
    return Lifting(kind, execution.compile and kind == "vmap", execution.chunk)


def resident(
    spec: dict[str, Any], dataset_folder: Path, split_file: Path, shift_file: Path | None, device: torch.device
) -> Resident:
    """The dataset on the device, shifted where the run says so, with the rows of every client."""
    dataset = load(dataset_folder)
    indices, server = read_split_of(dataset, split_file), read_server_samples(split_file)
    inputs = dataset.inputs
    if ("shift" in spec) != (shift_file is not None):
        raise ValueError("a run with a shift needs its file, and no other run may have one")
    if shift_file is not None:
        shift = NoisyClients.model_validate(spec["shift"])
        inputs = shifted(dataset, split_file, shift, spec["seed"], shift_file)
    # What the server has seen is not tested on.
    tests_whole = spec["protocol"].get("gm_tests") == "whole"
    return lay_out(
        inputs,
        dataset.labels,
        indices.train,
        indices.test,
        classes=len(dataset.manifest["per_class"]),
        prepare=prepared(spec["preprocess"], dataset),
        device=device,
        augment=crop_and_flip if spec["preprocess"].get("augment") else None,
        whole=np.setdiff1d(dataset_samples(dataset).rows("test"), server) if tests_whole else None,
        server=server if len(server) else None,
        truth=known_truth(spec, dataset, len(indices.train), device),
    )


def known_truth(spec: dict[str, Any], dataset: Dataset, clients: int, device: torch.device) -> Truth | None:
    """What estimates are held against: the true means and the posterior means that a dataset of a known law has.

    Such a dataset goes with the rule `repeats`, by which client k is its user k, and with no other.
    """
    known, rule, name = "theta" in dataset.tables, spec["split"]["rule"], dataset.manifest["name"]
    if known != (rule == "repeats"):
        what = "needs the rule 'repeats'" if known else "has no truth to hold estimates against"
        raise ConfigError(f"split.rule: found {rule!r}, but {name!r} {what}")
    if not known:
        return None

    def first(table: str, count: int) -> Tensor:
        return torch.from_numpy(dataset.tables[table][:count]).to(device)

    repeats = spec["split"]["repeats"]
    return Truth(
        personal={"error": first("theta", clients), "distance": first("theta_fl", clients)},
        common={"error": first("theta0", repeats), "distance": first("theta_g", repeats)},
    )


def prepared(preprocess: dict[str, Any], dataset: Dataset) -> Prepare:
    """How stored values of a dataset become network inputs."""
    kind = preprocess.get("kind", "channels")
    if kind == "channels":
        return normalise(preprocess["mean"], preprocess["std"], torch.float32)
    if kind == "pixelwise":
        return standardise_pixelwise(torch.from_numpy(np.array(dataset.inputs)), torch.float32)
    if kind == "vectors":
        if "vectors" not in dataset.tables:
            name = dataset.manifest["name"]
            raise ConfigError(f"preprocess.kind: 'vectors' needs a dataset with word vectors; {name!r} has none")
        return look_up_vectors(torch.from_numpy(dataset.tables["vectors"]))
    return as_stored


def check_tokens(spec: dict[str, Any], data: Resident) -> None:
    """Refuse tokens beyond the network's table of word vectors."""
    rows = spec["network"].get("vocabulary")
    if rows is not None and int(data.inputs.max()) >= rows:
        raise ConfigError(
            f"network {spec['network']['name']}: vocabulary: found {rows}; {spec['dataset']!r} has tokens up to "
            f"{int(data.inputs.max())} and needs at least one row more"
        )


def check_split(file: Path, committed: str | None) -> None:
    """Refuse a committed split whose file holds something else, however it got there."""
    found = split_record(file)["sha256"]
    if committed is not None and found != committed:
        raise ConfigError(
            f"config/splits.csv: {file}: expected a split with sha256 {committed}, found {found}; delete the file to "
            "have it made again, or run 'dvc pull'"
        )


def _named(choice: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """`{"name": "mlp", "hidden": [100]}` as the name and the other fields."""
    return choice["name"], {key: value for key, value in choice.items() if key != "name"}
