"""What is known of the real files: their names, the fingerprints of their unpacked bytes, their rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["complete", "subset", "stand-in"]
Algorithm = Literal["sha256", "md5", "words"]

NUMBERS_PER_WORD = 50
GLOVE_MEMBER = "glove.6B.50d.txt"
"""The one member of the official glove.6B.zip that is used."""

ORIGIN_FILE = "origin.txt"
"""Beside fetched files in the cache: the name of the source that they came from."""


@dataclass(frozen=True)
class Version:
    """One content that a file may have. `rows` counts images, labels, texts or words."""

    kind: Kind
    algorithm: Algorithm
    fingerprint: str
    rows: int
    caveat: str = ""


@dataclass(frozen=True)
class File:
    """A file under any of its names, each also with .gz appended, and the contents that are accepted."""

    names: tuple[str, ...]
    versions: tuple[Version, ...]


@dataclass(frozen=True)
class Collection:
    """Files that come from one place together. `folders` are looked into in turn; `files` is keyed by role."""

    name: str
    folders: tuple[str, ...]
    files: Mapping[str, File]


def _idx(name: str, rows: int, sha256: str) -> File:
    return File((name,), (Version("complete", "sha256", sha256, rows),))


_MNIST = Collection(
    "mnist",
    ("mnist", "MNIST/raw"),
    {
        "train": _idx(
            "train-images-idx3-ubyte", 60_000, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"
        ),
        "train_labels": _idx(
            "train-labels-idx1-ubyte", 60_000, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"
        ),
        "test": _idx(
            "t10k-images-idx3-ubyte", 10_000, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"
        ),
        "test_labels": _idx(
            "t10k-labels-idx1-ubyte", 10_000, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"
        ),
    },
)

_FASHION_MNIST = Collection(
    "fashion_mnist",
    ("fashion_mnist", "FashionMNIST/raw"),
    {
        "train": _idx(
            "train-images-idx3-ubyte", 60_000, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"
        ),
        "train_labels": _idx(
            "train-labels-idx1-ubyte", 60_000, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
        ),
        "test": _idx(
            "t10k-images-idx3-ubyte", 10_000, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"
        ),
        "test_labels": _idx(
            "t10k-labels-idx1-ubyte", 10_000, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"
        ),
    },
)

_AG_NEWS = Collection(
    "ag_news",
    ("ag_news", "ag_news_csv"),
    {
        "train": File(
            ("train.csv",),
            (
                Version("complete", "md5", "b1a00f826fdfbd249f79597b59e1dc12", 120_000),
                Version(
                    "subset",
                    "sha256",
                    "48f3c86f48c2bfdd93ae6c4a6a496e8df64d505b14bb5f003474faf2ffb9a1f8",
                    62_069,
                    "AG News train is a subset: 62,069 of 120,000 rows (52 %)",
                ),
            ),
        ),
        "test": File(("test.csv",), (Version("complete", "md5", "d52ea96a97a2d943681189a97654912d", 7_600),)),
    },
)

_GLOVE = Collection(
    "glove",
    ("glove", "."),
    {
        "vectors": File(
            ("glove.50d.txt", GLOVE_MEMBER, "glove.6B.zip"),
            (
                # Stanford publishes no checksum of this file, so its words are counted and a vector is looked at.
                Version(
                    "complete",
                    "words",
                    "400,000 words of 50 numbers, 'the' 0.418 0.24968 -0.41242 0.1217 0.34527",
                    400_000,
                ),
                Version(
                    "subset",
                    "sha256",
                    "e02021f31993ea14bf13f79190b859f538d9d47625ddf3c2aad92451b9feac5c",
                    53_197,
                    "word vectors partly estimated: 5,026 of 53,197 words are genuine GloVe 6B 50d, "
                    "the rest a linear map of GloVe 6B 100d (cosine 0.98)",
                ),
            ),
        ),
    },
)

COLLECTIONS_OF: Mapping[str, tuple[Collection, ...]] = {
    "mnist": (_MNIST,),
    "fashion_mnist": (_FASHION_MNIST,),
    "ag_news": (_AG_NEWS, _GLOVE),
}
"""Each data set and the collections that it is made of, its texts or images first."""
