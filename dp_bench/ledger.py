"""The ledger: what each grid spends, who says so, and how long it will take."""

from collections.abc import Sequence

from dp_bench import cost
from dp_bench.accounting import PRIVATE_ACCOUNTANTS
from dp_bench.budget import Allocation, no_guarantee, seeds_charged, under, warnings_for
from dp_bench.plan import Job, by_grid
from dp_bench.spec import RunSpec

_HEADER = [
    "grid",
    "candidates",
    "here",
    "runs",
    "steps",
    "nu",
    "split over the queries",
    "per run",
    "per grid",
    "seeds",
]


def ledger(planned: Sequence[Job], accountants: Sequence[str]) -> str:
    """A table a grid a row, then what a reader must know, the number of runs and how long they take."""
    rows, notes = [_HEADER + [f"{name} run/grid" for name in accountants]], dict[str, None]()
    for name, jobs in by_grid(planned).items():
        rows.append(_row(name, jobs, accountants))
        allocation = jobs[0].runs[0].allocation
        if allocation is not None:
            notes |= dict.fromkeys(warnings_for(allocation.budget, allocation.sampling))
            caveat = no_guarantee(allocation, jobs[0].runs[0].source.train_rows)
            if caveat is not None:
                notes[f"{name} is NOT private: {caveat}"] = None
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += [
        "",
        *_meaning(planned),
        *_shared_budgets(planned),
        *(f"warning: {note}" for note in notes),
        "",
        _effort(planned),
    ]
    return "\n".join(lines)


def _meaning(planned: Sequence[Job]) -> list[str]:
    """What the epsilons are of, and of what kind of batches."""
    accountants = {run.allocation.budget.accountant for job in planned for run in job.runs[:1] if run.allocation}
    lines = [
        "epsilon is spent per grid: candidates x steps compositions of one Gaussian mechanism of noise multiplier nu.",
        "'per run': what one configuration spends alone. Seeds are not charged, as in the paper; 'seeds': what the",
        "grid would spend if they were.",
    ]
    if accountants & set(PRIVATE_ACCOUNTANTS):
        lines.append("Batches are Poisson samples; neighbours add or remove one training example.")
    if others := sorted(accountants - set(PRIVATE_ACCOUNTANTS)):
        lines.append(f"{', '.join(others)}: batches are of fixed size; neighbours replace one training example.")
    return lines


def _shared_budgets(planned: Sequence[Job]) -> list[str]:
    """Rows of one search over keys besides the grid's own: none of them may be taken for a budget of its own."""
    rows: dict[object, set[str]] = {}
    times: set[int] = set()
    for name, jobs in by_grid(planned).items():
        run = jobs[0].runs[0]
        if run.allocation is not None and run.grid.times > 1:
            budget = (run.dataset.name, run.strategy, run.grid.k, run.allocation.budget, run.seeding)
            rows.setdefault(budget, set()).add(name)
            times.add(run.grid.times)
    if all(len(names) == 1 for names in rows.values()):
        return []
    listed = ", ".join(map(str, sorted(times)))
    return [
        f"Other keys are searched as well (grid.times={listed}): rows of one data set, strategy, k and epsilon share "
        "one budget; 'per grid' is what they spend together."
    ]


def _row(name: str, jobs: Sequence[Job], accountants: Sequence[str]) -> list[str]:
    first = jobs[0].runs[0]
    allocation = first.allocation
    points, seeds = ({value(run) for job in jobs for run in job.runs} for value in (_point, _seed))
    counts = [str(len(points)), str(sum(len(job.runs) for job in jobs)), str(first.steps)]
    if allocation is None:
        return [name, "-", *counts, "-", "not private", "-", "-", "-"] + ["-"] * len(accountants)
    split = ", ".join(f"{query} {z:.4g}" for query, z in first.build_strategy().multipliers().items())
    return [
        name,
        str(allocation.candidates),
        *counts,
        f"{allocation.noise_multiplier:.4f}",
        split,
        f"{allocation.epsilon_run:.3f}",
        f"{allocation.epsilon_grid:.3f}"
        + ("" if no_guarantee(allocation, first.source.train_rows) is None else " NOT private"),
        f"{seeds_charged(allocation, len(seeds)):.3f}",
        *(_second_opinion(allocation, accountant) for accountant in accountants),
    ]


def _point(run: RunSpec) -> str:
    return run.point


def _seed(run: RunSpec) -> int:
    return run.seed


def _second_opinion(allocation: Allocation, accountant: str) -> str:
    spent = under(allocation, accountant)
    return f"{spent.run:.3f}/{spent.grid:.3f}"


def _effort(planned: Sequence[Job]) -> str:
    runs = sum(len(job.runs) for job in planned)
    unfinished = [run for name, jobs in by_grid(planned).items() for run in _unfinished(name, jobs)]
    seconds = sum(cost.seconds(run) for run in unfinished)
    return (
        f"{len(planned)} configurations, {runs} runs, {runs - len(unfinished)} of them done; the others take "
        f"about {seconds / 3600:.1f} core hours here (by the fastest of a few steps on this machine)"
    )


def _unfinished(name: str, jobs: Sequence[Job]) -> list[RunSpec]:
    if not any((root / name).exists() for root in {job.root for job in jobs}):
        return [run for job in jobs for run in job.runs]  # no need to look for each of thousands
    return [f.spec for job in jobs for f in job.folders if not (f.path / "result.json").exists()]
