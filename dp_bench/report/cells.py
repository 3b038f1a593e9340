"""Every grid as a cell that a reader can filter, open and check: its verdict, its ledger line, its runs."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dp_bench.experiment.record import RunRecord
from dp_bench.experiment.rerun_command import command
from dp_bench.privacy.accounting import exact, rounded_up
from dp_bench.privacy.allocators import schedule_in_words
from dp_bench.report import names
from dp_bench.report.analysis.scorecard import Score
from dp_bench.report.contents import Scope
from dp_bench.report.epsilon_notes import budget_words
from dp_bench.report.load.results import Grid, Point
from dp_bench.report.table import in_ascii, mean_and_sd, printed, printed_pair
from dp_bench.tasks import TASKS

_CURVE_DIGITS = 4  # of runs' curves, which are most of what a page carries


@dataclass(frozen=True)
class Cell:
    """A grid and what was published for it."""

    grid: Grid
    score: Score | None  # None: the paper has no such cell
    from_here: bool = False  # trained on this machine, on a page that opens with the reference results

    @property
    def name(self) -> str:
        return str(self.grid.spec.grid_folder)

    @property
    def protocol(self) -> str:
        return names.protocol(self.grid.spec.variant)

    @property
    def columns(self) -> dict[str, str]:
        """As the page shows them, by heading."""
        key, best = self.grid.key, self.grid.best
        return {
            "data set": names.dataset(key.dataset),
            "strategy": names.strategy(key.strategy),
            "k": str(key.k),
            "ε": names.epsilon(key.epsilon),
            "ε holds": self._holds(),
            "published": self._published(),
            "here": "" if best is None else mean_and_sd(printed_pair(key.dataset, best.mean(), best.sd())),
            "in sd": "" if not self.score or (far := self.score.deviations) is None else names.deviations(far),
            "verdict": self.score.shown_verdict if self.score else "not published",
            "seeds": "" if best is None else best.seeds_in_words,
            "points": f"{len(self.grid.points)}/{self.grid.planned}",
            "hyperparameters": "" if best is None else names.point(key.strategy, best.hyperparameters),
            "protocol": self.protocol,
            "from": "this machine" if self.from_here else "the store",
        }

    def _holds(self) -> str:
        """Whether ε is a guarantee, in a word or two: no row may show an ε that is not one as if it were."""
        if not self.grid.private:
            return "no ε"
        return self.grid.guarantee.mark or ("up to rounding" if self.grid.guarantee.float32_sums else "yes")

    def _published(self) -> str:
        if self.score is None:
            return ""
        cell = self.score.cell
        return "diverged" if cell.status == "diverged" else mean_and_sd(printed_pair(cell.dataset, cell.mean, cell.sd))


def cells(scopes: Iterable[Scope], from_here: bool = False) -> list[Cell]:
    """One per grid, in the order of the protocols; NoDP runs that several protocols share stand once."""
    found: dict[str, Cell] = {}
    for scope in scopes:
        scores = {id(score.grid): score for score in scope.scores if score.grid}
        for grid in scope.results.values():
            cell = Cell(grid, scores.get(id(grid)), from_here)
            found.setdefault(cell.name, cell)
    return list(found.values())


def ledger_line(grid: Grid) -> str:
    """What the grid spent, as the plan's ledger has it, and what that means."""
    allocation = grid.allocation
    if allocation is None:
        return "Nothing here is private."
    budget, sampling = allocation.budget, allocation.sampling
    trained = f"of {names.plural(allocation.steps, 'step')}"
    if allocation.rungs:
        trained = f"by halving, {schedule_in_words(allocation.rungs)}"
    return (
        f"{names.plural(allocation.candidates, 'candidate')} {trained}, "
        f"q = {sampling.batch_size:,}/{sampling.dataset_size:,}, δ = {exact(budget.delta)}, {budget.accountant}: "
        f"ν = {allocation.noise_multiplier:.5g}, ε of the grid {rounded_up(allocation.epsilon_grid)}, "
        f"of one run alone {rounded_up(allocation.epsilon_run)}. {budget_words([grid])}"
    )


def guarantee_words(grid: Grid) -> str:
    return in_ascii(budget_words([grid]))


def opened(grid: Grid) -> dict[str, Any]:
    """What a click on a cell shows: the points with their runs, curves and checksums."""
    task = TASKS[grid.key.dataset]
    return {
        "ledger": ledger_line(grid),
        "metric": task.metric_axis,
        "log": not task.higher_is_better,
        "data": dict(sorted(grid.spec.source.checksums.items())),
        "caveats": "; ".join(grid.spec.source.caveats),
        "points": [_point(grid, point) for point in grid.points],
    }


def _point(grid: Grid, point: Point) -> dict[str, Any]:
    return {
        "name": names.point(grid.key.strategy, point.hyperparameters),
        "folder": str(point.runs[0].spec.folder.parent),
        "mean": mean_and_sd(printed_pair(grid.key.dataset, point.mean(), point.sd())),
        "command": command("run", point.runs[0].spec, [0]).replace("seeds=[0]", "seeds=[{seed}]"),
        "runs": [_run(run) for run in point.runs],
    }


def _run(run: RunRecord) -> dict[str, Any]:
    assert run.result is not None
    dataset, result = run.spec.dataset.name, run.result
    return {
        "seed": run.spec.seed,
        "status": result.status if not result.reason else f"{result.status}: {result.reason}",
        "best": mean_and_sd([printed(dataset, result.best.number)]),
        "best_step": result.best.step,
        "final": mean_and_sd([printed(dataset, result.final.number)]),
        "commit": run.provenance.commit,
        "arithmetic": run.provenance.arithmetic,
        "finished": run.provenance.finished,
        "digest": result.digest,
        "metrics_sha256": result.metrics_sha256 or "",
        "curves": _curves(run),
    }


def _curves(run: RunRecord) -> dict[str, Sequence[float | None] | float | None]:
    """The evaluations by column; one that never moves is a single number."""
    columns, task = run.columns(), TASKS[run.spec.dataset.name]
    found: dict[str, Sequence[float | None] | float | None] = {"step": columns.pop("step", [])}
    for name, values in columns.items():
        if name == task.metric:
            found["metric"] = [compact(task.scale * value, _CURVE_DIGITS) for value in values]
        elif name != "epsilon":
            rounded = [compact(value, _CURVE_DIGITS) for value in values]
            found[names.axis(run.spec.strategy, name)] = rounded[0] if len(set(rounded)) == 1 else rounded
    return found


def compact(value: float, digits: int = 5) -> float | None:
    """As few digits as can be seen. None for what JSON has no number for."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
