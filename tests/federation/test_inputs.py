"""Stored values to inputs: pixel by pixel, word vectors, random crops; and where they enter a batch."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

import toy
from fedbayes.federation import inputs, rng
from fedbayes.federation.inputs import as_stored, crop_and_flip, look_up_vectors, standardise_pixelwise
from fedbayes.federation.loop import Federation, rounds, start
from fedbayes.federation.resident import lay_out

STREAM = torch.Generator().manual_seed(0)
CPU = torch.device("cpu")


def test_pixelwise_is_fedprox_s_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mu and sigma of every pixel over all images on the scale 0-255, sigma + 0.001 in the denominator."""
    images = np.random.default_rng(0).integers(0, 256, (50, 1, 4, 5), dtype=np.uint8)
    images[:, :, 0, 0] = 7  # a pixel that never changes
    monkeypatch.setattr(inputs, "BLOCK", 20)
    pixels = images.astype(np.float64)
    expected = (pixels - pixels.mean(0)) / (pixels.std(0) + 0.001)
    found = standardise_pixelwise(torch.from_numpy(images), torch.float64)(torch.from_numpy(images))
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-9)


def test_tokens_become_the_rows_of_the_table() -> None:
    table = torch.arange(12.0).reshape(4, 3)
    tokens = torch.tensor([[0, 3], [2, 2]], dtype=torch.int32)
    found = look_up_vectors(table)(tokens)
    assert found.tolist() == [[[0, 1, 2], [9, 10, 11]], [[6, 7, 8], [6, 7, 8]]]


def test_inputs_that_grow_are_judged_by_what_they_become() -> None:
    tokens = np.zeros((3, 2), np.int32)
    rows = [np.arange(3)]
    data = lay_out(tokens, np.zeros(3, np.int64), rows, rows, 2, look_up_vectors(torch.zeros(4, 2**26)), CPU)
    assert data.shape == (2, 2**26)
    assert data._prepared is None, "three samples of half a gigabyte are not kept"
    small = lay_out(tokens, np.zeros(3, np.int64), rows, rows, 2, as_stored, CPU)
    assert small.samples(torch.arange(3)).dtype == torch.int32


def crops(image: Tensor) -> list[list[list[float]]]:
    """All that a random crop and flip can give, by hand: pad, cut, mirror."""
    padded = torch.zeros(image.shape[0], image.shape[1] + 8, image.shape[2] + 8, dtype=image.dtype)
    padded[:, 4:-4, 4:-4] = image
    found = []
    for down in range(9):
        for right in range(9):
            cut = padded[:, down : down + image.shape[1], right : right + image.shape[2]]
            found += [cut.tolist(), cut.flip(2).tolist()]
    return found


def test_every_crop_is_one_of_the_162_and_all_turn_up() -> None:
    image = torch.randint(1, 256, (2, 3, 5), dtype=torch.uint8, generator=STREAM)
    keys = rng.fold(rng.root(0, "test"), torch.arange(20))
    found = crop_and_flip(image.expand(20, 100, 2, 3, 5), keys)
    assert found.dtype == torch.uint8
    possible = crops(image)
    seen = {possible.index(cut.tolist()) for cut in found.flatten(0, 1)}
    # Crops that fall outside the image are all black and so the same; every other one has its own number.
    distinct = {possible.index(cut) for cut in possible}
    assert seen == distinct


def test_crops_are_those_of_the_day_they_were_first_drawn() -> None:
    """The engine's NUMERICS answers for these: other draws would change the results of every run that crops."""
    images = torch.arange(2 * 3 * 48, dtype=torch.uint8).reshape(2, 3, 1, 6, 8)
    found = crop_and_flip(images, rng.fold(rng.root(0, "test"), torch.arange(2)))
    assert hashlib.sha256(found.numpy().tobytes()).hexdigest()[:12] == "d1c4cf4f3f18"


def test_a_crop_depends_on_its_client_s_key_and_on_nothing_else() -> None:
    images = torch.randint(256, (3, 7, 1, 6, 6), dtype=torch.uint8, generator=STREAM)
    keys = rng.fold(rng.root(0, "test"), torch.arange(3))
    together = crop_and_flip(images, keys)
    for client in (2, 0, 1):
        alone = crop_and_flip(images[client : client + 1], keys[client : client + 1])
        assert torch.equal(together[client], alone[0])
    assert not torch.equal(together, crop_and_flip(images, keys + 1))


def augmented(lift: str = "vmap", chunk: int | None = None) -> Federation:
    """The toy federation, whose inputs are shifted by noise of their key when they are trained on."""
    plain = toy.federation(lift=lift, chunk=chunk)  # type: ignore[arg-type]

    def shift(x: Tensor, keys: Tensor) -> Tensor:
        return x + rng.normal(keys, x[0].numel(), x.dtype).view(x.shape)

    return replace(plain, data=replace(plain.data, augment=shift))


def weights(federation: Federation, last: int = 3) -> Tensor:
    *_, (state, _) = rounds(federation, start(federation), last)
    return torch.cat([w.flatten() for w in state.server.weights.values()])


def test_training_sees_augmented_samples_the_same_ones_however_clients_are_lifted() -> None:
    whole = weights(augmented())
    assert not torch.allclose(whole, weights(toy.federation()))
    assert torch.equal(whole, weights(augmented(chunk=2)))
    torch.testing.assert_close(whole, weights(augmented(lift="loop")), rtol=1e-10, atol=1e-12)


def test_an_augmentation_that_changes_nothing_changes_nothing() -> None:
    plain = toy.federation()
    same = replace(plain, data=replace(plain.data, augment=lambda x, keys: x))
    torch.testing.assert_close(weights(same), weights(plain), rtol=1e-12, atol=1e-12)
