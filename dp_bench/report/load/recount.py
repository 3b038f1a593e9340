"""What a stored run says, held against what can be computed anew: nothing that claims too little is believed."""

import math
from dataclasses import replace

from dp_bench.errors import DamagedFile
from dp_bench.experiment.record import RunRecord, RunResult, not_believed
from dp_bench.experiment.resolve import axes_of, trials_of
from dp_bench.experiment.spec import RunSpec
from dp_bench.files.checksummed import RUN_AGAIN
from dp_bench.privacy.accountants import ACCOUNTANTS
from dp_bench.privacy.accounting import rounded_up
from dp_bench.privacy.allocation import Allocation, Budget
from dp_bench.privacy.allocators import HALVING, rungs_of
from dp_bench.privacy.calibration import epsilon_by
from dp_bench.privacy.checks import reported_violation

# Epsilons were stored before the end of the noise's tail was charged, which raises none of them by so much.
_TOLERANCE = 1e-6


def believed(run: RunRecord) -> RunRecord:
    """The run, with epsilons that RDP finds anew; one that claims less than its noise spends is an error."""
    if run.spec.allocation is None:
        return run
    allocation = _believed_allocation(run.spec, run.spec.allocation)
    if run.result is not None:
        _check_claims(run.result, allocation)
    return replace(run, spec=replace(run.spec, allocation=allocation))


def _believed_allocation(spec: RunSpec, allocation: Allocation) -> Allocation:
    budget = spec.privacy and Budget(spec.privacy.epsilon, spec.privacy.delta, spec.privacy.accountant)
    for key, expected, found in (
        ("budget", budget, allocation.budget),
        ("batch_size", spec.train.batch_size, allocation.sampling.batch_size),
        ("steps", spec.steps, allocation.steps),
    ):
        if found != expected:
            raise not_believed(f"allocation.{key}", f"the run's own, {expected}", found)
    halved = spec.privacy is not None and spec.privacy.allocator == HALVING
    rungs = rungs_of(allocation.candidates, spec.steps, spec.train.evaluate_every) if halved else ()
    if allocation.rungs != rungs:  # fewer steps would ask for less noise
        raise not_believed("allocation.rungs", "what its allocator trains", allocation.rungs)
    trials = spec.privacy and trials_of(spec.privacy, allocation.candidates)
    if allocation.trials != trials:
        raise not_believed("allocation.trials", "what its allocator tries", allocation.trials)
    if spec.privacy is not None and allocation.pool != spec.privacy.selection.pool:
        raise not_believed("allocation.pool", "what its allocator keeps", allocation.pool)
    tried = spec.grid.times * math.prod(len(values) for values in axes_of(spec.strategy, spec.grid).values())
    if allocation.candidates < tried:
        raise not_believed("candidates", f"the {tried} of its grid", allocation.candidates)
    if (reason := reported_violation(allocation, _TOLERANCE)) is not None:
        raise DamagedFile(f"{reason}; {RUN_AGAIN}")
    accountant = allocation.budget.accountant
    if not ACCOUNTANTS[accountant].quick:
        return allocation
    spent = epsilon_by(allocation, accountant)
    return replace(allocation, epsilon_grid=spent.grid, epsilon_run=spent.run)


def _check_claims(result: RunResult, allocation: Allocation) -> None:
    """A result must not say less than its allocation, whose epsilons were computed anew."""
    for name, expected in (("delta", allocation.budget.delta), ("accountant", allocation.budget.accountant)):
        if (found := getattr(result, name)) != expected:
            raise not_believed(f"result: {name}", f"the run's own, {expected}", found)
    for name in ("epsilon_grid", "epsilon_run"):
        claimed, spent = getattr(result, name), getattr(allocation, name)
        if claimed is None or not claimed * (1 + _TOLERANCE) >= spent:
            expected = f"at least {rounded_up(spent)}, which its noise multiplier spends"
            raise not_believed(f"result: {name}", expected, claimed)
