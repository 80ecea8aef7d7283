"""Code digests: what re-runs after an edit, and what does not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fedbayes import codedigest
from fedbayes.codedigest import code_digest, engine_numerics


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package whose files a test may edit."""
    copy = tmp_path / "fedbayes"
    shutil.copytree(codedigest.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(codedigest, "PACKAGE", copy)
    forget()
    yield copy
    forget()


def forget() -> None:
    for cached in (codedigest._imports, codedigest._bare_source, codedigest.engine_numerics):
        cached.cache_clear()


def changes(package: Path, file: str, old: str, new: str, *modules: str) -> bool:
    """Whether an edit changes the digest of some modules."""
    before = code_digest(*modules)
    path = package / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    forget()
    return code_digest(*modules) != before


def test_comments_docstrings_and_layout_do_not_count(package: Path) -> None:
    assert not changes(package, "methods/fedavg.py", "Idea: clients", "Idea: some clients", "methods.fedavg")
    assert not changes(package, "methods/fedprox.py", "Idea: ", "Idea: here ", "methods.fedprox")
    assert not changes(package, "methods/fedprox.py", "    join=join,\n", "    join = join,\n", "methods.fedprox")


def test_code_counts(package: Path) -> None:
    assert changes(
        package,
        "methods/fedprox.py",
        "work.centre, work.meter.add(loss)",
        "work.centre, work.meter.add(2 * loss)",
        "methods.fedprox",
    )


def test_what_a_method_imports_counts_and_the_engine_does_not(package: Path) -> None:
    assert changes(package, "optim.py", "- lr *", "- 2 * lr *", "methods.fedavg")
    assert changes(package, "parts/weights.py", "self.steps + 1", "self.steps + 2", "methods.fedavg")
    assert changes(package, "bayes/layers.py", "return op(x", "return 2 * op(x", "methods.fedavg")
    assert not changes(package, "federation/feed.py", "wanted = steps", "wanted = 1 * steps", "methods.fedavg")
    assert not changes(package, "models/mlp.py", "F.relu", "F.gelu", "methods.fedavg")


def test_a_plot_does_not_touch_the_tables(package: Path) -> None:
    figures = package / "analysis/figures/lines.py"
    before = code_digest("analysis.figures"), code_digest("analysis.tables")
    figures.write_text(figures.read_text() + "\nEXTRA = 1\n")
    forget()
    assert code_digest("analysis.figures") != before[0] and code_digest("analysis.tables") == before[1]


def test_templates_count_with_their_text(package: Path) -> None:
    assert changes(package, "analysis/templates/report.html", "<", "<!-- x --><", "analysis.templates")


def test_the_engines_number_is_read_without_importing_it(package: Path) -> None:
    init = package / "federation/__init__.py"
    init.write_text(init.read_text().replace("NUMERICS = ", "NUMERICS = 9"))
    forget()
    assert engine_numerics() >= 90
