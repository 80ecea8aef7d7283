"""`config/splits.csv`, `data.dvc` and the configuration agree, and DVC does with them what a user expects."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fedbayes.data.commit_splits import main, needed_splits
from fedbayes.data.regenerate_splits import fetched, regenerate, sweep
from fedbayes.data.sources import data_root
from fedbayes.data.splits import COLUMNS, make_split, read_split
from fedbayes.plan import read_committed_splits
from fedbayes.reading import ConfigError
from fedbayes.split_rules import split_of

ROOT = Path(__file__).parents[2]
ROWS = read_committed_splits(ROOT)


def test_the_list_has_its_columns_and_is_sorted() -> None:
    with (ROOT / "config/splits.csv").open(newline="") as lines:
        header, *rows = csv.reader(lines)
    assert tuple(header) == COLUMNS
    assert [row[0] for row in rows] == sorted({row[0] for row in rows})


def test_exactly_the_splits_the_configuration_needs_are_listed() -> None:
    needed = needed_splits(ROOT)
    assert list(ROWS) == sorted(needed), "run 'make commit-splits'"
    for path, run in needed.items():
        assert ROWS[path]["dataset"] == run.dataset
        assert json.loads(ROWS[path]["split"]) == run.spec["split"]
        assert ROWS[path]["seed"] == str(run.spec["seed"])


def test_the_list_names_the_datasets_by_their_present_sums() -> None:
    facts = yaml.safe_load((ROOT / "config/datasets.yaml").read_text(encoding="utf-8"))
    for row in ROWS.values():
        assert row["dataset_sha256"] == facts[row["dataset"]]["sha256"]


def test_data_dvc_pins_what_the_list_lists() -> None:
    (pinned,) = yaml.safe_load((ROOT / "data.dvc").read_text(encoding="utf-8"))["outs"]
    # DVC's sum of a folder: md5 of the JSON list of its files' sums, sorted by path.
    files = [{"md5": row["md5"], "relpath": path.removeprefix("data/")} for path, row in sorted(ROWS.items())]
    assert pinned["md5"] == hashlib.md5(json.dumps(files).encode()).hexdigest() + ".dir"
    assert pinned["nfiles"] == len(ROWS)
    assert pinned["size"] == sum(int(row["bytes"]) for row in ROWS.values())
    assert pinned["path"] == "data"


def test_dvc_neither_calls_home_nor_shows_data_to_git() -> None:
    assert "analytics = false" in (ROOT / ".dvc/config").read_text()
    assert "/data" in (ROOT / ".gitignore").read_text().splitlines()


def small_project(folder: Path, dataset: str = "mnist-5k") -> Path:
    """A clone's `config/`, with only the splits of one dataset listed."""
    shutil.copytree(ROOT / "config", folder / "config")
    lines = (ROOT / "config/splits.csv").read_text().splitlines(keepends=True)
    kept = [line for line in lines if line.startswith(("path,", f"data/{dataset}/"))]
    (folder / "config/splits.csv").write_text("".join(kept))
    return folder


def remake(root: Path, dataset: str) -> None:
    """Make the listed splits again, all of one dataset, each compared with the list, and count what is in them."""
    rows = read_committed_splits(root)
    assert rows
    for path, row in rows.items():
        split = split_of(json.loads(row["split"]))
        make_split(fetched(root, dataset), split, int(row["seed"]), root / path, row)
        clients, _ = read_split(root / path)
        for part, indices in clients._asdict().items():
            assert sum(map(len, indices)) == int(row[part])
        assert len(clients.train) == int(row["clients"])


FACTS = yaml.safe_load((ROOT / "config/datasets.yaml").read_text(encoding="utf-8"))
LISTED = {row["dataset"] for row in ROWS.values()}
EMBEDDED = sorted(LISTED & {own["embedded"] for own in FACTS.values() if "embedded" in own})
REAL = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST", "cifar10": "cifar-10-batches-py",
        "cifar100": "cifar-100-python", "mnist-by-writer": "QMNIST"}  # fmt: skip


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_sets_give_the_listed_bytes(name: str, tmp_path: Path) -> None:
    remake(small_project(tmp_path, name), name)


@pytest.mark.parametrize("name", REAL)
def test_the_real_data_give_the_listed_bytes(name: str, tmp_path: Path) -> None:
    root = data_root()
    if root is None or not (root / REAL[name]).exists():
        pytest.skip(f"FEDBAYES_DATA names no folder with {REAL[name]}")
    remake(small_project(tmp_path, name), name)


def test_every_listed_split_is_compared_by_one_of_these() -> None:
    assert {*EMBEDDED, *REAL} == LISTED


def test_sweeping_removes_old_splits_and_nothing_else(tmp_path: Path) -> None:
    for name in ("data/a/new.npz", "data/a/old.npz", "data/a/.new.npz.x.part"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    sweep(tmp_path, ["data/a/new.npz"])
    assert [file.name for file in (tmp_path / "data/a").iterdir()] == ["new.npz"]
    (tmp_path / "data/notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"data/notes.txt: only splits belong in data/"):
        sweep(tmp_path, ["data/a/new.npz"])
    assert (tmp_path / "data/notes.txt").exists()


def test_splits_of_a_dataset_that_is_not_at_hand_are_left_out_and_the_others_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDBAYES_DATA", str(tmp_path / "nothing"))
    root = small_project(tmp_path)
    listed = (root / "config/splits.csv").read_text()
    absent = next(line for line in (ROOT / "config/splits.csv").read_text().splitlines() if "data/cifar10/" in line)
    (root / "config/splits.csv").write_text(f"{listed}{absent}\n")
    with pytest.raises(ConfigError) as caught:
        regenerate(root)
    made = listed.count("\n") - 1
    assert str(caught.value).startswith(f"{made} of {made + 1} splits made; without data: cifar10; cifar10: ")
    assert len(list((root / "data/mnist-5k").rglob("*.npz"))) == made
    assert not (root / "data.dvc").exists(), "DVC would pin what is there"


def test_splits_of_data_whose_digest_is_not_known_are_not_pinned() -> None:
    unknown = {name for name, own in FACTS.items() if "sha256" not in own or own.get("by_hand")}
    assert {"cnews", "femnist", "sent140", "cnews-titles"} <= unknown
    assert not unknown & {row["dataset"] for row in ROWS.values()}


# ---------------------------------------------------------------- DVC as a user meets it


def run(root: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def dvc(root: Path, *arguments: str) -> str:
    return run(root, sys.executable, "-m", "dvc", *arguments)


def clone(folder: Path) -> Path:
    """A fresh repository with the committed DVC settings and the splits of the embedded digits listed."""
    small_project(folder)
    run(folder, "git", "init", "--quiet")
    (folder / ".dvc").mkdir()
    for name in (".dvc/config", ".dvc/.gitignore", ".dvcignore"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def contents(root: Path) -> dict[str, bytes]:
    return {str(f.relative_to(root)): f.read_bytes() for f in (root / "data").rglob("*") if f.is_file()}


@pytest.fixture
def quiet_dvc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DVC_NO_ANALYTICS", "true")
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / "site-cache"))


CLEAN = "Data and pipelines are up to date.\n"


@pytest.mark.slow
@pytest.mark.usefixtures("quiet_dvc")
def test_splits_survive_push_and_pull_and_regeneration(tmp_path: Path) -> None:
    mine, colleague = tmp_path / "mine", tmp_path / "colleague"
    paths = regenerate(clone(mine))
    made, pin = contents(mine), (mine / "data.dvc").read_bytes()
    assert sorted(made) == sorted(paths)
    assert dvc(mine, "status") == CLEAN
    dvc(mine, "remote", "add", "--default", "shelf", str(tmp_path / "shelf"))
    dvc(mine, "push", "--quiet")

    clone(colleague)
    (colleague / "data.dvc").write_bytes(pin)
    dvc(colleague, "remote", "add", "--default", "shelf", str(tmp_path / "shelf"))
    dvc(colleague, "pull", "--quiet")
    assert contents(colleague) == made
    assert dvc(colleague, "status") == CLEAN

    for folder in ("data", ".dvc/cache", "resources"):
        shutil.rmtree(mine / folder)
    regenerate(mine)
    assert contents(mine) == made
    assert (mine / "data.dvc").read_bytes() == pin
    assert dvc(mine, "status") == CLEAN

    (mine / "data/.seed0.npz.x.part").write_bytes(b"left by a killed job")
    assert dvc(mine, "status") == CLEAN
    (mine / paths[0]).write_bytes(b"something else")
    assert "modified" in dvc(mine, "status")


@pytest.mark.slow
@pytest.mark.usefixtures("quiet_dvc")
def test_committing_lists_what_changed(tmp_path: Path) -> None:
    root = clone(tmp_path)
    paper = root / "config/papers/pfedbayes.yaml"
    for other in sorted(set(paper.parent.iterdir()) - {paper}):
        other.unlink()
    paper_text = yaml.safe_load(paper.read_text(encoding="utf-8"))
    paper_text["experiments"] = {"table1": paper_text["experiments"]["table1"]}
    for experiment in paper_text["experiments"].values():
        for setting in experiment["settings"].values():
            setting["dataset"] = "mnist-5k"
            setting["split"] |= {"train_per_class": 40, "test_per_class": 60}
    paper_text["scales"]["smoke"] |= {"embedded_data": False, "split": {}, "set": {}}
    for scale in ("smoke", "reduced"):
        paper_text["scales"][scale] |= {"only": {}, "experiments": {}}
    paper.write_text(yaml.safe_dump(paper_text, sort_keys=False), encoding="utf-8")
    before = read_committed_splits(root)
    line = main(["write"], root)
    after = read_committed_splits(root)
    assert list(after) == sorted(needed_splits(root))
    assert line.startswith(f"{len(after)} splits in data/ ")
    assert not set(before) & set(after)
    assert sorted(contents(root)) == list(after), "splits that nothing needs any more are gone"
    assert dvc(root, "status") == CLEAN
    assert main(["check"], root) == line
    assert read_committed_splits(root) == after
