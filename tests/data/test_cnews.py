"""CNews and its stand-ins: tiny files in the real forms, what the test part keeps out, and the segmenter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from fedbayes.config import DatasetFacts
from fedbayes.data import cnews, segmenter, sources
from fedbayes.data.fetch import fetch, load
from fedbayes.reading import ConfigError

FACTS = yaml.safe_load((Path(__file__).parents[2] / "config/datasets.yaml").read_text(encoding="utf-8"))
CLASS_FILE = "\n".join(cnews.TITLE_CLASSES)
TITLE_FILES = {
    "thucnews_titles.train_first45000.txt": "股票上涨\t2\n比赛结束\t7\n股票 下跌\t2\n",
    "thucnews_titles.dev.txt": "比赛开始\t7\n重复标题\t0\n",
    "thucnews_titles.test.txt": "股票上涨\t2\n重复标题\t5\n奇怪\t7\n",
    "thucnews_titles.class.txt": CLASS_FILE,
}


def root_with(tmp_path: Path, files: dict[str, str]) -> Path:
    (tmp_path / "mine/cnews").mkdir(parents=True)
    for name, content in files.items():
        (tmp_path / "mine/cnews" / name).write_text(content, encoding="utf-8")
    return tmp_path / "mine"


# ---------------------------------------------------------------- articles


def test_cnews_is_the_training_file_then_the_test_file(tmp_path: Path) -> None:
    root = root_with(
        tmp_path, {"cnews.train.txt": "体育\t比赛 比赛 结束\n娱乐\t电影\n", "cnews.test.txt": "财经\t比赛股票\n"}
    )
    found = cnews.cnews(tmp_path, root)
    assert found.labels.tolist() == [0, 9, 1]
    assert found.inputs.shape == (3, 600) and found.inputs.dtype == np.int32
    # 比赛 is most frequent; 电影 and 结束 follow in the order of their characters; 股票 is in the test part alone.
    assert [row[:4].tolist() for row in found.inputs] == [[2, 2, 4, 0], [3, 0, 0, 0], [2, 1, 0, 0]]
    assert [file.name for file in found.files[:2]] == ["cnews/cnews.train.txt", "cnews/cnews.test.txt"]


def test_words_behind_the_600th_are_cut_and_get_no_row(tmp_path: Path) -> None:
    article = " ".join(["比赛"] * 600 + ["股票"] * 5)
    root = root_with(tmp_path, {"cnews.train.txt": f"体育\t{article}\n", "cnews.test.txt": "财经\t股票\n"})
    found = cnews.cnews(tmp_path, root)
    assert found.inputs[0].tolist() == [2] * 600 and found.inputs[1, 0] == 1


def test_the_last_fifth_of_each_class_is_the_test_part(tmp_path: Path) -> None:
    lines = [f"{cnews.CLASSES[label]}\t比赛{'甲乙丙丁戊己庚辛壬癸'[at]}" for label in (3, 1) for at in range(10)]
    found = cnews.cnews_articles(tmp_path, root_with(tmp_path, {"cnews.subset.txt": "\n".join(lines)}))
    assert found.labels.tolist() == [3] * 8 + [1] * 8 + [3, 3, 1, 1]
    # The order of the file stays: the first articles of both classes are the same words.
    assert np.array_equal(found.inputs[0], found.inputs[8]) and np.array_equal(found.inputs[16], found.inputs[18])
    assert cnews.last_fifth(np.array([0] * 9 + [1] * 4)).nonzero()[0].tolist() == [8]


# ---------------------------------------------------------------- titles


def test_a_training_title_that_is_tested_is_left_out_whatever_its_label(tmp_path: Path) -> None:
    found = cnews.cnews_titles(tmp_path, root_with(tmp_path, TITLE_FILES))
    assert found.labels.tolist() == [7, 2, 7, 2, 5, 7]
    assert found.inputs.shape == (6, 20)
    # 比赛 twice, then 下跌 开始 结束 股票 by their characters; white space between words is no word.
    assert found.inputs[:4, :3].tolist() == [[2, 5, 0], [6, 3, 0], [2, 4, 0], [6, 1, 0]]
    assert found.inputs[4:, 0].tolist() == [1, 1]


def test_numbers_that_stand_for_other_classes_are_refused(tmp_path: Path) -> None:
    root = root_with(tmp_path, TITLE_FILES | {"thucnews_titles.class.txt": "finance\nsports"})
    with pytest.raises(
        ConfigError, match=r"class\.txt: expected the classes finance, realty, .*; found finance, sports"
    ):
        cnews.cnews_titles(tmp_path, root)


# ---------------------------------------------------------------- wrong files


@pytest.mark.parametrize(
    ("reader", "files", "said"),
    [
        (cnews.cnews, {"cnews.train.txt": "体育\t好\n"}, "cnews.test.txt: the file does not exist"),
        (cnews.cnews, {"cnews.train.txt": "运动\t好\n"}, "cnews.train.txt: line 1: label: found '运动'; allowed: "),
        (
            cnews.cnews_articles,
            {"cnews.subset.txt": "体育\t好\n体育 好\n"},
            "line 2: expected a label, a tab and a text",
        ),
        (
            cnews.cnews_titles,
            TITLE_FILES | {"thucnews_titles.dev.txt": "好\t10\n"},
            "dev.txt: line 1: label: found '10'; allowed: 0, 1, 2",
        ),
        (
            cnews.cnews_titles,
            TITLE_FILES | {"thucnews_titles.test.txt": " \t3\n"},
            "test.txt: line 1: the text is empty",
        ),
    ],
)
def test_a_wrong_file_is_one_sentence(
    reader: Callable[..., Any], files: dict[str, str], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        reader(tmp_path, root_with(tmp_path, files))
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["cnews", "cnews-titles", "cnews-articles"])
def test_nothing_is_downloaded_and_nothing_half_written(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing downloads this file"):
        fetch(name, DatasetFacts.model_validate(FACTS[name]), tmp_path / "out", None)
    assert not (tmp_path / "out").exists()


# ---------------------------------------------------------------- the segmenter


def test_words_are_those_of_the_dictionary_and_white_space_is_none() -> None:
    texts = ["中华女子学院：本科层次仅1专业招男生", " a\u3000b\t"]
    expected = [["中华", "女子", "学院", "：", "本科", "层次", "仅", "1", "专业", "招", "男生"], ["a", "b"]]
    assert list(segmenter.segmented(texts)) == expected


def test_words_taught_to_the_shared_segmenter_change_nothing() -> None:
    import rjieba

    rjieba.add_word("女子学院", 10**6, None)
    assert rjieba.cut("女子学院") == ["女子学院"]
    assert next(segmenter.segmented(["女子学院"])) == ["女子", "学院"]


def test_the_manifest_tells_the_version_of_the_segmenter(tmp_path: Path) -> None:
    facts = DatasetFacts.model_validate({"title": "T", "source": "a test", "shape": [20], "classes": 8})
    titles = "\n".join(f"标题\t{label}" for label in range(8))
    files = TITLE_FILES | {"thucnews_titles.train_first45000.txt": titles}
    fetch("cnews-titles", facts, tmp_path / "out", root_with(tmp_path, files))
    last = load(tmp_path / "out").manifest["files"][-1]
    assert last["name"].startswith("rjieba-0.") and last["bytes"] > 1_000_000 and len(last["md5"]) == 32


def test_a_segmenter_that_is_not_installed_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmenter, "PACKAGE", "no_such_package")
    with pytest.raises(ConfigError, match=r"the package 'no_such_package'.* is not installed"):
        cnews.cnews_titles(tmp_path, root_with(tmp_path, TITLE_FILES))


# ---------------------------------------------------------------- the real thing


def test_the_classes_of_a_dataset_are_named() -> None:
    for name, classes in (
        ("cnews", cnews.CLASSES),
        ("cnews-articles", cnews.CLASSES),
        ("cnews-titles", cnews.TITLE_CLASSES),
    ):
        assert len(FACTS[name]["per_class"]) == len(set(classes)) == 10


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("cnews", cnews.TRAINING),
        ("cnews-titles", f"{cnews.TITLES}.train_first45000.txt"),
        ("cnews-articles", cnews.ARTICLES),
    ],
)
def test_the_real_data_are_what_the_facts_say(name: str, place: str, tmp_path: Path) -> None:
    root = sources.data_root()
    if root is None or not (root / place).exists():
        pytest.skip(f"FEDBAYES_DATA names no folder with {place}")
    facts = DatasetFacts.model_validate(FACTS[name])
    fetch(name, facts, tmp_path, root)
    inputs = load(tmp_path).inputs
    assert inputs.max() < 50_000 and inputs.any(axis=1).all()
    # The training part, whose words the vocabulary has in order: the most frequent word is the first.
    training = inputs[: len(inputs) - sum(facts.test_per_class or ())]
    counts = np.bincount(training[training > 1])[2:]
    assert (np.diff(counts) <= 0).all()


def test_every_class_of_titles_serves_100_clients() -> None:
    facts = DatasetFacts.model_validate(FACTS["cnews-titles"])
    assert min(facts.counts("train") or ()) >= 5_000
