"""CNews, the ten classes of THUCNews that FedUAB trains on, and what can stand in for it.

CNews is the subset of gaussic/text-classification-cnn-rnn: a label, a tab and an article in every line, UTF-8. FedUAB
trains on its 50,000 training articles, tests on its 10,000 test articles and leaves the 5,000 of `cnews.val.txt` out,
and so do we. The paper gives a vocabulary of 50,000, hence words, but neither segmenter nor length; we take jieba's
words and the 600 tokens of that repository. The vocabulary is counted on the training part alone, within those tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedbayes.data.segmenter import segmented, segmenter
from fedbayes.data.sources import RawData, describe, own_file
from fedbayes.data.text import labelled, lines, numbered, occurrences, tokens, vocabulary
from fedbayes.reading import complain

# In the order of the public repository.
CLASSES = ("体育", "财经", "房产", "家居", "教育", "科技", "时尚", "时政", "游戏", "娱乐")
TITLE_CLASSES = (
    "finance", "realty", "stocks", "education", "science", "society", "politics", "sports", "game", "entertainment",
)  # fmt: skip

ARTICLE_LENGTH = 600
# The longest of the 65,000 titles has 19 words.
TITLE_LENGTH = 20

TRAINING, TEST = "cnews/cnews.train.txt", "cnews/cnews.test.txt"
ARTICLES = "cnews/cnews.subset.txt"
TITLES = "cnews/thucnews_titles"


def cnews(target: Path, data_root: Path | None) -> RawData:
    """CNews: 50,000 training articles, then 10,000 test articles, in the order of their files."""
    parts = [labelled(own_file(data_root, name), CLASSES, "first") for name in (TRAINING, TEST)]
    texts, labels = ([*first, *second] for first, second in zip(*parts, strict=True))
    return _raw_data(texts, labels, len(parts[0][0]), ARTICLE_LENGTH, data_root, (TRAINING, TEST))


def cnews_titles(target: Path, data_root: Path | None) -> RawData:
    """Titles of THUCNews: the first 45,000 of the training file and the development file, then the test file.

    The development file is added because FedUAB deals out 500 samples of ten classes to each of 100 clients, 5,000 a
    class, and the first part alone has fewer. A training title that is also a test title is left out, whatever its
    label: nothing that is tested has been trained on, and the test part stays whole, 1,000 a class.
    """
    training, development, test, names = (
        f"{TITLES}.{part}.txt" for part in ("train_first45000", "dev", "test", "class")
    )
    _check_names(own_file(data_root, names))
    numbers = [str(number) for number in range(len(TITLE_CLASSES))]
    parts = {name: labelled(own_file(data_root, name), numbers, "last") for name in (training, development, test)}
    tested = set(parts[test][0])
    rows = [row for name in (training, development) for row in zip(*parts[name], strict=True) if row[0] not in tested]
    texts, labels = zip(*rows, *zip(*parts[test], strict=True), strict=True)
    return _raw_data(texts, labels, len(rows), TITLE_LENGTH, data_root, (training, development, test, names))


def cnews_articles(target: Path, data_root: Path | None) -> RawData:
    """1,391 whole articles of CNews, of which the last fifth of each class, rounded down, is the test part.

    The training part comes first; within each part the file's order stays.
    """
    texts, labels = labelled(own_file(data_root, ARTICLES), CLASSES, "first")
    test = last_fifth(np.array(labels))
    order = np.argsort(test, kind="stable")
    training = len(texts) - int(test.sum())
    return _raw_data(
        [texts[row] for row in order], [labels[row] for row in order], training, ARTICLE_LENGTH, data_root, (ARTICLES,)
    )


def last_fifth(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which samples are the last fifth of their class."""
    chosen = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        chosen[rows[len(rows) - len(rows) // 5 :]] = True
    return chosen


def _check_names(path: Path) -> None:
    """Refuse titles whose numbers stand for other classes."""
    found = tuple(line for _, line in lines(path))
    if found != TITLE_CLASSES:
        raise complain(str(path), "", f"expected the classes {', '.join(TITLE_CLASSES)}; found {', '.join(found)}")


def _raw_data(
    texts: Sequence[str],
    labels: Sequence[int],
    training: int,
    length: int,
    data_root: Path | None,
    names: Sequence[str],
) -> RawData:
    """Texts, the first `training` of them the training part, as tokens of a vocabulary counted on that part."""
    files = [*(describe(own_file(data_root, name), name) for name in names), segmenter()]
    words = numbered(segmented(texts), length)
    inputs = tokens(words, vocabulary(words.words, occurrences(words, training)))
    return RawData(inputs, np.array(labels, np.int64), files, str(data_root))
