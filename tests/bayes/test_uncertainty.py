"""The two parts of a prediction's uncertainty."""

from __future__ import annotations

import torch

from fedbayes.bayes.uncertainty import PARTS, decompose, split_up, summarise


def test_the_parts_add_up_to_the_covariance_of_the_label() -> None:
    probs = torch.softmax(torch.randn(7, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64), -1)
    aleatoric, epistemic = decompose(probs)
    mean = probs.mean(0)
    whole = torch.diag_embed(mean) - mean[:, :, None] * mean[:, None, :]
    torch.testing.assert_close(aleatoric + epistemic, whole, rtol=0, atol=1e-14)
    assert bool((torch.linalg.eigvalsh(aleatoric) > -1e-12).all() and (torch.linalg.eigvalsh(epistemic) > -1e-12).all())


def test_two_draws_by_hand() -> None:
    # Two certain draws that disagree: all of it is epistemic. Two equal uncertain ones: all of it is aleatoric.
    sure = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])
    aleatoric, epistemic = decompose(sure)
    assert aleatoric.abs().max() == 0 and epistemic[0].tolist() == [[0.25, -0.25], [-0.25, 0.25]]
    doubtful = torch.tensor([[[0.75, 0.25]], [[0.75, 0.25]]])
    aleatoric, epistemic = decompose(doubtful)
    assert epistemic.abs().max() == 0 and aleatoric[0].tolist() == [[0.1875, -0.1875], [-0.1875, 0.1875]]
    assert summarise(aleatoric, doubtful).trace.tolist() == [0.375]
    assert summarise(aleatoric, doubtful).predicted.tolist() == [0.1875]


def test_the_numbers_are_those_of_the_full_matrices() -> None:
    probs = torch.softmax(torch.randn(5, 7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), -1)
    whole = torch.stack([number for matrix in decompose(probs) for number in summarise(matrix, probs)], -1)
    torch.testing.assert_close(split_up(probs), whole)
    assert whole.shape == (7, len(PARTS))
