"""Hydra without what it does again for every command of a process, so that hundreds of commands take seconds.

It composes a configuration twice, the first time only to read `hydra.mode`; copies its store of schemas each time;
parses the same words and reads the same files again. What a command is told stays the same:
tests/test_bad_inputs.py compares.
"""

import contextlib
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from hydra._internal.hydra import Hydra
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import RunMode
from omegaconf import OmegaConf


@contextlib.contextmanager
def quick_hydra() -> Iterator[None]:
    """Remember what was parsed, read and stored, for as long as this lasts."""
    parse_rule, load, store = OverridesParser.parse_rule, OmegaConf.load, ConfigStore.store
    parsed: dict[tuple[str, str], Any] = {}
    loaded: dict[tuple[str, int], Any] = {}
    stored: set[tuple[str | None, str, object]] = set()

    def mode(self: Hydra, config_name: str | None, overrides: list[str]) -> RunMode | None:
        """No file of conf/ sets it."""
        words = [word.partition("=")[2] for word in overrides if word.startswith("hydra.mode=")]
        return RunMode[words[-1]] if words else None

    def parse_once(self: OverridesParser, s: str, rule_name: str) -> Any:
        if (s, rule_name) not in parsed:
            parsed[s, rule_name] = parse_rule(self, s, rule_name)
        return copy.copy(parsed[s, rule_name])  # its reader adds a loader to it

    def load_once(file: Any) -> Any:
        name = str(getattr(file, "name", file))
        key = name, Path(name).stat().st_mtime_ns
        if key not in loaded:
            loaded[key] = load(file)
        return copy.deepcopy(loaded[key])

    def store_once(self: ConfigStore, name: str, node: Any, group: str | None = None, **more: Any) -> None:
        if not isinstance(node, type) or (group, name, node) not in stored:
            store(self, name, node, group, **more)
        if isinstance(node, type):
            stored.add((group, name, node))

    with (
        mock.patch.object(Hydra, "get_mode", mode),
        mock.patch.object(OverridesParser, "parse_rule", parse_once),
        mock.patch.object(OmegaConf, "load", staticmethod(load_once)),
        mock.patch.object(ConfigStore, "store", store_once),
        # Nothing changes it, and `load` copies what it gives away.
        mock.patch.object(ConfigStore, "__deepcopy__", lambda self, memo: self, create=True),
    ):
        yield
