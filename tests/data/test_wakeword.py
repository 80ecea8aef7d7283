"""Wake words: tiny folders of recordings in the real formats, every way they can be wrong, and the generated words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
import yaml
from torch.nn import functional as F

from fedbayes.bayes.layers import plain
from fedbayes.config import DatasetFacts
from fedbayes.data import sources, spoken_words, wakeword
from fedbayes.data.acoustics import COMBINATIONS
from fedbayes.data.datasets import READERS
from fedbayes.data.draws import Floats
from fedbayes.data.fetch import Dataset, array_digest, fetch, load
from fedbayes.data.logmel import SHAPE
from fedbayes.data.sources import RawData
from fedbayes.data.wakeword import Words
from fedbayes.models import load_network
from fedbayes.reading import ConfigError

ROOT = Path(__file__).parents[2]
FACTS = yaml.safe_load((ROOT / "config/datasets.yaml").read_text(encoding="utf-8"))


def sound(seed: int, samples: int = 3000) -> Floats:
    """A sound of 16-bit samples."""
    return np.random.default_rng(seed).integers(-9000, 9000, samples) / 2**15


# Two test takes, two training takes and one that comes too late, of the keyword and of two other digits.
DIGITS = {f"{digit}_ann_{take}": 100 * digit + take for digit in (0, 3, 7) for take in (0, 4, 5, 24, 25)}


def write_digits(root: Path, kind: str = "flac") -> Path:
    """A folder in FSDD's layout."""
    folder = root / "fsdd" / {"flac": "flac", "wav": "recordings"}[kind]
    folder.mkdir(parents=True)
    for name, seed in DIGITS.items():
        soundfile.write(folder / f"{name}.{kind}", sound(seed), 8000, "PCM_16")
    return folder


def refusal(read: Callable[[Path | None], RawData], root: Path | None) -> str:
    """The one sentence with which a reader refuses."""
    with pytest.raises(ConfigError) as caught:
        read(root)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> RawData:
    root = tmp_path_factory.mktemp("digits")
    write_digits(root)
    return spoken_words.fsdd(root)


def test_every_clip_is_heard_by_every_type_in_each_of_its_states(tiny: RawData) -> None:
    # Takes 5 and 24 of three digits, then takes 0 and 4; take 25 is not read.
    assert tiny.inputs.shape == (12 * 13, *SHAPE) and tiny.inputs.dtype == np.uint8
    assert tiny.labels.tolist() == 2 * ([1] * 26 + [0] * 52) and tiny.labels.dtype == np.int64
    found = np.stack([tiny.tables["device"], tiny.tables["state"]], 1).reshape(12, 13, 2)
    assert (found == np.array(COMBINATIONS)).all()
    assert {name: table.dtype for name, table in tiny.tables.items()} == dict.fromkeys(
        ("device", "state", "users"), np.dtype(np.int64)
    )
    assert len(np.unique(tiny.inputs, axis=0)) == len(tiny.inputs)
    assert [file.name for file in tiny.files] == [
        f"fsdd/flac/{digit}_ann_{take}.flac" for digit in (0, 3, 7) for take in (0, 4, 5, 24)
    ]


def test_groups_are_named_by_state_and_type(tiny: RawData) -> None:
    names = wakeword.groups(tiny.tables)
    assert names is not None and len(names) == len(tiny.labels)
    assert names[:13] == [
        "normal-A", "playback-A", "normal-B", "playback-B", "alarm-B", "normal-C", "playback-C",
        "normal-D", "playback-D", "alarm-D", "normal-E", "playback-E", "alarm-E",
    ]  # fmt: skip
    assert wakeword.groups({"users": tiny.tables["users"]}) is None


def test_each_types_samples_are_dealt_evenly_to_its_four_clients(tiny: RawData) -> None:
    device, users = tiny.tables["device"], tiny.tables["users"]
    assert (users // 4 == device).all()
    for part in (slice(0, 78), slice(78, 156)):
        # Six clips in two or three states, shared by four clients.
        counts = np.bincount(users[part], minlength=20).reshape(5, 4)
        assert counts.sum(1).tolist() == [12, 18, 12, 18, 18]
        assert (counts.max(1) - counts.min(1) <= 1).all()
    in_turn = 4 * device + np.arange(len(device)) % 4
    assert (users != in_turn).any(), "dealt at random, not in turn"


def test_wav_and_flac_files_and_a_second_reading_give_the_same_bytes(tiny: RawData, tmp_path: Path) -> None:
    write_digits(tmp_path, "wav")
    again = spoken_words.fsdd(tmp_path)
    assert array_digest(again.inputs, again.labels, again.tables) == array_digest(tiny.inputs, tiny.labels, tiny.tables)
    assert again.files[0].name == "fsdd/recordings/0_ann_0.wav"


@pytest.fixture
def words() -> Words:
    return Words([sound(seed) for seed in range(5)], np.array([1, 0, 0, 1, 0]))


def test_how_many_clips_are_made_at_once_changes_nothing(words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    together = wakeword.images(0, words)
    monkeypatch.setattr(wakeword, "AT_ONCE", 2)
    assert np.array_equal(wakeword.images(0, words), together)


def test_the_keyword_is_never_played_back(words: Words) -> None:
    """Other keywords change nothing where another word is spoken, whatever the state."""
    other = Words([sound(9), words.clips[1], words.clips[2], sound(8), words.clips[4]], words.labels)
    one, two = (wakeword.images(0, found).reshape(5, 13, *SHAPE) for found in (words, other))
    rest = words.labels == 0
    assert np.array_equal(one[rest], two[rest])
    assert (one[~rest] != two[~rest]).any((2, 3, 4)).all()


def test_playback_is_other_words(words: Words) -> None:
    other = Words([*words.clips[:4], sound(9)], words.labels)
    one, two = (wakeword.images(0, found).reshape(5, 13, *SHAPE)[:4] for found in (words, other))
    changed = (one != two).any((0, 2, 3, 4))
    assert [COMBINATIONS[at][1] for at in np.flatnonzero(changed)] == [1] * 5


def test_no_test_clip_is_heard_in_training(words: Words) -> None:
    test = Words([sound(20), sound(21)], np.array([1, 0]))
    other = Words([sound(22), sound(23)], np.array([1, 0]))
    one, two = (wakeword.dataset(words, part, [], "a test").inputs for part in (test, other))
    assert np.array_equal(one[: 5 * 13], two[: 5 * 13]) and not np.array_equal(one[5 * 13 :], two[5 * 13 :])


def test_silence_instead_of_a_word_is_no_error(words: Words) -> None:
    silent = Words([np.zeros(100), *words.clips[1:]], words.labels)
    assert wakeword.images(0, silent)[:13].any()


# ---------------------------------------------------------------- folders that are wrong


def wav(folder: Path, samples: Any, rate: int = 8000, subtype: str = "PCM_16") -> bytes:
    soundfile.write(folder / "made.wav", samples, rate, subtype)
    content = (folder / "made.wav").read_bytes()
    (folder / "made.wav").unlink()
    return content


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lambda _: b"<html>not found</html>", "not a complete WAV or FLAC file (Format not recognised)"),
        (lambda _: b"", "not a complete WAV or FLAC file (Format not recognised)"),
        (lambda folder: wav(folder, sound(0))[:-9], "not a complete WAV or FLAC file (Cut short)"),
        (lambda folder: wav(folder, sound(0), 16000), "expected one channel of 8000 Hz; found 1 of 16000 Hz"),
        (lambda folder: wav(folder, np.zeros((9, 2))), "expected one channel of 8000 Hz; found 2 of 8000 Hz"),
        (lambda folder: wav(folder, np.zeros(0)), "it holds no sound, or samples that are not numbers"),
        (lambda folder: wav(folder, [0.1, np.nan], subtype="FLOAT"), "it holds no sound, or samples that are not"),
    ],
    ids=["html", "empty", "cut", "rate", "stereo", "nothing", "nan"],
)
def test_a_file_that_is_no_such_recording_is_one_sentence(
    tmp_path: Path, content: Callable[[Path], bytes], said: str
) -> None:
    file = write_digits(tmp_path, "wav") / "3_ann_5.wav"
    file.write_bytes(content(tmp_path))
    sentence = refusal(spoken_words.fsdd, tmp_path)
    assert sentence.startswith(f"{file}: {said}") and sentence.endswith("put a good copy there")


def test_a_flac_file_cut_short_is_one_sentence(tmp_path: Path) -> None:
    file = write_digits(tmp_path) / "3_ann_5.flac"
    file.write_bytes(file.read_bytes()[:-9])
    assert refusal(spoken_words.fsdd, tmp_path).startswith(f"{file}: not a complete WAV or FLAC file")


@pytest.mark.parametrize("name", ["george_0_1", "0_george", "0_george_1_2", "10_george_1", "0_george_01"])
def test_a_wrong_name_is_one_sentence(tmp_path: Path, name: str) -> None:
    file = write_digits(tmp_path) / f"{name}.flac"
    file.touch()
    assert refusal(spoken_words.fsdd, tmp_path) == (
        f"{file}: expected a name of digit, speaker and take, such as 0_george_12.flac"
    )


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("0_*_5.flac 0_*_24.flac", "no recording of the keyword for the training part"),
        ("0_*_0.flac 0_*_4.flac", "no recording of the keyword for the test part"),
        ("[37]_*_0.flac [37]_*_4.flac", "no recording of a word other than the keyword for the test part"),
    ],
)
def test_a_part_without_the_keyword_or_without_other_words_is_one_sentence(
    tmp_path: Path, missing: str, said: str
) -> None:
    folder = write_digits(tmp_path)
    for pattern in missing.split():
        for file in folder.glob(pattern):
            file.unlink()
    assert refusal(spoken_words.fsdd, tmp_path) == f"{tmp_path / 'fsdd'}: {said}"


def test_an_empty_or_missing_folder_is_one_sentence(tmp_path: Path) -> None:
    said = f"{tmp_path / 'fsdd'}: no recordings; expected recordings/*.wav or flac/*.flac, such as 0_george_12.wav"
    assert refusal(spoken_words.fsdd, tmp_path) == said
    (tmp_path / "fsdd/flac").mkdir(parents=True)
    assert refusal(spoken_words.fsdd, tmp_path) == said


@pytest.mark.parametrize(
    ("read", "wanted"),
    [
        (spoken_words.fsdd, "fsdd/recordings/*.wav or fsdd/flac/*.flac"),
        (spoken_words.speech_commands, "speech_commands/testing_list.txt and speech_commands/<word>/*.wav"),
    ],
)
def test_without_a_folder_of_the_users_the_reader_says_what_it_needs(
    read: Callable[[Path | None], RawData], wanted: str
) -> None:
    assert refusal(read, None) == (
        f"no spoken words: let FEDBAYES_DATA or execution.data_root point to a folder that holds {wanted}"
    )


def test_the_papers_own_audio_is_refused_with_what_stands_in_for_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"wakeword: this audio is proprietary; .* wakeword-fsdd, .* stand in for it"):
        fetch("wakeword", DatasetFacts.model_validate(FACTS["wakeword"]), tmp_path / "out", tmp_path)
    assert not (tmp_path / "out").exists()
    assert {name for name, facts in FACTS.items() if facts.get("stand_in_for") == "wakeword"} <= READERS.keys()


# ---------------------------------------------------------------- Speech Commands


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the layout of Speech Commands with two words beside the keyword, and few clips of each."""
    monkeypatch.setattr(spoken_words, "OTHER_COMMANDS", ("zero", "go"))
    monkeypatch.setattr(spoken_words, "KEY_CLIPS", (2, 1))
    monkeypatch.setattr(spoken_words, "OTHER_CLIPS", (1, 1))
    tests = []
    for at, word in enumerate(("marvin", "zero", "go", "bed")):
        folder = tmp_path / "speech_commands" / word
        folder.mkdir(parents=True)
        for clip in range(4):
            soundfile.write(folder / f"{clip}ab_nohash_0.wav", sound(10 * at + clip, 16000), 16000, "PCM_16")
        tests.append(f"{word}/1ab_nohash_0.wav\n")
    (tmp_path / "speech_commands/testing_list.txt").write_text("".join(tests))
    return tmp_path


def test_of_speech_commands_the_first_clips_of_each_word_are_taken(commands: Path) -> None:
    found = spoken_words.speech_commands(commands)
    assert [file.name.removeprefix("speech_commands/")[:-15] for file in found.files] == (
        ["marvin/0", "marvin/2", "marvin/1", "zero/0", "zero/1", "go/0", "go/1"]
    )
    assert found.labels.tolist() == [1] * 26 + [0] * 26 + [1] * 13 + [0] * 26
    assert np.bincount(found.tables["users"]).sum() == len(found.inputs) == 7 * 13


def test_halving_the_rate_keeps_a_tone_and_drops_what_8_khz_cannot_hold(tmp_path: Path) -> None:
    time = np.arange(16000) / 16000
    low, high = (0.5 * np.sin(2 * np.pi * hertz * time) for hertz in (1000, 6000))
    path = tmp_path / "tone.wav"
    soundfile.write(path, low + high, 16000, "PCM_16")
    found = spoken_words._sound(path, path.read_bytes(), 16000)
    assert len(found) == 8000
    inner = slice(100, -100)
    assert found[inner] == pytest.approx(0.5 * np.sin(2 * np.pi * 1000 * np.arange(8000) / 8000)[inner], abs=0.01)


def test_too_few_clips_of_a_word_are_counted_in_one_sentence(commands: Path) -> None:
    folder = commands / "speech_commands"
    for file in (folder / "go").glob("[023]*.wav"):
        file.unlink()
    assert refusal(spoken_words.speech_commands, commands) == (
        f"{folder / 'go'}: found 0 files *.wav for training; expected at least 1"
    )
    (folder / "testing_list.txt").write_bytes(b"\xff\xfe no list")
    assert refusal(spoken_words.speech_commands, commands) == (
        f"{folder / 'marvin'}: found 0 files *.wav that testing_list.txt names; expected at least 1"
    )
    (folder / "testing_list.txt").unlink()
    assert refusal(spoken_words.speech_commands, commands).startswith(
        f"{folder / 'testing_list.txt'}: the file does not exist"
    )


def test_the_counts_of_speech_commands_follow_from_the_reader() -> None:
    facts, words = FACTS["wakeword-speech-commands"], len(spoken_words.OTHER_COMMANDS)
    others, keywords = spoken_words.OTHER_CLIPS, spoken_words.KEY_CLIPS
    assert facts["per_class"] == [13 * words * sum(others), 13 * sum(keywords)]
    assert facts["test_per_class"] == [13 * words * others[1], 13 * keywords[1]]


# ---------------------------------------------------------------- generated words, and the real digits


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("wakeword-like")
    fetch("wakeword-like", DatasetFacts.model_validate(FACTS["wakeword-like"]), folder, None)
    return load(folder)


def assert_parts_are_whole(dataset: Dataset, clips: int, keywords: int) -> None:
    """The test part, as the facts count it, holds the same clips for every type and state."""
    test = np.zeros(len(dataset.labels), bool)
    for label, count in enumerate(dataset.manifest["test_per_class"]):
        test[np.flatnonzero(dataset.labels == label)[-count:]] = True
    assert test.argmax() == len(test) - test.sum(), "the test part comes last"
    device, state, users = (dataset.tables[name][test] for name in ("device", "state", "users"))
    for kind, wanted in COMBINATIONS:
        cell = (device == kind) & (state == wanted)
        assert (cell.sum(), dataset.labels[test][cell].sum()) == (clips, keywords)
    for part in (users, dataset.tables["users"][~test]):
        sizes = np.bincount(part, minlength=20).reshape(5, 4)
        assert (sizes == sizes[:, :1]).all() and (sizes > 0).all()


def test_the_generated_words_are_what_the_facts_say(generated: Dataset) -> None:
    assert generated.inputs.shape == (3120, *SHAPE)
    assert_parts_are_whole(generated, clips=40, keywords=8)


def test_the_wake_word_net_learns_the_generated_words(generated: Dataset) -> None:
    """As config/papers/selffl.yaml has it: the net, the normalisation, plain SGD with rate 0.05 on batches of 10."""
    training = 3120 - 520
    x = (torch.tensor(np.asarray(generated.inputs)) / 255 - 0.52) / 0.08
    y = torch.tensor(generated.labels)
    fields = {"channels": (16, 32), "padding": 1, "pooled": (True, True), "hidden": (32,)}
    network = load_network("cnn", fields, SHAPE, 2)
    weights = {k: v.requires_grad_() for k, v in network.init(torch.Generator().manual_seed(0)).items()}
    optimiser = torch.optim.SGD(weights.values(), lr=0.05)
    for batch in torch.randperm(training, generator=torch.Generator().manual_seed(0)).split(10):
        optimiser.zero_grad()
        F.cross_entropy(network.apply(plain(weights), x[batch]), y[batch]).backward()
        optimiser.step()
    with torch.no_grad():
        right = network.apply(plain(weights), x[training:]).argmax(1) == y[training:]
    balanced = sum(float(right[y[training:] == label].double().mean()) for label in (0, 1)) / 2
    assert balanced > 0.75


def test_the_real_digits_are_what_the_facts_say(tmp_path: Path) -> None:
    root = sources.data_root()
    if root is None or not (root / "fsdd").exists():
        pytest.skip("FEDBAYES_DATA names no folder with fsdd")
    fetch("wakeword-fsdd", DatasetFacts.model_validate(FACTS["wakeword-fsdd"]), tmp_path, root)
    assert_parts_are_whole(load(tmp_path), clips=300, keywords=30)
