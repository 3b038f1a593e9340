"""Each part of the audit as one check: what is measured, what is claimed, and whether the claim holds.

Correct code is refuted by chance at most CANARY_ERROR (Clopper-Pearson, valid for any number of draws),
10 * IDENTITY_ERROR (a normal tail, see `identity`) or NOISE_ERROR (chi-squared) often per strategy; the other checks do
not depend on chance.
"""

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ParamSpec

from scipy.stats import norm

from dp_bench.privacy.rounding import ROUNDING
from dp_bench.testing import accumulation, canaries, identity, isolation, keys, noise, replay
from dp_bench.testing.harness import one_thread
from dp_bench.testing.results import Finding
from dp_bench.testing.subjects import Subject

CANARY_ERROR, IDENTITY_ERROR, NOISE_ERROR = 2.5e-6, 2.5e-7, 5e-7

_P = ParamSpec("_P")


def _timed(check: Callable[_P, Finding]) -> Callable[_P, Finding]:
    """On one thread, with the seconds that it took; a value that is not finite is none."""

    @functools.wraps(check)
    def measured(*arguments: _P.args, **options: _P.kwargs) -> Finding:
        started = time.monotonic()
        with one_thread():
            finding = check(*arguments, **options)
        value = finding.value if finding.value is not None and math.isfinite(finding.value) else None
        return replace(finding, value=value, seconds=round(time.monotonic() - started, 2))

    return measured


@_timed
def canary(subject: Subject, key: str, *, copies: int = 1) -> Finding:
    """Does an attacker see more of one step than mu = 1/nu allows?"""
    nu = canaries.NU
    strategy = subject.build(nu, canaries.BATCH_SIZE)
    mu = canaries.observed_mu(strategy, f"{key}, canary, {subject.name}", 1 - CANARY_ERROR, copies)
    return Finding("canary", subject.name, f"mu >= {mu:.3f}", mu, f"mu <= {1 / nu:.3f}", holds=mu <= 1 / nu)


@_timed
def likelihood(subject: Subject, key: str, *, runs: int) -> Finding:
    """Is the likelihood ratio of whole sub-sampled runs 1 in the mean, on both sides?"""
    strategy = subject.build(identity.NU, identity.BATCH_SIZE)
    found = identity.identity(strategy, f"{key}, identity, {subject.name}", runs)
    limit = norm.isf(IDENTITY_ERROR / 4)
    return Finding(
        "identity",
        subject.name,
        f"{found.absent:.4f} (z {found.z_absent:+.1f}) without, {found.present:.4f} (z {found.z_present:+.1f}) with",
        found.absent,
        f"1 (|z| <= {limit:.1f})",
        holds=not found.refuted(IDENTITY_ERROR),
    )


@_timed
def noisy(subject: Subject, key: str) -> Finding:
    """Has each query's noise the scale that is claimed, and does no number of it come again?"""
    strategy = subject.build(1.0, 20)
    found = noise.measured(strategy, f"{key}, noise, {subject.name}", NOISE_ERROR)
    scales = ", ".join(f"{name} {scale.ratio:.3f}" for name, scale in found.scales.items())
    return Finding(
        "noise",
        subject.name,
        f"scale {scales}; correlation at any lag {found.correlation:.4f}",
        min(scale.ratio for scale in found.scales.values()),
        "scale " + ", ".join(f"{s.low:.3f} to {s.high:.3f}" for s in found.scales.values()) + f"; <= {found.limit:.4f}",
        holds=found.holds,
    )


@_timed
def neighbours(subject: Subject, case: str, key: str, *, everywhere: bool = True) -> Finding:
    """Do all sums of two neighbouring data sets differ by their joint bound at most, and nothing else at all?

    Examples of every size in the middle of the data set, or (`everywhere`) also at its start and end.
    """
    chosen = replay.cases()[case]
    strategy = subject.build(1.0, chosen.batch_size)
    positions = replay.POSITIONS.values() if everywhere else [replay.POSITIONS["middle"]]
    found = [
        replay.replay(strategy, chosen, scale, position, f"{key}, replay, {subject.name}, {case}")
        for scale in replay.CANARIES.values()
        for position in positions
    ]
    influence, allowed = max(one.influence for one in found), min(one.allowed for one in found)
    flow = next((one.flow for one in found if one.flow), None)
    state = next((one.state for one in found if one.state), None)
    equal = f"control flow {'differs' if flow else 'equal'}, state {f'differs {state}' if state else 'equal'}"
    return Finding(
        "replay",
        f"{subject.name}, {case}",
        f"moves {influence:.7f}, {equal}",
        influence,
        f"moves <= {allowed:.4f}, equal",
        holds=influence <= allowed and flow is None and state is None,
    )


@_timed
def coupled_sampler(key: str) -> Finding:
    """Is the coupling of `replay` the sampler's own, for an example at the end?"""
    same = replay.sampler_is_coupled(f"{key}, sampler")
    words = "the same others are drawn" if same else "other examples are drawn"
    return Finding("replay", "the sampler, one example more", words, float(same), "the same others", holds=same)


@_timed
def accumulated(layer: str, sizes: Sequence[int], micro_batches: Sequence[int]) -> Finding:
    """Can one example move a sum by more than its bound through the rounding of the others?"""
    largest = {
        size: max(accumulation.largest_influence(accumulation.LAYERS[layer], size, m) for m in micro_batches)
        for size in sizes
    }
    return Finding(
        "accumulation",
        layer,
        "moves " + ", ".join(f"{value:.4f} at {size:,}" for size, value in largest.items()),
        max(largest.values()),
        f"<= {1 + ROUNDING:.4f}",
        holds=max(largest.values()) <= 1 + ROUNDING,
    )


@_timed
def isolated(case: str) -> Finding:
    """Are the others' norms the same, to the bit, when one example more is in the batch?"""
    found = isolation.isolation(replay.cases()[case])
    moved = f"norms change in batches of {', '.join(map(str, found.sizes))}: moves {found.influence:.1f}"
    words = moved if found.sizes else f"no norm changes in batches of 1 to {max(isolation.SIZES)}, at any place"
    return Finding("isolation", case, words, found.influence, "no norm changes", holds=not found.sizes)


@_timed
def data_keys(key: str) -> Finding:
    """Do other data get other batches and other noise?"""
    shared = keys.shared_streams(key)
    shared += keys.shared_secrets(key)
    words = "; ".join(shared) or f"those of {len(keys.SOURCES)} training sets and of two secure runs differ"
    return Finding("keys", "batches and noise", words, float(len(shared)), "all differ", holds=not shared)
