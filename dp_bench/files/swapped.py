"""A folder of files that belong together, replaced as a whole: built next to its predecessor, then swapped with it.

Whichever process is killed, the folder holds all of the old files or all of the new ones. `files.txt` in it lists what
it was built with, one checksum and name per line, as `sha256sum --check files.txt` reads it. What else lies in the
folder is the user's own and stays: a listed file counts as built only while it has the listed content.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from dp_bench.errors import invalid
from dp_bench.files import system
from dp_bench.files.atomic import remove_abandoned, temporary_folder, write_atomically
from dp_bench.files.checksummed import file_digest

MANIFEST = "files.txt"


@contextlib.contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """A new folder to write into, which takes the place of `folder` at the end; nothing changes if an error is raised.

    Another process may do the same meanwhile: the last one wins.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise invalid(str(folder), "a folder", "a link or a file", "remove it, or choose another folder")
    system.make_folder(folder.parent)
    temporary = f".{folder.name}.*.building"
    remove_abandoned(folder.parent, temporary)
    with temporary_folder(folder.parent, temporary) as building:  # in the end the predecessor, or what is unfinished
        yield building
        built = {name: file_digest(building / name) for name in _names_in(building)}
        lines = [f"{digest}  {name}\n" for name, digest in sorted(built.items())]
        write_atomically(building / MANIFEST, "".join(lines).encode())
        _keep_others(folder, building)
        _sync(building)
        if folder.is_dir():
            system.exchange(building, folder)
        else:
            system.rename(building, folder)
        system.sync_folder(folder.parent)


def _keep_others(old: Path, new: Path) -> None:
    """What is in the old folder and was not built with it, under the same names in the new one."""
    ours = _manifest(old)
    for name in _names_in(old):
        target = new / name
        if name == MANIFEST or target.exists():
            continue
        if name not in ours or (old / name).is_symlink() or file_digest(old / name) != ours[name]:
            system.make_folder(target.parent)
            system.link_or_copy(old / name, target)


def _manifest(folder: Path) -> dict[str, str]:
    """The checksums of the files that the folder was built with. It may come from anywhere: it only ever names files of
    this folder, and an older one, without checksums, names none."""
    try:
        text = system.read(folder / MANIFEST, follow=False).decode()
    except (FileNotFoundError, UnicodeDecodeError):
        return {}
    return {name: digest for digest, between, name in (line.partition("  ") for line in text.splitlines()) if between}


def _names_in(folder: Path) -> list[str]:
    """Every file below the folder, and every link, none of which is followed; relative to it."""
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]


def _sync(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        if not path.is_symlink():
            (system.sync_folder if path.is_dir() else system.sync_file)(path)
