"""A data set in memory, as tensors."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dp_bench.data import stand_in as generated
from dp_bench.data.idx import parse_idx
from dp_bench.data.news import check_words, tokenised_news
from dp_bench.data.shared import shared
from dp_bench.data.sources import Resolved, Source, resolve
from dp_bench.data.text import embed

_ORDER_SEED = 20_000


@dataclass(frozen=True)
class Dataset:
    """Inputs are float32: images (N, 1, 28, 28) in [0, 1], texts (N, words * 50). Classes are int64.

    Fashion-MNIST is for the autoencoder: its targets are its inputs, the same tensors.
    """

    name: str
    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    source: Source


def load_tensors(name: str, *, words: int, stand_in: bool, limit: int | None) -> Dataset:
    """See `dp_bench.data.load`."""
    if name == "ag_news":
        check_words(words)
    resolved = resolve(name, stand_in=stand_in, limit=limit)
    make = partial(_tensors, name, words, resolved)
    source = resolved.source
    # A stand-in is made as fast as it is read.
    tensors = shared(f"{name} {words} {source.train_rows} {source.checksums}", make) if resolved.files else make()
    targets = ("train_x", "test_x") if name == "fashion_mnist" else ("train_y", "test_y")
    train_y, test_y = (tensors[target] for target in targets)
    return Dataset(name, tensors["train_x"], train_y, tensors["test_x"], test_y, source)


def _tensors(name: str, words: int, resolved: Resolved) -> dict[str, Tensor]:
    rows = _limited_rows(resolved)
    if name == "ag_news":
        news = tokenised_news(resolved.files) if resolved.files else generated.news()
        train_x, test_x = (
            torch.from_numpy(embed(ids, news.vectors, words)) for ids in (news.train_ids[rows], news.test_ids)
        )
        train_y, test_y = _classes(news.train_labels[rows]), _classes(news.test_labels)
    else:
        images = _read_images(resolved) if resolved.files else generated.images(name)
        train_x, test_x = _pixels(images.train[rows]), _pixels(images.test)
        train_y, test_y = _classes(images.train_labels[rows]), _classes(images.test_labels)
    return {"train_x": train_x, "train_y": train_y, "test_x": test_x, "test_y": test_y}


def public_order(rows: int) -> NDArray[np.intp]:
    """A fixed shuffle that depends on the number of rows alone, never on the data. AG News is not shuffled as it is."""
    # Raw PCG64 bits, because NumPy promises never to change them (of its Generator's shuffle it does not).
    return np.argsort(np.random.PCG64(_ORDER_SEED).random_raw(rows), kind="stable")


def _limited_rows(resolved: Resolved) -> slice | NDArray[np.intp]:
    if resolved.source.train_rows == resolved.all_train_rows:
        return slice(None)
    return public_order(resolved.all_train_rows)[: resolved.source.train_rows]


def _read_images(resolved: Resolved) -> generated.Images:
    arrays = {role: parse_idx(found.content(), found.path.name) for role, found in resolved.files.items()}
    return generated.Images(**arrays)


def _pixels(images: NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(np.divide(images, np.float32(255), dtype=np.float32)).unsqueeze(1)


def _classes(labels: NDArray[np.uint8] | NDArray[np.int64]) -> Tensor:
    return torch.from_numpy(labels.astype(np.int64))
