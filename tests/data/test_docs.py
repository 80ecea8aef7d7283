"""The page on datasets names every dataset there is."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from fedbayes.data.datasets import READERS

ROOT = Path(__file__).parents[2]


def test_every_dataset_has_facts_a_reader_and_a_place_in_the_docs() -> None:
    facts = yaml.safe_load((ROOT / "config/datasets.yaml").read_text(encoding="utf-8"))
    page = (ROOT / "docs/datasets.md").read_text(encoding="utf-8")
    assert set(facts) == set(READERS)
    assert set(facts) <= set(re.findall(r"`([a-z0-9-]+)`", page))
