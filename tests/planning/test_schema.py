"""Generated and duplicated files are in step with what they are made from. `make schema` and `make lock` renew them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

from artefacts import ROOT
from fedbayes import schema

PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;@]+)$")


def locked() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = [PIN.match(line) for line in lines if line and not line.startswith("#")]
    assert all(pins), "every line of requirements.lock is name==version"
    return {re.sub(r"[-_.]+", "-", pin[1]).lower(): pin[2] for pin in pins if pin}


def test_schema_is_in_step_with_the_models() -> None:
    assert (ROOT / "config/schema.json").read_text() == schema.text(), "run 'make schema'"


def test_the_lock_has_no_addresses_and_everything_the_project_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = locked()
    for wanted in [*project["dependencies"], *project["optional-dependencies"]["dev"]]:
        name = re.split(r"[=<>~]", wanted)[0].lower()
        assert name in pins, f"{wanted} is not in requirements.lock: run 'make lock'"
        if "==" in wanted:
            assert pins[name] == wanted.split("==")[1]
    assert not [name for name in pins if name.startswith(("nvidia", "triton", "cuda"))]


def test_the_torch_pair_is_pinned_together() -> None:
    assert (locked()["torch"], locked()["torchvision"]) == ("2.13.0", "0.28.0")


def test_conda_users_get_the_locked_environment() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python = next(d for d in environment["dependencies"] if isinstance(d, str) and d.startswith("python="))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert python == "python=3.11" and ">=3.11" in project["requires-python"]
    (by_pip,) = [d["pip"] for d in environment["dependencies"] if isinstance(d, dict)]
    assert by_pip == ["-r requirements.lock", "-e ."]
    # Nothing but Python and tools comes from conda, so the lock decides every version.
    others = {re.split("=", d)[0] for d in environment["dependencies"] if isinstance(d, str)}
    assert others == {"python", "pip", "make"}


def test_pip_can_read_what_conda_hands_to_it(tmp_path: Path) -> None:
    """Conda writes the pip section into a requirements file beside environment.yml; pip's own parser must take it."""
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    (by_pip,) = [d["pip"] for d in environment["dependencies"] if isinstance(d, dict)]
    shutil.copy(ROOT / "requirements.lock", tmp_path)
    (tmp_path / "condaenv.txt").write_text("\n".join(by_pip))
    # In a process of its own: pip replaces parts of the standard library that torch's compiler needs.
    code = (
        "from pip._internal.network.session import PipSession;"
        "from pip._internal.req.req_file import parse_requirements;"
        "lines = list(parse_requirements('condaenv.txt', session=PipSession()));"
        "print(len(lines), lines[-1].is_editable)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(len(locked()) + 1), "True"]


def test_every_method_has_its_presets_file() -> None:
    methods = {path.stem for path in (ROOT / "src/fedbayes/methods").glob("[!_]*.py")}
    assert methods == {path.stem for path in (ROOT / "config/methods").glob("*.yaml")}
