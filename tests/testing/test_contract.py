"""The contract finds what is wrong with a strategy, and says it so that its author knows what to do."""

from __future__ import annotations

import dataclasses
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from dp_bench.privacy.query import Query
from dp_bench.strategies.base import clipped_gradient
from dp_bench.strategies.fixed_threshold import FixedThreshold
from dp_bench.strategies.ranges import Axis, OneOf, Positive, Range
from dp_bench.testing import contract
from dp_bench.testing.contract import check_strategy


@dataclass(frozen=True, kw_only=True)
class Unclipped(FixedThreshold):
    """Divides by the norm plus a stabiliser, and forgets that this is more than the bound for short gradients."""

    def queries(self, state):
        return (Query("gradient", "vector", lambda n: self.clip / n + 0.01, self.clip, self.noise_multiplier),)


@dataclass(frozen=True, kw_only=True)
class PaysOnce(FixedThreshold):
    """Two queries, each with the whole budget."""

    def multipliers(self):
        return {"gradient": self.noise_multiplier, "clipped": self.noise_multiplier}

    def queries(self, state):
        z = self.noise_multiplier
        return clipped_gradient(self.clip, z), Query("clipped", "scalar", lambda n: (n > self.clip).to(n.dtype), 1.0, z)


@dataclass(frozen=True, kw_only=True)
class InPlace(FixedThreshold):
    """Adds to the velocity that it was given."""

    def update(self, state, params, released):
        velocity = state.velocity.mul_(self.momentum).add_(released["gradient"])
        return params - self.lr * velocity, type(state)(velocity)


class Remembers(FixedThreshold):
    """Not a dataclass of its own."""


@dataclass(frozen=True, kw_only=True)
class Silent(FixedThreshold):
    warm_up: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Lax(FixedThreshold):
    def __post_init__(self):
        pass


@dataclass(frozen=True, kw_only=True)
class SweepsMore(FixedThreshold):
    radius: Positive = 1.0
    swept = ("lr", "radius")


class Counting(NamedTuple):
    counts: dict


@dataclass(frozen=True, kw_only=True)
class KeepsObjects(FixedThreshold):
    """A state that a checkpoint cannot hold."""

    def init(self, params):
        return Counting({"seen": {1, 2}, "lr": Positive})

    def update(self, state, params, released):
        return params - self.lr * released["gradient"], state


@dataclass(frozen=True, kw_only=True)
class SharesMemory(FixedThreshold):
    def init(self, params):
        return super().init(params)._replace(velocity=params)


@dataclass(frozen=True, kw_only=True)
class TakenColumn(FixedThreshold):
    def trajectory(self, state):
        return {**super().trajectory(state), "accuracy": 1.0}


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (Unclipped, r"Unclipped: expected contributions to 'gradient' of at most its bound .* got more: .* at norm"),
        (PaysOnce, r"by 1/nu = 3.33333 together, .* got 4.71\d* at norm .*: it spends more than its budget"),
        (InPlace, r"InPlace.update: (changes its inputs in place|two calls with the same inputs differ)"),
        (Remembers, r"Remembers: expected @dataclass\(frozen=True, kw_only=True\)"),
        (Silent, r"Silent.warm_up: expected its valid values with it, as in `warm_up: Positive`"),
        (Lax, r"Lax: expected lr=0 to be refused, as it declares a positive number; does its __post_init__ call super"),
        (SweepsMore, r"SweepsMore.radius: expected an Axis with it"),
        (KeepsObjects, r"KeepsObjects: expected tensors and numbers in its state"),
        (SharesMemory, r"SharesMemory: its state changes with the parameters; clone them"),
        (TakenColumn, r"TakenColumn.trajectory: expected names besides .*accuracy"),
    ],
)
def test_what_is_wrong_is_said(broken, says, monkeypatch):
    """This module imports torch, which is another check's business."""
    monkeypatch.setattr(contract, "CHECKS", tuple(c for c in contract.CHECKS if c is not contract.loads_without_torch))
    with pytest.raises(AssertionError, match=says):
        check_strategy(broken)


@pytest.mark.slow(reason="starts a process, or tries many sums")
def test_a_module_that_imports_torch_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, first in (("hasty", "import torch"), ("patient", "")):
        (tmp_path / f"{name}.py").write_text(
            textwrap.dedent(
                f"""
                from dataclasses import dataclass
                from dp_bench.strategies.fixed_threshold import FixedThreshold
                {first}

                @dataclass(frozen=True, kw_only=True)
                class Own(FixedThreshold):
                    pass
                """
            )
        )
    monkeypatch.syspath_prepend(str(tmp_path))
    import hasty
    import patient

    check_strategy(patient.Own)
    with pytest.raises(AssertionError, match="Own: hasty imports torch; import it under TYPE_CHECKING"):
        check_strategy(hasty.Own)


def test_a_hyperparameter_without_default_or_range_must_be_given() -> None:
    bare = dataclasses.make_dataclass("Bare", [("size", int)], bases=(FixedThreshold,), frozen=True, kw_only=True)
    with pytest.raises(AssertionError, match=r"check_strategy\(Bare, size=1\)"):
        contract.bounds_hold(bare, {})
    contract.bounds_hold(bare, {"size": 3})


@pytest.mark.parametrize(
    "valid",
    [
        Range("positive", above=0),
        Range("0 or more", least=0),
        Range("a share", above=0, below=1),
        Range("negative", below=0),
        Range("any"),
        OneOf(("a", "b")),
    ],
)
def test_a_range_knows_what_lies_in_it(valid: Range | OneOf) -> None:
    assert valid.example() in valid
    assert not any(value in valid for value in valid.outside())


def test_an_axis_is_a_span_or_values() -> None:
    with pytest.raises(TypeError, match="either a span or values"):
        Axis()
    with pytest.raises(TypeError, match="either a span or values"):
        Axis(span=(1, 2), values=(1.0,))


@pytest.mark.slow(reason="starts a process, or tries many sums")
def test_torch_is_loaded_here() -> None:
    """Or `test_what_is_wrong_is_said` need not leave a check out."""
    with pytest.raises(AssertionError, match="imports torch"):
        contract.loads_without_torch(Unclipped, {})
