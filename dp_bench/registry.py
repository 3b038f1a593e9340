"""Names of strategies and tasks, and the import paths behind them: nothing is imported before it is looked up.

There are three sources: the built-in names, the entry points of installed packages (group `dp_bench.strategies` or
`dp_bench.tasks`), and import paths that a command line or a stored run names, as `my_package.my_module:MyStrategy`.
"""

import importlib
import importlib.metadata
import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from dp_bench.errors import UserError, did_you_mean, invalid, unknown
from dp_bench.files.checksummed import file_digest

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")  # it names folders and configuration groups


class UnknownName(UserError, KeyError):
    """A name that stands for nothing, with the nearest one that does."""

    __str__ = Exception.__str__  # KeyError's would quote it


class Registry(Mapping[str, T], Generic[T]):
    """A lazy mapping from names to what they stand for. Iteration gives the built-in names first, and loads nothing.

    `accept` turns what an import path gives into what is looked up, or returns None for what is not `expected`.
    """

    def __init__(
        self, kind: str, group: str, built_in: Mapping[str, str], expected: str, accept: Callable[[Any], T | None]
    ) -> None:
        self.kind = kind
        self.group = group
        self.built_in = tuple(built_in)
        self._expected, self._accept = expected, accept
        self._paths = dict(built_in)
        self._loaded: dict[str, T] = {}
        self._ambiguous: dict[str, str] = {}
        self._added: set[str] = set()
        self._refused: list[str] | None = None  # None: entry points have not been read yet

    def __getitem__(self, name: str) -> T:
        if name not in self._loaded:
            found = self._load(self.path(name), name in self.built_in)
            if _own_name(found) not in (None, name):
                expected = f"{self.path(name)} under its own name {_own_name(found)}"
                raise invalid(self.kind, expected, name, "rename one of them")
            self._loaded[name] = found
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        self.refused()
        return iter(tuple(self._paths))

    def __len__(self) -> int:
        return len(tuple(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in tuple(self)

    def path(self, name: str) -> str:
        """The import path behind a name."""
        if name not in self:
            raise UnknownName(str(unknown(self.kind, name, self, "see dp-bench run --help")))
        if name in self._ambiguous:
            raise UserError(self._ambiguous[name])
        return self._paths[name]

    def outside_path(self, name: str) -> str:
        """The import path behind a name that is not built in, which a stored run records; "" for a built-in one."""
        return "" if name in self.built_in else self.path(name)

    def outside_code(self, name: str) -> str:
        """The SHA-256 of the file that defines such a class: runs of changed code are other runs; "" without one."""
        if name in self.built_in:
            return ""
        found = self[name]
        owner = found if isinstance(found, type) else type(found)  # its path may name a package that only exports it
        file = getattr(sys.modules[owner.__module__], "__file__", None)
        return file_digest(Path(file)) if file else ""

    def word(self, name: str) -> str:
        """What to write on a command line: the name, or the import path if nothing else knows it."""
        return self._paths[name] if name in self._added else name

    def loadable(self) -> dict[str, T]:
        """Everything that can be imported; an entry point that cannot is left out."""
        found = {}
        for name in self:
            try:
                found[name] = self[name]
            except UserError:
                continue
        return found

    def refused(self) -> list[str]:
        """Entry points whose name is taken or cannot name a folder, one line each; the others are registered."""
        if self._refused is None:
            self._refused = []
            entries = importlib.metadata.entry_points(group=self.group)
            for entry in sorted(entries, key=lambda e: (e.name, e.value)):
                self._register_entry(entry)
        return self._refused

    def _register_entry(self, entry: importlib.metadata.EntryPoint) -> None:
        package = entry.dist.name if entry.dist is not None else entry.value
        where = f"entry point {self.group}: {entry.name} of {package}"
        other = self._paths.setdefault(entry.name, entry.value) if _NAME.fullmatch(entry.name) else None
        assert self._refused is not None
        if other is None:
            self._refused.append(f"{where}: expected letters, digits and _ in its name, got {entry.name!r}; rename it")
        elif entry.name in self.built_in:
            self._refused.append(f"{where}: expected a name of its own, got that of a built-in; rename it")
        elif other != entry.value:  # the same package twice on the path is not a conflict
            problem = f"two packages have it, as {other} and {entry.value}; uninstall one, or use its import path"
            self._ambiguous[entry.name] = (
                f"{self.kind}: expected a name that stands for one thing, got {entry.name!r}: {problem}"
            )

    def add(self, path: str) -> str:
        """Register what an import path stands for, and return its name: its `name`, or its class's in snake case."""
        found = self._load(path)
        for name in self:
            if self._paths[name] == path and name not in self._ambiguous:
                return name
        name = _own_name(found) or snake_case(path.rpartition(":")[2].rpartition(".")[2])
        if not _NAME.fullmatch(name):
            raise invalid(self.kind, "letters, digits and _ in its name", f"{name} of {path}", "rename it")
        if name in self and name not in self._ambiguous:
            owner = "a built-in" if name in self.built_in else self._paths[name]
            got = f"{path}, whose name {name} is that of {owner}"
            raise invalid(self.kind, "a name of its own", got, 'give it another, as in name = "..."')
        self._ambiguous.pop(name, None)
        self._paths[name], self._loaded[name] = path, found
        self._added.add(name)
        return name

    def _load(self, path: str, built_in: bool = False) -> T:
        module, _, attribute = path.partition(":")
        try:
            found = operator.attrgetter(attribute)(importlib.import_module(module))
        except Exception as error:
            if built_in:
                raise
            reason = (str(error).strip() or "no reason given").splitlines()[0]
            near = did_you_mean(attribute, _public_names(module))
            raise invalid(
                self.kind,
                "an import path that can be loaded",
                f"{path}: {type(error).__name__}: {reason}",
                near or "is it installed, or its folder on PYTHONPATH?",
            ) from error
        loaded = self._accept(found)
        if loaded is None:
            raise invalid(self.kind, self._expected, path, "see examples/plugin")
        return loaded


def _public_names(module: str) -> list[str]:
    """The names in a module, or none if it could not be imported."""
    return [name for name in dir(sys.modules[module]) if not name.startswith("_")] if module in sys.modules else []


def _own_name(found: object) -> str | None:
    own = getattr(found, "name", None)
    return own if isinstance(own, str) else None


def snake_case(name: str) -> str:
    """MyStrategy -> my_strategy; NoDP -> no_dp."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
