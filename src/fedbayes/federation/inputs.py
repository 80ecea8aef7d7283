"""Stored values to network inputs: normalised pixels, tokens as they are, word vectors; and random crops and flips."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from fedbayes.federation import rng
from fedbayes.federation.placing import on_device

Prepare = Callable[[Tensor], Tensor]
# Stored images `[client, sample, channel, height, width]` and a key for each client to images of the same shape.
Augment = Callable[[Tensor, Tensor], Tensor]

# FedProx adds this to the standard deviation of a pixel on the scale 0-255, most of which never change at the border.
PIXELWISE_FLOOR = 0.001
CROP_PADDING = 4
BLOCK = 10_000


def as_stored(x: Tensor) -> Tensor:
    """Tokens and features go in as they are."""
    return x


def normalise(mean: Sequence[float], std: Sequence[float], dtype: torch.dtype) -> Prepare:
    """Pixels 0-255 to (x / 255 - mean) / std for each channel: one multiplication and one addition."""
    scale = 1.0 / (255.0 * torch.tensor(std, dtype=torch.float64))
    shift = -torch.tensor(mean, dtype=torch.float64) / torch.tensor(std, dtype=torch.float64)
    return _scaled_and_shifted(scale[:, None, None], shift[:, None, None], dtype)


def _scaled_and_shifted(scale: Tensor, shift: Tensor, dtype: torch.dtype) -> Prepare:
    """Stored values to `scale * x + shift`."""
    on = on_device(scale.to(dtype), shift.to(dtype))

    def prepare(x: Tensor) -> Tensor:
        a, b = on(x.device)
        return torch.addcmul(b, x.to(dtype), a)

    return prepare


def standardise_pixelwise(everything: Tensor, dtype: torch.dtype) -> Prepare:
    """Each pixel by its own mean and standard deviation over the whole dataset, as FedProx's generators do.

    Args:
        everything: all images `[sample, channel, height, width]`, training and test part.
        dtype: type of the inputs.
    """
    # Block by block: all of it in float64 would be eight times the dataset.
    blocks = torch.split(everything, BLOCK)
    mean = torch.stack([block.double().sum(0) for block in blocks]).sum(0) / len(everything)
    squares = torch.stack([(block.double() - mean).square().sum(0) for block in blocks]).sum(0)
    std = (squares / len(everything)).sqrt() + PIXELWISE_FLOOR
    return _scaled_and_shifted(1.0 / std, -mean / std, dtype)


def look_up_vectors(table: Tensor) -> Prepare:
    """Tokens `[..., position]` to their frozen vectors `[..., position, length]`."""
    on = on_device(table)

    def prepare(tokens: Tensor) -> Tensor:
        (vectors,) = on(tokens.device)
        return F.embedding(tokens, vectors)

    return prepare


def crop_and_flip(x: Tensor, keys: Tensor) -> Tensor:
    """Each image cut out at a random place of itself with four black pixels around it, and mirrored half of the time.

    The random crop (32, padding 4) and horizontal flip that FedUAB's code trains CIFAR-10 with.

    Args:
        x: stored images `[client, sample, channel, height, width]`.
        keys: one a client; a sample's cut depends on its client's key and its place in the batch only.
    """
    clients, samples, _, height, width = x.shape
    bounds = (2 * CROP_PADDING + 1, 2 * CROP_PADDING + 1, 2)
    down, right, mirrored = (drawn.flatten() for drawn in rng.integers(keys, bounds, samples))
    rows = down[:, None] + torch.arange(height, device=x.device)
    across = torch.arange(width, device=x.device)
    columns = right[:, None] + torch.where(mirrored[:, None] == 1, width - 1 - across, across)
    padded = F.pad(x.flatten(0, 1), [CROP_PADDING] * 4)
    each = torch.arange(clients * samples, device=x.device)[:, None, None]
    # Indices on both sides of the channels put these last.
    cut = padded[each, :, rows[:, :, None], columns[:, None, :]].movedim(-1, 1)
    return cut.reshape(x.shape)
