"""From a composed configuration to checked dataclasses: `DictConfig` stops here.

Invalid commands fail here, before any work starts, with a one-line message and exit code 2.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict

from omegaconf import DictConfig, OmegaConf

from dp_bench.errors import invalid, unknown
from dp_bench.experiment.config import (
    BUILT_IN_OPTIONS,
    Config,
    SelectionConfig,
    dataset_schema,
    declared_options,
    default_sampling,
    strategy_schema,
    task_options,
)
from dp_bench.experiment.hydra_errors import refuse_unknown_keys
from dp_bench.files.from_json import from_plain
from dp_bench.privacy.accountants import ACCOUNTANTS, SAMPLINGS, accountant_of
from dp_bench.privacy.allocators import ALLOCATORS, SELECTION, check_accountant
from dp_bench.privacy.selection import Trials
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS

_MOST_THREADS = 1024
_MOST_EXAMPLES = 10**6  # per-example gradients held in memory: more never fit


def parse(composed: DictConfig, point: Mapping[str, float] | None = None) -> Config:
    """A composed configuration as plain dataclasses, checked; `point` gives swept values that it leaves open."""
    for name, value in (point or {}).items():
        if OmegaConf.is_missing(composed.strategy, name):
            composed.strategy[name] = value
    refuse_unknown_keys(composed)
    missing = sorted(OmegaConf.missing_keys(composed))
    if missing:
        raise invalid(missing[0], "a value", "nothing", f"add {missing[0]}=VALUE to the command")
    config = OmegaConf.to_object(composed)
    assert isinstance(config, Config)
    _check_types(config)
    check(config)
    private = STRATEGIES[config.strategy.name].private
    if config.train.sampling == default_sampling(config.privacy if private else None):
        config.train.sampling = None  # the same run, however it was written
    return config


def _check_types(config: Config) -> None:
    """Refuse what OmegaConf lets through: a list in the place of a number within a list."""
    for group in ("dataset", "model", "privacy", "grid", "train"):
        try:
            from_plain(type(getattr(config, group)), asdict(getattr(config, group)))
        except ValueError as error:
            raise invalid(group, "values of the types of its keys", error, "correct it") from None
    if not all(type(seed) is int for seed in config.seeds):
        raise invalid("seeds", "whole numbers from 0 on", config.seeds, "for example seeds=[0,1,2]")


def check(config: Config) -> None:
    """Refuse what no run could be made of. Each strategy checks its own hyperparameters, the budget its own numbers."""
    _one_of("dataset.name", config.dataset.name, TASKS)
    _one_of("checkpoint.keep", config.checkpoint.keep, ("none", "best", "all"))
    _one_of("tracker", config.tracker, ("none", "tensorboard", "mlflow"))
    _one_of("points", config.points, ("all", "published"))
    _one_of("epsilons", config.epsilons, ("all", "outer"))
    _one_of("seed", config.seed, ("named", "secure"))
    _one_of("device", config.device, ("auto", "cpu", "cuda"))
    if config.dataset.emulate_size is not None and config.profile != "verify":
        expected = "profile=verify with it, as its epsilon is not a guarantee for the data that are there"
        remedy = "leave it out, or choose profile=verify"
        raise invalid("dataset.emulate_size", expected, f"profile={config.profile}", remedy)
    for key, value in {
        "train.batch_size": config.train.batch_size,
        "train.epochs": config.train.epochs,
        "train.evaluate_every": config.train.evaluate_every,
        "threads": config.threads,
        "micro_batch": 1 if config.micro_batch is None else config.micro_batch,
        "grid.times": config.grid.times,
    }.items():
        if not 0 < value < math.inf:
            raise invalid(key, "a positive number", value, f"leave {key} out for the default")
    _check_task_options(config)
    if config.threads > _MOST_THREADS:
        raise invalid("threads", f"at most {_MOST_THREADS}", config.threads, "one per core is plenty")
    if config.micro_batch is not None and config.micro_batch > _MOST_EXAMPLES:
        raise invalid("micro_batch", f"at most {_MOST_EXAMPLES:,}", config.micro_batch, "leave it out for the default")
    _one_of("privacy.allocator", config.privacy.allocator, ALLOCATORS)
    _one_of("strategy.name", config.strategy.name, STRATEGIES)
    if not isinstance(config.strategy, strategy_schema(config.strategy.name)):
        name = config.strategy.name
        raise invalid("strategy.name", "the name of the chosen strategy", name, f"choose it with strategy={name}")
    _check_sampling(config)
    _check_selection(config)
    for value in [*config.grid.quantile, *config.grid.also.quantile]:
        if not 0 < value < 1:
            raise invalid("grid.quantile", "numbers between 0 and 1", value, "leave it out")
    if not config.grid.quantile:
        raise invalid("grid.quantile", "a list", "an empty one", "for example grid.quantile=[0.1,0.5,0.9]")
    for key, ends in {"grid.lr": config.grid.lr, "grid.clip": config.grid.clip}.items():
        if len(ends) != 2:
            raise invalid(key, "the two ends of a range", ends, f"for example {key}=[0.01,100]")
    for name, values in config.grid.axes.items():
        if not values:
            raise invalid(f"grid.axes.{name}", "at least one value", "none", "leave it out")
    if not config.runs.strip():
        raise invalid("runs", "a folder", "nothing", "leave it out, or write runs=FOLDER")
    if min(config.seeds, default=0) < 0:
        raise invalid("seeds", "whole numbers from 0 on", config.seeds, "for example seeds=[0,1,2]")
    if not config.seeds or len(set(config.seeds)) < len(config.seeds):
        raise invalid("seeds", "at least one and none twice", config.seeds, "for example seeds=[0,1,2]")
    if max(map(abs, config.seeds)) >= 2**63:
        raise invalid("seeds", "numbers of at most 63 bits", config.seeds, "for example seeds=[0,1,2]")
    if not 0 < config.privacy.delta < 1:
        raise invalid("privacy.delta", "a number between 0 and 1", config.privacy.delta, "set it, for example, to 1e-5")
    if not config.privacy.epsilon > 0:
        raise invalid("privacy.epsilon", "a positive number", config.privacy.epsilon, "set it, for example, to 3")


def _check_task_options(config: Config) -> None:
    """Refuse options that the chosen task does not have: they would name another folder for the same run."""
    name = config.dataset.name
    if type(config.dataset) is not dataset_schema(name):
        expected = "the name of the chosen data set"
        raise invalid("dataset.name", expected, name, f"choose it with dataset={TASKS.word(name)}")
    chosen = {"dataset": asdict(config.dataset), "model": asdict(config.model)}
    for group, options in declared_options(name).items():
        for option in sorted((chosen[group].keys() & BUILT_IN_OPTIONS.keys()) - options.keys()):
            if (value := chosen[group][option]) != (default := BUILT_IN_OPTIONS[option]):
                expected = f"its default {default} with dataset={name}, which has no such option"
                raise invalid(f"{group}.{option}", expected, value, "leave it out")
    TASKS[name].check(task_options(config.dataset, config.model))


def _check_sampling(config: Config) -> None:
    """Refuse batches whose cost the chosen accountant does not count."""
    chosen = config.train.sampling
    counted = accountant_of(config.privacy.accountant).sampling
    if STRATEGIES[config.strategy.name].private:
        check_accountant(config.privacy.allocator, config.privacy.accountant)
    if chosen is None:
        return
    _one_of("train.sampling", chosen, SAMPLINGS)
    if chosen != counted and STRATEGIES[config.strategy.name].private:
        able = [name for name, accountant in ACCOUNTANTS.items() if accountant.sampling == chosen]
        expected = f"{counted}, which privacy.accountant={config.privacy.accountant} is about"
        remedy = f"leave it out, or choose privacy.accountant={' or '.join(able)}"
        raise invalid("train.sampling", expected, chosen, remedy)


def _check_selection(config: Config) -> None:
    """Refuse what would tell more about a secret number of trials than its winner, or pay for less than is released."""
    chosen = config.privacy.selection
    if config.privacy.allocator != SELECTION:
        if chosen != SelectionConfig():
            expected, got = "privacy.allocator=selection with it", config.privacy.allocator
            raise invalid("privacy.selection", expected, got, "choose that, or leave it out")
        return
    Trials(chosen.distribution, 2.0 if chosen.mean is None else chosen.mean)
    if chosen.pool or not STRATEGIES[config.strategy.name].private:
        return
    if config.seed != "secure":
        expected = "secure with privacy.allocator=selection, as anyone who can repeat the noise can repeat the search"
        raise invalid("seed", expected, config.seed, "add seed=secure")
    if len(config.seeds) > 1:
        expected = "one with privacy.allocator=selection, which pays for one winner"
        raise invalid("seeds", expected, config.seeds, "add seeds=[0]")
    if config.tracker != "none":
        expected = "none with privacy.allocator=selection, as it would record every trial"
        raise invalid("tracker", expected, config.tracker, "leave it out")


def _one_of(key: str, value: str, names: Collection[str]) -> None:
    if value not in names:
        raise unknown(key, value, names)
