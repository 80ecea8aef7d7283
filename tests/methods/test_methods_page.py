"""The page on methods names every method, its file and its presets."""

from __future__ import annotations

from test_contract import METHODS, presets

from artefacts import ROOT

PAGE = (ROOT / "docs/methods.md").read_text(encoding="utf-8")


def test_every_method_and_preset_has_a_place_in_the_docs() -> None:
    for method in METHODS:
        row = next(line for line in PAGE.splitlines() if line.split(" | ")[1:2] == [f"`{method}`"])
        for preset in presets(method):
            assert preset in ("paper", "reference") or f"`{preset}`" in row, f"{method}: {preset}"
