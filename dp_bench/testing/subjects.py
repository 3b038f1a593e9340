"""What is audited: strategies at a noise multiplier and a batch size of the audit's choice."""

import math
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, replace
from functools import partial
from typing import Any

from dp_bench.errors import unknown
from dp_bench.strategies import STRATEGIES, Strategy
from dp_bench.strategies.ranges import ranges

# What has no default; any other hyperparameter gets a value from the range that it declares.
_REQUIRED = {"lr": 0.1, "clip": 0.7, "quantile": 0.5}


@dataclass(frozen=True)
class Subject:
    """A strategy by name; `build(noise_multiplier, batch_size)` makes one for a part of the audit."""

    name: str
    build: Callable[[float, int], Strategy[Any]]


def subject_of(name: str, strategy: Strategy[Any]) -> Subject:
    """Any strategy object, its hyperparameters as they are."""
    return Subject(name, lambda nu, batch_size: replace(strategy, noise_multiplier=nu, batch_size=batch_size))


def subjects(strategy: str | None = None) -> list[Subject]:
    """The private strategies that can be loaded, or the one of this name or import path.

    With splits where no query is negligible: left out of the split, Online's second would add 1 % to mu at the paper's
    1.01 and FixedQuantile's count 3 % at sigma_b = B/20, less than an audit can tell. So Online is audited with an even
    split as well, FixedQuantile with 2 sigma_b = 1.26 nu, and DC-SGD with an even split.
    """
    if strategy is not None and ":" in strategy:
        strategy = STRATEGIES.add(strategy)
    if strategy is not None and strategy in STRATEGIES:
        STRATEGIES[strategy]  # says why it cannot be loaded
    private = [name for name, kind in STRATEGIES.loadable().items() if kind.private]
    if strategy is not None and strategy not in private:
        raise unknown("--strategy", strategy, private, "leave it out for all")
    return [subject for name in private if strategy in (None, name) for subject in _with_splits(name)]


def built(name: str, nu: float, batch_size: int, **hyperparameters: Any) -> Strategy[Any]:
    """The strategy with these hyperparameters, and values that suit an audit for those without a default."""
    kind = STRATEGIES[name]
    examples = {name: valid.example() for name, valid in ranges(kind).items()} | _REQUIRED
    required = {f.name: examples[f.name] for f in fields(kind) if f.default is MISSING and f.name in examples}
    return kind(noise_multiplier=nu, batch_size=batch_size, **required | hyperparameters)


def _with_splits(name: str) -> list[Subject]:
    """One strategy with the splits that are audited."""
    plain, even = Subject(name, partial(built, name)), partial(built, name, gradient_share=math.sqrt(2))
    if name == "fixed_quantile":
        return [Subject(name, lambda nu, batch: built(name, nu, batch, count_noise=0.63 * nu / batch))]
    if name in ("dc_sgd_e", "dc_sgd_p"):
        return [Subject(name, even)]
    return [plain, Subject(f"{name}, even split", even)] if name == "online" else [plain]
