"""Data sets as tensors: the real ones, limited ones, and the synthetic twins."""

from pathlib import Path

import numpy as np
import pytest
import torch
from data_helpers import (
    describe,
    load,
    needs_real_data,
    one_version,
    sha256,
    use_real_data,
    use_tiny_mnist,
    write_files,
)

from dp_bench.data.files import read_verified
from dp_bench.data.formats import basic_english, parse_idx, read_news, read_vectors
from dp_bench.data.tensors import Dataset, public_order
from dp_bench.errors import UserError
from dp_bench.tasks import TASKS, ag_news
from dp_bench.tasks.ag_news import MAX_WORDS

ORDER_OF_60_000 = [7441, 59153, 25668, 18249, 59373]
STAND_IN_DIGESTS = {"mnist": "05c2c17d77d4c13d", "fashion_mnist": "c873d86e094d0435", "ag_news": "2c95d4dd9dbddc0b"}


@pytest.fixture(scope="module")
def real_news_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests of this file: real data is made into tensors once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def real_data(monkeypatch: pytest.MonkeyPatch, real_news_cache: Path) -> Path:
    monkeypatch.setenv("DP_BENCH_CACHE", str(real_news_cache))
    return use_real_data(monkeypatch)


def nearest_centroid_accuracy(data: Dataset) -> float:
    train, test = data.train_x.flatten(1), data.test_x.flatten(1)
    centroids = torch.stack([train[data.train_y == label].mean(0) for label in data.train_y.unique()])
    return (torch.cdist(test, centroids).argmin(1) == data.test_y).float().mean().item()


class TestImages:
    def test_pixels_and_classes(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        files = use_tiny_mnist(monkeypatch)
        monkeypatch.setenv("DP_BENCH_DATA", str(tmp_path))
        write_files(tmp_path / "mnist", files)
        data = load("mnist")
        pixels = parse_idx(files["train-images-idx3-ubyte"], "")
        assert torch.equal(data.train_x[:, 0], torch.tensor(pixels).float() / 255)
        assert data.train_y.tolist() == parse_idx(files["train-labels-idx1-ubyte"], "").tolist()
        assert data.test_y.tolist() == parse_idx(files["t10k-labels-idx1-ubyte"], "").tolist()
        assert (data.train_x.dtype, data.train_y.dtype) == (torch.float32, torch.int64)
        assert data.source == describe("mnist")

    def test_what_is_read_is_verified_even_if_it_changed_since(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        files = use_tiny_mnist(monkeypatch)
        monkeypatch.setenv("DP_BENCH_DATA", str(tmp_path))
        monkeypatch.setenv("DP_BENCH_CACHE", str(tmp_path / "cache"))
        write_files(tmp_path / "mnist", files)
        resolved = TASKS["mnist"]._resolve({"stand_in": False, "limit": None}, fetch=True)
        monkeypatch.setattr(TASKS["mnist"], "_resolve", lambda *_, **__: resolved)
        write_files(tmp_path / "mnist", {"train-images-idx3-ubyte": files["t10k-images-idx3-ubyte"]})
        with pytest.raises(UserError, match="damaged"):
            load("mnist")

    @pytest.mark.slow(reason="reads MNIST")
    @needs_real_data
    def test_real_mnist(self, real_data: Path) -> None:
        data = load("mnist")
        assert (data.train_x.shape, data.test_x.shape) == ((60_000, 1, 28, 28), (10_000, 1, 28, 28))
        assert data.train_y[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
        assert data.test_y.bincount().sum() == 10_000
        assert (data.train_x.min(), data.train_x.max()) == (0, 1)
        assert data.train_x.mean().item() == pytest.approx(0.1307, abs=1e-4)
        assert nearest_centroid_accuracy(data) > 0.8
        assert data.source.kind == "complete"

    @pytest.mark.slow(reason="reads Fashion-MNIST")
    @needs_real_data
    def test_real_fashion_mnist_is_its_own_target(self, real_data: Path) -> None:
        data = load("fashion_mnist")
        assert (data.train_x.shape, data.test_x.shape) == ((60_000, 1, 28, 28), (10_000, 1, 28, 28))
        assert data.train_x.mean().item() == pytest.approx(0.2860, abs=1e-4)
        assert data.train_y.data_ptr() == data.train_x.data_ptr()
        assert data.test_y.data_ptr() == data.test_x.data_ptr()


class TestNews:
    @pytest.mark.slow(reason="reads AG News and its word vectors the slow way")
    @needs_real_data
    def test_equal_to_the_slow_truth(self, real_data: Path) -> None:
        """Each text's tokens looked up one by one."""
        data = load("ag_news")
        assert data.train_x.shape == (data.source.train_rows, 1250)
        assert (data.train_x.dtype, data.train_y.dtype) == (torch.float32, torch.int64)
        files = TASKS["ag_news"]._resolve({"stand_in": False, "limit": None}, fetch=True).files
        row_of, vectors = read_vectors(files["vectors"].content(), "glove")
        for split, inputs, classes in (("train", data.train_x, data.train_y), ("test", data.test_x, data.test_y)):
            labels, texts = read_news(files[split].content(), split)
            assert classes.tolist() == labels.tolist()
            for row in range(0, len(texts), 37):
                expected = np.zeros((25, 50), dtype=np.float32)
                for position, token in enumerate(basic_english(texts[row])[:25]):
                    expected[position] = vectors[row_of.get(token, 0)]
                assert np.array_equal(inputs[row].numpy(), expected.ravel())

    @pytest.mark.slow(reason="reads AG News twice")
    @needs_real_data
    def test_fewer_words(self, real_data: Path) -> None:
        many, few = load("ag_news", words=25, limit=1000), load("ag_news", words=15, limit=1000)
        assert few.train_x.shape == (1000, 750)
        assert torch.equal(few.train_x, many.train_x[:, :750])

    @pytest.mark.slow(reason="reads AG News")
    @needs_real_data
    def test_a_limit_takes_all_classes(self, real_data: Path) -> None:
        data = load("ag_news", limit=400)
        assert data.train_y.bincount().min() > 60
        assert data.source == describe("ag_news", limit=400)
        assert data.source.kind == "subset"
        assert "limited to 400" in data.source.caveats[-1]

    @pytest.mark.slow(reason="tokenizes AG News")
    @needs_real_data
    def test_it_is_tokenised_once(self, real_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        first = load("ag_news", limit=100)
        monkeypatch.delattr(ag_news, "tokenized")
        assert torch.equal(load("ag_news", limit=100).train_x, first.train_x)

    @pytest.mark.parametrize("words", [-1, 0, 65])
    def test_words_out_of_range(self, words: int) -> None:
        with pytest.raises(UserError, match=f"dataset.words: expected 1 to 64, got {words}"):
            load("ag_news", words=words, stand_in=True)


class TestTokens:
    """On a synthetic AG News, so that it also runs where the real one is missing."""

    @pytest.fixture
    def files(self, tmp_path: Path) -> dict:
        return self._files(tmp_path, train=b'"1","good news","again"\n"2","","news"\n', test=b'"4","good",""\n')

    def _files(self, tmp_path: Path, train: bytes, test: bytes) -> dict:
        glove = "".join(f"{word}{f' {number}' * 50}\n" for number, word in enumerate(["unused", "good", "news"], 1))
        found = {}
        for role, content in {"train": train, "test": test, "vectors": glove.encode()}.items():
            (tmp_path / role).write_bytes(content)
            file = one_version(content)
            found[role] = read_verified(tmp_path / role, file)[1]
        return found

    def test_only_the_vectors_in_use_are_kept(self, files: dict) -> None:
        made = ag_news.tokenized(files)
        assert made.vectors[:, 0].tolist() == [0, 2, 3]
        assert made.train_ids[:, :3].tolist() == [[1, 2, 0], [2, 0, 0]]
        assert (made.train_labels.tolist(), made.test_labels.tolist()) == ([0, 1], [3])

    def test_row_0_is_zero_even_where_no_text_is_padded(self, tmp_path: Path) -> None:
        long_text = b'"1","","' + b"good " * MAX_WORDS + b'"\n'
        made = ag_news.tokenized(self._files(tmp_path, long_text, long_text))
        assert made.vectors[:, 0].tolist() == [0, 2]
        assert (made.train_ids == 1).all()


class TestLimit:
    @pytest.mark.parametrize("name", TASKS)
    def test_it_is_a_prefix_of_the_public_order(self, name: str) -> None:
        everything, limited = load(name, stand_in=True), load(name, stand_in=True, limit=50)
        chosen = torch.from_numpy(public_order(TASKS[name].synthetic_rows[0])[:50])
        assert torch.equal(limited.train_x, everything.train_x[chosen])
        assert torch.equal(limited.train_y, everything.train_y[chosen])
        assert torch.equal(limited.test_x, everything.test_x)
        assert limited.source == describe(name, stand_in=True, limit=50)

    def test_the_order_is_a_shuffle_that_never_changes(self) -> None:
        order = public_order(60_000)
        assert sorted(order.tolist()) == list(range(60_000))
        assert order[:5].tolist() == ORDER_OF_60_000
        assert abs(np.corrcoef(order, np.arange(60_000))[0, 1]) < 0.02

    @pytest.mark.parametrize("limit", [0, 6_001])
    def test_out_of_range(self, limit: int) -> None:
        with pytest.raises(UserError, match=f"expected 1 to 6000, .*got {limit}"):
            load("mnist", stand_in=True, limit=limit)


class TestStandIn:
    @pytest.mark.parametrize(("name", "shape"), [("mnist", (1, 28, 28)), ("fashion_mnist", (1, 28, 28))])
    def test_images(self, name: str, shape: tuple[int, ...]) -> None:
        data = load(name, stand_in=True)
        assert data.train_x.shape == (6_000, *shape)
        assert data.test_x.shape == (1_000, *shape)
        assert 0 <= data.train_x.min() < data.train_x.max() <= 1
        assert data.source.kind == "stand-in"

    def test_it_can_be_learned(self) -> None:
        assert nearest_centroid_accuracy(load("mnist", stand_in=True)) > 0.9
        assert 0.6 < nearest_centroid_accuracy(load("ag_news", stand_in=True)) < 1.0
        assert load("mnist", stand_in=True).train_y.bincount().min() > 500

    def test_images_are_of_few_patterns(self) -> None:
        """What an autoencoder can learn: ten directions hold most of what varies."""
        images = load("fashion_mnist", stand_in=True).train_x[:500].flatten(1)
        energy = torch.linalg.svdvals(images - images.mean(0)).square()
        assert energy[:10].sum() / energy.sum() > 0.7

    def test_it_is_the_same_for_ever(self) -> None:
        found = {name: sha256(load(name, stand_in=True).train_x.numpy().tobytes())[:16] for name in TASKS}
        assert found == STAND_IN_DIGESTS
