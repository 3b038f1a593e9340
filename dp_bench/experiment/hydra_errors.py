"""Hydra's and OmegaConf's exceptions as errors in this project's one shape (`dp_bench.errors`).

Theirs take several lines, list the configuration's search path, and hide the reason in the exception's cause.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

from hydra.errors import MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from dp_bench.errors import UserError, invalid, nearest, unknown
from dp_bench.experiment.config import known_keys

_KINDS = {"Integer": "a whole number", "Float": "a number", "Boolean": "true or false", "bool": "true or false"}
_KINDS |= {"int": _KINDS["Integer"], "float": _KINDS["Float"]}
_SWEEP = re.compile(r"(?:Sweep parameters|Ambiguous value for argument) '(.*?)=(.*?)'(?: requires|\n)")
_KIND = re.compile(r"could not be converted to (\w+)|is not a valid (\w+)|type hint '(\w+)'")


def explained(error: Exception) -> UserError:
    """What is wrong with the command."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options is not None:
        group, _, name = error.missing_cfg_file.rpartition("/")
        return unknown(group, name, error.options)
    if isinstance(error, OverrideParseException):
        reason = str(error).splitlines()[-2 if "See https" in str(error) else -1]
        key = error.override.partition("=")[0]
        got = f"{error.override} ({reason})"
        return invalid(key, "KEY=VALUE in Hydra's grammar", got, "give it a value, or quote the one it has")
    if sweep := _SWEEP.match(str(error)):
        return invalid(sweep[1], "one value", sweep[2], "choose one, or add -m to run them all")
    cause = error if isinstance(error, OmegaConfBaseException) else error.__cause__
    if isinstance(cause, OmegaConfBaseException) and cause.full_key:
        return _of_key(cause)
    return UserError("; ".join(" ".join(str(e).split()) for e in (error, error.__cause__) if e is not None))


def unknown_key(key: str, siblings: Iterable[str]) -> UserError:
    """The error for a key that nothing reads, with the nearest valid one: a sibling, else any of that last name."""
    group, _, name = key.rpartition(".")
    own = {sibling: f"{group}.{sibling}" if group else sibling for sibling in map(str, siblings) if sibling != name}
    # Of several keys of one name, a strategy's; of the others, the least nested one.
    ordered = sorted(known_keys(), key=lambda other: (other.startswith("strategy."), -other.count("."), other))
    by_name = {other.rpartition(".")[2]: other for other in ordered}
    exact = None if group else by_name.get(name)
    elsewhere = name if group else nearest(name, by_name)  # of a group's key only one that is spelt right
    near = exact or own.get(nearest(name, own) or "") or by_name.get(elsewhere or "")
    expected = f"a key of {group} ({', '.join(own)})" if group and own else "a key that dp-bench run --help lists"
    return invalid(key, expected, "one that nothing reads", f"did you mean `{near}`?" if near else "leave it out")


def refuse_unknown_keys(composed: DictConfig, prefix: str = "") -> None:
    """Refuse what `+KEY=VALUE` added to a configuration, at any depth: such a key would be silently ignored."""
    kind = OmegaConf.get_type(composed)
    declared = (
        [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else [*map(str, composed)]
    )
    for key in map(str, composed):
        if key not in declared:
            raise unknown_key(f"{prefix}{key}", declared)
        if not OmegaConf.is_missing(composed, key) and isinstance(composed[key], DictConfig):
            refuse_unknown_keys(composed[key], f"{prefix}{key}.")


def _of_key(cause: OmegaConfBaseException) -> UserError:
    parent = cause.parent_node
    siblings = parent if isinstance(parent, DictConfig) else {}
    if isinstance(cause, ConfigAttributeError | ConfigKeyError):
        return unknown_key(str(cause.full_key), siblings)
    text = str(cause)
    if kind := _KIND.search(text):
        name = kind[kind.lastindex or 0]
        expected = _KINDS.get(name, f"a {name.lower()}")
    elif "is not Optional" in text:
        expected = "a value"
    elif "list or tuple" in text:
        expected = "a list, as in [1,2]"
    elif "not a subclass" in text:
        expected = "a group of keys"
    elif "does not support deletion" in text:
        return invalid(str(cause.full_key), "a value", "a deletion (~)", "leave it out for the default")
    else:
        return UserError(f"{cause.full_key}: {' '.join(str(cause.msg).splitlines()[0].split())}; leave it out")
    got = "null" if cause.value is None else cause.value
    return invalid(str(cause.full_key), expected, got, _as_before(str(cause.full_key), cause.key, siblings))


def _as_before(key: str, name: Any, siblings: Mapping[Any, Any]) -> str:
    """The value that the key has without the override, as an example."""
    if not isinstance(siblings, DictConfig) or name not in siblings or OmegaConf.is_missing(siblings, name):
        return "correct it"
    value = siblings[name] if siblings[name] is not None else "null"
    plain = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
    if isinstance(plain, dict):
        return f"set its keys, as in {key}.{next(iter(plain), 'KEY')}=VALUE"
    return f"for example {key}={str(plain).replace(' ', '')}"
