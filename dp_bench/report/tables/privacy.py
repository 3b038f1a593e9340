"""What every grid spends, what is not charged, what to be wary of, and what all grids spend together."""

from collections.abc import Sequence

from dp_bench.privacy.accountants import ACCOUNTANTS, proven
from dp_bench.privacy.accounting import exact, rounded_up
from dp_bench.privacy.calibration import warnings_for
from dp_bench.privacy.query import split_words
from dp_bench.report import names
from dp_bench.report.analysis.accounts import Account
from dp_bench.report.contents import Part, shown
from dp_bench.report.load.results import Results
from dp_bench.report.table import Column, Row, Table, budget_place, by_column

WORDS = (
    "Sampling: each step draws a Poisson sample of the training set; every example enters it independently with "
    "probability B/N. Sums over the sample are released with Gaussian noise and divided by the nominal B. An empty "
    "sample still releases noise and still counts.",
    "Neighbours: two training sets that differ by adding or removing one example. N and the test set are public.",
    "Budget: ε is spent by the whole grid. Trying n configurations of T steps is n·T compositions, and one noise "
    "multiplier ν for all of them makes those cost (ε, δ). A strategy with several queries splits its ν so that their "
    "joint release costs the same.",
    "Not charged, as in the paper: the runs of further seeds, and choosing the checkpoint on the (public) test set. "
    "What the seeds would cost stands beside each grid.",
)
WORDS_WITHOUT_REPLACEMENT = (
    "NOT PRIVATE: grids marked {} draw batches of fixed size without replacement, for neighbours that replace one "
    "example, and their accountant leaves the sensitivity un-doubled. Their ε is not a proven guarantee; it serves "
    "the comparison with the paper, which probably used it."
)
WORDS_EMULATED = (
    "NOT PRIVATE: grids marked emulated take steps and noise as for a larger data set and draw batches from a part of "
    "it. Their ε budget is the paper's setting, not a guarantee for this data; the ledger's ε of a run and of a grid "
    "are of the data that were used."
)


@shown("Privacy", 0)
def meaning(results: Results, accounts: Sequence[Account]) -> Part:
    return Part("", [*WORDS], [], warnings(results, accounts))


def warnings(results: Results, accounts: Sequence[Account]) -> list[str]:
    """What a reader must know before believing an epsilon here."""
    found: list[str] = []
    if unproven := {a.grid.guarantee.unproven for a in accounts} - {""}:
        found.append(WORDS_WITHOUT_REPLACEMENT.format(" or ".join(sorted(unproven))))
    if any(account.grid.emulated for account in accounts):
        found.append(WORDS_EMULATED)
    for account in accounts:
        texts = warnings_for(account.allocation.budget, account.allocation.sampling)
        found += [f"{names.dataset(account.grid.key.dataset)}: {text}" for text in texts]
    if any(account.grid.spec.seeding == "named" for account in accounts):
        found.append(
            "Noise follows from each run's public name (seed=named), so that it can be repeated: anyone who knows the "
            "code can subtract it. To protect real data, run with seed=secure."
        )
    incomplete = [grid for grid in results.values() if grid.private and not grid.complete]
    if incomplete:
        unsearched = sum(not grid.searched for grid in incomplete)
        found.append(
            f"{len(incomplete)} of {names.plural(len(accounts), 'grid')} {names.lack(len(incomplete))} runs, "
            f"{unsearched} of them whole points. Each is charged as if it were complete, and its best point may "
            "change. See the completeness table."
        )
    return list(dict.fromkeys(found))


@shown("Privacy", 40)
def ledger(accounts: Sequence[Account], dataset: str) -> Table | None:
    """The accounts of a data set's grids; None without private ones."""
    mine = [account for account in accounts if account.grid.key.dataset == dataset]
    if not mine:
        return None
    consulted = [name for name in ACCOUNTANTS if any(a.opinions.get(name) for a in mine)]
    unasked = sorted({name for a in mine for name, spent in a.opinions.items() if spent is None})
    slow = (
        f"Not consulted on every grid, as they take long: {', '.join(unasked)}. Once is enough: "
        f"dp-bench report --accountants {','.join(unasked)}"
    )
    deltas = " or ".join(sorted({exact(account.allocation.budget.delta) for account in mine}))
    return Table(
        f"privacy_{dataset}",
        f"{names.dataset(dataset)}: the ledger. ε of one run and of the whole grid, at δ = {deltas}, as each "
        "accountant counts the same runs; seeds are charged in the column that says so, and nowhere else.",
        *by_column([_ledger_row(account, consulted) for account in mine]),
        notes=(slow,) if unasked else (),
        grids=[[account.grid] for account in mine],
    )


def _ledger_row(account: Account, consulted: Sequence[str]) -> Row:
    allocation, grid = account.allocation, account.grid
    seeds = None if account.seeds is None else f"{rounded_up(account.seeds)} for {grid.seeds}"
    opinions: dict[Column | str, float | None] = {}
    for name in consulted:
        heading, spent = name.upper() if proven(name) else f"{name} (not private)", account.opinions.get(name)
        opinions |= {Column("run", "spent", heading): spent and spent.run}
        opinions |= {Column("grid", "spent", heading): spent and spent.grid}
    return {
        **budget_place(grid.key),
        Column("candidates", "count"): allocation.candidates,
        Column("steps", "count"): allocation.steps,
        Column("ν", "number"): f"{allocation.noise_multiplier:.4f}",
        "ν of each query": split_words(account.split),
        "by": grid.guarantee.marked(allocation.budget.accountant),
        **opinions,
        Column("all seeds charged", "number"): seeds,
        Column("points run", "number"): f"{len(grid.points)} of {grid.planned}",
    }
