"""What the epsilons of our results mean, in words: said of every table, every figure and every row of a CSV."""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace

from dp_bench.privacy.accounting import exact, rounded_up
from dp_bench.privacy.allocation import Allocation
from dp_bench.privacy.calibration import epsilon_by, true_epsilon
from dp_bench.privacy.guarantee import EMULATED, LAST_WITH_FLOAT32_SUMS, POOL, UNPROVEN, mark
from dp_bench.report import names
from dp_bench.report.load.results import Grid


def not_private(grids: Iterable[Grid]) -> str:
    """What a title must add where an epsilon is not a guarantee."""
    reasons = tuple(sorted({reason for grid in grids if grid.private for reason in grid.guarantee.reasons}))
    return f" ({mark(reasons)})" if reasons else ""


def budget_words(grids: Iterable[Grid]) -> str:
    """What the epsilons of these results mean."""
    private = [grid for grid in grids if grid.allocation is not None]
    if not private:
        return "Nothing here is private."
    deltas = " or ".join(sorted({exact(grid.allocation.budget.delta) for grid in private if grid.allocation}))
    words = [f"ε is spent by the whole grid, at δ = {deltas}; seeds are not charged."]
    if any(grid.spec.winner_only for grid in private):
        words.append("Of a search by selection it is spent by releasing the winner alone.")
    return " ".join([*words, *no_guarantees(private)])


def no_guarantees(grids: Sequence[Grid]) -> list[str]:
    """What must be said of the epsilons of these grids that are not a plain guarantee, with the true ones."""
    private = [grid for grid in grids if grid.private]
    found = []
    emulated = [grid for grid in private if grid.emulated]
    if emulated:
        rows = " or ".join(sorted({f"{grid.spec.source.train_rows:,}" for grid in emulated}))
        words = _in_print(EMULATED, emulated, private)
        found.append(f"{words} {_true_epsilons(emulated)}Batches are drawn from {rows} examples.")
    for accountant in dict.fromkeys(grid.guarantee.unproven for grid in private if grid.guarantee.unproven):
        mine = [grid for grid in private if grid.guarantee.unproven == accountant]
        found.append(_in_print(UNPROVEN.format(accountant=accountant), mine, private))
    if pools := [grid for grid in private if grid.guarantee.pool]:
        found.append(_in_print(POOL, pools, private))
    return [*found, *_up_to_rounding(private)]


def _in_print(words: str, meant: Sequence[Grid], among: Sequence[Grid]) -> str:
    """Which data sets are meant is said where others are spoken of, too."""
    mine, all_of_them = (dict.fromkeys(grid.key.dataset for grid in grids) for grids in (meant, among))
    where = "" if len(mine) == len(all_of_them) else f" ({', '.join(map(names.dataset, mine))})"
    return f"NOT PRIVATE{where}, {words.replace('epsilon', 'ε')}."


def _up_to_rounding(grids: Iterable[Grid]) -> list[str]:
    """What must be said of runs whose sums were added up in float32: how much epsilon may be above what is printed."""
    # By batch size, then by budget, emulated ones apart: epsilon as it is printed, and with what rounding may add.
    raised: dict[int, dict[tuple[bool, float], list[tuple[float, float]]]] = {}
    for grid in grids:
        if grid.allocation is None or not grid.guarantee.float32_sums:
            continue  # rounding is charged to the noise; or no epsilon is proven
        # Scalar queries were float32 sums over the same pass, so every query counts.
        rows, queries = grid.spec.source.train_rows, len(grid.spec.build_strategy().multipliers())
        printed = _true_epsilon(grid.allocation, rows) if grid.emulated else grid.allocation.epsilon_grid
        budgets = raised.setdefault(grid.allocation.sampling.batch_size, {})
        most = _with_float32_sums(grid.allocation, rows, queries)
        budgets.setdefault((grid.emulated, grid.key.epsilon), []).append((printed, most))
    return [_rounding_words(size, [found for _, found in sorted(budgets.items())]) for size, budgets in raised.items()]


# Every table and every figure says it of the same few grids.
@functools.lru_cache(maxsize=4096)
def _with_float32_sums(allocation: Allocation, rows: int, queries: int) -> float:
    """Epsilon with the noise that rounding may leave, of batches drawn from `rows` examples."""
    weaker = allocation.noise_multiplier / (1 + float32_excess(allocation.sampling.batch_size, queries))
    return epsilon_by(replace(allocation.drawn_from(rows), noise_multiplier=weaker), "rdp").grid


@functools.lru_cache(maxsize=4096)
def _true_epsilon(allocation: Allocation, rows: int) -> float:
    return true_epsilon(allocation, rows).grid


def _rounding_words(batch_size: int, budgets: Iterable[Iterable[tuple[float, float]]]) -> str:
    ends = (map(rounded_up, map(max, zip(*found, strict=True))) for found in budgets)
    each = ", ".join(f"from {printed} to at most {most}" for printed, most in ends)
    return (
        f"Arithmetic {LAST_WITH_FLOAT32_SUMS} or older: sums in float32; ε is proven only up to rounding, which at "
        f"batch size {batch_size:,} may raise it {each}."
    )


def float32_excess(batch_size: int, queries: int) -> float:
    """r: rounding in a float32 sum over the batch may raise one example's influence to 1 + r times its bound.

    By the standard bound on the error of a sum of n terms of equal bound, in any order, twice (with and without the
    example), for K sums that share a pass: r = 2 (2K - 1) (n + 4) u n, u = 2^-24. A noise multiplier of nu is
    then worth nu / (1 + r).
    """
    return 2 * (2 * queries - 1) * (batch_size + 4) * 2**-24 * batch_size


def _true_epsilons(grids: Iterable[Grid]) -> str:
    spent: dict[float, list[float]] = {}
    for grid in grids:
        if grid.allocation is None or grid.guarantee.unproven:
            continue  # whose count is not an epsilon
        spent.setdefault(grid.key.epsilon, []).append(_true_epsilon(grid.allocation, grid.spec.source.train_rows))
    ranges = {e: sorted({rounded_up(end(values), 2) for end in (min, max)}, key=float) for e, values in spent.items()}
    each = ", ".join(f"{' to '.join(ends)} where {exact(epsilon)} is set" for epsilon, ends in sorted(ranges.items()))
    return f"The true ε is {each}. " if each else ""
