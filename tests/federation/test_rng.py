"""Keys and noise: known hash values, independence of lifting, moments."""

from __future__ import annotations

import torch

from fedbayes.federation import rng

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
