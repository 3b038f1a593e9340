"""Runs as text files, to be kept for good: one file per data set and variant, one checksummed line per finished run.

`PROFILE/VARIANT/DATASET.jsonl` has the lines of the runs whose folders are below `PROFILE/VARIANT/DATASET/`, sorted by
folder. A line holds spec, result, metrics and provenance, from which the files of the folder can be written again byte
for byte; checkpoints, models and locks are not kept.
"""

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from dp_bench.arguments import command_parser
from dp_bench.errors import JobsFailed, UserError, invalid
from dp_bench.experiment.folder_names import LEVELS, part
from dp_bench.experiment.record import Stored, record_of
from dp_bench.experiment.selected import copy_empty_selection
from dp_bench.experiment.store import RELEASED_NOTHING, is_finished, read_stored
from dp_bench.experiment.trade_off_store import TRADE_OFF_DATA, TRADE_OFF_FACTS, read_trade_off, write_trade_off
from dp_bench.files import system
from dp_bench.files.atomic import write_atomically
from dp_bench.files.checksummed import checksummed_line, without_checksum
from dp_bench.files.from_json import FOREIGN, from_plain
from dp_bench.files.names import one_line

# How many parts the folder of a variant has, which holds archives, and the folder of a grid.
_VARIANT, _GRID = LEVELS.index("dataset"), LEVELS.index("point")
_SUFFIX = ".jsonl"
_NAMED_BY = re.compile(rb'\{"folder":"([^"\\]+)"')  # how a line begins, also one that is torn later on


class Skipped(NamedTuple):
    """A folder or a line that is not a run that could be read."""

    folder: str
    reason: str
    empty: bool = False  # no run can be in it


@dataclass
class Tree:
    """What a profile of a store holds; every name is relative to the root of the store."""

    folders: list[str] = field(default_factory=list)  # deep enough to be a run
    archives: list[str] = field(default_factory=list)
    trade_offs: list[str] = field(default_factory=list)  # folders
    empty_selections: list[str] = field(default_factory=list)  # folders of grids whose selection released nothing
    skipped: list[Skipped] = field(default_factory=list)  # folders that lead nowhere


def profiles_in(root: Path) -> list[str]:
    """The names of a store's profiles, links among them."""
    found = root.iterdir() if root.is_dir() else ()
    return sorted(path.name for path in found if path.is_dir() and not path.name.startswith("."))


def walk(root: Path, profile: str) -> Tree:
    """What there is, by its place alone: nothing is read."""
    tree = Tree()

    def visit(relative: str, depth: int) -> None:  # how many of `LEVELS` it has
        if depth == len(LEVELS):
            tree.folders.append(relative)
            return
        try:
            with os.scandir(root / relative) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            tree.skipped.append(Skipped(relative, f"cannot be read: {error.strerror}"))
            return
        shown = [entry for entry in entries if not entry.name.startswith(".")]
        # A link's target is not part of this store, and may be this folder again. A linked file is read as any other.
        links = [entry.name for entry in shown if entry.is_symlink() and not Path(entry).is_file()]
        tree.skipped.extend(Skipped(f"{relative}/{name}", "a link: not followed") for name in links)
        inner = [entry.name for entry in shown if entry.is_dir(follow_symlinks=False)]
        archives = [f"{relative}/{entry.name}" for entry in shown if entry.name.endswith(_SUFFIX) and depth == _VARIANT]
        tree.archives.extend(archives)
        if any(entry.name in (TRADE_OFF_DATA, TRADE_OFF_FACTS) for entry in entries):
            tree.trade_offs.append(relative)
        elif depth == _GRID and any(entry.name == RELEASED_NOTHING for entry in entries):
            tree.empty_selections.append(relative)
        elif not inner and not links and not archives and depth > 1:
            tree.skipped.append(Skipped(relative, f"not a run: expected {'/'.join(LEVELS[1:])}", empty=True))
        for name in inner:
            visit(f"{relative}/{name}", depth + 1)

    visit(profile, 1)
    return tree


def read_archive(root: Path, name: str) -> Iterator[Stored | Skipped]:
    """The runs of an archive; a damaged line is named and skipped."""
    try:
        content = system.read(root / name, follow=False)
    except OSError as error:
        yield Skipped(name, f"cannot be read: {error.strerror}")
        return
    for number, line in enumerate(content.splitlines(), 1):
        try:
            yield from_plain(Stored, without_checksum(line))
        except FOREIGN as error:
            yield Skipped(f"{name}, line {number}", f"damaged: {error}; archive the run again, or restore the file")


def _name_of(folder: str) -> str:
    """The archive that a run belongs to."""
    return "/".join(part(folder, level) for level in LEVELS[: _VARIANT + 1]) + _SUFFIX


def dataset_of(name: str) -> str:
    """The data set of a folder, of an archive or of a line in one; "" where the name does not get so far."""
    return part(name, "dataset").partition(_SUFFIX)[0]


@dataclass
class Outcome:
    """What was done, and what was not."""

    added: int = 0
    kept: int = 0  # were there already
    replaced: int = 0
    unfinished: int = 0
    differing: list[str] = field(default_factory=list)  # from what is there, which was not replaced
    skipped: list[Skipped] = field(default_factory=list)

    @contextlib.contextmanager
    def skipping(self, folder: str) -> Iterator[None]:
        """List the folder where what is stored cannot be read, or does not fit together."""
        try:
            yield
        except (UserError, OSError, *FOREIGN) as error:
            self.skipped.append(Skipped(folder, str(error)))


def archive(source: Path, target: Path, profiles: Sequence[str], replace: bool = False) -> Outcome:
    """Add the finished runs of `source`, folders and archives alike, to the archives in `target`.

    Safe while runs are trained in `source`, and while other processes write to `target`. A run that is in `target`
    stays there; one that differs from it is reported, and takes its place only if `replace` says so.
    """
    outcome = Outcome()
    system.make_folder(target)
    with system.locked_folder(target, wait=True):
        for profile in profiles:
            tree = walk(source, profile)
            outcome.skipped += tree.skipped
            runs: dict[str, list[Stored]] = {}
            for stored in _finished(source, tree, outcome):
                runs.setdefault(_name_of(stored.folder), []).append(stored)
            for name, members in runs.items():
                _merge(target, name, members, replace, outcome)
            for folder in tree.trade_offs:
                _copy_trade_off(source / folder, target / folder, folder, replace, outcome)
            for folder in tree.empty_selections:
                with outcome.skipping(folder):
                    copy_empty_selection(source, target, folder)
    return outcome


def _finished(root: Path, tree: Tree, outcome: Outcome) -> Iterator[Stored]:
    """The runs that are done and whole."""
    for found in (found for name in tree.archives for found in read_archive(root, name)):
        if isinstance(found, Skipped):
            outcome.skipped.append(found)
        else:
            with outcome.skipping(found.folder):
                record_of(found)
                yield found
    for folder in tree.folders:
        if not is_finished(root, folder):
            outcome.unfinished += 1
            continue
        with outcome.skipping(folder):
            record_of(stored := read_stored(root, folder))
            yield stored


def _merge(root: Path, name: str, runs: Sequence[Stored], replace: bool, outcome: Outcome) -> None:
    there, damaged = _lines(root, name, outcome)
    before = outcome.added + outcome.replaced
    for run in runs:
        line = there.get(run.folder)
        if line is None:
            outcome.added += 1
        elif from_plain(Stored, without_checksum(line)).same_run(run):
            outcome.kept += 1
            continue
        elif replace and run.spec["protocol"]["seeding"] != "secure":  # else it is another release: none is forgotten
            outcome.replaced += 1
        else:
            outcome.differing.append(run.folder)
            continue
        there[run.folder] = checksummed_line(asdict(run))
        damaged.pop(run.folder, None)
    for left_by_a_killed_writer in system.temporaries((root / name).parent, Path(name).name):
        system.remove(left_by_a_killed_writer)  # no other process writes here: the target is locked
    if outcome.added + outcome.replaced > before:
        write_atomically(root / name, b"".join([*(there[f] for f in sorted(there)), *damaged.values()]))


def _lines(root: Path, name: str, outcome: Outcome) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The lines of an archive by folder, and those that are damaged: they stay until their run is archived again."""
    whole: dict[str, bytes] = {}
    damaged: dict[str, bytes] = {}
    if not (root / name).exists():
        return whole, damaged
    lines = system.read(root / name, follow=False).splitlines(keepends=True)
    for line, found in zip(lines, read_archive(root, name), strict=True):
        if isinstance(found, Stored):
            whole[found.folder] = line
        else:
            outcome.skipped.append(found)
            told = _NAMED_BY.match(line)
            damaged[told.group(1).decode(errors="replace") if told else found.folder] = line.removesuffix(b"\n") + b"\n"
    return whole, damaged


def _copy_trade_off(source: Path, target: Path, folder: str, replace: bool, outcome: Outcome) -> None:
    try:
        ours = read_trade_off(source)
        theirs = read_trade_off(target) if (target / TRADE_OFF_FACTS).exists() else None
    except (UserError, OSError, *FOREIGN) as error:
        outcome.skipped.append(Skipped(folder, str(error)))
        return
    if theirs is None or (replace and ours != theirs):
        write_trade_off(target, *ours)
    elif ours != theirs:
        outcome.differing.append(folder)


def main(argv: Sequence[str]) -> int:
    parser = command_parser(
        "archive",
        "Keep finished runs as text files, one per data set and variant; dp-bench report --runs TO reads "
        "them. What is in TO stays. Unfinished runs in FROM are left out.",
        "example:\n  dp-bench archive runs kept --profile verify",
    )
    parser.add_argument("source", metavar="FROM", type=Path, help="a folder of runs")
    parser.add_argument("target", metavar="TO", type=Path, help="the folder to keep them in")
    parser.add_argument("--profile", help="only the runs of this profile (default: all)")
    parser.add_argument("--replace", action="store_true", help="replace runs in TO that differ from those in FROM")
    options = parser.parse_args(argv)
    source, target = options.source, options.target
    if target.resolve().is_relative_to(source.resolve()):
        raise invalid("TO", f"a folder outside of {source}", target, "choose another")
    there = profiles_in(source)
    if not there or (options.profile and options.profile not in there):
        expected = f"runs of the profile {options.profile}" if options.profile else "a folder of runs"
        raise invalid("FROM", expected, f"{source} with {', '.join(there) or 'none'}", "choose another")
    outcome = archive(source, target, [options.profile] if options.profile else there, options.replace)
    for skipped in outcome.skipped:
        print(one_line(f"skipped {skipped.folder}: {skipped.reason}"), file=sys.stderr)
    print(
        f"{outcome.added} runs added, {outcome.replaced} replaced, {outcome.kept} already there, "
        f"{outcome.unfinished} unfinished, {len(outcome.skipped)} skipped; kept in {target}"
    )
    if secure := [folder for folder in outcome.differing if options.replace]:
        raise JobsFailed(
            f"{target}: {len(secure)} runs with seed=secure were released twice, the first {secure[0]}, and replacing "
            "one would forget what it spent; keep them in two folders"
        )
    if outcome.differing:
        raise JobsFailed(
            f"{target}: {len(outcome.differing)} runs differ from those in {source} and were not replaced, the first "
            f"{outcome.differing[0]}; --replace takes those of {source}"
        )
    return 0
