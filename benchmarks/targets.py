"""The figures that the project set itself, and what was measured. Whether they are met is computed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contenders import FIXED_THRESHOLD, GHOST, ONLINE, PER_EXAMPLE
from step_tables import Row, number, of, strongest_rival

from dp_bench.report.table import Column, Table


@dataclass(frozen=True)
class Limits:
    """Of one model. Ratios to a plain step, unless said otherwise."""

    online: float
    fixed_threshold: float
    rival: float  # the strongest rival's time over Online's, at least
    opacus: float  # Opacus' time over Online's, at least
    sgemm: float | None  # fraction of the machine's speed, at least
    same_layout: float  # Online's time over the second baseline's


LIMITS = {
    "bag_of_words": Limits(online=1.45, fixed_threshold=1.2, rival=1.2, opacus=28, sgemm=None, same_layout=1.35),
    "cnn": Limits(online=0.52, fixed_threshold=0.75, rival=1.5, opacus=7, sgemm=0.58, same_layout=1.15),
    "autoencoder": Limits(online=0.66, fixed_threshold=0.85, rival=1.4, opacus=2.5, sgemm=0.68, same_layout=1.15),
}
PEAK_MEMORY = 1.2
TWO_PROCESSES = 1.85
WHOLE_RUN = 1.15
CHECKPOINTS = 0.01
LINEAR = 1.1  # an exponent up to this counts as linear; below 1 is what a fixed cost a step looks like


@dataclass(frozen=True)
class Judged:
    what: str
    where: str  # model and threads
    at_most: float | None
    at_least: float | None
    measured: float | None  # None: not measured

    @property
    def met(self) -> bool | None:
        if self.measured is None:
            return None
        above = self.at_least is None or self.measured >= self.at_least
        return above and (self.at_most is None or self.measured <= self.at_most)


def judged_steps(rows: Sequence[Row]) -> list[Judged]:
    judged = []
    for model, threads in dict.fromkeys((r["model"], r["threads"]) for r in rows):
        limits = LIMITS[model]
        where = f"{model}, {threads} thread{'s' * (threads > 1)}"
        plain, layout, peak, fraction = (
            of(rows, model, threads, key)
            for key in ("ratio_plain", "ratio_same_layout", "peak_ratio", "sgemm_fraction")
        )

        rival = strongest_rival(plain)

        def most(what: str, measured: float | None, limit: float, where: str = where) -> Judged:
            return Judged(what, where, limit, None, measured)

        def least(what: str, measured: float | None, limit: float, where: str = where) -> Judged:
            return Judged(what, where, None, limit, measured)

        ours = [peak[name] for name in (FIXED_THRESHOLD, ONLINE) if name in peak]
        judged += [
            most("Online / plain", plain.get(ONLINE), limits.online),
            most("FixedThreshold / plain", plain.get(FIXED_THRESHOLD), limits.fixed_threshold),
            least(f"strongest rival ({rival or 'none'}) / Online", _over_online(plain, (rival,)), limits.rival),
            least("Opacus' fastest per-example mode / Online", _over_online(plain, PER_EXAMPLE), limits.opacus),
            least("Opacus' ghost clipping / Online", _over_online(plain, (GHOST,)), limits.opacus),
            most("Online / plain, our layout", layout.get(ONLINE), limits.same_layout),
            most("peak memory, the larger of ours / plain", max(ours, default=None), PEAK_MEMORY),
        ]
        if limits.sgemm is not None:
            judged.append(least("Online, fraction of sgemm speed", fraction.get(ONLINE), limits.sgemm))
    return judged


def _over_online(ratios: Mapping[str, float], modes: Sequence[str | None]) -> float | None:
    """Of two medians of ratios to plain PyTorch: Opacus' slow steps do not take part in every round."""
    there = [ratios[mode] for mode in modes if mode in ratios]
    return min(there) / ratios[ONLINE] if there and ONLINE in ratios else None


def judged_rest(
    models: Sequence[str],
    growth: Sequence[Mapping[str, Any]],
    together: Sequence[Mapping[str, Any]],
    whole: Mapping[str, Any] | None,
) -> list[Judged]:
    # The larger of two exponents: a fixed cost, which flattens the fit, hardly counts in the last two sizes.
    exponents = {(g["model"], g["against"]): max(_exponents(g)) for g in growth}
    ratios = {t["model"]: t["ratio"] for t in together}
    sweeps = [(model, "batch size") for model in models]
    sweeps += [("bag_of_words", "parameters")] if "bag_of_words" in models else []
    judged = [
        Judged(f"exponent of time in {against}", f"{model}, 1 thread", LINEAR, None, exponents.get((model, against)))
        for model, against in sweeps
    ]
    judged.append(Judged("exponent of time in runs", "collecting", LINEAR, None, exponents.get(("collecting", "runs"))))
    judged += [
        Judged("throughput of two processes / one", f"{model}, 1 thread", None, TWO_PROCESSES, ratios.get(model))
        for model in models
    ]
    if "bag_of_words" in models:
        where, found = "bag_of_words, FixedThreshold, 1 thread", whole or {}
        judged += [
            Judged("whole run / its steps and evaluations", where, WHOLE_RUN, None, found.get("ratio")),
            Judged("checkpoints, share of a run", where, CHECKPOINTS, None, found.get("checkpoint_share")),
        ]
    return judged


def _exponents(growth: Mapping[str, Any]) -> tuple[float, float]:
    return growth["exponent"], growth["exponent_of_the_last_two"]


def targets_table(judged: Sequence[Judged]) -> Table:
    words = {True: "met", False: "not met", None: "not measured"}
    return Table(
        name="targets",
        caption="The targets and what was measured",
        head=("where", "what", Column("target", "number"), Column("measured", "number"), ""),
        rows=[(j.where, j.what, _limit(j), number(j.measured), words[j.met]) for j in judged],
    )


def _limit(judged: Judged) -> str:
    return f"≤ {judged.at_most:g}" if judged.at_most is not None else f"≥ {judged.at_least:g}"
