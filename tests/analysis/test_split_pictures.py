"""Pictures of client splits: the numbers behind them, what is marked and said, and the same bytes twice."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.patches import Rectangle, StepPatch

from fedbayes.analysis.client_splits import ClientSplit, Words, label_counts, read_client_split
from fedbayes.analysis.drawing import STYLE, Drawn, caption_of
from fedbayes.analysis.split_pictures import MOST_HEIGHT, TINTS, draw_split, lightness, split_picture, ticks
from fedbayes.data.splits import make_split
from fedbayes.io import write_json
from fedbayes.reading import ConfigError
from fedbayes.split_rules import split_of
from fetched import write_dataset

WORDS = Words(["MNIST small", "MNIST small, batch 20"], "MNIST-5k", "MNIST", "smoke")
FEW = {"rule": "pfedbayes", "clients": 10, "labels_per_client": 5, "train_per_class": 4, "test_per_class": 3}
FEW |= {"stratified": False, "newcomers": [2, 8, 9], "validation": 0.25}
MANY = {"rule": "power-law", "clients": 1000, "labels_per_client": 2, "sizes": "shares", "mu": 0.0, "sigma": 2.0}
MANY |= {"least": 2, "train_share": 0.8}


def write_split(folder: Path, split: dict[str, Any], per_class: list[int]) -> tuple[Path, Path]:
    """A fetched dataset with labels in a mixed order, and a split of it."""
    labels = np.concatenate([np.full(count, label) for label, count in enumerate(per_class)])
    labels = labels[np.argsort(np.arange(len(labels)) * 7919 % len(labels), kind="stable")]
    write_dataset(folder, np.zeros((len(labels), 1), np.uint8), labels)
    make_split(folder, split_of(split), 3, folder / "seed3.npz", None)
    return folder / "seed3.npz", folder


def split_in(folder: Path, split: dict[str, Any], per_class: list[int]) -> ClientSplit:
    return read_client_split(*write_split(folder, split, per_class))


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> ClientSplit:
    """10 clients x 10 labels; three clients are newcomers."""
    return split_in(tmp_path_factory.mktemp("few"), FEW, [50] * 10)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> ClientSplit:
    """1,000 clients x 10 labels, a few of them far larger than the others."""
    return split_in(tmp_path_factory.mktemp("many"), MANY, [2000] * 10)


def draw(split: ClientSplit) -> Drawn:
    with mpl.rc_context(STYLE):
        return draw_split(split, WORDS)


def panels(split: ClientSplit) -> tuple[Axes, Axes, Axes]:
    """Heat map, bars and colour bar."""
    heat, bars, colours = draw(split).figure.axes
    return heat, bars, colours


def numbers(heat: Axes) -> dict[tuple[int, int], int]:
    """What stands in the cells, by client and label."""
    return {(round(t.get_position()[1]), round(t.get_position()[0])): int(t.get_text()) for t in heat.texts}


@given(st.lists(st.lists(st.integers(0, 29)), min_size=1), st.lists(st.integers(0, 4), min_size=30, max_size=30))
def test_counts_are_those_of_a_plain_loop(positions: list[list[int]], labels: list[int]) -> None:
    expected = [[0] * 6 for _ in positions]
    for client, own in enumerate(positions):
        for position in own:
            expected[client][labels[position]] += 1
    indices = [np.array(own, np.int64) for own in positions]
    assert label_counts(indices, np.array(labels), classes=6).tolist() == expected


def test_a_split_file_gives_counts_sizes_and_newcomers(few: ClientSplit) -> None:
    assert few.counts.shape == (10, 10) and few.newcomers == (2, 8, 9)
    # 5 labels x 4 samples, a quarter of them set aside.
    assert {part: set(sizes) for part, sizes in few.sizes.items()} == {
        "training": {15},
        "validation": {5},
        "test": {15},
    }
    np.testing.assert_array_equal(few.counts.sum(axis=1), few.sizes["training"])
    holders = {tuple(np.flatnonzero(row)) for row in few.counts}
    assert all(set(labels) <= set(range(5)) or set(labels) <= set(range(5, 10)) for labels in holders)


def test_every_cell_of_a_small_picture_holds_its_number(few: ClientSplit) -> None:
    heat, _, _ = panels(few)
    assert numbers(heat) == {place: amount for place, amount in np.ndenumerate(few.counts) if amount}
    assert heat.get_images()[0].get_array().tolist() == few.counts.tolist()
    top, bottom = heat.get_ylim()
    assert top > bottom, "client 0 is at the top"


def test_bars_are_training_validation_and_test_one_behind_the_other(few: ClientSplit, many: ClientSplit) -> None:
    for split, step in ((few, 2), (many, 1)):
        _, bars, _ = panels(split)
        drawn = [patch.get_data() for patch in bars.patches if isinstance(patch, StepPatch)]
        end = np.zeros(len(split.counts))
        for sizes, (ends, _, starts) in zip(split.sizes.values(), drawn, strict=True):
            np.testing.assert_array_equal(np.asarray(starts)[::step], end)
            np.testing.assert_array_equal(np.asarray(ends)[::step], end + sizes)
            end += sizes


def test_newcomers_are_marked_on_the_client_axis(few: ClientSplit) -> None:
    drawn = draw(few).figure
    strips = [patch for patch in drawn.axes[0].patches if isinstance(patch, Rectangle)]
    rows = [(strip.get_y(), strip.get_y() + strip.get_height()) for strip in strips]
    assert rows == [(1.5, 2.5), (7.5, 9.5)] and all(strip.get_x() < 0 for strip in strips)
    (legend,) = drawn.legends
    assert [text.get_text() for text in legend.texts] == [
        "training",
        "validation",
        "test",
        "newcomer, held out of training",
    ]


def test_one_newcomer_among_1000_is_still_seen(many: ClientSplit) -> None:
    split = ClientSplit(many.counts, many.sizes, (500,), many.manifest)
    (strip,) = panels(split)[0].patches
    assert strip.get_height() > 4 and strip.get_y() + strip.get_height() / 2 == pytest.approx(500)


def test_without_newcomers_and_validation_there_is_no_word_of_them(many: ClientSplit) -> None:
    drawn = draw(many)
    (legend,) = drawn.figure.legends
    assert [text.get_text() for text in legend.texts] == ["training", "test"]
    assert not drawn.figure.axes[0].patches and "held out" not in drawn.caption
    assert "has for training and test. " in drawn.caption


def test_1000_clients_are_drawn_quickly_on_one_page(many: ClientSplit, tmp_path: Path) -> None:
    before = time.process_time()
    drawn = draw(many).figure
    drawn.savefig(tmp_path / "many.png")
    assert time.process_time() - before < 2
    heat, _, colours = drawn.axes
    assert drawn.get_figheight() < MOST_HEIGHT + 2 and numbers(heat) == {}
    assert list(heat.get_yticks())[:2] == [0, 50] and len(heat.get_yticks()) == 20
    assert isinstance(heat.get_images()[0].norm, LogNorm) and "log scale" in colours.get_ylabel()
    assert colours.get_yticks().min() == 1


@pytest.mark.parametrize(
    ("amount", "inches", "expected"),
    [(3, 0.44, [0, 1, 2]), (1, 2.0, [0]), (50, 0.15, list(range(0, 50, 2))), (1000, 0.0075, list(range(0, 1000, 50)))],
)
def test_tick_labels_never_touch(amount: int, inches: float, expected: list[int]) -> None:
    assert ticks(amount, inches) == expected


def test_one_label_and_one_client(tmp_path: Path) -> None:
    split = split_in(tmp_path, {"rule": "iid", "clients": 1, "train_share": 0.5}, [7])
    heat, _, _ = panels(split)
    assert numbers(heat) == {(0, 0): 3}
    assert (list(heat.get_xticks()), list(heat.get_yticks())) == ([0], [0])


def test_tints_darken_evenly_in_print_without_colour_and_zero_is_white() -> None:
    shades = lightness(TINTS(np.linspace(0, 1, 50)))
    assert np.all(np.diff(shades) < 0) and shades[0] < 0.9 and shades[-1] < 0.3
    assert TINTS(-0.01) == (1.0, 1.0, 1.0, 1.0)


def test_axes_and_colours_are_labelled(few: ClientSplit) -> None:
    heat, bars, colours = panels(few)
    assert (heat.get_xlabel(), heat.get_ylabel()) == ("label", "client")
    assert (bars.get_xlabel(), colours.get_ylabel()) == ("samples of the client", "training samples (white: none)")


def test_the_picture_and_its_caption_say_what_it_is(tmp_path: Path) -> None:
    files = write_split(tmp_path, FEW, [50] * 10)
    split_picture(*files, WORDS, tmp_path / "small.svg", tmp_path / "small.png")
    caption = caption_of(tmp_path / "small.svg")
    said = [
        "MNIST-5k (stands in for MNIST), scale smoke; rule pfedbayes, seed 3; "
        "10 clients, 3 of them held out of training",
        "Training samples of a client: least 15, median 15, most 15",
        "Also the split of: MNIST small, batch 20",
    ]
    rule = "clients 10, labels_per_client 5, stratified False, test_per_class 3, train_per_class 4, validation 0.25"
    assert caption.startswith("Client split of MNIST small. ") and "has for training, validation and test. " in caption
    assert caption.endswith(f"{'. '.join(said)}. Rule: pfedbayes ({rule}).")
    title, below = (text.get_text() for text in draw(read_client_split(*files)).figure.texts)
    assert title == "MNIST small" and below.replace("\n", " ") == " ".join(said)


def test_a_split_inside_a_split_is_told_with_both_rules(few: ClientSplit) -> None:
    part = {"rule": "iid", "clients": 5, "train_share": 0.5}
    joined = split_of({"rule": "joined", "trained": part | {"pool": "train"}, "new": part | {"pool": "test"}})
    split = ClientSplit(few.counts, few.sizes, (), few.manifest | {"split": joined.model_dump(mode="json")})
    assert (
        "Rule: joined (trained iid (clients 5, train_share 0.5, pool train), "
        "new iid (clients 5, train_share 0.5, pool test))."
    ) in draw(split).caption


def test_the_same_split_gives_the_same_bytes(tmp_path: Path) -> None:
    files = write_split(tmp_path, FEW, [50] * 10)
    for folder in ("a", "b"):
        split_picture(*files, WORDS, tmp_path / folder / "small.svg", tmp_path / folder / "small.png")
    for name in ("small.svg", "small.png"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
        assert (tmp_path / "a" / name).stat().st_size > 5_000


def test_a_split_of_another_version_of_the_dataset_is_refused(tmp_path: Path) -> None:
    file, folder = write_split(tmp_path, FEW, [50] * 10)
    write_json(folder / "manifest.json", {"sha256": "cd" * 32, "per_class": [50] * 10})
    with pytest.raises(ConfigError, match=r"seed3\.npz: made for another version of the dataset 'toy'; make it again"):
        split_picture(file, folder, WORDS, tmp_path / "small.svg", tmp_path / "small.png")
    assert not (tmp_path / "small.svg").exists()
