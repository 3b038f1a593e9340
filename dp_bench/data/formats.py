"""Readers of the files' formats: IDX images, CSV news, GloVe vectors, and texts as the vectors of their first words.

torchtext, which read the last two, is archived and does not load with today's torch; the tests prove that tokens and
vectors equal those of its last pure-Python release.
"""

import csv
import io
import struct
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from dp_bench.errors import UserError, invalid

NUMBERS_PER_WORD = 50

NO_WORD = 0
"""The id of an unknown word and of padding; its vector is zero."""

_UNSIGNED_BYTE = 8
_CLASSES = {"1": 0, "2": 1, "3": 2, "4": 3}
_WORDS_OF_THEIR_OWN = "'.,()!?"
_SEPARATORS = ";:"
_SPACED_OUT = str.maketrans({mark: f" {mark} " for mark in _WORDS_OF_THEIR_OWN} | dict.fromkeys(_SEPARATORS, " "))


def parse_idx(content: bytes, name: str) -> NDArray[np.uint8]:
    """The array in an unpacked IDX file of unsigned bytes; `name` is for the error message."""
    if len(content) < 4 or content[:3] != bytes([0, 0, _UNSIGNED_BYTE]) or content[3] == 0:
        raise _malformed_idx(name, "a magic number 0, 0, 8, dimensions", f"{list(content[:4])}")
    dimensions = content[3]
    data_start = 4 + 4 * dimensions
    if len(content) < data_start:
        raise _malformed_idx(name, f"a header of {data_start} bytes", f"{len(content)} bytes")
    shape = struct.unpack(f">{dimensions}I", content[4:data_start])
    if len(content) != data_start + prod(shape):
        raise _malformed_idx(name, f"{data_start + prod(shape)} bytes for shape {shape}", f"{len(content)} bytes")
    return np.frombuffer(content, dtype=np.uint8, offset=data_start).reshape(shape)


def basic_english(text: str) -> list[str]:
    """torchtext's tokeniser of that name: lower case, marks are words of their own, quotation marks vanish."""
    # The order matters: a quotation mark may hide a line break, a separator may not complete one.
    return text.lower().replace('"', "").replace("<br />", " ").translate(_SPACED_OUT).split()


def read_news(content: bytes, name: str) -> tuple[NDArray[np.int64], list[str]]:
    """Classes 0 to 3 and texts of an AG News CSV file; `name` is for the error message."""
    labels, texts = [], []
    for number, row in enumerate(csv.reader(io.StringIO(content.decode("utf-8"), newline="")), start=1):
        if len(row) != 3 or row[0] not in _CLASSES:
            expected = "an AG News file: class 1 to 4, title and description in each row"
            raise invalid(name, expected, f"{row!r:.80} in row {number}", "delete it, or replace it")
        label, title, description = row
        labels.append(_CLASSES[label])
        # Where a copy has no titles, its descriptions hold both: joined, all copies give the same text.
        texts.append((title + " " + description).strip())
    return np.array(labels, dtype=np.int64), texts


def read_vectors(content: bytes, name: str) -> tuple[dict[str, int], NDArray[np.float32]]:
    """The row of each word, and the vectors row by row. Row 0 is zero: that of no word."""
    # Bytes are split at newlines and spaces only: words may hold what Unicode takes for a space or a line's end.
    lines = [line.rstrip().partition(b" ") for line in content.removesuffix(b"\n").split(b"\n")]
    try:
        row_of = {word.decode("utf-8"): row for row, (word, _, _) in enumerate(lines, start=1)}
        numbers = np.fromstring(b" ".join(line[2] for line in lines), dtype=np.float32, sep=" ")
    except ValueError as error:
        raise _malformed_vectors(name, str(error)) from error
    widths_agree = all(line[2].count(b" ") == NUMBERS_PER_WORD - 1 for line in lines)
    if not widths_agree or numbers.size != NUMBERS_PER_WORD * len(lines):
        raise _malformed_vectors(name, "a line with more, fewer or other things")
    if not np.isfinite(numbers).all():
        raise _malformed_vectors(name, "a number that is not finite")
    vectors = np.zeros((1 + len(lines), NUMBERS_PER_WORD), dtype=np.float32)
    vectors[1:] = numbers.reshape(-1, NUMBERS_PER_WORD)
    return row_of, vectors


def word_ids(texts: Sequence[str], row_of: Mapping[str, int], words: int) -> NDArray[np.int32]:
    """The vector rows of each text's first `words` tokens, padded with `NO_WORD`."""
    ids = np.full((len(texts), words), NO_WORD, dtype=np.int32)
    for row, text in enumerate(texts):
        tokens = basic_english(text)[:words]
        ids[row, : len(tokens)] = [row_of.get(token, NO_WORD) for token in tokens]
    return ids


def embed(ids: NDArray[np.int32], vectors: NDArray[np.float32], words: int) -> NDArray[np.float32]:
    """The vectors of each row's first `words` ids, one after the other: (rows, words * 50)."""
    return vectors[ids[:, :words]].reshape(len(ids), words * NUMBERS_PER_WORD)


def _malformed_vectors(name: str, found: str) -> UserError:
    expected = f"a GloVe file: a word and {NUMBERS_PER_WORD} numbers per line"
    return invalid(name, expected, found, "delete it, or replace it")


def _malformed_idx(name: str, expected: str, found: str) -> UserError:
    return invalid(name, f"an IDX file with {expected}", found, "delete it, or replace it")
