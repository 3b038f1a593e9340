"""The kinds of work that `make chaos` disturbs: small, but done by the code that does the real work."""

import contextlib
import hashlib
import io
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

from chaos import Scenario, Work
from data_helpers import bringing
from faults import Faults, intercepted_in_a_child
from hydra.core.utils import JobReturn, JobStatus
from PIL import Image
from report_helpers import synthetic_spec, write_run
from running import composed, contents, data_of

from dp_bench.data.fetch import fetch_into_cache
from dp_bench.data.files import Collection, File, Version, look_in
from dp_bench.errors import UserError, failure_of
from dp_bench.experiment.archive import archive
from dp_bench.experiment.config import Config
from dp_bench.experiment.plan import Job
from dp_bench.experiment.resolve import specs
from dp_bench.files import system
from dp_bench.files.atomic import write_atomically
from dp_bench.files.cached import cached
from dp_bench.files.checksummed import read_checksummed_bytes, write_checksummed_bytes
from dp_bench.files.swapped import MANIFEST, replaced_folder
from dp_bench.privacy.selection import Trials
from dp_bench.report.commands.report import make_report
from dp_bench.report.render.pictures import Drawing
from dp_bench.sweep.launch import sweep
from dp_bench.tasks import TASKS
from dp_bench.training.job import run_configuration

_TINY = ["profile=smoke", "dataset=ag_news", "strategy=online", "train.evaluate_every=1", "dataset.limit=500"]
_TINY += ["train.batch_size=100", "train.epochs=0.4", "dataset.words=1", "seeds=[0]", "quiet=true"]


@contextlib.contextmanager
def prepared() -> Iterator[list[Scenario]]:
    """The scenarios, with the data loaded once, a tenth of the test set, and without asking Git and pip each time."""
    (first,) = specs(composed(*_TINY, "strategy.lr=0.316"))
    whole = data_of(first)
    dataset = replace(whole, test_x=whole.test_x[:100], test_y=whole.test_y[:100])
    with (
        mock.patch.object(type(TASKS["ag_news"]), "load", return_value=dataset),
        mock.patch("dp_bench.training.provenance.source_commit", return_value=None),
        mock.patch("dp_bench.training.provenance.metadata.version", return_value="1"),
    ):
        yield _scenarios()


def _scenarios() -> list[Scenario]:
    one = composed(*_TINY, "strategy.lr=0.316")

    def run(folder: Path) -> None:
        one.runs = str(folder / "runs")
        run_configuration(one)

    two = _sweep(2)
    # Of four candidates one continues: killed as the last of them reaches the end of the first rung.
    halved = _sweep(4, "privacy.allocator=halving")
    return [
        Scenario("fresh run", run),
        Scenario("resumed run", run, _killed_at(run, "rename", "checkpoint")),
        Scenario("finishing run", run, _killed_at(run, "open", "result")),
        Scenario("small sweep", two),
        Scenario("halving rung", halved, _killed_at(halved, "rename", "rung0")),
        Scenario("selection search", _selection(1), always=_one_outcome),
        Scenario("selection of nothing", _selection(0), always=_one_outcome),
        Scenario("report", _build, _build_earlier, always=_whole),
        Scenario("report of runs", _report, two, lambda folder: contents(folder / "reports"), always=_as_listed),
        Scenario("archive", _archive, _store),
        Scenario("caches", _cache, result=lambda folder: {}),
        Scenario("data fetch", _fetch, result=lambda folder: contents(folder / "cache/data")),
    ]


def _killed_at(work: Work, call: str, file: str) -> Work:
    """Work that was killed before this call on that file, when it came to it for the last time."""

    def prepare(folder: Path) -> None:
        scout, counting = folder.with_name("scout"), Faults()
        with system.intercepted(counting):
            work(scout)
        places = [n for n, (name, path) in enumerate(counting.calls) if name == call and file in path]
        code = intercepted_in_a_child(lambda: work(folder) or 0, Faults("kill before", places[-1]), Path(os.devnull))
        assert code == -signal.SIGKILL

    return prepare


def _sweep(k: int, *more: str) -> Work:
    """The points of a grid, one job each, in this process."""
    grid = (*_TINY, f"grid.k={k}", "grid.lr=[0.01,10]", *more)
    rates = [0.01 * 1000 ** (n / (k - 1)) for n in range(k)]
    configs = [composed(*grid, f"strategy.lr={rate}") for rate in rates]

    def work(folder: Path) -> None:
        for config in configs:
            config.runs = str(folder / "runs")
        jobs = [Job((str(n),), tuple(specs(config)), folder / "runs") for n, config in enumerate(configs)]

        def launch(overrides: Sequence[Sequence[str]], initial_job_idx: int) -> list[JobReturn]:
            return [_returned(configs[int(number)]) for (number,) in overrides]

        with contextlib.redirect_stderr(io.StringIO()):
            sweep(jobs, launch)

    return work


def _returned(config: Config) -> JobReturn:
    done = JobReturn(status=JobStatus.COMPLETED)
    done.return_value = failure_of(lambda: run_configuration(config))
    return done


def _selection(trials: int) -> Work:
    """A search whose secrets are known, so that it must end in the same bits: trials of the first candidate."""
    more = ("privacy.allocator=selection", "seed=secure", "grid.k=2", "grid.lr=[0.01,10]", "strategy.lr=0.01")
    config = composed(*_TINY, *more)

    def work(folder: Path) -> None:
        config.runs = str(folder / "runs")
        with (
            mock.patch.object(Trials, "draw", return_value=trials),
            mock.patch("dp_bench.sweep.selection.secrets", mock.Mock(choice=lambda candidates: candidates[0])),
            mock.patch("dp_bench.training.trainer.secrets", mock.Mock(token_hex=lambda n: "0" * 2 * n)),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            sweep([Job((), tuple(specs(config)), folder / "runs")], lambda *_, **__: [])

    return work


def _one_outcome(folder: Path) -> bool:
    """Whether nothing of a search is to be seen, or all of what it releases; what it prepares begins with a dot."""
    seen = {Path(name).name for name in contents(folder) if "/." not in name}
    return seen in (set(), {"spec.json", "metrics.csv", "result.json"}, {"selection.json"})


_EARLIER = {"index.html": b"old page", "tables/a.csv": b"old", "figures/gone.png": b"old"}
_LATER = {"index.html": b"new page", "tables/a.csv": b"new", "figures/b.png": b"new"}


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    with replaced_folder(folder) as building:
        for name, content in files.items():
            write_atomically(building / name, content, durable=False)


def _build_earlier(folder: Path) -> None:
    _write(folder / "report", _EARLIER)
    (folder / "report" / "mine.txt").write_text("mine")


def _build(folder: Path) -> None:
    _write(folder / "report", _LATER)


def _whole(folder: Path) -> bool:
    """Whether the report is all of the old one or all of the new one, and what is not a report's is there."""
    found = {name: content for name, content in contents(folder / "report").items() if name != MANIFEST}
    return found in ({**_EARLIER, "mine.txt": b"mine"}, {**_LATER, "mine.txt": b"mine"})


def _report(folder: Path) -> None:
    """All of a report but its pictures, which take seconds to draw: each is one pixel."""
    pixel = io.BytesIO()
    Image.new("RGB", (1, 1)).save(pixel, format="png")

    def saved(drawings: Sequence[Drawing]) -> None:
        for chart, place, pdf in drawings:
            for kind in ("png", "pdf") if pdf else ("png",):
                write_atomically(place / f"{chart.name}.{kind}", pixel.getvalue(), durable=False)

    with (
        mock.patch("dp_bench.report.render.pictures.save_all", saved),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        make_report(folder / "runs", "smoke", folder / "reports")


def _as_listed(folder: Path) -> bool:
    """Whether there is no report, or one with every file that it lists."""
    report = folder / "reports" / "smoke"
    listed = (report / MANIFEST).read_text().splitlines() if report.exists() else []
    return all(hashlib.sha256((report / line[66:]).read_bytes()).hexdigest() == line[:64] for line in listed)


def _store(folder: Path) -> None:
    for seed in range(2):
        write_run(folder / "runs", synthetic_spec(lr=0.3162, seed=seed), [0.1, 0.9])


def _archive(folder: Path) -> None:
    outcome = archive(folder / "runs", folder / "kept", ["paper"])
    if outcome.skipped:  # a run that cannot be read now: the command says which, and adds it the next time
        raise UserError(f"skipped {outcome.skipped[0].folder}: {outcome.skipped[0].reason}")


def _cache(folder: Path) -> None:
    with mock.patch.dict(os.environ, {"DP_BENCH_CACHE": str(folder / "cache")}):
        for _ in range(2):
            assert cached("chaos", {"n": 1}, lambda: {"x": 0.5}) == {"x": 0.5}
            write_checksummed_bytes(folder / "cache" / "entry", b"content")
            assert read_checksummed_bytes(folder / "cache" / "entry") in (b"content", None)


def _fetch(folder: Path) -> None:
    """Two files from an origin that always has them."""
    contents = {"a": b"the first file", "b": b"the second file"}
    files = {
        name: File((name,), (Version("complete", "sha256", hashlib.sha256(content).hexdigest(), 1),))
        for name, content in contents.items()
    }
    collection = Collection("chaos", ("chaos",), files, {"official": bringing(contents)})
    with mock.patch.dict(os.environ, {"DP_BENCH_CACHE": str(folder / "cache"), "DP_BENCH_OFFLINE": "0"}):
        found = look_in(folder / "cache/data", collection)
        if found is None and (reasons := fetch_into_cache(collection)):
            raise UserError("; ".join(reasons))
