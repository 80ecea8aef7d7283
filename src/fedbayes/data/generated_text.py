"""Generated texts in the form of CNews and Sent140: small, learnable by the papers' networks, and never downloaded.

A text mixes words that say something with noise words by Zipf's law (the word of rank r has weight 1/r). Such texts
prove nothing about a paper; they let its networks and methods run anywhere. Words are drawn by whole numbers, so that
every processor makes the same texts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedbayes.data.draws import Draws
from fedbayes.data.sources import RawData
from fedbayes.data.text import FIRST_WORD, PADDING, ROWS

Whole = NDArray[np.int64]

NEWS_SEED, TWEET_SEED = 1, 2

NEWS_CLASSES = 10
NEWS_SAMPLES = 7_000
NEWS_LENGTH = 40
NEWS_NOISE = 4_000
# Topic words that a class shares with the class before it, and as many with the one behind it.
NEWS_ARC = 20

TWEET_USERS = 30
TWEETS_AT_LEAST, TWEETS_AT_MOST = 20, 60
TWEET_LENGTH = 25
TWEET_NOISE = 600
MOOD_WORDS = 40
TOPIC_WORDS = 100
# Topics that a user dislikes, and as many that he likes.
TOPICS_OF_A_MOOD = 3


def cnews_like(target: Path, data_root: Path | None) -> RawData:
    """Ten classes of 700 texts of 20 to 40 tokens, the last 100 of each the test part.

    A quarter of the places is a topic word, of the text's class three times out of four and else of any. Topic words
    stand in a ring, of which every class has an arc that its neighbours share half and half: no word alone tells the
    class. The 4,200 words are spread over the 50,000 rows of FedUAB's table.
    """
    draws = Draws(NEWS_SEED)
    labels = np.arange(NEWS_SAMPLES) % NEWS_CLASSES
    shape = (NEWS_SAMPLES, NEWS_LENGTH)
    stray, any_class = draws.below(4, *shape) == 0, draws.below(NEWS_CLASSES, *shape)
    ring = NEWS_CLASSES * NEWS_ARC
    topics = (np.where(stray, any_class, labels[:, np.newaxis]) * NEWS_ARC + draws.below(2 * NEWS_ARC, *shape)) % ring
    noise = ring + _zipf(draws, NEWS_NOISE, shape)
    words = np.where(draws.below(4, *shape) == 0, topics, noise)
    rows = draws.shuffle(np.arange(FIRST_WORD, ROWS))
    return RawData(_cut(draws, rows[words]), labels, [], "fedbayes.data.generated_text")


def sent140_like(target: Path, data_root: Path | None) -> RawData:
    """30 users with 20 to 60 tweets of 12 to 25 tokens each, negative or positive.

    A fifth of the places is a word for a mood, the tweet's own four times out of five. Three tenths are topics of the
    user: in bad mood he talks of what he dislikes, in good mood of what he likes, so that what a topic tells depends on
    the user. The 780 words have the rows behind padding and unknown words.
    """
    draws = Draws(TWEET_SEED)
    sizes = TWEETS_AT_LEAST + draws.below(TWEETS_AT_MOST - TWEETS_AT_LEAST + 1, TWEET_USERS)
    users = np.repeat(np.arange(TWEET_USERS), sizes)
    labels = draws.below(2, len(users))
    shape = (len(users), TWEET_LENGTH)
    shown = labels[:, np.newaxis] ^ (draws.below(5, *shape) == 0)
    moods = shown * MOOD_WORDS + draws.below(MOOD_WORDS, *shape)
    own = np.stack([draws.shuffle(np.arange(TOPIC_WORDS)) for _ in range(TWEET_USERS)])
    talked_of = labels[:, np.newaxis] * TOPICS_OF_A_MOOD + draws.below(TOPICS_OF_A_MOOD, *shape)
    topics = 2 * MOOD_WORDS + own[users[:, np.newaxis], talked_of]
    noise = 2 * MOOD_WORDS + TOPIC_WORDS + _zipf(draws, TWEET_NOISE, shape)
    kind = draws.below(10, *shape)
    words = np.where(kind < 2, moods, np.where(kind < 5, topics, noise))
    return RawData(_cut(draws, FIRST_WORD + words), labels, [], "fedbayes.data.generated_text", {"users": users})


def _zipf(draws: Draws, words: int, shape: tuple[int, ...]) -> Whole:
    """Words 0, 1, ... with weights 1, 1/2, 1/3, ..."""
    ends = np.cumsum(2**40 // np.arange(1, words + 1))
    return np.searchsorted(ends, draws.below(int(ends[-1]), *shape), side="right")


def _cut(draws: Draws, rows: Whole) -> NDArray[np.int32]:
    """Tokens (text, position) of texts that fill half of their places or more, padded at the end."""
    texts, length = rows.shape
    shortest = length // 2
    ends = shortest + draws.below(length - shortest + 1, texts)
    return np.where(np.arange(length) < ends[:, np.newaxis], rows, PADDING).astype(np.int32)
