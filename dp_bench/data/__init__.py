"""Data files: found, fetched, verified, read. It knows no data set: each task declares its own."""

from dp_bench.data.files import Collection, File, Found, Version
from dp_bench.data.find import Source
from dp_bench.data.tensors import Arrays, Rows

__all__ = ["Arrays", "Collection", "File", "Found", "Rows", "Source", "Version"]
