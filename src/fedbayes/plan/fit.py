"""Whether what a cell is made of fits together: data, split, participation, rounds, tests and the method's needs."""

from __future__ import annotations

from typing import Any

from fedbayes.config import DatasetFacts, Protocol, Training
from fedbayes.plan.known import Known
from fedbayes.plan.where import Where
from fedbayes.reading import complain
from fedbayes.split_rules import Split


def check_fit(where: Where, split: Split, dataset: str, facts: DatasetFacts, sections: dict[str, Any]) -> None:
    """The split fits the data, the participation fits the split and the window fits the rounds."""
    objection = split.objection(facts)
    if objection:
        raise complain(where.file, f"{where} / split", f"cannot be made from {dataset!r}: {objection}")
    training, protocol = sections["training"], sections["protocol"]
    _check_participation(where, split, training)
    _check_tested_rounds(where, training, protocol)
    if protocol.gm_tests == "whole" and facts.test_per_class is None:
        found = f"found 'whole', but {dataset!r} has no test part of its own"
        raise complain(where.file, f"{where} / protocol.gm_tests", found)


def _check_participation(where: Where, split: Split, training: Training) -> None:
    """No more clients are chosen than train in a federation."""
    trained = None if split.population is None else split.population // split.replicates - len(split.held_out())
    if trained is not None and training.clients_per_round > trained:
        raise complain(
            where.file,
            f"{where} / training.clients_per_round",
            f"found {training.clients_per_round}; allowed: at most the {trained} clients of the split that train",
        )


def _check_tested_rounds(where: Where, training: Training, protocol: Protocol) -> None:
    """The window lies within the rounds and has a test of every model, and rounds that are kept are reached."""
    first, last = protocol.window
    if not 0 <= first <= last <= training.rounds:
        raise complain(
            where.file,
            f"{where} / protocol.window",
            f"found [{first}, {last}]; allowed: 0 <= first <= last <= {training.rounds} (training.rounds)",
        )
    for model in protocol.models:
        key = "pm_every" if model == "pm" and protocol.pm_every else "every"
        every = getattr(protocol, key)
        if last < training.rounds and not any(r % every == 0 for r in range(first, last + 1)):
            found = f"no round of [{first}, {last}] is tested: protocol.{key} is {every}"
            raise complain(where.file, f"{where} / protocol.window", found)
    if late := [round_ for round_ in protocol.keep if round_ > training.rounds]:
        found = f"found {late[0]}; allowed: at most {training.rounds} (training.rounds)"
        raise complain(where.file, f"{where} / protocol.keep", found)


def check_needs(known: Known, where: Where, split: Split) -> None:
    """The split has what the method cannot do without, such as samples of the server's own."""
    method = where.method_entry.method
    needed = known.schema["methods"][method].get("needs")
    if needed and not getattr(split, needed):
        found = f"found {getattr(split, needed)}; the method {method} needs more than that"
        raise complain(where.file, f"{where} / split.{needed}", found)
