"""The unpacked bytes of a file, whether it is stored as it is, gzipped, or inside the official GloVe archive."""

import gzip
import zipfile
import zlib
from pathlib import Path

from dp_bench.data.facts import GLOVE_MEMBER


class CannotUnpack(Exception):
    """The file is there but is no intact archive."""


def unpacked_bytes(path: Path) -> bytes:
    """All of the file's unpacked bytes. At most 171 MB for the files known here, so nothing needs to be streamed."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as packed:
                return packed.read()
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                return archive.read(GLOVE_MEMBER)
        return path.read_bytes()
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile, KeyError) as error:
        raise CannotUnpack(f"an archive that cannot be unpacked ({error})") from error
