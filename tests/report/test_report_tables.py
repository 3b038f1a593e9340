"""Tables to the digit, in every notation; the models' layers against the modules that are trained."""

import csv
import io
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from report_helpers import ROWS, small_store, synthetic_spec, write_run

from dp_bench.report import names
from dp_bench.report.analysis.scorecard import rankings, scorecard, tallies
from dp_bench.report.build import build
from dp_bench.report.chart import Chart, Panel, Series
from dp_bench.report.load.collect import collect
from dp_bench.report.load.results import Results
from dp_bench.report.load.sections import sections
from dp_bench.report.render.latex import latex
from dp_bench.report.render.markdown import comma_separated, markdown
from dp_bench.report.render.write import write
from dp_bench.report.table import Column, Marked, Table, printed
from dp_bench.report.tables.best import best_table
from dp_bench.report.tables.completeness import completeness_table
from dp_bench.report.tables.experiments import datasets, layers, models
from dp_bench.report.tables.scorecard import full, headline, ranking, summary
from dp_bench.report.tables.statistics import comparisons_table, statistics_table
from dp_bench.tasks import TASKS


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_store(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def results(store: Path) -> Results:
    return sections(collect(store, "paper").runs)[0].results


GOLDEN_MARKDOWN = """\
**MNIST, k = 5: the best hyperparameters of each grid and their test accuracy in %, mean and standard deviation over \
3 seeds; best NoDP for ρ = 0.003162 (98.10 ± 0.10).**

| ε | Online ρ | Online acc | Online std dev | FixedThreshold ρ | FixedThreshold C | FixedThreshold acc | \
FixedThreshold std dev | FixedQuantile ρ | FixedQuantile γ | FixedQuantile acc | FixedQuantile std dev | AdamWOSM C | \
AdamWOSM acc | AdamWOSM std dev |
| :-- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |
| 3 | 0.3162 | 91.19† | 0.51 | 3.162 | 0.01 | 89.00† | 1.00 | n.r. |  |  |  | n.r. |  |  |
| 5 | 3.162 | 91.66† | 0.50 | n.r. |  |  |  | n.r. |  |  |  | n.r. |  |  |

n.r.: not run.

†: points or seeds of the grid are missing, so its best may be another.

ε is spent by the whole grid, at δ = 1e-05; seeds are not charged.
"""

GOLDEN_LATEX = r"""% needs \usepackage{booktabs,adjustbox}
\begin{table*}[tb]
\centering\small
\begin{adjustbox}{max width=\textwidth}
\begin{tabular}{@{}lrrrrrrrrrrrrrr@{}}
\toprule
\multicolumn{1}{c}{} & \multicolumn{3}{c}{Online} & \multicolumn{4}{c}{FixedThreshold} & \multicolumn{4}{c}{FixedQuantile} & \multicolumn{3}{c}{AdamWOSM} \\
\cmidrule(lr){2-4}\cmidrule(lr){5-8}\cmidrule(lr){9-12}\cmidrule(lr){13-15}
$\varepsilon$ & $\rho$ & mse $\times$10$^2$ & std dev & $\rho$ & C & mse $\times$10$^2$ & std dev & $\rho$ & $\gamma$ & mse $\times$10$^2$ & std dev & C & mse $\times$10$^2$ & std dev \\
\midrule
1 & n.r. &  &  & n.r. &  &  &  & - & - & - & - & n.r. &  &  \\
\bottomrule
\end{tabular}
\end{adjustbox}
\caption{Fashion MNIST, k = 5: the best hyperparameters of each grid and their test mse $\times$10$^2$, mean and standard deviation over seeds; NoDP was not run. -: every run of the grid diverged. n.r.: not run. $\varepsilon$ is spent by the whole grid, at $\delta$ = 1e-05; seeds are not charged.}
\label{tab:best_fashion_mnist_k5}
\end{table*}
"""  # noqa: E501


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_golden_tables(results: Results) -> None:
    mnist, fashion = (best_table(results, dataset, 5) for dataset in ("mnist", "fashion_mnist"))
    assert (mnist.name, fashion.name) == ("best_mnist_k5", "best_fashion_mnist_k5")
    assert markdown(mnist) == GOLDEN_MARKDOWN
    assert latex(fashion) == GOLDEN_LATEX
    rows = list(csv.reader(io.StringIO(comma_separated(mnist))))
    assert rows[0][:5] == ["epsilon", "Online rho", "Online acc", "Online std dev", "FixedThreshold rho"]
    assert rows[1][:8] == ["3", "0.3162", "91.19", "0.51", "3.162", "0.01", "89.00", "1.00"]


def test_statistics_table(results: Results) -> None:
    table = statistics_table(results, "mnist")
    online = table.cells[0]
    # The last step is a point below the best evaluation; three seeds, so the interval is their range.
    assert online == ("5", "3", "Online", "3", "91.19", "0.51", "", "90.19", "0.51", "1.00")


def test_comparisons_table(results: Results) -> None:
    (row,) = comparisons_table(results).cells
    assert row[:4] == ("MNIST", "Online – FixedThreshold", "1 of 1", "2.19")
    assert row[-1] == ""  # one cell: no p-value


def test_completeness_table(results: Results) -> None:
    rows = {row[:3]: row[3:] for row in completeness_table(results).cells}
    assert rows["MNIST", "Online", "5"] == ("3, 5", "5 of 10", "15 of 30", "15", "0", "0")
    assert rows["Fashion MNIST", "FixedQuantile", "5"] == ("1", "25 of 25", "75 of 75", "0", "0", "75")


def test_scorecard_tables(results: Results) -> None:
    scores = scorecard(results)
    table = full(scores)
    assert len(table.rows) == 153
    assert table.cells[0] == (
        *("MNIST", "Online", "5", "3", "ρ = 0.316", "91.19 ± 0.51", "ρ = 0.3162", "91.19 ± 0.51"),
        *("3", "3/5", "0.00", "0.0", "reproduced (tuned)", ""),
    )
    lines = {row[:2]: row[2:] for row in summary(tallies(scores), "").cells}
    assert lines["MNIST", "Online"] == ("12", "2", "", "10", "0.0")  # reproduced, not searched, not run, median
    assert lines["Fashion MNIST", "FixedQuantile"] == ("12", "1", "", "11", "")
    assert "3 have been run" not in headline(scores)
    assert "4 have been run: 4 reproduced, 0 better, 0 worse" in headline(scores)
    order = {row[:3]: row[3:] for row in ranking(rankings(scores)).cells}
    assert order["MNIST", "5", "3"][1:4] == ("Online > FixedThreshold", "1 of 1", "holds (of those run)")


def test_data_sets_and_models(results: Results) -> None:
    table = datasets(results)
    assert table.headings == ("", "MNIST", "Fashion MNIST")
    rows = {row[0]: row[1:] for row in table.cells}
    assert rows["Dataset size"] == ("60,000", "60,000")
    assert rows["Model size"] == rows["Model size in the paper"] == ("551,322", "48,705")
    assert rows["Steps of a run"] == ("1,172", "1,172")
    assert rows["Size that steps and noise are for"] == ("60,000", "60,000")
    assert [t.name for t in models(results)] == ["model_cnn", "model_autoencoder"]


@pytest.mark.parametrize("dataset", ROWS)
@pytest.mark.parametrize("options", [{}, {"words": 15, "output_activation": True, "autoencoder_padding": 1}])
def test_layers_are_those_of_the_modules(dataset: str, options: dict[str, int]) -> None:
    recipe = TASKS[dataset].recipe(options)
    made, described = recipe.build(), layers(recipe)
    counts = [layer.parameters for layer in described if layer.parameters]
    modules = [sum(p.numel() for p in module.parameters()) for module in made]
    assert counts == [count for count in modules if count]


def test_layers_are_printed_as_in_the_appendix() -> None:
    """Derived from the modules: kind, size, stride, padding and activation of some of each kind."""

    def printed(dataset: str, **options: object) -> list[tuple[object, ...]]:
        return list(layers(TASKS[dataset].recipe(options)))

    assert printed("mnist") == [
        ("2D Conv", "16×8×8", "1×1", "3×3", "ReLU", 1040),
        ("2D MaxPool", "2×2", "1×1", "-", "-", 0),
        ("2D Conv", "32×4×4", "1×1", "0×0", "ReLU", 8224),
        ("Linear", "32", "-", "-", "ReLU", 541728),
        ("Linear", "10", "-", "-", "-", 330),
    ]
    assert printed("mnist", output_activation=True)[-1] == ("Linear", "10", "-", "-", "ReLU", 330)
    autoencoder = printed("fashion_mnist", autoencoder_padding=1)
    assert autoencoder[0] == ("2D Conv", "8×3×3", "1×1", "1×1", "LeakyReLU", 80)
    assert autoencoder[-1] == ("2D Transpose Conv", "1×3×3", "1×1", "1×1", "Sigmoid", 73)
    assert len(autoencoder) == 8
    assert [row[1] for row in printed("ag_news")] == ["128", "128", "4"]


def test_what_is_printed_as_zero_has_no_sign() -> None:
    column, values = Column("gain", "metric"), (-0.00004, 0.00004, -0.0012)
    assert [column.printed(printed("mnist", value)) for value in values] == ["0.00", "0.00", "−0.12"]
    assert [names.deviations(value) for value in (-0.04, 0.04, -1.26, 1.26)] == ["0.0", "0.0", "−1.3", "+1.3"]


def test_another_protocol_speaks_of_its_own_data_sets_only(tmp_path: Path) -> None:
    write_run(tmp_path, synthetic_spec(lr=0.3162), [0.1, 0.9])
    write_run(tmp_path, synthetic_spec(lr=0.3162, variant="strategy.momentum=0"), [0.1, 0.9])
    main, other = build(collect(tmp_path, "paper"), None, []).chapters
    summaries = {chapter.title: chapter.tables()[0] for chapter in (main, other)}
    assert {row[0] for row in summaries["Main protocol"].rows} == {"MNIST", "Fashion MNIST", "AG News"}
    assert {row[0] for row in summaries["momentum 0"].rows} == {"MNIST"}
    assert not any(table.name == "ranking" for table in main.tables())  # one strategy: nothing to rank


def test_tables_must_be_even() -> None:
    with pytest.raises(ValueError, match="expected rows as wide as the columns"):
        Table("odd", "", ("a", "b"), (("1",),))


def test_a_value_is_printed_for_readers_and_written_for_programs() -> None:
    columns = ("what", Column("runs", "count"), Column("gain", "metric", "here"), Column("ρ", "number", "here"))
    table = Table(
        "values", "Values.", columns, [("a|b", 60_000, Marked(-0.126, "†"), None), ("c", None, -0.001, "n.r.")]
    )
    assert table.cells == (("a|b", "60,000", "−0.13†", ""), ("c", "", "0.00", "n.r."))
    assert table.groups == (("", 2), ("here", 2))
    assert comma_separated(table) == "what,runs,here gain,here rho\na|b,60000,-0.13,\nc,,0.00,n.r.\n"
    assert "| :-- | --: | --: | --: |\n| a\\|b | 60,000 | −0.13† |  |\n" in markdown(table)


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        (Column("ε"), "3"),
        (Column("a", group="ε of a run"), "3"),
        (Column("a"), "ε = 3"),
        (Column("epsilon"), "3"),
        (Column("a", "budget"), 3.0),
        (Column("a", "spent"), 3.0),
    ],
)
def test_no_table_has_an_epsilon_and_no_word_on_what_it_means(column: Column, cell: object) -> None:
    with pytest.raises(ValueError, match="expected the grids of each row, as it shows their ε"):
        Table("unlabelled", "", [column], [(cell,)])
    with pytest.raises(ValueError, match="expected grids of 1 rows, got 0"):
        Table("unlabelled", "", [column], [(cell,)], grids=[])
    assert Table("published", "", [column], [(cell,)], grids=[[]]).guarantees == ("not run",)


@pytest.mark.parametrize("place", ["caption", "title", "x_label", "label"])
def test_no_figure_has_an_epsilon_and_no_word_on_what_it_means(place: str) -> None:
    texts = dict.fromkeys(("caption", "title", "x_label", "label"), "") | {place: "ε = 3"}
    panel = Panel(texts["title"], texts["x_label"], "", (Series(texts["label"], (0.0,), (0.0,)),))
    with pytest.raises(ValueError, match="expected the grids whose ε it shows"):
        Chart("unlabelled", texts["caption"], (panel,))


def test_what_an_epsilon_means_is_said_everywhere_a_table_is_written(tmp_path: Path) -> None:
    spec = synthetic_spec(variant="privacy.accountant=rdp_wor", accountant="rdp_wor", lr=0.3162)
    write_run(tmp_path, spec, [0.1, 0.9])
    (grid,) = sections(collect(tmp_path, "paper").runs)[0].results.values()
    table = Table("mine", "Mine.", [Column("ε", "budget")], [(3.0,)], grids=[[grid]])
    for written in (markdown(table), latex(table), comma_separated(table)):
        assert "NOT PRIVATE, rdp" in written
    assert "NOT PRIVATE, rdp" in Chart("mine", "ε = 3.", (), grids=[grid]).text


CAVEAT = (
    "AG News train is a subset: 62,069 of 120,000 rows (52 %); word vectors partly estimated, the rest a linear map"
)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")
def test_latex_compiles_and_fits_in_two_columns(store: Path, tmp_path: Path) -> None:
    nasty = Table(
        "nasty", r"50 % of \$5 & #1_{x} ~ ^ ∞ 漢", ("a_b", "[x]"), (("[1]", "<&>"), ("", "−±×²†")) * 15, in_paper=True
    )
    write_run(store, synthetic_spec("ag_news", "adam_wosm", 9, 9.0, clip=1.0), [0.25, 0.8])
    variant = "dataset.emulate_size=120000,privacy.accountant=rdp_wor"
    for strategy, point in (("online", {"lr": 1.0}), ("fixed_threshold", {"lr": 1.0, "clip": 0.01})):
        spec = synthetic_spec(
            "ag_news", strategy, 9, 9.0, variant=variant, accountant="rdp_wor", kind="subset", **point
        )
        source = replace(spec.source, caveats=(CAVEAT,), checksums=dict.fromkeys(("train.csv", "test.csv"), "ab" * 32))
        write_run(store, replace(spec, source=source), [0.25, 0.8])
    report = build(collect(store, "paper"), variant, [])
    made = [nasty, *(table for table in report.chapters[0].tables() if table.in_paper)]
    assert len(made) > 3
    for table in made:
        write(table, tmp_path)
    body = "\n".join(rf"\input{{{table.name}}}\clearpage" for table in made)
    preamble = r"\documentclass[twocolumn]{article}\usepackage{booktabs,adjustbox}\begin{document}"
    (tmp_path / "all.tex").write_text(f"{preamble}\n{body}\n\\end{{document}}\n")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    log = (tmp_path / "all.log").read_text()
    assert "Overfull" not in log, log
    assert "Float too large" not in log, log
