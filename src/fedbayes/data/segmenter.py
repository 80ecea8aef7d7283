"""Chinese texts to words, by the dictionary and the hidden Markov model of jieba (in its Rust form, `rjieba`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import version

from fedbayes.data.sources import RawFile, describe, packaged

PACKAGE = "rjieba"


def segmenter() -> RawFile:
    """The segmenter as the manifest of a dataset lists it: words depend on its version as they do on a raw file."""
    # The dictionary is inside the one compiled file.
    folder = packaged(PACKAGE, "__init__.py").parent
    (library,) = (file for file in folder.glob(f"{PACKAGE}.*") if file.suffix in (".so", ".pyd"))
    return describe(library, f"{PACKAGE}-{version(PACKAGE)}/{library.name}")


def segmented(texts: Iterable[str]) -> Iterator[list[str]]:
    """The words of each text in order, punctuation included, white space left out."""
    import rjieba

    # A segmenter of our own: that of the module can be taught words by anybody.
    jieba = rjieba.Jieba()
    for text in texts:
        yield [word for word in jieba.cut(text) if not word.isspace()]
