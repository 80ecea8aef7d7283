"""Batches: what a plain loader would have given."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedbayes.federation.contract import Feed
from fedbayes.federation.feed import aligned, positions, steps_in, width


def real(places: torch.Tensor, mask: torch.Tensor) -> list[list[int]]:
    """Batches without their padding."""
    return [row[m > 0].tolist() for row, m in zip(places, mask, strict=True)]


def test_cyclic_goes_on_across_rounds_like_an_unshuffled_loader() -> None:
    loader = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    feed = Feed(batch=4, amount=5)
    first = real(*positions(feed, 10, 5, 4, seen=0, key=1))
    second = real(*positions(feed, 10, 5, 4, seen=5, key=2))
    assert first + second == [loader[i % 3] for i in range(10)]


@given(st.integers(1, 30), st.integers(1, 12), st.integers(1, 3), st.integers(0, 1000))
def test_shuffled_epochs_cover_the_data_exactly(size: int, batch: int, epochs: int, key: int) -> None:
    feed = Feed(batch, epochs, "epochs", "shuffled")
    steps, columns = steps_in(feed, size), width(feed, 40)
    batches = real(*positions(feed, size, steps, columns, 0, key))
    per_epoch = steps // epochs
    for epoch in range(epochs):
        seen = [place for own in batches[epoch * per_epoch : (epoch + 1) * per_epoch] for place in own]
        assert sorted(seen) == list(range(size))


@given(
    st.integers(1, 30), st.integers(1, 12), st.sampled_from(["cyclic", "shuffled", "iid", "full"]), st.integers(1, 3)
)
def test_positions_stay_inside_and_depend_on_the_key_alone(size: int, batch: int, order: str, draws: int) -> None:
    feed = Feed(batch, 4, "batches", order, draws)  # type: ignore[arg-type]
    columns = width(feed, 40)
    places, mask = positions(feed, size, 4, columns, 3, 17)
    again, _ = positions(feed, size, 4, columns, 3, 17)
    assert places.shape == mask.shape == (4 * draws, columns)
    assert torch.equal(places, again) and int(places.max()) < size and int(mask.sum(1).min()) >= 1


def test_a_client_smaller_than_a_batch_gives_all_it_has() -> None:
    for order in ("cyclic", "shuffled", "full"):
        feed = Feed(batch=8, amount=1, order=order)  # type: ignore[arg-type]
        assert sorted(real(*positions(feed, 3, 1, 8, 0, 0))[0]) == [0, 1, 2]


@pytest.mark.parametrize("order", ["cyclic", "shuffled", "iid", "full"])
def test_a_client_without_data_takes_no_batch(order: str) -> None:
    feed = Feed(batch=4, amount=2, unit="epochs", order=order)  # type: ignore[arg-type]
    places, mask = positions(feed, 0, steps_in(feed, 0), 4, 0, 1)
    assert places.shape == mask.shape == (0, 4)


@pytest.mark.parametrize(("draws", "expected"), [(1, 6), (2, 3), (4, 2)])
def test_an_epoch_is_shared_by_the_draws_of_a_step(draws: int, expected: int) -> None:
    assert steps_in(Feed(batch=4, amount=2, unit="epochs", draws=draws), size=10) == expected


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=3),
    st.integers(1, 6),
    st.lists(st.integers(0, 9), min_size=3),
    st.integers(1, 12),
)
def test_aligned_clients_see_one_stretch_at_the_same_place(
    sizes: list[int], batch: int, seen: list[int], largest: int
) -> None:
    feed, seen = Feed(batch, amount=4), seen[: len(sizes)]
    columns = width(feed, max(1, largest, *sizes))
    plans = [positions(feed, n, steps_in(feed, n), columns, start, key=0) for n, start in zip(sizes, seen, strict=True)]
    shapes = {tuple(places.shape) for places, _ in plans}
    stretches = all(
        bool(mask.all()) and bool((places == places[:, :1] + torch.arange(columns)).all()) for places, mask in plans
    )
    together = len(shapes) == 1 and all(torch.equal(plans[0][0], places) for places, _ in plans)
    regular = stretches and together and plans[0][0].numel() > 0 and len(set(sizes)) == 1
    # What is called aligned is so; what is so by chance of four steps need not be called it.
    assert not aligned(feed, sizes, columns, seen) or regular


def test_equal_whole_batches_are_aligned_and_nothing_else_is() -> None:
    feed = Feed(batch=4, amount=5)
    assert aligned(feed, [12, 12], 4, [0, 3]) and aligned(feed, [3, 3], 3, [1, 2])
    for sizes, seen in (([12, 8], [0, 0]), ([10, 10], [0, 0]), ([0], [0]), ([3, 3], [0, 0]), ([12, 12], [0, 1])):
        assert not aligned(feed, sizes, 4, seen)
    assert not aligned(feed._replace(order="shuffled"), [12, 12], 4, [0, 0])
