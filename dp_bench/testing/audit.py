"""The whole audit: every check on the code as it is, then on every planted bug, which the checks must find."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from dp_bench.strategies import Strategy
from dp_bench.testing import accumulation, canaries, identity, isolation, keys, noise, planted, replay
from dp_bench.testing.cases import keeps_releases
from dp_bench.testing.harness import one_thread
from dp_bench.testing.results import Audit, Caught, Finding
from dp_bench.testing.subjects import Subject, subject_of, subjects

FALSE_ALARM = 1e-4  # correct code is refuted at most so often by an audit of up to twenty strategies
QUICK_RUNS, FULL_RUNS = 500, 2000  # of the identity
QUICK_COPIES = 5  # canaries per call

MODELS = ("bag of words", "CNN", "autoencoder", "odd widths")

Check = Callable[[], Finding]


EVERY, ENGINE = ("every strategy",), ("the engine",)
KEEPING = ("every strategy whose state keeps something of what was released",)


class Sighting(NamedTuple):
    """A bug, and a part that must find it: in these strategies, in every one, or in the engine, without a strategy."""

    plant: planted.Plant
    part: str
    subjects: tuple[str, ...]

    def among(self, chosen: Sequence[Subject]) -> Sequence[Subject | None]:
        """Where it is looked for if these strategies are audited; None: the engine."""
        if self.subjects == ENGINE:
            return [None]
        if self.subjects == KEEPING:
            return [subject for subject in chosen if keeps_releases(subject.build(1.0, 20))]
        return [subject for subject in chosen if self.subjects == EVERY or subject.name in self.subjects]


ONLINE, EVEN, THRESHOLD, QUANTILE = ("online",), ("online, even split",), ("fixed_threshold",), ("fixed_quantile",)
SIGHTINGS = (
    Sighting(planted.gradient_multiplier_on_direction, "canary", ONLINE),
    Sighting(planted.noise_of_the_first_threshold, "canary", ONLINE + QUANTILE),
    Sighting(planted.divided_by_the_drawn_size, "canary", EVERY),
    Sighting(planted.whole_budget_on_the_gradient, "canary", EVEN + QUANTILE),
    Sighting(planted.one_noise_vector, "canary", ONLINE),
    Sighting(planted.one_noise_vector, "identity", EVEN),
    Sighting(planted.infinite_gradient_times_zero, "canary", EVERY),
    Sighting(planted.infinite_gradient_times_zero, "replay", EVERY),
    Sighting(planted.infinite_gradient_unclipped, "canary", EVERY),
    Sighting(planted.infinite_gradient_unclipped, "replay", EVERY),
    Sighting(planted.single_precision_sums, "accumulation", ENGINE),
    Sighting(planted.key_without_the_data, "keys", ENGINE),
    Sighting(planted.passes_without_padding, "isolation", ENGINE),
    Sighting(planted.passes_untried, "isolation", ENGINE),
    Sighting(planted.constant_secure_key, "keys", ENGINE),
    Sighting(planted.count_noise_times_0_9, "noise", QUANTILE),
    Sighting(planted.noise_that_repeats, "noise", THRESHOLD + ONLINE),
    Sighting(planted.momentum_of_exact_sums, "replay", KEEPING),
    Sighting(planted.noise_times_0_7, "noise", EVERY),
    Sighting(planted.noise_times_0_7, "canary", EVERY),
    Sighting(planted.noise_times_0_7, "identity", EVERY),
    Sighting(planted.doubled_release, "canary", EVERY),
    Sighting(planted.doubled_release, "identity", ONLINE + THRESHOLD),
    Sighting(planted.drawn_twice_as_often, "identity", THRESHOLD),
    Sighting(planted.no_noise_for_an_empty_batch, "replay", ONLINE + THRESHOLD),
)


def audit_strategy(name: str, strategy: Strategy[Any], key: str = "audit", quick: bool = False) -> list[Finding]:
    """The checks that concern a strategy, of any strategy object; its nu and batch size are replaced by the audit's."""
    return [_measured(check) for check in _strategy_checks(subject_of(name, strategy), key, quick)]


def run(
    key: str,
    *,
    quick: bool = False,
    strategy: str | None = None,
    plant: bool = True,
    tell: Callable[[str], None] = print,
) -> Audit:
    """Everything, or all that concerns the strategy of this name. `key` names all batches and noise.

    `plant`: whether bugs are planted, to be found.
    """
    started = time.monotonic()
    chosen = subjects(strategy)
    if len(chosen) * (canaries.ERROR + 10 * identity.ERROR + noise.ERROR) > FALSE_ALARM:
        raise ValueError(f"strategies: expected few enough for false alarms below {FALSE_ALARM}, got {len(chosen)}")
    everything = [check for subject in chosen for check in _strategy_checks(subject, key, quick)]
    findings = []
    for check in everything + _engine_checks(key, quick):
        findings.append(found := _measured(check))
        verdict = "holds" if found.holds else "REFUTED"
        tell(f"{found.part}, {found.subject}: {found.measured}; claimed {found.claimed}: {verdict}")
    caught = []
    for bug in look_for_planted(chosen, key) if plant else ():
        caught.append(bug)
        tell(f"planted {bug.bug}, {bug.subject}: {'MISSED' if bug.part is None else f'found by {bug.part}'}")
    return Audit(tuple(findings), tuple(caught), FALSE_ALARM, round(time.monotonic() - started, 1))


def _measured(check: Check) -> Finding:
    """On one thread, with the seconds that it took; a value that is not finite is none."""
    started = time.monotonic()
    with one_thread():
        found = check()
    value = found.value if found.value is not None and math.isfinite(found.value) else None
    return replace(found, value=value, seconds=round(time.monotonic() - started, 2))


def _strategy_checks(subject: Subject, key: str, quick: bool) -> list[Check]:
    return [
        partial(canaries.check, subject, key, copies=QUICK_COPIES if quick else 1),
        partial(identity.check, subject, key, runs=QUICK_RUNS if quick else FULL_RUNS),
        partial(noise.check, subject, key),
        # Convolutions take longest.
        *(
            partial(replay.check, subject, case, key, everywhere=not (quick and case in ("CNN", "autoencoder")))
            for case in replay.cases()
        ),
    ]


def _engine_checks(key: str, quick: bool) -> list[Check]:
    sizes = accumulation.QUICK_SIZES if quick else accumulation.FULL_SIZES
    micro_batches = accumulation.MICRO_BATCHES[-1:] if quick else accumulation.MICRO_BATCHES
    return [
        partial(replay.check_sampler, key),
        *(partial(accumulation.check, layer, sizes, micro_batches) for layer in accumulation.LAYERS),
        *(partial(isolation.check, case) for case in MODELS),
        partial(keys.check, key),
    ]


def look_for_planted(chosen: Sequence[Subject], key: str) -> Iterator[Caught]:
    """Every sighting that concerns these strategies or the engine, with the plant in place."""
    for sighting in SIGHTINGS:
        for subject in sighting.among(chosen):
            yield look_for(sighting.plant, sighting.part, subject, f"{key}, planted {sighting.plant.__name__}")


def look_for(plant: planted.Plant, part: str, subject: Subject | None, key: str) -> Caught:
    """What `part` says of code with this bug in it."""
    # Plants that read a strategy's multipliers or first queries read them as the part builds it.
    nu, batch_size = (canaries.NU, canaries.BATCH_SIZE) if part == "canary" else (1.0, 20)
    with plant((subject or subjects()[0]).build(nu, batch_size)):
        found = _measured(partial(_FASTEST[part], subject, key))
    what = (plant.__doc__ or "").strip().splitlines()[0]
    name = found.subject if subject is None else subject.name
    return Caught(plant.__name__, name, None if found.holds else part, found.measured, what)


# A check of each part that takes least time, of a strategy or of the engine.
_FASTEST: dict[str, Callable[[Any, str], Finding]] = {
    "canary": partial(canaries.check, copies=canaries.COPIES),
    "identity": partial(identity.check, runs=QUICK_RUNS),
    "noise": noise.check,
    "replay": lambda subject, key: replay.check(subject, "empty batches", key, everywhere=False),
    "accumulation": lambda _, key: accumulation.check("convolution", [4096], accumulation.MICRO_BATCHES),
    "isolation": lambda _, key: isolation.check("odd widths"),
    "keys": lambda _, key: keys.check(key),
}
