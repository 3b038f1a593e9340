"""AG News: texts classified by a linear network on the GloVe vectors of their first words."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dp_bench.data import Arrays, Collection, File, Found, Rows, Version, origins
from dp_bench.data.formats import NUMBERS_PER_WORD, embed, read_news, read_vectors, word_ids
from dp_bench.errors import invalid
from dp_bench.tasks.base import Classification, Options
from dp_bench.tasks.synthetic import Draws

if TYPE_CHECKING:
    from torch import nn

MAX_WORDS = 64
"""Words kept of each text; nine in ten are shorter."""

_CLASSES = 4
_WORDS_OF_A_CLASS, _COMMON_WORDS, _SHARE_OF_CLASS_WORDS = 50, 200, 0.2  # of the synthetic texts

_CSV_URL = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv"
_GLOVE_URL = "https://nlp.stanford.edu/data/glove.6B.zip"  # 862 MB, of which one member is kept
_GLOVE_MEMBER = "glove.6B.50d.txt"

TEXTS = Collection(
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
    {"GitHub mhjabreel/CharCnn_Keras": partial(origins.web, (f"{_CSV_URL}/train.csv", f"{_CSV_URL}/test.csv"))},
)

GLOVE = Collection(
    "glove",
    ("glove", "."),
    {
        "vectors": File(
            ("glove.50d.txt", _GLOVE_MEMBER, "glove.6B.zip"),
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
            _GLOVE_MEMBER,
        ),
    },
    {"nlp.stanford.edu": partial(origins.web_archive, _GLOVE_URL, _GLOVE_MEMBER)},
)


class News(NamedTuple):
    """Texts as word ids: rows of `vectors`, whose row 0 is zero and stands for unknown words and padding."""

    train_ids: NDArray[np.int32]
    train_labels: NDArray[np.int64]
    test_ids: NDArray[np.int32]
    test_labels: NDArray[np.int64]
    vectors: NDArray[np.float32]


class AgNews(Classification):
    name = "ag_news"
    title = "AG News"
    collections = (TEXTS, GLOVE)
    data_options: ClassVar[Options] = {"words": 25}
    classes = _CLASSES
    model = "bag_of_words"
    model_title = "BagOfWords-FC"
    model_options: ClassVar[Options] = {"output_activation": False}
    published_size = 113_156
    micro_batch = 1024

    def check(self, options: Options) -> None:
        if not 1 <= options["words"] <= MAX_WORDS:
            raise invalid("dataset.words", f"1 to {MAX_WORDS}", options["words"], "the paper's are 25 and 15")

    def shape(self, options: Options) -> tuple[int, ...]:
        return (options["words"] * NUMBERS_PER_WORD,)

    def arrays(self, files: Mapping[str, Found], rows: Rows, options: Options) -> Arrays:
        return _embedded(tokenized(files), rows, options["words"])

    def synthetic(self, rows: Rows, options: Options) -> Arrays:
        return _embedded(synthetic_news(*self.synthetic_rows), rows, options["words"])

    def build(self, options: Options) -> "nn.Sequential":
        """177,156 parameters with the text's 25 words, 113,156 (the count in Table 1) with 15."""
        from torch import nn

        layers: list[nn.Module] = [
            nn.Linear(options["words"] * NUMBERS_PER_WORD, 128),
            nn.LeakyReLU(),
            nn.Linear(128, 128),
            nn.LeakyReLU(),
            nn.Linear(128, self.classes),
        ]
        return nn.Sequential(*layers, *([nn.LeakyReLU()] if options["output_activation"] else []))


def _embedded(news: News, rows: Rows, words: int) -> Arrays:
    train_x, test_x = (embed(ids, news.vectors, words) for ids in (news.train_ids[rows], news.test_ids))
    return Arrays(train_x, news.train_labels[rows], test_x, news.test_labels)


def tokenized(files: Mapping[str, Found]) -> News:
    """AG News as the ids of its words, and the vectors of the words that occur in it."""
    row_of, vectors = read_vectors(files["vectors"].content(), files["vectors"].path.name)
    train_labels, train_texts = read_news(files["train"].content(), files["train"].path.name)
    test_labels, test_texts = read_news(files["test"].content(), files["test"].path.name)
    train_ids = word_ids(train_texts, row_of, MAX_WORDS)
    test_ids = word_ids(test_texts, row_of, MAX_WORDS)
    # GloVe has 400,000 words and AG News uses an eighth of them: keep those, renumbered. 0 is added to stay row 0.
    used = np.unique(np.concatenate([[0], train_ids.ravel(), test_ids.ravel()]))
    return News(
        train_ids=np.searchsorted(used, train_ids).astype(np.int32),
        train_labels=train_labels,
        test_ids=np.searchsorted(used, test_ids).astype(np.int32),
        test_labels=test_labels,
        vectors=vectors[used],
    )


def synthetic_news(train: int, test: int) -> News:
    """Texts of generated words, four in five common to all classes and one in five from their class' own."""
    draws, total = Draws(303), train + test
    vocabulary = _COMMON_WORDS + _CLASSES * _WORDS_OF_A_CLASS
    vectors = np.zeros((1 + vocabulary, NUMBERS_PER_WORD), dtype=np.float32)
    vectors[1:] = 2 * draws.uniform(vocabulary, NUMBERS_PER_WORD) - 1
    # As in real word vectors, words of one subject lie near each other.
    for label in range(_CLASSES):
        first = 1 + _COMMON_WORDS + label * _WORDS_OF_A_CLASS
        vectors[first : first + _WORDS_OF_A_CLASS] += 2 * draws.uniform(NUMBERS_PER_WORD) - 1

    labels = draws.integers(_CLASSES, total)
    common = 1 + draws.integers(_COMMON_WORDS, total, MAX_WORDS)
    of_class = 1 + _COMMON_WORDS + labels[:, None] * _WORDS_OF_A_CLASS
    of_class = of_class + draws.integers(_WORDS_OF_A_CLASS, total, MAX_WORDS)
    ids = np.where(draws.uniform(total, MAX_WORDS) < _SHARE_OF_CLASS_WORDS, of_class, common).astype(np.int32)
    return News(ids[:train], labels[:train], ids[train:], labels[train:], vectors)
