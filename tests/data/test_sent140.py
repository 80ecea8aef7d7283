"""Sentiment140: tiny files in the real form, words of a tweet, users, GloVe's vectors, and every wrong line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from fedbayes.config import DatasetFacts
from fedbayes.data import sent140, sources
from fedbayes.data.fetch import fetch, load
from fedbayes.reading import ConfigError

FACTS = yaml.safe_load((Path(__file__).parents[2] / "config/datasets.yaml").read_text(encoding="utf-8"))


def line(target: str = "0", user: str = "ann", text: str = "so sad", number: int = 1) -> str:
    return f'"{target}","{number}","Mon Apr 06 22:19:45 PDT 2009","NO_QUERY","{user}","{text}"'


def root_with(tmp_path: Path, name: str, content: list[str], encoding: str = "utf-8") -> Path:
    path = tmp_path / "mine" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(content) + "\n", encoding=encoding)
    return tmp_path / "mine"


def vector(word: str, first: float, columns: int = 300) -> str:
    return " ".join([word, str(first), *["0.5"] * (columns - 1)])


# ---------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("tweet", "words"),
    [
        ("I don't; CAN'T, won't!", ["i", "do", "n't", ";", "ca", "n't", ",", "wo", "n't", "!"]),
        ("It's what they've said, 'cause I'd", ["it", "'s", "what", "they", "'ve", "said", ",", "cause", "i", "'d"]),
        ("@Bob: see http://t.co/x?y=1 or www.a.com", ["<user>", "see", "<url>", "or", "<url>"]),
        ("Tom &amp; &quot;Jerry&quot; &lt;3", ["tom", "jerry", "3"]),
        ("nt n'there antn't", ["nt", "n", "there", "ant", "n't"]),
        ("- ~ :)", []),
    ],
)
def test_words_of_a_tweet(tweet: str, words: list[str]) -> None:
    assert sent140.words_of(tweet) == words


# ---------------------------------------------------------------- tweets


def test_users_are_numbered_by_name_and_tweets_keep_their_order(tmp_path: Path) -> None:
    content = [line("4", "zoe", "a b"), line("0", "ann", "b"), line("4", "zoe", "b c"), line("0", "Bob", "c d")]
    found = sent140.sent140_subset(tmp_path, root_with(tmp_path, sent140.SUBSET, content))
    assert found.labels.tolist() == [1, 0, 1, 0] and found.inputs.shape == (4, 25)
    assert found.tables["users"].tolist() == [2, 1, 2, 0]
    assert found.tables["users"].dtype == found.labels.dtype == np.int64
    # b has two writers and c has two; a and d have one each.
    assert found.inputs[:, :2].tolist() == [[1, 2], [2, 0], [2, 3], [3, 1]]


def test_a_word_of_one_user_has_no_row_however_often_it_is_written(tmp_path: Path) -> None:
    content = [line("4", "zoe", "mine mine mine ours"), line("0", "zoe", "mine ours"), line("0", "ann", "ours")]
    found = sent140.sent140_subset(tmp_path, root_with(tmp_path, sent140.SUBSET, content))
    assert found.inputs[0, :4].tolist() == [1, 1, 1, 2]


def test_one_id_with_both_targets_stays_as_two_tweets(tmp_path: Path) -> None:
    content = [line("0", number=7), line("4", number=7)]
    found = sent140.sent140_words(tmp_path, root_with(tmp_path, sent140.TWEETS, content, "latin-1"))
    assert found.labels.tolist() == [0, 1] and np.array_equal(found.inputs[0], found.inputs[1])


def test_the_full_file_is_latin_1_and_its_texts_may_hold_quotes(tmp_path: Path) -> None:
    content = [line(text='caf\xe9 ""so"" s\x85d'), line("4", "zoe", 'caf\xe9 "s\x85d" so')]
    found = sent140.sent140_words(tmp_path, root_with(tmp_path, sent140.TWEETS, content, "latin-1"))
    # café, d, s, so, in this order, each by two users; U+0085 stands between two words.
    assert found.inputs[:, :5].tolist() == [[2, 5, 4, 3, 0], [2, 4, 3, 5, 0]]


def test_tweets_are_cut_at_25_words(tmp_path: Path) -> None:
    content = [line("0", user, " ".join(["a"] * 25 + ["b"])) for user in ("ann", "zoe")] + [line("4")]
    found = sent140.sent140_subset(tmp_path, root_with(tmp_path, sent140.SUBSET, content))
    assert found.inputs[0].tolist() == [2] * 25


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (line("2"), "target: found '2'; allowed: 0, 4"),
        (line(user=" "), "the user (column 5) is empty"),
        (line(text=""), "the text (column 6) is empty"),
        ('"0","1","date","NO_QUERY","ann"', "expected six quoted columns: target, id, date, query, user, text"),
        ("0,1,date,NO_QUERY,ann,so sad", "expected six quoted columns: target, id, date, query, user, text"),
        (line()[:-4], "expected six quoted columns: target, id, date, query, user, text"),
        ("", "expected six quoted columns: target, id, date, query, user, text"),
    ],
)
def test_a_wrong_line_is_one_sentence_with_its_number(wrong: str, said: str, tmp_path: Path) -> None:
    root = root_with(tmp_path, sent140.SUBSET, [line(), wrong, line("4")])
    with pytest.raises(ConfigError) as caught:
        fetch("sent140-subset", DatasetFacts.model_validate(FACTS["sent140-subset"]), tmp_path / "out", root)
    assert str(caught.value) == f"{root / sent140.SUBSET}: line 2: {said}"
    assert not (tmp_path / "out").exists()


def test_a_subset_that_is_not_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    root = root_with(tmp_path, sent140.SUBSET, [line(), line(text="caf\xe9")], "latin-1")
    with pytest.raises(ConfigError, match=r"subset\.csv: line 2: not UTF-8: byte 0xe9"):
        sent140.sent140_subset(tmp_path, root)


@pytest.mark.parametrize("name", ["sent140", "sent140-words", "sent140-subset"])
def test_nothing_is_downloaded(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^sent140/.*\.csv: nothing downloads this file"):
        fetch(name, DatasetFacts.model_validate(FACTS[name]), tmp_path / "out", None)


# ---------------------------------------------------------------- GloVe


def few_tweets(name: str) -> DatasetFacts:
    """The facts of a dataset but for the number of its tweets."""
    return DatasetFacts.model_validate(FACTS[name] | {"per_class": None, "classes": 2})


@pytest.fixture
def small_glove(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GloVe file may be as small as a test's."""
    monkeypatch.setattr(sent140, "GLOVE_WORDS", 1)


@pytest.mark.usefixtures("small_glove")
def test_tokens_are_rows_of_the_vectors_of_the_words_that_occur(tmp_path: Path) -> None:
    glove = [vector("the", 1), vector("sad", 2), vector("so", 0.1), vector("sad", 9)]
    root_with(tmp_path, sent140.GLOVE, glove)
    root = root_with(tmp_path, sent140.TWEETS, [line(), line("4", "zoe", "So happy")], "latin-1")
    fetch("sent140", few_tweets("sent140"), tmp_path / "out", root)
    found = load(tmp_path / "out")
    vectors = found.tables["vectors"]
    assert vectors.dtype == np.float32 and vectors.shape == (4, 300)
    assert not vectors[:2].any() and vectors[2:, 0].tolist() == [2.0, np.float32(0.1)]
    # "happy" has no vector; the rest of the table is not of these tweets.
    assert found.inputs[:, :3].tolist() == [[3, 2, 0], [3, 1, 0]]
    assert found.tables["users"].tolist() == [0, 1]
    assert [file["name"] for file in found.manifest["files"]] == [sent140.TWEETS, sent140.GLOVE]


def test_a_glove_file_that_was_cut_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent140, "GLOVE_WORDS", 3)
    path = root_with(tmp_path, sent140.GLOVE, [vector("the", 1), vector("sad", 2)]) / sent140.GLOVE
    with pytest.raises(ConfigError, match=r"found 2 words, expected 3: the file was cut"):
        sent140.word_vectors(path, {"the"})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (vector("so", 1, 299), "expected a word and 300 numbers; found 299 columns behind it"),
        (vector("unused", 1, 301), "expected a word and 300 numbers; found 301 columns behind it"),
        ("so", "expected a word and 300 numbers; found 0 columns behind it"),
        (vector("so", 1).replace("0.5", "x", 1), "expected 300 numbers behind the word (could not convert string"),
        (vector("so", float("nan")), "expected 300 finite numbers behind the word"),
    ],
)
def test_a_wrong_line_of_glove_is_one_sentence(wrong: str, said: str, tmp_path: Path) -> None:
    root_with(tmp_path, sent140.GLOVE, [vector("the", 1), wrong])
    root = root_with(tmp_path, sent140.TWEETS, [line(), line("4")], "latin-1")
    with pytest.raises(ConfigError) as caught:
        sent140.sent140(tmp_path, root)
    assert str(caught.value).startswith(f"{root / sent140.GLOVE}: line 2: {said}") and "\n" not in str(caught.value)


def test_tweets_without_glove_are_asked_to_bring_it(tmp_path: Path) -> None:
    root = root_with(tmp_path, sent140.TWEETS, [line()], "latin-1")
    with pytest.raises(ConfigError, match=r"glove/glove\.6B\.300d\.txt: the file does not exist"):
        sent140.sent140(tmp_path, root)


# ---------------------------------------------------------------- the real thing


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("sent140", (sent140.TWEETS, sent140.GLOVE)),
        ("sent140-words", (sent140.TWEETS,)),
        ("sent140-subset", (sent140.SUBSET,)),
    ],
)
def test_the_real_data_are_what_the_facts_say(name: str, places: tuple[str, ...], tmp_path: Path) -> None:
    root = sources.data_root()
    if root is None or not all((root / place).exists() for place in places):
        pytest.skip(f"FEDBAYES_DATA names no folder with {' and '.join(places)}")
    fetch(name, DatasetFacts.model_validate(FACTS[name]), tmp_path, root)
    found = load(tmp_path)
    users = found.tables["users"]
    assert np.array_equal(np.unique(users), np.arange(users.max() + 1))
    rows = len(found.tables["vectors"]) if name == "sent140" else 50_000
    assert found.inputs.min() >= 0 and found.inputs.max() < rows
    # Hardly a word is unknown: a wrong encoding or a wrong way to find words would show.
    assert (found.inputs == 1).sum() < 0.1 * (found.inputs > 0).sum()
