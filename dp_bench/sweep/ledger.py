"""The ledger: what each grid spends, who says so, and how long it will take."""

from collections.abc import Collection, Mapping, Sequence

from dp_bench.experiment.charging import shared_budget
from dp_bench.experiment.plan import Job, by_grid
from dp_bench.experiment.selected import SelectedGrid
from dp_bench.experiment.spec import RunSpec
from dp_bench.privacy import totals
from dp_bench.privacy.accountants import ACCOUNTANTS, FIXED_SIZE, POISSON
from dp_bench.privacy.accounting import rounded_up
from dp_bench.privacy.allocation import Allocation
from dp_bench.privacy.allocators import schedule_in_words
from dp_bench.privacy.calibration import epsilon_by, seeds_charged, warnings_for
from dp_bench.privacy.guarantee import POOL, guarantee
from dp_bench.privacy.query import split_words
from dp_bench.sweep import step_times as cost
from dp_bench.sweep.terminal import as_lines, short_names

_HEADINGS = [
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
    """A table with one row per grid, then what a reader must know, the number of runs and how long they take."""
    grids, notes = by_grid(planned), dict[str, None]()
    firsts = {name: jobs[0].runs[0] for name, jobs in grids.items()}  # of each grid
    short = {folder: str(name) for folder, name in short_names(firsts.values()).items()}
    allocations = {name: run.allocation for name, run in firsts.items() if run.allocation}
    for name, allocation in allocations.items():
        notes |= dict.fromkeys(warnings_for(allocation.budget, allocation.sampling))
        worth = guarantee(allocation, firsts[name].source.train_rows)
        if not worth.holds:
            notes[f"{short[name]} is {worth.verdict}"] = None
    headings = [*_HEADINGS, *(f"{name} run/grid" for name in accountants)]
    lines = [
        *as_lines(headings, [_row(short[name], jobs, accountants) for name, jobs in grids.items()]),
        "",
        *_meaning(firsts.values()),
        *_schedules(allocations),
        *_selections(allocations),
        *_shared_budgets(firsts),
        *totals.lines([_listed(short[name], jobs) for name, jobs in grids.items()]),
        *(f"warning: {note}" for note in notes),
        "",
        _effort(grids),
    ]
    return "\n".join(lines)


def _meaning(firsts: Collection[RunSpec]) -> list[str]:
    """What the epsilons are of, and of what kind of batches."""
    names = {run.allocation.budget.accountant for run in firsts if run.allocation}
    halved = any(run.ranked_seeds for run in firsts)
    selected = any(run.winner_only for run in firsts)
    lines = [
        "epsilon is spent per grid: candidates x steps compositions of one Gaussian mechanism of noise multiplier nu"
        + ("," if halved else "."),
        *(["or, where a grid is halved, the steps of all its rungs."] * halved),
        *(["Of a grid that is searched by selection it is spent by releasing the winner alone."] * selected),
        "'candidates' are paid for, 'here' are run; 'per run' is what one configuration spends alone.",
        "Seeds are not charged, as in the paper; 'seeds' is what the grid would spend if they were.",
    ]
    if any(ACCOUNTANTS[name].sampling == POISSON for name in names):
        lines.append("Batches are Poisson samples; neighbours add or remove one training example.")
    if others := sorted(name for name in names if ACCOUNTANTS[name].sampling == FIXED_SIZE):
        lines.append(f"{', '.join(others)}: batches are of fixed size; neighbours replace one training example.")
    return lines


def _schedules(allocations: Mapping[str, Allocation]) -> list[str]:
    """What is trained of each grid that is halved, and what that costs."""
    lines = [
        f"{name}: halving trains {schedule_in_words(allocation.rungs)}: {allocation.compositions:,} steps, "
        f"{allocation.runs_worth:.1f} runs' worth instead of {allocation.candidates}."
        for name, allocation in allocations.items()
        if allocation.rungs
    ]
    if lines:
        lines.append(
            "Which candidates continue is chosen by the mean over the seeds of the metric on the test set, which is "
            "public here, as in the paper: that costs nothing."
        )
    return lines


def _selections(allocations: Mapping[str, Allocation]) -> list[str]:
    """What is trained of each grid that is searched by selection."""
    lines = []
    for name, allocation in allocations.items():
        if (trials := allocation.trials) is None:
            continue
        if allocation.pool:
            lines.append(f"{name}: {POOL}.")
            continue
        tried = trials.chance_of(allocation.candidates)
        lines.append(
            f"{name}: selection trains a secret number of candidates, {trials.distribution} with mean {trials.mean:g}, "
            f"drawn with replacement: {allocation.runs_worth:.1f} runs' worth expected; the best candidate is tried "
            f"with probability {tried:.2f}, and only the winner, by the public test set, is released."
        )
    return lines


def _shared_budgets(firsts: Mapping[str, RunSpec]) -> list[str]:
    """Rows of one search over keys besides the grid's own: none of them may be taken for a budget of its own."""
    rows: dict[object, set[str]] = {}
    times: set[int] = set()
    for name, run in firsts.items():
        if run.allocation is not None and run.grid.times > 1:
            rows.setdefault(shared_budget(run), set()).add(name)
            times.add(run.grid.times)
    if all(len(names) == 1 for names in rows.values()):
        return []
    listed = ", ".join(map(str, sorted(times)))
    return [
        f"Other keys are searched as well (grid.times={listed}): rows of one data set, strategy, k and epsilon share "
        "one budget; 'per grid' is what they spend together."
    ]


def _listed(name: str, jobs: Sequence[Job]) -> totals.Listed:
    run = jobs[0].runs[0]
    seeds = len(_seeds(jobs))
    search = shared_budget(run) if run.allocation else None
    return totals.Listed(name, run.dataset.name, run.allocation, run.source.train_rows, run.grid.times, seeds, search)


def _row(name: str, jobs: Sequence[Job], accountants: Sequence[str]) -> list[str]:
    first = jobs[0].runs[0]
    allocation = first.allocation
    points, seeds = {job.runs[0].point for job in jobs}, _seeds(jobs)
    runs = f"{allocation.runs_worth:g} expected" if allocation and first.winner_only else str(_runs(jobs))
    counts = [str(len(points)), runs, str(first.steps)]
    if allocation is None:
        return [name, "-", *counts, "-", "not private", "-", "-", "-"] + ["-"] * len(accountants)
    split = split_words(first.build_strategy().multipliers())
    return [
        name,
        str(allocation.candidates),
        *counts,
        f"{allocation.noise_multiplier:.4f}",
        split,
        rounded_up(allocation.epsilon_run),
        guarantee(allocation, first.source.train_rows).marked(rounded_up(allocation.epsilon_grid)),
        rounded_up(seeds_charged(allocation, len(seeds))),
        *(_second_opinion(allocation, accountant) for accountant in accountants),
    ]


def _seeds(jobs: Sequence[Job]) -> set[int]:
    return {run.seed for job in jobs for run in job.runs}


def _second_opinion(allocation: Allocation, accountant: str) -> str:
    spent = epsilon_by(allocation, accountant)
    return f"{rounded_up(spent.run)}/{rounded_up(spent.grid)}"


def _runs(jobs: Sequence[Job]) -> int:
    return sum(len(job.runs) for job in jobs)


def _effort(grids: Mapping[str, Sequence[Job]]) -> str:
    selected = {name: jobs for name, jobs in grids.items() if jobs[0].runs[0].winner_only}
    searches = [jobs for jobs in selected.values() if not SelectedGrid(jobs[0].root, jobs[0].runs[0]).done]
    launched = [job for jobs in grids.values() for job in jobs if not job.runs[0].winner_only]
    unfinished = [run for name, jobs in grids.items() if name not in selected for run in _unfinished(name, jobs)]
    left = [*unfinished, *(run for jobs in searches for job in jobs for run in job.runs)]
    seconds = sum(cost.seconds(run) * _share(run) for run in left)
    runs, done = _runs(launched), len(selected) - len(searches)
    words = [f"{len(launched)} configurations, {runs} runs, {runs - len(unfinished)} of them done"] * bool(launched)
    words += [f"{len(selected)} {'selection' if len(selected) == 1 else 'selections'}, {done} done"] * bool(selected)
    return (
        f"{'; '.join(words)}; the others take about {seconds / 3600:.1f} core hours here "
        f"({'expected; ' * bool(searches)}by the fastest of a few steps on this machine)"
    )


def _share(run: RunSpec) -> float:
    """Of its steps, expected before it is known which candidates continue or are tried."""
    allocation = run.allocation
    return 1.0 if allocation is None or allocation.pool else allocation.runs_worth / allocation.candidates


def _unfinished(name: str, jobs: Sequence[Job]) -> list[RunSpec]:
    if not any((root / name).exists() for root in {job.root for job in jobs}):
        return [run for job in jobs for run in job.runs]  # no need to look for each of thousands
    return [f.spec for job in jobs for f in job.folders if not f.done]
