"""What every strategy must hold, as one call. An author's test of a strategy is

    from dp_bench.testing.contract import check_strategy

    def test_my_strategy():
        check_strategy(MyStrategy)

What it cannot see is whether the engine and the noise keep the strategy's promises on real gradients: that is the
audit's part (`dp_bench.testing.audit`, `dp-bench audit --strategy my_package:MyStrategy`).
"""

import dataclasses
import io
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch

from dp_bench.errors import UserError
from dp_bench.experiment.config import CALIBRATED
from dp_bench.experiment.grid import IN_EVERY_GRID
from dp_bench.privacy.query import Query, bounded_weights
from dp_bench.strategies.ranges import declared_axes, ranges
from dp_bench.tasks import TASKS
from dp_bench.testing import joint
from dp_bench.testing.cases import AnyStrategy, copies, kinds, norms_near, queries_at, releases, same, trained

StrategyClass = type[AnyStrategy]

_NU, _BATCH_SIZE = 1.3, 512
_CLIPS = (5e-324, 1e-300, 1e-45, 1e-38, 1e-31, 1e-30, 1e-12, 1e-3, 0.1, 7.0, 1e30)
_COLUMNS = ("step", "epsilon")  # of metrics.csv; the task's metric is the third


def check_strategy(strategy: StrategyClass, **hyperparameters: Any) -> None:
    """Raise AssertionError, with what is wrong and why it matters, if `strategy` breaks the contract.

    `hyperparameters` are used in every check; those without a default that are not given get a value from the range
    that they declare. What is checked:

    - it is a frozen dataclass, every hyperparameter declares its valid values, and any other is refused in one line
    - what it sweeps are its hyperparameters, each with an axis
    - no example contributes more to a query than the query's bound, at any norm and any threshold
    - one example moves all that a step releases together by 1/nu at most, and not by less (`dp_bench.testing.joint`)
    - `update` is a pure function: the same inputs give the same bits and are left as they are
    - its state survives a checkpoint, keeps its types and shares no memory with the parameters
    - its trajectory is a few finite numbers
    - its module is imported without torch

    >>> from dp_bench.strategies.online import Online
    >>> check_strategy(Online)
    >>> check_strategy(Online, lr=0.1, update_rule="cosine")
    """
    for check in CHECKS:
        check(strategy, hyperparameters)


def built(strategy: StrategyClass, chosen: dict[str, Any], **calibrated: Any) -> AnyStrategy:
    """The strategy with the chosen values, and values within their range for hyperparameters without a default."""
    required = [f.name for f in dataclasses.fields(strategy) if f.default is dataclasses.MISSING]
    for name in required:
        _expect(
            name in (*chosen, *CALIBRATED, *ranges(strategy)),
            f"{strategy.__name__}: {name} has no default: pass it, as in check_strategy({strategy.__name__}, {name}=1)",
        )
    examples = {name: ranges(strategy)[name].example() for name in required if name in ranges(strategy)}
    return strategy(**{"noise_multiplier": _NU, "batch_size": _BATCH_SIZE} | examples | chosen | calibrated)


def is_described(strategy: StrategyClass, chosen: dict[str, Any]) -> None:
    """A frozen dataclass whose hyperparameters declare their values; what it sweeps has an axis."""
    name = strategy.__name__
    how = vars(strategy).get("__dataclass_params__")
    _expect(how is not None and how.frozen, f"{name}: expected @dataclass(frozen=True, kw_only=True)")
    fields = [f.name for f in dataclasses.fields(strategy) if f.name not in CALIBRATED]
    for field in fields:
        _expect(
            field in ranges(strategy),
            f"{name}.{field}: expected its valid values with it, as in `{field}: Positive` "
            "(dp_bench.strategies.ranges): what is not declared is not refused",
        )
    swept: tuple[str, ...] = getattr(strategy, "swept", ("nothing",))
    for axis in swept:
        _expect(axis in fields, f"{name}.swept: expected names among {fields}, got {swept}")
        _expect(
            axis in (*IN_EVERY_GRID, *declared_axes(strategy)),
            f"{name}.{axis}: expected an Axis with it, as it is swept: a grid has no values for it otherwise",
        )
    color = strategy.color
    _expect(
        not color or re.fullmatch("#[0-9A-Fa-f]{6}", color), f'{name}.color: expected one as "#0072B2", got {color!r}'
    )


def ranges_are_kept(strategy: StrategyClass, chosen: dict[str, Any]) -> None:
    """What lies outside a declared range is refused, in one line that names the key."""
    for field, valid in ranges(strategy).items():
        for value in valid.outside():
            told = ""
            try:
                built(strategy, chosen | {field: value})
            except UserError as refusal:
                told = str(refusal)
            _expect(
                told,
                f"{strategy.__name__}: expected {field}={value!r} to be refused, as it declares {valid.words}; "
                "does its __post_init__ call super().__post_init__()?",
            )
            _expect(
                f"strategy.{field}" in told and "\n" not in told,
                f"{strategy.__name__}: expected a refusal of {field}={value!r} in one line that names "
                f"strategy.{field}, got {told!r}",
            )


def bounds_hold(strategy: StrategyClass, chosen: dict[str, Any]) -> None:
    """|w(n)| n of a vector query, |w(n)| of a scalar one, is at most its bound: sensitivity rests on it."""
    one = built(strategy, chosen)

    def excess(query: Query, clip: float) -> str:
        limit = f"at most its bound {float(query.bound):.6g} (threshold {clip:g})"
        return f"{strategy.__name__}: expected contributions to {query.name!r} of {limit}, got more"

    for clip in _CLIPS:
        norms = norms_near(clip)
        finite = norms.isfinite()
        for query in queries_at(one, clip):
            weights = bounded_weights(query, norms)
            size = _sizes(query, weights, norms)[finite]
            _expect((size <= float(query.bound) * (1 + 1e-6)).all(), excess(query, clip))
            _expect((weights[~finite] == 0).all(), f"{strategy.__name__}: an example without a finite norm has weight")
    for clip in (1e-12, 1e-3, 0.1, 7.0):  # where no rounding near the ends of float64 can excuse it
        norms = torch.cat([torch.logspace(-9, 9, 2000, dtype=torch.float64), torch.tensor([clip]).double()])
        for query in queries_at(one, clip):
            own = query.weight(norms)
            wrong = f"{strategy.__name__}: expected a weight per norm of {query.name}, got {own.shape}"
            _expect(own.shape == norms.shape, wrong)
            worst, place = _sizes(query, own, norms).max(0)
            _expect(
                float(worst) <= float(query.bound) * (1 + 1e-12),
                f"{excess(query, clip)}: {float(worst):.6g} at norm {float(norms[place]):.3g}. The engine "
                "would clamp it, and the strategy be another than it says",
            )


def spends_its_budget(strategy: StrategyClass, chosen: dict[str, Any]) -> None:
    """The joint sensitivity of its queries is 1/nu: less noise breaks the guarantee, more wastes the budget."""
    for nu in (0.3, 1.0, 5.0, 50.0):
        one = built(strategy, chosen, noise_multiplier=nu)
        queries = one.queries(one.init(torch.zeros(3)))
        names = [query.name for query in queries]
        _expect(len(set(names)) == len(names), f"{strategy.__name__}: expected queries of different names, got {names}")
        declared = {query.name: query.noise_multiplier for query in queries}
        _expect(
            declared == one.multipliers(),
            f"{strategy.__name__}: expected multipliers() to say what the queries say, {declared}, "
            f"got {one.multipliers()}",
        )
        if not strategy.private:
            _expect(not any(declared.values()), f"{strategy.__name__}: private = False, but its queries add noise")
            continue
        _expect(all(z > 0 for z in declared.values()), f"{strategy.__name__}: a query without noise: {declared}")
        later = one.queries(trained(one, torch.ones(5), 4)[1])
        _expect([q.name for q in later] == names, f"{strategy.__name__}: expected the queries {names} at every step")
        for some in (queries, later, *(queries_at(one, clip) for clip in (1e-3, 0.1, 7.0))):
            objection = joint.objection(some, nu)
            _expect(not objection, f"{strategy.__name__}: {objection}")


def update_is_pure(strategy: StrategyClass, chosen: dict[str, Any]) -> None:
    """The same inputs give the same bits, and are left as they are; types and shapes of the state stay."""
    name = strategy.__name__
    for dtype in (torch.float32, torch.float64):
        one, params = built(strategy, chosen), torch.linspace(-1, 1, 6, dtype=dtype)
        state = first = one.init(params)
        _expect(isinstance(state, tuple) and hasattr(state, "_asdict"), f"{name}: expected a NamedTuple as its state")
        for released in releases(one, params, 4):
            before = list(copies((params, *state, *released.values())))
            once, again = (one.update(state, params, released) for _ in range(2))
            _expect(
                same((once[0], *once[1]), (again[0], *again[1])),
                f"{name}.update: two calls with the same inputs differ; it must not draw or remember anything",
            )
            _expect(
                same((params, *state, *released.values()), before),
                f"{name}.update: changes its inputs in place; return new tensors, as in params - lr * gradient",
            )
            params, state = once
            _expect(params.dtype == dtype, f"{name}.update: parameters of {dtype} became {params.dtype}")
            _expect(
                type(state) is type(first) and kinds(state) == kinds(first),
                f"{name}.update: the state's types or shapes change, from {kinds(first)} to {kinds(state)}",
            )


def state_is_its_own(strategy: StrategyClass, chosen: dict[str, Any]) -> None:
    """The state shares no memory with the parameters, which the loop overwrites."""
    one, params = built(strategy, chosen), torch.ones(4)
    state = one.init(params)
    updated, after = one.update(state, params, releases(one, params, 1)[0])
    before = list(copies((*state, *after)))
    params.fill_(9)
    updated.fill_(9)
    _expect(same((*state, *after), before), f"{strategy.__name__}: its state changes with the parameters; clone them")


def state_survives_a_checkpoint(strategy: StrategyClass, chosen: dict[str, Any]) -> None:
    """A resumed run is the same run: the state's fields are all there is."""
    name = strategy.__name__
    one = built(strategy, chosen)
    for steps in (0, 1, 3):
        params, state = trained(one, torch.linspace(-1, 1, 6), steps)
        file = io.BytesIO()
        torch.save(state._asdict(), file)
        file.seek(0)
        try:
            loaded = type(state)(**torch.load(file, weights_only=True))
        except Exception as error:
            raise AssertionError(
                f"{name}: expected tensors and numbers in its state, got {kinds(state)}: {error}"
            ) from error
        _expect(same(loaded, state), f"{name}: its state is another after a checkpoint")
        for released in releases(one, params, 3, seed=1):
            ours, theirs = one.update(state, params, released), one.update(loaded, params, released)
            _expect(same((ours[0], *ours[1]), (theirs[0], *theirs[1])), f"{name}: goes another way after a checkpoint")
            (params, state), loaded = ours, theirs[1]


def trajectory_is_numbers(strategy: StrategyClass, chosen: dict[str, Any]) -> None:
    """Finite numbers under the same names at every step; `clip` and `lr` positive."""
    name = strategy.__name__
    one, taken = built(strategy, chosen), {*_COLUMNS, *(task.metric for task in TASKS.loadable().values())}
    columns = None
    for steps in (0, 1, 5):
        found = {entry: float(value) for entry, value in one.trajectory(trained(one, torch.ones(5), steps)[1]).items()}
        _expect(
            not taken & found.keys(), f"{name}.trajectory: expected names besides {sorted(taken)}, got {list(found)}"
        )
        _expect(
            columns in (None, list(found)), f"{name}.trajectory: expected {columns} at every step, got {list(found)}"
        )
        columns = list(found)
        _expect(all(map(math.isfinite, found.values())), f"{name}.trajectory: expected finite numbers, got {found}")
        low = {entry: value for entry, value in found.items() if entry in ("clip", "lr") and value <= 0}
        _expect(not low, f"{name}.trajectory: expected positive numbers, got {low}: the run would count as diverged")


def loads_without_torch(strategy: StrategyClass, chosen: dict[str, Any]) -> None:
    """Planning and reporting import every strategy that they meet."""
    code = f"import sys, importlib; importlib.import_module({strategy.__module__!r}); print('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, env=environment)
    reason = "".join(done.stderr.splitlines()[-1:])
    _expect(done.returncode == 0, f"{strategy.__name__}: {strategy.__module__} cannot be imported: {reason}")
    _expect(
        "True" not in done.stdout.splitlines(),
        f"{strategy.__name__}: {strategy.__module__} imports torch; import it under TYPE_CHECKING, and use "
        "the methods of tensors",
    )


CHECKS: tuple[Callable[[StrategyClass, dict[str, Any]], None], ...] = (
    is_described,
    ranges_are_kept,
    bounds_hold,
    spends_its_budget,
    update_is_pure,
    state_is_its_own,
    state_survives_a_checkpoint,
    trajectory_is_numbers,
    loads_without_torch,
)


def _expect(holds: object, otherwise: str) -> None:
    """Not an assert, which `python -O` leaves out."""
    if not holds:
        raise AssertionError(otherwise)


def _sizes(query: Query, weights: torch.Tensor, norms: torch.Tensor) -> torch.Tensor:
    return (weights * norms if query.kind == "vector" else weights).abs()
