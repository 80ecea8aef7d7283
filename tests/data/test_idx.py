"""IDX files: what is written comes back, whatever the size of a block, and every way a file can be wrong."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbayes.data import idx
from fedbayes.reading import ConfigError

ARRAY = np.arange(24, dtype=np.uint8).reshape(4, 2, 3)
# Magic number (unsigned bytes, three axes), then 4 x 2 x 3.
GOOD = bytes([0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 3]) + ARRAY.tobytes()


def test_a_file_written_by_hand_is_read() -> None:
    found = idx.read(io.BytesIO(GOOD), "a-file", "u1", (2, 3))
    np.testing.assert_array_equal(found, ARRAY)
    assert found.dtype == np.uint8


@given(
    values=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20),
    keep=st.data(),
    block=st.integers(1, 40),
)
def test_numbers_of_four_bytes_come_back_in_any_blocks(values: list[int], keep: Any, block: int) -> None:
    array = np.array(values, np.int64).reshape(-1, 1)
    content = (
        bytes([0, 0, 12, 2]) + len(values).to_bytes(4, "big") + bytes([0, 0, 0, 1]) + array.astype(">i4").tobytes()
    )
    wanted = np.array(keep.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))), bool)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(idx, "BLOCK_BYTES", block)
        found = idx.read(io.BytesIO(content), "a-file", "i4", (1,), keep=wanted)
    np.testing.assert_array_equal(found, array[wanted])
    assert found.dtype == np.int32 and found.dtype.isnative


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not the expected IDX file: it begins with 0x, not with the magic number 0x00000803"),
        (b"<html>", "not the expected IDX file: it begins with 0x3c68746d"),
        (GOOD[:2] + b"\x0c" + GOOD[3:], "it begins with 0x00000c03"),
        (GOOD[:9], "ends within its header"),
        (GOOD[:15] + b"\x04" + GOOD[16:], r"found rows of shape \[2, 4\], expected \[2, 3\]"),
        (GOOD[:-1], "ends before the 4 rows that its header announces"),
        (GOOD + b"\x00", "goes on after the 4 rows that its header announces"),
    ],
    ids=["empty", "a web page", "another type", "header cut", "another shape", "cut", "too long"],
)
def test_what_is_not_that_file_is_one_sentence(content: bytes, said: str) -> None:
    with pytest.raises(ConfigError, match=f"^a-file: .*{said}.*; put a good copy there$"):
        idx.read(io.BytesIO(content), "a-file", "u1", (2, 3))


def test_as_many_rows_as_labels_are_expected() -> None:
    with pytest.raises(ConfigError, match="a-file: found 4 rows, expected 5, one for each label"):
        idx.read(io.BytesIO(GOOD), "a-file", "u1", (2, 3), keep=np.ones(5, bool))
