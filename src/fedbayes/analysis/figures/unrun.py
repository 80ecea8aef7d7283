"""What a figure should show and this scale did not run, in one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import pandas as pd

# A method with one of its presets.
Item = tuple[str, str]


def not_run(ran: pd.DataFrame, planned: pd.DataFrame, titles: Mapping[str, str]) -> str:
    """`Not run at this scale: BNFed, pFedMe (reference); MNIST large; on MNIST small: pFedGP.`; empty if all ran.

    First what ran nowhere, then settings in which nothing of the rest ran, then what ran in other settings only.

    Args:
        ran: the figure's cells that ran: columns setting, method, preset.
        planned: its cells at scale paper.
        titles: titles of settings by name.
    """
    done, every = _places(ran), _places(planned)
    somewhere = {item for _, item in done}
    nowhere = [item for _, item in every if item not in somewhere]
    left = [(setting, item) for setting, item in every if item in somewhere and (setting, item) not in done]
    reached = {setting for setting, _ in done}
    empty = dict.fromkeys(titles[setting] for setting, _ in left if setting not in reached)
    items = list(dict.fromkeys(item for _, item in every))
    # Settings that lack the same are named together.
    lacking: dict[str, list[str]] = {}
    for setting in dict.fromkeys(setting for setting, _ in left if setting in reached):
        there = [item for place, item in every if place == setting]
        lacking.setdefault(_names([item for place, item in left if place == setting], there), []).append(
            titles[setting]
        )
    parts = [_names(nowhere, items)] if nowhere else []
    parts += [
        *_together(empty),
        *(f"{' and '.join(f'on {title}' for title in found)}: {m}" for m, found in lacking.items()),
    ]
    return f"Not run at this scale: {'; '.join(parts)}." if parts else ""


def _places(cells: pd.DataFrame) -> dict[tuple[str, Item], None]:
    """Settings with their methods and presets, each once, in order."""
    rows = cells[["setting", "method", "preset"]].itertuples(index=False)
    return dict.fromkeys((setting, (method, preset)) for setting, method, preset in rows)


def _names(missing: list[Item], every: list[Item]) -> str:
    """Methods one after another; with their presets where only some of `every` are missing."""
    whole = {method for method, _ in missing} - {method for method, preset in every if (method, preset) not in missing}
    names = (method if method in whole else f"{method} ({preset})" for method, preset in missing)
    return ", ".join(dict.fromkeys(names))


def _together(titles: Iterable[str]) -> list[str]:
    """`new clients, alpha 0.5` and `new clients, alpha 1` as `new clients, alpha 0.5, 1`."""
    ends: dict[str, list[str]] = {}
    for title in titles:
        found = re.fullmatch(r"(.* )([0-9.]+)", title)
        start, end = found.groups() if found else (title, "")
        ends.setdefault(start, []).append(end)
    return [start + ", ".join(own) for start, own in ends.items()]
