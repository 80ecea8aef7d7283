"""Texts to tokens: which words get a row, what a token is, and every way a line can be wrong."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbayes.data.sources import own_file
from fedbayes.data.text import labelled, lines, numbered, occurrences, tokens, vocabulary, writers
from fedbayes.reading import ConfigError

TEXTS = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=6), min_size=1, max_size=8)


def written(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "texts.txt"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# ---------------------------------------------------------------- words


def test_frequent_words_come_first_and_ties_follow_the_words_themselves() -> None:
    words, counts = ["b", "c", "a", "d"], np.array([2, 5, 2, 1])
    assert vocabulary(words, counts) == ["c", "a", "b", "d"]
    assert vocabulary(words, counts, least=2) == ["c", "a", "b"]


def test_padding_and_unknown_words_take_two_of_the_tables_rows() -> None:
    words = [f"{number:05}" for number in range(60_000)]
    full = vocabulary(words, np.ones(60_000, np.int64))
    assert full == words[:49_998]
    found = tokens(numbered([[words[49_997]], [words[49_998]], []], 1), full)
    assert found.tolist() == [[49_999], [1], [0]]


@given(TEXTS, st.integers(1, 5), st.integers(2, 6), st.integers(0, 8))
def test_tokens_are_those_of_a_plain_loop(texts: list[list[str]], length: int, rows: int, training: int) -> None:
    counts = Counter(word for text in texts[:training] for word in text[:length])
    ranked = sorted(counts, key=lambda word: (-counts[word], word))[: rows - 2]
    row = {word: at + 2 for at, word in enumerate(ranked)}
    expected = [([row.get(word, 1) for word in text] + [0] * length)[:length] for text in texts]
    words = numbered(texts, length)
    found = tokens(words, vocabulary(words.words, occurrences(words, training), rows=rows))
    assert found.tolist() == expected and found.dtype == np.int32


def test_a_word_of_the_test_part_alone_is_unknown() -> None:
    words = numbered([["a", "b"], ["a", "c"]], 2)
    assert tokens(words, vocabulary(words.words, occurrences(words, 1))).tolist() == [[2, 3], [2, 1]]


@given(TEXTS, st.data())
def test_writers_are_the_different_users_of_a_word(texts: list[list[str]], data: st.DataObject) -> None:
    users = data.draw(st.lists(st.integers(0, 3), min_size=len(texts), max_size=len(texts)))
    pairs = {(word, user) for text, user in zip(texts, users, strict=True) for word in text[:4]}
    words = numbered(texts, 4)
    counted = dict(zip(words.words, writers(words, np.array(users)).tolist(), strict=True))
    assert counted == Counter(word for word, _ in pairs)


# ---------------------------------------------------------------- files


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    # U+2028 and U+0085 are line breaks to str.splitlines; the first line has a byte order mark, the second a CR.
    path = written(tmp_path, "\ufeffone\u2028still one\ntwo\x85still two\r\nthree")
    assert list(lines(path)) == [(1, "one\u2028still one"), (2, "two\x85still two"), (3, "three")]


def test_what_is_not_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, "好\n".encode() + b"a\xe9b\n")
    with pytest.raises(ConfigError) as caught:
        list(lines(path))
    assert str(caught.value) == (
        f"{path}: line 2: not UTF-8: byte 0xe9 at position 2; put a copy in that encoding there"
    )
    assert [line for _, line in lines(path, "latin-1")][1] == "aéb"


def test_an_empty_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"texts\.txt: the file is empty"):
        list(lines(written(tmp_path, "")))


def test_labels_stand_before_or_behind_the_text(tmp_path: Path) -> None:
    assert labelled(written(tmp_path, "b\tx\ty\na\tz\n"), ("a", "b"), "first") == (["x\ty", "z"], [1, 0])
    assert labelled(written(tmp_path, "x\ty\tb\nz\ta\n"), ("a", "b"), "last") == (["x\ty", "z"], [1, 0])


@pytest.mark.parametrize(
    ("line", "label", "said"),
    [
        ("only words", "first", "line 2: expected a label, a tab and a text; found no tab"),
        ("only words", "last", "line 2: expected a text, a tab and a label; found no tab"),
        ("", "first", "line 2: expected a label, a tab and a text; found no tab"),
        ("sport\tx", "first", "line 2: label: found 'sport'; allowed: news, sports; did you mean 'sports'?"),
        ("sports\t \u3000", "first", "line 2: the text is empty"),
        ("\tsports", "last", "line 2: the text is empty"),
    ],
)
def test_a_line_that_is_wrong_is_named_with_what_was_expected(line: str, label: str, said: str, tmp_path: Path) -> None:
    good = "news\tx" if label == "first" else "x\tnews"
    path = written(tmp_path, f"{good}\n{line}\n{good}\n")
    with pytest.raises(ConfigError) as caught:
        labelled(path, ("news", "sports"), label)  # type: ignore[arg-type]
    assert str(caught.value) == f"{path}: {said}"


def test_a_file_that_nothing_downloads_is_asked_for_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^a/b\.txt: nothing downloads this file; let FEDBAYES_DATA or execution"):
        own_file(None, "a/b.txt")
    with pytest.raises(ConfigError, match=r"/a/b\.txt: the file does not exist; put it there, or let FEDBAYES_DATA"):
        own_file(tmp_path, "a/b.txt")
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b.txt").touch()
    assert own_file(tmp_path, "a/b.txt") == tmp_path / "a/b.txt"
