r"""Sentiment140 (Go, Bhayani, Huang 2009): tweets, negative (target 0) or positive (target 4), and who wrote them.

Self-FL takes FedProx's procedure: LEAF's users as clients, the first 25 words of a tweet, frozen GloVe vectors of
length 300. A line has six quoted columns: target, id, date, query, user, text.

Words are in lower case. HTML entities are characters again, web addresses are `<url>` and mentions `<user>`, as in
GloVe's script for tweets (the vectors of 6B know neither: zero). Clitics are words of their own, as in the texts those
vectors were trained on (`do` `n't`, `it` `'s`), because negation matters here; the marks `. , ! ? ;` are words, and all
else between words is dropped. LEAF's code neither lowers nor splits, so that GloVe does not know its `Don't`. A tweet
of nothing but other marks is padding throughout. LEAF also adds the 498 tweets of the manual test file to its pool,
which are left out here: their users are not natural ones.

Some ids of the full file occur with both targets. They stay, as in LEAF, whose data the published numbers rest on.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedbayes.data.sources import RawData, describe, own_file
from fedbayes.data.text import (
    FIRST_WORD,
    Numbered,
    complain_of,
    lines,
    numbered,
    tokens,
    vocabulary,
    writers,
)
from fedbayes.reading import choice, complain

LENGTH = 25
VECTOR = 300
TARGETS = {"0": 0, "4": 1}

TWEETS = "sent140/training.1600000.processed.noemoticon.csv"
SUBSET = "sent140/sentiment140_subset.csv"
GLOVE = "glove/glove.6B.300d.txt"
# Words of the file, which has no published sum: fewer mean that it was cut.
GLOVE_WORDS = 400_000

# The text may hold quotes of its own: it ends with the last one.
_COLUMNS = re.compile('"([^"]*)",' * 5 + '"(.*)"')
_URL = re.compile(r"https?://\S+|www\.\S+")
_USER = re.compile(r"@\w+")
_WORD = re.compile(r"<url>|<user>|\w+?(?=n't\b)|n't\b|'(?:s|m|d|re|ve|ll)\b|\w+|[.,!?;]")


class Tweets(NamedTuple):
    """Tweets as numbered words, their labels (1: positive) and their users, numbered in the order of their names."""

    texts: Numbered
    labels: NDArray[np.int64]
    users: NDArray[np.int64]


def sent140(target: Path, data_root: Path | None) -> RawData:
    """The 1.6 million tweets, as rows of the table `vectors` (row, 300) of those GloVe vectors that they use.

    The rows of padding and of unknown words are zero; the others follow in the order of GloVe's file.
    """
    tweets = _read(own_file(data_root, TWEETS), "latin-1")
    glove = own_file(data_root, GLOVE)
    known, vectors = word_vectors(glove, set(tweets.texts.words))
    return RawData(
        tokens(tweets.texts, known),
        tweets.labels,
        [describe(own_file(data_root, TWEETS), TWEETS), describe(glove, GLOVE)],
        str(data_root),
        {"users": tweets.users, "vectors": vectors},
    )


def sent140_words(target: Path, data_root: Path | None) -> RawData:
    """The same tweets without GloVe, for a network that learns its word vectors."""
    return _own_words(TWEETS, "latin-1", data_root)


def sent140_subset(target: Path, data_root: Path | None) -> RawData:
    """42,501 of the tweets, digests in place of the users' names, for a network that learns its word vectors."""
    return _own_words(SUBSET, "utf-8", data_root)


def _own_words(name: str, encoding: Literal["utf-8", "latin-1"], data_root: Path | None) -> RawData:
    """Tweets as tokens of a vocabulary of their own: words that at least two users write, most users first.

    Which tweets are for training is decided later, user by user, so the vocabulary is chosen on all of them, without
    their labels. Two users, because then no text of a client gives a word a row by itself: what only one client's test
    tweets say stays unknown. What remains is that two clients' test tweets can.
    """
    path = own_file(data_root, name)
    texts, labels, users = _read(path, encoding)
    inputs = tokens(texts, vocabulary(texts.words, writers(texts, users), least=2))
    return RawData(inputs, labels, [describe(path, name)], str(data_root), {"users": users})


def _read(path: Path, encoding: Literal["utf-8", "latin-1"]) -> Tweets:
    labels, names, texts = zip(*_rows(path, encoding), strict=True)
    number = {name: number for number, name in enumerate(sorted(set(names)))}
    return Tweets(
        numbered(map(words_of, texts), LENGTH),
        np.array(labels, np.int64),
        np.array([number[name] for name in names], np.int64),
    )


def _rows(path: Path, encoding: Literal["utf-8", "latin-1"]) -> Iterator[tuple[int, str, str]]:
    """Label, user and text of every line."""
    for at, line in lines(path, encoding):
        columns = _COLUMNS.fullmatch(line)
        if columns is None:
            raise complain_of(path, at, "expected six quoted columns: target, id, date, query, user, text")
        target, _, _, _, user, text = columns.groups()
        if target not in TARGETS:
            raise complain_of(path, at, "target: " + choice(target, TARGETS))
        if not user.strip():
            raise complain_of(path, at, "the user (column 5) is empty")
        if not text.strip():
            raise complain_of(path, at, "the text (column 6) is empty")
        yield TARGETS[target], user, text.replace('""', '"')


def words_of(tweet: str) -> list[str]:
    """The words of a tweet."""
    plain = _USER.sub(" <user> ", _URL.sub(" <url> ", html.unescape(tweet)))
    return _WORD.findall(plain.lower())


def word_vectors(path: Path, wanted: set[str]) -> tuple[list[str], NDArray[np.float32]]:
    """Words of a GloVe file and the table of their vectors, below the two rows of zeros for padding and unknown words.

    Args:
        path: a word and 300 numbers in every line, separated by single spaces.
        wanted: words to take; of the others only the number of columns is checked.
    """
    known: dict[str, NDArray[np.float32]] = {}
    at = 0
    for at, line in lines(path):
        word, *numbers = line.split(" ")
        if len(numbers) != VECTOR:
            raise complain_of(path, at, f"expected a word and {VECTOR} numbers; found {len(numbers)} columns behind it")
        if word in wanted and word not in known:
            known[word] = _vector(path, at, numbers)
    if at < GLOVE_WORDS:
        raise complain(
            str(path), "", f"found {at} words, expected {GLOVE_WORDS}: the file was cut; put a good copy there"
        )
    return list(known), np.vstack([np.zeros((FIRST_WORD, VECTOR), np.float32), *known.values()])


def _vector(path: Path, at: int, numbers: list[str]) -> NDArray[np.float32]:
    try:
        vector = np.array(numbers, np.float32)
    except ValueError as error:
        raise complain_of(path, at, f"expected {VECTOR} numbers behind the word ({error})") from None
    if not np.isfinite(vector).all():
        raise complain_of(path, at, f"expected {VECTOR} finite numbers behind the word")
    return vector
