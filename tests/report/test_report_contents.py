"""A figure or table is shown by its registration alone, in its section and in its order."""

from pathlib import Path

import pytest
from report_helpers import small_store

from dp_bench.report import contents
from dp_bench.report.build import _import_all, build
from dp_bench.report.chart import Chart
from dp_bench.report.contents import Part, Scope, part, shown
from dp_bench.report.load.collect import collect
from dp_bench.report.load.results import Results
from dp_bench.report.load.sections import sections
from dp_bench.report.table import Table


@pytest.fixture
def scope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scope:
    _import_all()
    monkeypatch.setattr(contents, "_ITEMS", list(contents._ITEMS))
    collection = collect(small_store(tmp_path / "runs"), "paper")
    return Scope.of(collection, sections(collection.runs)[0])


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_one_function_and_its_registration_are_enough(scope: Scope) -> None:
    before = part("Results", scope)

    @shown("Results", 90)
    def grids_of(results: Results, dataset: str, k: int) -> Table:
        count = sum((key.dataset, key.k) == (dataset, k) for key in results)
        return Table(f"mine_{dataset}_k{k}", "Mine.", ("grids",), [(str(count),)])

    *others, mnist, fashion = part("Results", scope).items
    assert [item.name for item in others] == [item.name for item in before.items]
    assert (mnist.name, fashion.name) == ("mine_mnist_k5", "mine_fashion_mnist_k5")
    assert isinstance(mnist, Table)
    assert mnist.rows == [("4",)]
    assert any(one.name == "mine_mnist_k5" for one in build(scope.collection, None, ()).chapters[0].tables())


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_what_belongs_together_is_shown_data_set_by_data_set(scope: Scope) -> None:
    names = [item.name for item in part("Results", scope).items]
    assert names == ["metric_mnist_k5", "best_mnist_k5", "best_fashion_mnist_k5"]  # of Fashion MNIST all diverged


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_words_tables_and_nothing(scope: Scope) -> None:
    shown("Audit", 50)(lambda: None)
    shown("Audit", 51)(lambda: ["first", Chart("figure", "", ())])
    shown("Audit", 52)(lambda: Part("", ["second"], warnings=["careful"]))
    shown("Audit", 53, main_only=True)(lambda main: f"main: {main}")
    made = part("Audit", scope)
    assert (made.paragraphs, made.warnings) == (["first", "second", "main: True"], ["careful"])
    assert [item.name for item in made.items] == ["figure"]


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_a_mistake_in_a_registration_is_found_when_it_is_made(scope: Scope) -> None:
    with pytest.raises(TypeError, match=r"not in Scope: \['reslts'\]"):
        shown("Results", 10)(lambda reslts: None)
    with pytest.raises(TypeError, match="no section Resluts"):
        shown("Resluts", 10)(lambda results: None)
