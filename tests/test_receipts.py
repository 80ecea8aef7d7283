"""Receipts: a store that is away fails nothing and is said, everything else is an error."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from fedbayes.io import read_json
from fedbayes.job import alone
from fedbayes.receipts import UnreachableError, due, missed, missed_words, need, receipt


def written(file: Path, content: dict[str, object], why: str = "") -> str:
    with receipt(file, content):
        if why:
            raise UnreachableError(why)
    return str(file)


def test_what_was_published_is_on_the_receipt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path / "run-a.json", {"runs": ["a"]})
    assert read_json(Path(file)) == {"runs": ["a"]}
    assert missed([file, str(tmp_path / "not-yet.json")]) == {}
    assert missed_words([file]) == "" and capsys.readouterr().err == ""


def test_what_was_missed_is_on_the_receipt_in_the_log_and_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    file = written(tmp_path / "run-a.json", {"runs": ["a"]}, "no answer")
    assert missed([file]) == {file: {"runs": ["a"], "missed": "no answer"}}
    warning = "not published to MLflow, will be with the next start: run-a: no answer"
    assert [(record.levelname, record.message) for record in caplog.records] == [("WARNING", warning)]
    assert capsys.readouterr().err == f"fedbayes: warning: {warning}\n"


def test_what_was_missed_is_due_under_the_next_name_until_it_is_published(tmp_path: Path) -> None:
    names = [str(tmp_path / f"run-a{again}.json") for again in ("", ".2", ".3")]
    asked = []
    for why in ("no answer", "database is locked", ""):
        asked.append(due(names[0]))
        written(Path(asked[-1]), {"runs": ["a"]}, why)
    assert asked == names and due(names[0]) == names[-1]


def test_a_mistake_leaves_no_receipt(tmp_path: Path) -> None:
    with pytest.raises(TypeError), receipt(tmp_path / "run-a.json", {}):
        raise TypeError
    assert not (tmp_path / "run-a.json").exists()


def test_the_end_says_how_much_was_missed(tmp_path: Path) -> None:
    good = written(tmp_path / "run-a.json", {"runs": ["a"]})
    runs = written(tmp_path / "runs-bpfed.json", {"runs": ["b", "c"]}, "no answer")
    means = [written(tmp_path / f"means-{paper}.json", {"paper": paper}, "no runs") for paper in ("bpfed", "feduab")]
    later = "The same command publishes them later."
    assert missed_words([good, runs, *means]) == (
        f"Not published to MLflow: 2 runs and the means of bpfed, feduab (no answer). {later}"
    )
    one = written(tmp_path / "run-d.json", {"runs": ["d"]}, "no answer")
    assert missed_words([one]) == f"Not published to MLflow: 1 run (no answer). {later}"
    assert missed_words([good, means[0]]) == f"Not published to MLflow: the means of bpfed (no runs). {later}"


def test_means_wait_for_their_runs(tmp_path: Path) -> None:
    good = written(tmp_path / "run-a.json", {"runs": ["a"]})
    need([good])
    with pytest.raises(UnreachableError, match="2 of its runs could not be published"):
        need([good, written(tmp_path / "runs-b.json", {"runs": ["b", "c"]}, "no answer")])


def test_the_holder_of_a_lock_has_a_name_that_its_successor_inherits(tmp_path: Path) -> None:
    names = []
    for lock in (tmp_path / "one" / "lock", tmp_path / "one" / "lock", tmp_path / "two" / "lock"):
        with alone(lock) as name:
            names.append(name)
    assert names[0] == names[1] != names[2] and names[0].split() == [names[0]]


def test_who_waits_for_the_lock_says_so_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names, said = list[str](), ""

    def publish() -> None:
        with alone(tmp_path / "lock") as name:
            names.append(name)

    waiting = threading.Thread(target=publish, daemon=True)
    with alone(tmp_path / "lock") as name:
        waiting.start()
        while not said:
            said = capsys.readouterr().err
            time.sleep(0.01)
        assert names == []
    waiting.join(60)
    assert said == "fedbayes: waiting: another job publishes to MLflow\n" and names == [name]
