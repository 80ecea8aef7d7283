"""A run: one training job, whose name is the digest of everything that changes its numbers, and of nothing else."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fedbayes.codedigest import code_digest, engine_numerics
from fedbayes.shifts import NoisyClients
from fedbayes.split_rules import Split, split_name, split_of


def digest(spec: object) -> str:
    """12 hex digits of the sha256 of canonical JSON."""
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Run:
    """One training job, named by what changes its numbers."""

    spec: dict[str, Any] = field(hash=False)

    @cached_property
    def id(self) -> str:
        """12 hex digits of the sha256 of the canonical JSON of `spec`."""
        return digest(self.spec)

    @property
    def dataset(self) -> str:
        """Name of the dataset that really runs."""
        return str(self.spec["dataset"])

    @property
    def method(self) -> str:
        """File name of the method."""
        return str(self.spec["method"]["name"])

    @property
    def folder(self) -> str:
        """Where the run's artefacts are."""
        return f"results/runs/{self.dataset}/{self.method}/{self.id}"

    @property
    def split(self) -> Split:
        """The split specification as a record."""
        return split_of(self.spec["split"])

    @property
    def split_stem(self) -> str:
        """`<dataset>/<split>/seed<k>`: where the split's index arrays are, below its root."""
        return f"{self.dataset}/{split_name(self.split)}/seed{self.spec['seed']}"

    @property
    def shift_file(self) -> str | None:
        """Where the shifted samples are; None for a run without a shift."""
        if "shift" not in self.spec:
            return None
        shift = NoisyClients.model_validate(self.spec["shift"])
        return f"results/shifts/{self.dataset}/{split_name(self.split)}/{shift.name}/seed{self.spec['seed']}.npz"

    @property
    def warm_start(self) -> str | None:
        """The run whose global weights this one begins with; None for a run from initial ones."""
        return self.spec.get("warm_start")

    @property
    def code(self) -> str:
        """Digest of the code that makes this run's numbers (the engine by its NUMERICS)."""
        own = code_digest(f"methods.{self.method}", f"models.{self.spec['network']['name']}")
        return f"{own}-engine{engine_numerics()}"
