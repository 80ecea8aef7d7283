"""Keys and noise: known hash values, independence of lifting, moments."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from fedbayes.federation import rng
from pretend_gpu import GPU, PretendGpu

MASK = (1 << 64) - 1


def splitmix64_finaliser(z: int) -> int:
    """Steele, Lea and Flood's finaliser with Python's unbounded integers."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def test_the_published_first_output_of_splitmix64() -> None:
    # The generator seeded with 0 gives 0xE220A8397B1DCDAF first: the finaliser of the golden increment.
    found = rng._mix(torch.tensor(rng._GOLDEN))
    assert int(found) & MASK == 0xE220A8397B1DCDAF


def test_fold_equals_unbounded_integers() -> None:
    for key, item in [(0, 0), (1, 2), (-5, 7), (2**62, -1)]:
        inner = splitmix64_finaliser((item + 0x9E3779B97F4A7C15) & MASK)
        expected = splitmix64_finaliser((key & MASK) ^ inner)
        assert int(rng.fold(torch.tensor(key), item)) & MASK == expected


def test_folding_a_cohort_at_once_equals_one_by_one() -> None:
    key = rng.root(3, "train")
    together = rng.fold(key, 5, torch.arange(100))
    assert together.tolist() == [int(rng.fold(key, 5, client)) for client in range(100)]
    assert len(set(together.tolist())) == 100


def test_purposes_and_seeds_do_not_share_keys() -> None:
    keys = {int(rng.root(seed, purpose)) for seed in range(50) for purpose in ("train", "batches", "init")}
    assert len(keys) == 150


def test_noise_is_the_same_bits_under_vmap_loop_and_reversal() -> None:
    keys = rng.fold(rng.root(0, "noise"), torch.arange(6))
    together = torch.vmap(lambda key: rng.normal(key, 11))(keys)
    alone = torch.stack([rng.normal(key, 11) for key in keys])
    reversed_ = torch.vmap(lambda key: rng.normal(key, 11))(keys.flip(0)).flip(0)
    nested = torch.vmap(torch.vmap(lambda key: rng.normal(key, 11)))(keys.reshape(2, 3)).reshape(6, 11)
    assert torch.equal(together, alone) and torch.equal(together, reversed_) and torch.equal(together, nested)


def test_noise_is_standard_normal() -> None:
    # Mean of 1e5 draws has standard error 0.0032, variance 0.0045: five of each fail once in a million.
    drawn = rng.normal(rng.root(1, "noise"), 100_000, torch.float64)
    assert abs(float(drawn.mean())) < 0.016 and abs(float(drawn.var()) - 1) < 0.0225


def test_perturbed_vectors_are_the_same_bits_under_vmap_loop_and_reversal() -> None:
    keys = rng.fold(rng.root(0, "noise"), torch.arange(6))
    centre, scale = torch.linspace(-1, 1, 66).reshape(6, 11), torch.linspace(0.1, 2, 66).reshape(6, 11)

    def draw(key: torch.Tensor, mu: torch.Tensor, sigma: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return rng.perturbed(key, mu, sigma, draws=2, std=0.5)

    together = torch.vmap(draw)(keys, centre, scale)
    alone = [draw(*row) for row in zip(keys, centre, scale, strict=True)]
    reversed_ = torch.vmap(draw)(keys.flip(0), centre.flip(0), scale.flip(0))
    shared = torch.vmap(draw, in_dims=(0, None, None))(keys, centre[0], scale[0])
    for part in (0, 1):
        assert torch.equal(together[part], torch.stack([each[part] for each in alone]))
        assert torch.equal(together[part], reversed_[part].flip(0))
    assert torch.equal(shared[0][0], together[0][0]) and torch.equal(shared[1], together[1])
    expected = centre[:, None] + scale[:, None] * 0.5 * rng.normal(keys, 22).view(6, 2, 11)
    torch.testing.assert_close(together[0], expected)


# What a GPU draws, worked out on the CPU. Chances below are those of a right generator being refused.


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_hashed_noise_is_standard_normal(dtype: torch.dtype) -> None:
    drawn = rng._hashed_normal(rng.fold(rng.root(0, "noise"), torch.arange(40)), 25_001, dtype).double()
    assert drawn.shape == (40, 25_001)
    # Moments of a million draws within five standard errors (1, 2, 15 and 96 are variances of g, g^2, g^3 and g^4).
    for power, (mean, variance) in enumerate([(0, 1), (1, 2), (0, 15), (3, 96)], start=1):
        assert abs(float((drawn**power).mean()) - mean) < 5 * (variance / drawn.numel()) ** 0.5
    assert stats.kstest(drawn.flatten().numpy(), "norm").pvalue > 1e-4
    # As far out as a million draws go: the largest is below 4 with chance 1e-27, above 7 with 3e-6.
    assert 4 < float(drawn.abs().max()) < 7
    # Each stream by itself, and each place over the streams.
    assert min(stats.kstest(row.numpy(), "norm").pvalue for row in drawn) > 1e-5
    assert stats.kstest((drawn.mean(0) * 40**0.5).numpy(), "norm").pvalue > 1e-4


def test_hashed_noise_of_keys_next_to_each_other_is_unrelated() -> None:
    # Neighbouring keys, and keys folded from one another.
    keys = torch.cat([torch.arange(50), rng.streams(torch.tensor(3), 50)])
    drawn = rng._hashed_normal(keys, 4096, torch.float64)
    # Cosines and sines of the same angles count as streams of their own.
    rows = torch.cat([drawn[:, :2048], drawn[:, 2048:]])
    pairs = ~torch.eye(len(rows), dtype=torch.bool)
    # 19,900 pairs: five and a half standard deviations are passed once in a thousand times, by squares more often.
    assert float(torch.corrcoef(rows)[pairs].abs().max()) < 5.5 / 2048**0.5
    assert float(torch.corrcoef(rows.square())[pairs].abs().max()) < 8 / 2048**0.5
    neighbours = drawn[:, 1:] * drawn[:, :-1]
    assert abs(float(neighbours.mean())) < 5 / neighbours.numel() ** 0.5


def test_hashed_noise_depends_on_its_key_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = rng.fold(rng.root(0, "noise"), torch.arange(6))
    together = rng._hashed_normal(keys, 11, torch.float32)
    assert torch.equal(together, torch.stack([rng._hashed_normal(key, 11, torch.float32) for key in keys]))
    assert torch.equal(together, rng._hashed_normal(keys.flip(0), 11, torch.float32).flip(0))
    assert torch.equal(together, rng._hashed_normal(keys.view(2, 3), 11, torch.float32).view(6, 11))
    monkeypatch.setattr(rng, "_AT_ONCE", 22)
    assert torch.equal(together, rng._hashed_normal(keys, 11, torch.float32))
    assert rng._hashed_normal(keys, 0, torch.float32).shape == (6, 0)


def test_hashed_whole_numbers_are_uniform_and_depend_on_their_key_alone() -> None:
    keys = rng.fold(rng.root(0, "crops"), torch.arange(100))
    drawn = rng._hashed_integers(keys, (9, 9, 2), 200)
    for numbers, bound in zip(drawn, (9, 9, 2), strict=True):
        counts = np.bincount(numbers.flatten(), minlength=bound)
        assert len(counts) == bound and stats.chisquare(counts).pvalue > 1e-4
    assert not torch.equal(drawn[0], drawn[1])
    alone = [rng._hashed_integers(key[None], (9, 9, 2), 200) for key in keys]
    for place in range(3):
        assert torch.equal(drawn[place], torch.cat([own[place] for own in alone]))


def test_a_gpu_draws_by_hashes_under_vmap_and_loop_and_without_waiting() -> None:
    keys = rng.fold(rng.root(0, "noise"), torch.arange(6))
    centre, scale = torch.linspace(-1, 1, 66).view(6, 11), torch.linspace(0.1, 2, 66).view(6, 11)
    with PretendGpu() as gpu:
        there = [tensor.to(GPU) for tensor in (keys, centre, scale)]
        with gpu.hot():
            together = torch.vmap(lambda key: rng.normal(key, 11))(there[0])
            alone = torch.stack([rng.normal(key, 11) for key in there[0]])
            moved, noise = torch.vmap(lambda *row: rng.perturbed(*row, draws=2, std=0.5))(*there)
            whole = rng.integers(there[0], (9, 2), 5)
        found = [tensor.cpu() for tensor in (together, alone, moved, noise, *whole)]
    expected = rng._hashed_normal(keys, 11, torch.float32)
    assert torch.equal(found[0], expected) and torch.equal(found[1], expected)
    assert torch.equal(found[3], rng._hashed_normal(keys, 22, torch.float32).view(6, 2, 11))
    torch.testing.assert_close(found[2], centre[:, None] + scale[:, None] * 0.5 * found[3])
    assert all(map(torch.equal, found[4:], rng._hashed_integers(keys, (9, 2), 5)))


def test_a_plain_number_and_a_tensor_fold_alike() -> None:
    key = rng.root(3, "train")
    for item in (0, 1, -1, 2**40, 2**63 - 1, -(2**63)):
        assert torch.equal(rng.fold(key, item), rng.fold(key, torch.tensor(item)))
