"""A hyperparameter that came later changes nothing about runs without it: names, digests, bits of noise."""

from running import composed, smoke

from dp_bench.experiment.charging import is_charged, times_by_budget
from dp_bench.experiment.spec import RunSpec
from dp_bench.strategies import STRATEGIES
from dp_bench.training.trainer import noise_key


def test_a_run_without_it_keeps_its_name_digest_and_noise() -> None:
    spec = smoke("fixed_quantile")[0]
    assert "clip_min" not in spec.protocol()["hyperparameters"], "as runs that were stored before there was such a key"
    assert "clip_min" not in str(spec.folder)
    stored = RunSpec.from_json(spec.to_json())
    assert "clip_min" not in stored.hyperparameters
    assert (stored.digest(), noise_key(stored)) == (spec.digest(), noise_key(spec))
    assert stored.build_strategy() == spec.build_strategy()


def test_a_run_with_it_is_another_one() -> None:
    plain, bounded = smoke("fixed_quantile")[0], smoke("fixed_quantile", "strategy.clip_min=0.05")[0]
    assert "strategy.clip_min=0.05" in bounded.variant
    assert bounded.protocol()["hyperparameters"]["clip_min"] == 0.05
    assert bounded.digest() != plain.digest()
    assert RunSpec.from_json(bounded.to_json()).build_strategy() == bounded.build_strategy()


def test_searching_it_is_charged() -> None:
    assert is_charged("strategy.clip_min", STRATEGIES["fixed_quantile"].swept)
    overrides = ["profile=smoke", "dataset=ag_news", "strategy=fixed_quantile"]
    point = ["strategy.lr=0.00316", "strategy.quantile=0.5"]
    configs = [composed(*overrides, *point, f"strategy.clip_min={low}") for low in (0, 0.1, 1)]
    assert times_by_budget({"strategy.clip_min": ["0", "0.1", "1"]}, configs)(configs[0]) == 3


def test_what_was_added_is_a_default() -> None:
    """Else a protocol that does not name it would mean something else."""
    for strategy in STRATEGIES.values():
        fields = strategy.__dataclass_fields__
        assert all(fields[name].default == neutral for name, neutral in strategy.added.items())
