"""Wake words from sets of spoken words in the user's folder: Free Spoken Digit Dataset, Google's Speech Commands."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
from scipy import signal

from fedbayes.data.draws import Floats
from fedbayes.data.logmel import RATE
from fedbayes.data.sources import VARIABLE, RawData, described
from fedbayes.data.wakeword import Words, dataset
from fedbayes.reading import ConfigError

# Free Spoken Digit Dataset: 8 kHz. Half of its 50 takes, so that half a copy and a whole one are the same dataset.
DIGIT_NAME = re.compile(r"([0-9])_([a-z]+)_(0|[1-9][0-9]*)")
DIGIT_RATE = 8000
KEY_DIGIT = "0"
TAKES = 25
TEST_TAKES = 5

# Speech Commands: 16 kHz. Its 20 core words, and an auxiliary one as the keyword; clips of each, training and test.
COMMAND_RATE = 16000
KEY_COMMAND = "marvin"
OTHER_COMMANDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
    "yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go",
)  # fmt: skip
KEY_CLIPS = (1500, 150)
OTHER_CLIPS = (300, 60)


class Recording(NamedTuple):
    """A file, and what is known of it before it is opened."""

    path: Path
    is_keyword: bool
    is_test: bool


def fsdd(data_root: Path | None) -> RawData:
    """Digit 0 against the others: takes 5-24 for training, takes 0-4 for the test, as the dataset's authors split.

    `fsdd/recordings/*.wav` as published, or the same sounds as `fsdd/flac/*.flac`. Later takes are not read.
    """
    root = _root(data_root, "fsdd/recordings/*.wav or fsdd/flac/*.flac")
    folder = root / "fsdd"
    found = sorted(folder.glob("recordings/*.wav")) or sorted(folder.glob("flac/*.flac"))
    if not found:
        raise ConfigError(f"{folder}: no recordings; expected recordings/*.wav or flac/*.flac, such as 0_george_12.wav")
    taken = []
    for path in found:
        name = DIGIT_NAME.fullmatch(path.stem)
        if name is None:
            raise ConfigError(f"{path}: expected a name of digit, speaker and take, such as 0_george_12{path.suffix}")
        digit, speaker, take = name[1], name[2], int(name[3])
        if take < TAKES:
            taken.append((digit, speaker, take, Recording(path, digit == KEY_DIGIT, take < TEST_TAKES)))
    return _read(root, folder, [recording for *_, recording in sorted(taken)], DIGIT_RATE)


def speech_commands(data_root: Path | None) -> RawData:
    """The word "marvin" against 20 others: the first clips of each by name, in the parts that its authors list.

    `speech_commands/<word>/*.wav` and `speech_commands/testing_list.txt`; clips for validation count as training. The
    rate is halved by SciPy's `resample_poly` with its default filter.
    """
    root = _root(data_root, "speech_commands/testing_list.txt and speech_commands/<word>/*.wav")
    folder = root / "speech_commands"
    tests = folder / "testing_list.txt"
    if not tests.is_file():
        raise ConfigError(f"{tests}: the file does not exist; expected the list that comes with Speech Commands")
    listed = set(tests.read_text(encoding="utf-8", errors="replace").split())
    recordings = []
    for word in (KEY_COMMAND, *OTHER_COMMANDS):
        is_keyword = word == KEY_COMMAND
        whole = [Recording(p, is_keyword, f"{word}/{p.name}" in listed) for p in sorted((folder / word).glob("*.wav"))]
        for is_test, wanted in enumerate(KEY_CLIPS if is_keyword else OTHER_CLIPS):
            part = [recording for recording in whole if recording.is_test == bool(is_test)]
            if len(part) < wanted:
                named = "that testing_list.txt names" if is_test else "for training"
                raise ConfigError(f"{folder / word}: found {len(part)} files *.wav {named}; expected at least {wanted}")
            recordings += part[:wanted]
    return _read(root, folder, recordings, COMMAND_RATE)


def _root(data_root: Path | None, wanted: str) -> Path:
    if data_root is None:
        raise ConfigError(
            f"no spoken words: let {VARIABLE} or execution.data_root point to a folder that holds {wanted}"
        )
    return data_root


def _read(root: Path, folder: Path, recordings: list[Recording], rate: int) -> RawData:
    """The dataset made of recordings, in their order."""
    parts: list[tuple[list[Floats], list[int]]] = [([], []), ([], [])]
    files = []
    for path, is_keyword, is_test in recordings:
        content = path.read_bytes()
        files.append(described(content, path.relative_to(root).as_posix()))
        clips, labels = parts[is_test]
        clips.append(_sound(path, content, rate))
        labels.append(int(is_keyword))
    for name, (_, labels) in zip(("training", "test"), parts, strict=True):
        for label, what in enumerate(("a word other than the keyword", "the keyword")):
            if label not in labels:
                raise ConfigError(f"{folder}: no recording of {what} for the {name} part")
    train, test = (Words(clips, np.array(labels, np.int64)) for clips, labels in parts)
    return dataset(train, test, files, str(root))


def _sound(path: Path, content: bytes, rate: int) -> Floats:
    """The sound in a file, at 8 kHz."""
    # libsndfile reads what is left of a WAV file that was cut short, though its header says how long it was.
    if content[:4] == b"RIFF" and len(content) < 8 + int.from_bytes(content[4:8], "little"):
        raise _incomplete(path, "Cut short")
    try:
        sound, found = soundfile.read(io.BytesIO(content), dtype="float64", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise _incomplete(path, error.error_string) from None
    if (found, sound.shape[1]) != (rate, 1):
        raise ConfigError(
            f"{path}: expected one channel of {rate} Hz; found {sound.shape[1]} of {found} Hz; put a good copy there"
        )
    if len(sound) == 0 or not np.isfinite(sound).all():
        raise ConfigError(f"{path}: it holds no sound, or samples that are not numbers; put a good copy there")
    return sound[:, 0] if rate == RATE else np.asarray(signal.resample_poly(sound[:, 0], RATE, rate))


def _incomplete(path: Path, reason: str) -> ConfigError:
    return ConfigError(f"{path}: not a complete WAV or FLAC file ({reason.rstrip('.')}); put a good copy there")
