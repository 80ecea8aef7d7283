"""Shifts of the inputs between clients: what a client's samples go through before anyone trains or tests on them.

Counted in code digests (unlike `config.py`), because the list of noise models decides who gets which.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field

from fedbayes.record import Record

# The corruptions of ImageNet-C (Hendrycks and Dietterich 2019), the last four being its validation set; in the order of
# the library that makes them. A new one belongs at the end: the position is part of what an image depends on.
CORRUPTIONS = (
    "gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "snow",
    "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate", "jpeg_compression", "speckle_noise",
    "gaussian_blur", "spatter", "saturate",
)  # fmt: skip

LEAST_SIDE = 32  # pixels; the library takes no smaller images


class NoiseModel(NamedTuple):
    """A corruption at a severity; as text `fog-3`."""

    corruption: str
    severity: int

    def __str__(self) -> str:
        return f"{self.corruption}-{self.severity}"


def _rising(severities: tuple[int, ...]) -> tuple[int, ...]:
    """The severities, refused unless they rise: one choice has one spelling, and no noise model counts twice."""
    if any(first >= second for first, second in pairwise(severities)):
        raise ValueError(f"found {list(severities)}; expected each once, in rising order")
    return severities


class NoisyClients(Record):
    """Each client sees the world through a noise model of its own (LR-BPFL, appendix B.2, Figure 6, after pFedGP).

    A noise model is a corruption at a severity: 19 x 3 = 57 in the paper. All samples of a client, for training,
    validation and testing, go through that client's model.
    """

    kind: Literal["noisy-clients"]
    choice: Literal["distinct", "replacement"] = Field(
        description="distinct: no two clients share a noise model, as the paper says. replacement: each client draws "
        "its own among all of them, as the public code does."
    )
    severities: Annotated[
        tuple[Annotated[int, Field(ge=1, le=5)], ...], Field(strict=False, min_length=1), AfterValidator(_rising)
    ] = Field((1, 2, 3), description="Severities of which each makes one noise model of a corruption.")
    wraps_around: bool = Field(
        False,
        description="The public code's slip: it corrupts images that are already normalised by (x - 0.5) / 0.5, "
        "multiplied by 255 and cast to bytes, so that dark pixels wrap around to bright ones. False: it corrupts the "
        "images as they are.",
    )

    @property
    def name(self) -> str:
        """Part of a file name, readable and unique: `noisy-clients-distinct-severities1_2_3`."""
        parts = [self.kind, self.choice, "severities" + "_".join(map(str, self.severities))]
        return "-".join(parts + ["wraps_around"] * self.wraps_around)

    @property
    def noise_models(self) -> tuple[NoiseModel, ...]:
        """All there are to choose from."""
        return tuple(NoiseModel(corruption, severity) for corruption in CORRUPTIONS for severity in self.severities)

    def objection(self, shape: tuple[int, ...], clients: int | None) -> str | None:
        """Why samples of this shape, at this many clients, cannot be shifted so; or None.

        Small images are refused rather than padded: a corruption of the padding would bleed into what is left.

        Args:
            shape: of one sample.
            clients: how many there are; None where only the data can tell.
        """
        if len(shape) != 3 or shape[0] not in (1, 3) or min(shape[1:]) < LEAST_SIDE:
            return (
                f"its samples have the shape {shape}; only images of 1 or 3 channels and at least {LEAST_SIDE} x "
                f"{LEAST_SIDE} pixels can be corrupted"
            )
        available = len(self.noise_models)
        if self.choice == "distinct" and clients is not None and clients > available:
            return (
                f"{clients} clients cannot have distinct noise models: there are {available} ({len(CORRUPTIONS)} "
                f"corruptions x {len(self.severities)} severities); choose 'replacement' or take fewer clients"
            )
        return None
