"""Digests of the source code that makes a number, so that an edit re-runs what it changes and nothing else.

A digest covers a module and every `fedbayes` module it imports, except the engine and the readers and writers of
files, with comments, docstrings and formatting stripped. The engine answers for itself with the integer `NUMERICS` in
`federation/__init__.py`, raised by hand when its results change: a faster engine must not re-train a campaign.
"""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent

# Rooms that change no number by themselves, or answer for themselves by NUMERICS.
UNCOUNTED = {"federation", "io", "plan", "config", "record", "reading", "codedigest"}


def code_digest(*modules: str) -> str:
    """Twelve hex digits for modules named inside the package (`methods.fedavg`) and all they import.

    A folder that is not a package (`analysis.templates`) counts with the text of its files.
    """
    todo, seen = list(modules), set()
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo.extend(_imports(name))
    text = "\n".join(f"# {name}\n{_bare_source(name)}" for name in sorted(seen))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def engine_numerics() -> int:
    """The engine's `NUMERICS`, read without importing torch."""
    for node in ast.parse((PACKAGE / "federation" / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "NUMERICS":
            value = ast.literal_eval(node.value)
            assert isinstance(value, int)
            return value
    raise LookupError("federation/__init__.py does not assign NUMERICS")


def _file(module: str) -> Path:
    path = PACKAGE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _is_plain_folder(module: str) -> bool:
    return _file(module).name == "__init__.py" and not _file(module).exists()


@cache
def _imports(module: str) -> tuple[str, ...]:
    """Counted modules of the package that a module imports anywhere in its text."""
    if _is_plain_folder(module):
        return ()
    names: set[str] = set()
    for node in ast.walk(ast.parse(_file(module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    inside = {name.removeprefix("fedbayes.") for name in names if name.startswith("fedbayes.")}
    return tuple(sorted(n for n in inside if n.split(".")[0] not in UNCOUNTED and _file(n).is_file()))


@cache
def _bare_source(module: str) -> str:
    """The module's code without comments, docstrings and formatting."""
    if _is_plain_folder(module):
        return "\n".join(file.read_text(encoding="utf-8") for file in sorted(_file(module).parent.iterdir()))
    tree = ast.parse(_file(module).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(
            node, clean=False
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
