"""Reading and writing the artefacts of a run: JSON, tidy tables, tensors.

Whatever is written appears under its name whole or not at all: a temporary neighbour is written, flushed to disk and
renamed. Two writers of the same file (a cluster may start a job twice) therefore leave one complete file.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

# Columns of the tables every run leaves, in order; ARCHITECTURE.md says what each holds.
ROUNDS_COLUMNS = ("round", "model", "condition", "scope", "metric", "value")
VISITS_COLUMNS = ("round", "client", "metric", "value")
EVALUATION_COLUMNS = ("state", "round", "model", "condition", "client", "samples", "metric", "value")
# Rows of an evaluation under this model are what a method tells of each client's state, not tests of a model.
TRAITS = "client"
# Rows under this one are about what a run cost.
COST = "cost"


def followed_model(model: str) -> str:
    """The model that was tested over the rounds, in whose best state a model stands: `pm` for `pm-mean`."""
    return model.split("-")[0]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well, and vanishes when it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    part = Path(name)
    try:
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.chmod(0o644)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write text, whole or not at all."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write JSON a person can read; NaN and Infinity are written as Python's json reads them."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def file_sha256(path: Path) -> str:
    """sha256 of a file's bytes, of which only a piece is in memory at a time."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_rows(path: Path, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write tidy rows as Parquet (without pandas: training jobs need not import it)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: Mapping[str, list[Any]] = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    with replacing(path) as part:
        pq.write_table(pa.table(columns), part)


def write_columns(path: Path, parts: Sequence[Mapping[str, Any]]) -> None:
    """Write a table that comes in parts, each with the same columns as lists or tensors, as Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = [
        pa.table({name: values if isinstance(values, list) else values.cpu().numpy() for name, values in part.items()})
        for part in parts
    ]
    with replacing(path) as part_file:
        pq.write_table(pa.concat_tables(tables), part_file, compression="zstd")


def write_state(path: Path, tensors: Mapping[str, Tensor], about: str = "") -> None:
    """Write named tensors as safetensors: no pickle, the same bytes for the same values.

    Tensors of the same bytes are stored once, under the first of their names: the best state may be the last, or that
    of another model. Which names share one stands in the file's header beside `about`, as one text, because the format
    writes several in an order of its own choosing.
    """
    from safetensors.torch import save_file

    contiguous = {name: tensors[name].detach().cpu().contiguous() for name in sorted(tensors)}
    same = _repeated(contiguous)
    own = _unshared({name: tensor for name, tensor in contiguous.items() if name not in same})
    with replacing(path) as part:
        # From where they lie: the clients of a large federation are gigabytes, and so would be each copy of them.
        save_file(own, part, {"fedbayes": json.dumps({"about": about, "same": same})})


def _unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors, each with memory of its own: two names may hold parts of one, and the format refuses to share."""
    holders = Counter(tensor.untyped_storage().data_ptr() for tensor in tensors.values())
    return {n: t.clone() if holders[t.untyped_storage().data_ptr()] > 1 else t for n, t in tensors.items()}


def _repeated(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Names of tensors whose bytes stand under an earlier name, with that name."""
    import torch

    firsts: dict[tuple[object, ...], list[str]] = {}
    same: dict[str, str] = {}
    for name, tensor in tensors.items():
        raw = tensor.flatten().view(torch.uint8)
        alike = firsts.setdefault((tensor.dtype, tensor.shape, raw[:64].numpy().tobytes()), [])
        found = next((first for first in alike if torch.equal(tensors[first].flatten().view(torch.uint8), raw)), None)
        if found is None:
            alike.append(name)
        else:
            same[name] = found
    return same


def read_state(path: Path) -> dict[str, Tensor]:
    """Read named tensors."""
    from safetensors import safe_open

    text = _header(path).get("__metadata__", {}).get("fedbayes", "")
    same = json.loads(text)["same"] if text.startswith("{") else {}  # older files have `about` alone
    with safe_open(path, framework="pt") as stored:
        names = stored.keys()
        # Cloned, because what is read may be the file itself, which a later checkpoint takes the place of.
        tensors = {name: stored.get_tensor(name).clone() for name in names}
    return tensors | {name: tensors[first] for name, first in same.items()}


def stored_bytes(path: Path) -> dict[str, int]:
    """Bytes of each tensor that a file of named tensors stores; nothing is loaded."""
    entries = {name: entry for name, entry in _header(path).items() if name != "__metadata__"}
    return {name: entry["data_offsets"][1] - entry["data_offsets"][0] for name, entry in entries.items()}


def _header(path: Path) -> dict[str, Any]:
    """The JSON that a safetensors file begins with, behind its length in eight bytes."""
    with path.open("rb") as stream:
        header: dict[str, Any] = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    return header


def write_with(path: Path, writer: Callable[[Path], object]) -> None:
    """Let `writer` fill a temporary path that then takes the name `path`."""
    with replacing(path) as part:
        writer(part)
