"""Look for a collection's files in a folder, under any of their names."""

from dataclasses import dataclass
from pathlib import Path

from dp_bench.data.facts import Collection, File
from dp_bench.data.verify import Identity, identify, read_verified
from dp_bench.errors import UserError


@dataclass(frozen=True)
class Found:
    """A file that is there and verified."""

    path: Path
    file: File
    identity: Identity

    def content(self) -> bytes:
        """Its unpacked bytes, verified once more: these are the ones that are trained on."""
        return read_verified(self.path, self.file)[0]


def look_in(root: Path, collection: Collection) -> tuple[Path, dict[str, Found]] | None:
    """The first folder under `root` that has the collection, and its files by role. None: there is nothing of it."""
    for name in collection.folders:
        folder = root / name
        try:
            paths = files_in(folder, collection)
        except OSError as error:
            raise UserError(f"{folder} cannot be read: {error.strerror}. Make it readable.") from error
        if not paths:
            continue
        for role, file in collection.files.items():
            if role not in paths:
                raise UserError(
                    f"{folder} has only part of {collection.name}: {file.names[0]} (or {file.names[0]}.gz) is missing. "
                    f"Add it, or delete the other files of {collection.name} there to have all of them fetched."
                )
        files = collection.files
        return folder, {role: Found(path, files[role], identify(path, files[role])) for role, path in paths.items()}
    return None


def files_in(folder: Path, collection: Collection) -> dict[str, Path]:
    """The paths, by role, of those of the collection's files that the folder has. Unpacked ones come first: faster."""
    found = {}
    for role, file in collection.files.items():
        candidates = [folder / f"{name}{suffix}" for name in file.names for suffix in ("", ".gz")]
        path = next((candidate for candidate in candidates if candidate.is_file()), None)
        if path is not None:
            found[role] = path
    return found
