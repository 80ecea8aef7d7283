"""Texts to tokens: what every dataset of texts shares.

A text is a list of words, a token the row of its word in a table of word vectors: row 0 is padding, row 1 stands for
every word without a row of its own, and the vocabulary follows. All texts of a dataset are cut or padded, at the end,
to one length.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedbayes.reading import ConfigError, choice, complain

PADDING, UNKNOWN, FIRST_WORD = 0, 1, 2
# Rows of the table of FedUAB's network, those of padding and of unknown words among them.
ROWS = 50_000
BYTE_ORDER_MARK = "\ufeff"


# ---------------------------------------------------------------- files


def complain_of(path: Path, line: int, what: str) -> ConfigError:
    """The sentence about one line of a file."""
    return complain(str(path), f"line {line}", what)


def lines(path: Path, encoding: Literal["utf-8", "latin-1"] = "utf-8") -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers, 1 first, as text; nothing but a line feed ends a line."""
    if path.stat().st_size == 0:
        raise complain(str(path), "", "the file is empty; put a good copy there")
    with path.open("rb") as stream:
        for number, raw in enumerate(stream, start=1):
            try:
                line = raw.decode(encoding).rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise complain_of(
                    path,
                    number,
                    f"not {encoding.upper()}: byte 0x{raw[error.start]:02x} at position {error.start + 1}; put a copy "
                    "in that encoding there",
                ) from None
            yield number, line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line


def labelled(path: Path, names: Sequence[str], label: Literal["first", "last"]) -> tuple[list[str], list[int]]:
    """Texts and labels of a UTF-8 file with a text, a tab and the name of a class in every line.

    Args:
        path: the file.
        names: names of the classes; their place is the label.
        label: whether the name stands before or behind the text.
    """
    texts, labels = [], []
    numbers = {name: number for number, name in enumerate(names)}
    for at, line in lines(path):
        before, tab, behind = line.partition("\t") if label == "first" else line.rpartition("\t")
        if not tab:
            order = "a label, a tab and a text" if label == "first" else "a text, a tab and a label"
            raise complain_of(path, at, f"expected {order}; found no tab")
        name, text = (before, behind) if label == "first" else (behind, before)
        if name not in numbers:
            raise complain_of(path, at, "label: " + choice(name, names))
        if not text.strip():
            raise complain_of(path, at, "the text is empty")
        texts.append(text)
        labels.append(numbers[name])
    return texts, labels


# ---------------------------------------------------------------- words


class Numbered(NamedTuple):
    """Texts of one length whose words are numbers, given out in order of first appearance.

    `numbers` is (text, position), an index into `words`, or -1 behind the last word of a text.
    """

    words: list[str]
    numbers: NDArray[np.int32]


def numbered(texts: Iterable[Sequence[str]], length: int) -> Numbered:
    """The first `length` words of every text; what comes later is not looked at again."""
    known: dict[str, int] = {}
    numbers = array("i")
    for words in texts:
        row = [known.setdefault(word, len(known)) for word in words[:length]]
        numbers.extend(row + [-1] * (length - len(row)))
    return Numbered(list(known), np.array(numbers, np.int32).reshape(-1, length))


def occurrences(texts: Numbered, training: int) -> NDArray[np.int64]:
    """How often each word occurs in the first `training` texts."""
    seen = texts.numbers[:training]
    return np.bincount(seen[seen >= 0], minlength=len(texts.words))


def writers(texts: Numbered, users: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many different users write each word; `users` says whose each text is."""
    pairs = users[:, np.newaxis] * len(texts.words) + texts.numbers
    distinct = np.unique(pairs[texts.numbers >= 0])
    return np.bincount(distinct % max(len(texts.words), 1), minlength=len(texts.words))


def vocabulary(words: Sequence[str], counts: NDArray[np.int64], least: int = 1, rows: int = ROWS) -> list[str]:
    """Words with the highest counts first, ties in the order of the words themselves.

    Args:
        words: all words.
        counts: what they are ranked by.
        least: words with a lower count are left out.
        rows: size of the table, the rows of padding and of unknown words included.
    """
    ranked = sorted((-count, word) for word, count in zip(words, counts.tolist(), strict=True) if count >= least)
    return [word for _, word in ranked[: rows - FIRST_WORD]]


def tokens(texts: Numbered, vocabulary: Sequence[str]) -> NDArray[np.int32]:
    """The row of every word (text, position), for a table in which the vocabulary's rows follow the first two."""
    rows = {word: row for row, word in enumerate(vocabulary, start=FIRST_WORD)}
    # The number -1 of a place behind the text takes the last entry.
    row_of = np.array([*(rows.get(word, UNKNOWN) for word in texts.words), PADDING], np.int32)
    found: NDArray[np.int32] = row_of[texts.numbers]
    return found
