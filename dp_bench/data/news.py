"""AG News as word ids and the vectors of the words that occur in it, made once and kept in the cache."""

import hashlib
import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dp_bench.cache import cache_folder
from dp_bench.data.look import Found
from dp_bench.data.text import read_news, read_vectors, word_ids
from dp_bench.errors import UserError
from dp_bench.sealed import read_sealed_bytes, write_sealed_bytes
from dp_bench.tasks import MAX_WORDS

_FORMAT = 1
"""Raise it with any change to the tokeniser, the readers or the layout: what older code cached is then not used."""


@dataclass(frozen=True)
class News:
    """Ids are rows of `vectors`, whose row 0 is zero and stands for unknown words and padding."""

    train_ids: NDArray[np.int32]
    train_labels: NDArray[np.int64]
    test_ids: NDArray[np.int32]
    test_labels: NDArray[np.int64]
    vectors: NDArray[np.float32]


def check_words(words: int) -> None:
    """Refuse a number of words that is not kept."""
    if not 1 <= words <= MAX_WORDS:
        raise UserError(f"words must be from 1 to {MAX_WORDS}; found {words}. The paper's are 25 and 15.")


def tokenised_news(files: Mapping[str, Found]) -> News:
    """AG News tokenised, from the cache if it was made from these very files."""
    path = _cache_path(files)
    stored = read_sealed_bytes(path)
    if stored is not None:
        with np.load(io.BytesIO(stored), allow_pickle=False) as arrays:
            return News(**arrays)
    news = _tokenise(files)
    buffer = io.BytesIO()
    np.savez(buffer, **asdict(news))
    write_sealed_bytes(path, buffer.getvalue())
    return news


def _cache_path(files: Mapping[str, Found]) -> Path:
    contents = "\n".join(files[role].identity.sha256 for role in ("train", "test", "vectors"))
    key = hashlib.sha256(contents.encode()).hexdigest()[:32]
    return cache_folder() / "tokens" / f"ag_news-{key}-format{_FORMAT}"


def _tokenise(files: Mapping[str, Found]) -> News:
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
