"""The data sets: found, verified, described without torch, loaded as tensors."""

from typing import TYPE_CHECKING

from dp_bench.data.sources import DATASETS, Source, describe

if TYPE_CHECKING:
    from dp_bench.data.tensors import Dataset

__all__ = ["DATASETS", "Source", "describe", "load"]


def load(name: str, *, words: int = 25, stand_in: bool = False, limit: int | None = None) -> "Dataset":
    """The data set as tensors in memory.

    `words` is how many words of each AG News text are used; `stand_in` allows a generated data set where the real one
    is not to be had; `limit` takes that many training rows, chosen by a fixed public shuffle. The data set's `source`
    says which data these are.
    """
    # Planning and reporting import this package, and torch takes seconds to import.
    from dp_bench.data.tensors import load_tensors

    return load_tensors(name, words=words, stand_in=stand_in, limit=limit)
