"""The generated texts: their facts, what they are made of, and that the papers' networks learn from them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch.nn import functional as F

from fedbayes.bayes.layers import plain
from fedbayes.config import DatasetFacts
from fedbayes.data import generated_text
from fedbayes.data.fetch import Dataset, fetch, load
from fedbayes.models import load_network
from fedbayes.models.network import Network

FACTS = yaml.safe_load((Path(__file__).parents[2] / "config/datasets.yaml").read_text(encoding="utf-8"))
FEDUAB = {"vocabulary": 50_000, "vector": 16, "widths": (2, 3, 4), "channels": 10}


def fetched(name: str, tmp_path: Path) -> Dataset:
    fetch(name, DatasetFacts.model_validate(FACTS[name]), tmp_path, None)
    return load(tmp_path)


@pytest.fixture(scope="module")
def news(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return fetched("cnews-like", tmp_path_factory.mktemp("news"))


@pytest.fixture(scope="module")
def tweets(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return fetched("sent140-like", tmp_path_factory.mktemp("tweets"))


def accuracy_after(
    network: Network,
    found: Dataset,
    test: np.ndarray[Any, Any],
    steps: int,
    rate: float,
    optimiser: Any = torch.optim.Adam,
    batch: int = 100,
) -> float:
    """Accuracy on the samples marked as test, after `steps` batches of the others."""
    inputs, labels, held_out = (
        torch.from_numpy(np.array(found.inputs)),
        torch.from_numpy(found.labels),
        torch.from_numpy(test),
    )
    params = {name: weight.requires_grad_() for name, weight in network.init(torch.Generator().manual_seed(0)).items()}
    optimizer = optimiser(params.values(), lr=rate)
    order = torch.Generator().manual_seed(1)
    training = (~held_out).nonzero().flatten()
    for _ in range(steps):
        rows = training[torch.randint(len(training), (batch,), generator=order)]
        optimizer.zero_grad()
        torch.autograd.backward(F.cross_entropy(network.apply(plain(params), inputs[rows]), labels[rows]))
        optimizer.step()
    with torch.no_grad():
        right = network.apply(plain(params), inputs[held_out]).argmax(1) == labels[held_out]
    return float(right.float().mean())


def test_news_are_padded_texts_whose_words_are_spread_over_the_whole_table(news: Dataset) -> None:
    assert news.inputs.dtype == np.int32 and news.inputs.shape == (7_000, 40)
    lengths = (news.inputs > 0).sum(1)
    assert lengths.min() == 20 and lengths.max() == 40
    assert all((row[:length] > 1).all() for row, length in zip(news.inputs, lengths, strict=True))
    words = np.unique(news.inputs[news.inputs > 0])
    assert 4_000 < len(words) <= 4_200 and words.max() < 50_000
    assert (np.histogram(words, 10, (0, 50_000))[0] > 300).all()


def test_no_frequent_word_of_the_news_tells_the_class(news: Dataset) -> None:
    counts = np.zeros((10, 50_000), np.int64)
    for label in range(10):
        of_class = news.inputs[news.labels == label]
        counts[label] = np.bincount(of_class[of_class > 0], minlength=50_000)
    frequent = counts[:, counts.sum(0) >= 200]
    assert frequent.shape[1] > 100
    assert ((frequent > 0).sum(0) >= 8).all()
    # Topic words: two classes write them most, and neither has most of them.
    assert (frequent.max(0) < 0.6 * frequent.sum(0)).all()


def test_users_give_topics_their_own_meaning(tweets: Dataset) -> None:
    users = tweets.tables["users"]
    sizes = np.bincount(users)
    assert len(sizes) == 30 and sizes.min() >= 20 and sizes.max() <= 60
    topics = range(2 + 2 * generated_text.MOOD_WORDS, 2 + 2 * generated_text.MOOD_WORDS + generated_text.TOPIC_WORDS)
    of_user, of_all = defaultdict(set), defaultdict(set)
    for row, label, user in zip(tweets.inputs.tolist(), tweets.labels.tolist(), users.tolist(), strict=True):
        for token in set(row) & set(topics):
            of_user[user, token].add(label)
            of_all[token].add(label)
    assert all(len(labels) == 1 for labels in of_user.values())
    assert sum(len(labels) == 2 for labels in of_all.values()) > 0.4 * len(of_all)


def test_feduabs_network_learns_the_news_but_not_at_once(news: Dataset) -> None:
    network = load_network("textcnn", FEDUAB, (40,), 10)
    test = np.arange(7_000) >= 6_000
    assert accuracy_after(network, news, test, 20, 0.03) < 0.5
    assert 0.6 < accuracy_after(network, news, test, 130, 0.03) < 0.95


def test_selffls_network_learns_the_tweets(tweets: Dataset) -> None:
    """As config/papers/selffl.yaml has it: two layers of 256 on vectors of 300, SGD with rate 1 on batches of 10."""
    network = load_network("lstm", {"hidden": 256, "depth": 2, "vocabulary": 1_000, "vector": 300}, (25,), 2)
    test = np.arange(len(tweets.labels)) % 5 == 0
    assert 0.65 < accuracy_after(network, tweets, test, 300, 1.0, torch.optim.SGD, batch=10) < 0.98
