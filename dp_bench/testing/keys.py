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
from dp_bench.training import trainer as training

_WORDS, _ROWS = 1, 8
_HEX_DIGITS = 64  # of a key
_FIRST = Source("subset", "made for the audit", (), {"train": "0" * 64, "test": "1" * 64}, _ROWS, _ROWS)
SOURCES = {
    "one training set": _FIRST,
    "another file": replace(_FIRST, checksums={"train": "2" * 64, "test": "1" * 64}),
    "fewer of its rows": replace(_FIRST, train_rows=_ROWS - 1),
}


def shared_streams(name: str) -> list[str]:
    """What other training sets share with the first of SOURCES under one run's name: batches, noise, or nothing.

    Through the `Training` of a run: whatever it keys its generators by. `name` is the run's profile.
    """
    first, *others = ((label, _first_draws(_spec(name, source))) for label, source in SOURCES.items())
    found = []
    for label, draws in others:
        same = [kind for kind, drawn in draws.items() if torch.equal(drawn, first[1][kind])]
        found += [f"{label}: the same {' and '.join(same)}"] if same else []
    return found


def shared_secrets(name: str) -> list[str]:
    """What two runs of one spec share with seed=secure, and what is wrong with their keys."""
    runs = [_training(replace(_spec(name, _FIRST), seeding="secure")) for _ in range(2)]
    named = _training(_spec(name, _FIRST))
    same = [kind for kind, drawn in _draws(runs[0]).items() if torch.equal(drawn, _draws(runs[1])[kind])]
    found = [f"two secure runs: the same {' and '.join(same)}"] if same else []
    if len({run.key for run in (*runs, named)}) < 3 or any(len(run.key) < _HEX_DIGITS for run in runs):
        found.append("a secure run's key: not 256 bits of its own")
    return found


def _first_draws(spec: RunSpec) -> dict[str, torch.Tensor]:
    return _draws(_training(spec))


def _training(spec: RunSpec) -> training.Training:
    rows = torch.zeros(spec.source.train_rows, _WORDS * 50)
    classes = torch.zeros(len(rows), dtype=torch.int64)
    return training.Training(spec, Dataset("ag_news", rows, classes, rows, classes, spec.source), torch.device("cpu"))


def _draws(run: training.Training) -> dict[str, torch.Tensor]:
    """The first numbers of its generators, which stay where they are."""
    found = {}
    for kind in ("batches", "noise"):
        generator = getattr(run, kind)
        start = generator.state()
        found[kind] = generator.uniform(16, torch.float64)
        generator.restore(start)
    return found


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
