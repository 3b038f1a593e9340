"""Other data get other noise: two training sets under one run's name must not share batches or noise.

If they did, the difference of two releases would have no noise at all, and show the difference of the sums exactly. A
folder's name tells `data=subset`, but not which rows. And with seed=secure two runs of one spec share nothing: each
draws a key of 256 bits.
"""

from dataclasses import replace

import torch

from dp_bench.data import Source
from dp_bench.data.tensors import Dataset
from dp_bench.experiment.config import DatasetConfig, GridConfig, ModelConfig, PrivacyConfig, TrainConfig
from dp_bench.experiment.spec import Machine, RunSpec
from dp_bench.testing.results import Finding
from dp_bench.training import trainer as training

_WORDS, _ROWS = 1, 8
_HEX_DIGITS = 64  # of a key
_FIRST = Source("subset", "made for the audit", (), {"train": "0" * 64, "test": "1" * 64}, _ROWS, _ROWS)
SOURCES = {
    "one training set": _FIRST,
    "another file": replace(_FIRST, checksums={"train": "2" * 64, "test": "1" * 64}),
    "fewer of its rows": replace(_FIRST, train_rows=_ROWS - 1),
}


def check(key: str) -> Finding:
    """Do other data get other batches and other noise?

    Through the `Training` of a run: whatever it keys its generators by. `key` is the run's profile.
    """
    first, *others = (_training(_spec(key, source)) for source in SOURCES.values())
    secure, again = (_training(replace(_spec(key, _FIRST), seeding="secure")) for _ in range(2))
    keys = {run.key for run in (secure, again, first)}
    drawn = _draws(first)
    shared = [_shared(label, drawn, _draws(other)) for label, other in zip([*SOURCES][1:], others, strict=True)]
    shared.append(_shared("two secure runs", _draws(secure), _draws(again)))
    if len(keys) < 3 or any(len(run.key) < _HEX_DIGITS for run in (secure, again)):
        shared.append("a secure run's key: not 256 bits of its own")
    found = list(filter(None, shared))
    words = "; ".join(found) or f"those of {len(SOURCES)} training sets and of two secure runs differ"
    return Finding("keys", "batches and noise", words, float(len(found)), "all differ", holds=not found)


def _training(spec: RunSpec) -> training.Training:
    rows = torch.zeros(spec.source.train_rows, _WORDS * 50)
    classes = torch.zeros(len(rows), dtype=torch.int64)
    return training.Training(spec, Dataset("ag_news", rows, classes, rows, classes, spec.source), torch.device("cpu"))


def _draws(run: training.Training) -> dict[str, torch.Tensor]:
    """The first numbers of its generators."""
    return {kind: getattr(run, kind).uniform(16, torch.float64) for kind in ("batches", "noise")}


def _shared(label: str, one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> str:
    """What both have drawn, in words; "" for nothing."""
    same = [kind for kind, drawn in one.items() if torch.equal(drawn, other[kind])]
    return f"{label}: the same {' and '.join(same)}" if same else ""


def _spec(name: str, source: Source) -> RunSpec:
    return RunSpec(
        profile=name,
        variant="data=subset",
        dataset=DatasetConfig("ag_news", words=_WORDS),
        model=ModelConfig(),
        strategy="fixed_threshold",
        hyperparameters={"lr": 0.1, "clip": 0.1, "momentum": 0.9},
        grid=GridConfig(),
        privacy=PrivacyConfig(),
        train=TrainConfig(batch_size=4),
        source=source,
        allocation=None,
        steps=1,
        seed=0,
        seeding="named",
        machine=Machine("cpu", 1, 8),
    )
