"""Tokens and word vectors equal torchtext's, and malformed files are refused."""

import gzip
import ssl
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from data_helpers import idx_bytes, needs_real_data, use_real_data
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dp_bench.data.formats import basic_english, embed, parse_idx, read_news, read_vectors, word_ids
from dp_bench.errors import UserError

# Everything that the tokeniser treats in a way of its own, and what might hide it.
NASTY_PIECES = [
    *"'\".,()!?;:<>/\\ \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u2028\u3000\u200b\ufeff",
    *("<br />", "<br/>", "<BR />", "<br", " />", 'br "/>', "<br;/>", "<br  />"),
    *("İ", "ß", "Σ", "é", "word", "U.S.", "#39;s", "-", "—", "0.5"),
]
nasty_text = st.one_of(st.text(), st.lists(st.sampled_from(NASTY_PIECES)).map("".join))


@pytest.fixture(scope="module")
def torchtext_tokeniser() -> Callable[[str], list[str]]:
    return pytest.importorskip("torchtext.data.utils").get_tokenizer("basic_english")


def torchtext_vectors(path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch):
    vocab = pytest.importorskip("torchtext.vocab")
    # torchtext switches off the verification of certificates for the whole process: put it back after the test.
    monkeypatch.setattr(ssl, "_create_default_https_context", ssl._create_default_https_context)
    return vocab.Vectors(path.name, cache=str(cache))


def line(word: str, number: float = 0.5, numbers: int = 50) -> bytes:
    return word.encode() + f" {number}".encode() * numbers + b"\n"


class TestTokeniser:
    @given(nasty_text)
    @example('<br "/>')
    @example("<br;/>")
    @settings(deadline=None)
    @pytest.mark.slow(reason="starts a process, or reads large files")
    def test_equal_to_torchtext_on_nasty_text(self, torchtext_tokeniser: Callable, text: str) -> None:
        assert basic_english(text) == torchtext_tokeniser(text)

    @needs_real_data
    @pytest.mark.parametrize(("split", "step"), [("test", 1), ("train", 4)])
    def test_equal_to_torchtext_on_real_text(
        self, monkeypatch: pytest.MonkeyPatch, torchtext_tokeniser: Callable, split: str, step: int
    ) -> None:
        _, texts = read_news(real_file(monkeypatch, f"ag_news/{split}.csv"), split)
        chosen = texts[::step]
        assert len(chosen) > 7_000
        assert [basic_english(text) for text in chosen] == [torchtext_tokeniser(text) for text in chosen]

    def test_by_hand(self) -> None:
        assert basic_english('He said: "It\'s (U.S.) fine!"<BR />OK;\n?') == (
            ["he", "said", "it", "'", "s", "(", "u", ".", "s", ".", ")", "fine", "!", "ok", "?"]
        )


class TestNews:
    def test_title_and_description_are_one_text(self) -> None:
        content = b'"3","A title","a ""quoted"" description"\n"1","","Both in one"\n"4"," x ",""\n'
        labels, texts = read_news(content, "train.csv")
        assert labels.tolist() == [2, 0, 3]
        assert labels.dtype == np.int64
        assert texts == ['A title a "quoted" description', "Both in one", "x"]

    @pytest.mark.parametrize("row", ['"0","a","b"', '"5","a","b"', '"1","a"', '"1","a","b","c"', "", '"one","a","b"'])
    def test_malformed(self, row: str) -> None:
        with pytest.raises(UserError, match=r"train\.csv: expected an AG News file: .* in row 2"):
            read_news(f'"1","a","b"\n{row}\n'.encode(), "train.csv")

    @needs_real_data
    def test_real(self, monkeypatch: pytest.MonkeyPatch) -> None:
        labels, texts = read_news(real_file(monkeypatch, "ag_news/test.csv"), "test.csv")
        assert np.bincount(labels).tolist() == [1900] * 4
        assert texts[0].startswith("Fears for T N pension after talks Unions representing")


class TestVectors:
    @pytest.mark.slow(reason="reads the real word vectors twice")
    @needs_real_data
    def test_equal_to_torchtext_on_the_real_file(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        content = real_file(monkeypatch, "glove/glove.50d.txt")
        self._assert_equal_to_torchtext(content, tmp_path, monkeypatch)

    def test_equal_to_torchtext_on_odd_words(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Words that Unicode would split, a word twice (the later counts), spaces at a line's end, odd numbers."""
        words = ["a\xa0b", "c\x85d", "e\u2028f", "twice", ".", "–", "twice", "x\x0by"]
        content = b"".join(line(word, number) for number, word in enumerate(words, start=1))
        content += b"trailing" + b" -1.5e-3" * 49 + b" 1e-50 \n" + b"last" + b" 0.123456789123456789" * 50
        self._assert_equal_to_torchtext(content, tmp_path, monkeypatch)

    def _assert_equal_to_torchtext(self, content: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "vectors.txt").write_bytes(content)
        expected = torchtext_vectors(folder / "vectors.txt", folder, monkeypatch)
        row_of, vectors = read_vectors(content, "vectors.txt")
        assert {word: row - 1 for word, row in row_of.items()} == expected.stoi
        assert np.array_equal(vectors[1:], expected.vectors.numpy())
        assert not vectors[0].any()
        assert vectors.dtype == np.float32

    @pytest.mark.parametrize(
        "bad",
        [
            line("short", numbers=49),
            line("long", numbers=51),
            line("short", numbers=49) + line("long", numbers=51),
            b"\n",
            line("letters").replace(b"0.5", b"o.5", 1),
            line("empty").replace(b" 0.5", b" ", 1),
            line("infinite").replace(b"0.5", b"inf", 1),
            line("nan").replace(b"0.5", b"nan", 1),
            line("bytes").replace(b"bytes", b"\xff"),
        ],
        ids=["short", "long", "both", "empty line", "letters", "no number", "infinite", "nan", "not UTF-8"],
    )
    @pytest.mark.filterwarnings("ignore:string or file could not be read:DeprecationWarning")
    def test_malformed(self, bad: bytes) -> None:
        with pytest.raises(UserError, match=r"glove\.txt: expected a GloVe file: a word and 50 numbers per line"):
            read_vectors(line("good") + bad + line("good"), "glove.txt")


class TestEmbedding:
    def test_unknown_words_and_padding_are_zeros(self) -> None:
        row_of, vectors = read_vectors(line("one", 1.0) + line("two", 2.0), "glove.txt")
        ids = word_ids(["Two, one nothing!", "", "one one one one one one"], row_of, words=5)
        embedded = embed(ids, vectors, words=4)
        assert embedded.shape == (3, 200)
        assert embedded.dtype == np.float32
        assert embedded.reshape(3, 4, 50)[:, :, 7].tolist() == [[2, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]]

    def test_fewer_words_are_the_first_ones(self) -> None:
        vectors = np.arange(10 * 50, dtype=np.float32).reshape(10, 50)
        ids = np.arange(9, dtype=np.int32).reshape(3, 3)
        assert np.array_equal(embed(ids, vectors, 2), embed(ids, vectors, 3)[:, :100])


class TestIdx:
    def test_round_trip(self) -> None:
        array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
        assert np.array_equal(parse_idx(idx_bytes(array), "x"), array)

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"\0\0\x08",
            b"\0\0\x08\0",
            b"\0\0\x0d\x01\0\0\0\x01\0",
            b"\x1f\x8b\x08\x01\0\0\0\x01\0",
            b"\0\0\x08\x02\0\0\0\x01",
            idx_bytes(np.zeros((2, 3)))[:-1],
            idx_bytes(np.zeros((2, 3))) + b"\0",
        ],
    )
    def test_malformed(self, content: bytes) -> None:
        with pytest.raises(UserError, match=r"t10k: expected an IDX file with .*, got .*; delete it"):
            parse_idx(content, "t10k")


def real_file(monkeypatch: pytest.MonkeyPatch, name: str) -> bytes:
    with gzip.open(use_real_data(monkeypatch) / f"{name}.gz") as file:
        return file.read()
