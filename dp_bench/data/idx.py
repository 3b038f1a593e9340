"""The IDX format of the MNIST family: a magic number, big-endian sizes, then one byte a value."""

import struct
from math import prod

import numpy as np
from numpy.typing import NDArray

from dp_bench.errors import UserError

_UNSIGNED_BYTE = 8


def parse_idx(content: bytes, name: str) -> NDArray[np.uint8]:
    """The array in an unpacked IDX file of unsigned bytes; `name` is for the error message."""
    if len(content) < 4 or content[:3] != bytes([0, 0, _UNSIGNED_BYTE]) or content[3] == 0:
        raise _malformed(name, "a magic number 0, 0, 8, dimensions", f"{list(content[:4])}")
    dimensions = content[3]
    data_start = 4 + 4 * dimensions
    if len(content) < data_start:
        raise _malformed(name, f"a header of {data_start} bytes", f"{len(content)} bytes")
    shape = struct.unpack(f">{dimensions}I", content[4:data_start])
    if len(content) != data_start + prod(shape):
        raise _malformed(name, f"{data_start + prod(shape)} bytes for shape {shape}", f"{len(content)} bytes")
    return np.frombuffer(content, dtype=np.uint8, offset=data_start).reshape(shape)


def _malformed(name: str, expected: str, found: str) -> UserError:
    return UserError(f"{name} is no IDX file: expected {expected}, found {found}. Delete it, or replace it.")
