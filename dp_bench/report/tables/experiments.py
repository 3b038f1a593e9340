"""What was trained, on which data: the paper's table of data sets and its tables of layers."""

from dp_bench.experiment.spec import RunSpec
from dp_bench.report import names
from dp_bench.report.analysis.architectures import Layer, layers
from dp_bench.report.contents import shown
from dp_bench.report.load.results import Results
from dp_bench.report.table import Column, Table
from dp_bench.tasks import TASKS


@shown("Experiments", 10)
def datasets(results: Results) -> Table:
    """The paper's first table: what each experiment trains on and with."""
    specs = {name: grid.spec for name in TASKS for grid in results.values() if grid.key.dataset == name}
    accounted = {name: max(g.spec.accounted_rows for g in results.values() if g.key.dataset == name) for name in specs}
    sizes = {name: sum(layer.parameters for layer in _layers(spec)) for name, spec in specs.items()}
    published = {name: TASKS[name].published_size for name in specs}
    rows = [
        ("Dataset size", *(s.source.train_rows for s in specs.values())),
        ("Size that steps and noise are for", *accounted.values()),
        ("Test set size", *(s.source.test_rows for s in specs.values())),
        ("Data", *(s.source.kind for s in specs.values())),
        ("Batch size", *(s.train.batch_size for s in specs.values())),
        ("Steps of a run", *(s.steps for s in specs.values())),
        ("Model", *(TASKS[name].model_title for name in specs)),
        ("Model size", *sizes.values()),
        ("Model size in the paper", *published.values()),
    ]
    return Table(
        "datasets",
        "Data sets and models shared throughout the experiments.",
        ("", *(Column(names.dataset(name), "count") for name in specs)),
        rows,
        notes=tuple(
            f"{names.dataset(name)}: why the model is not of the paper's size, see docs/fidelity.md."
            for name in specs
            if published[name] not in (sizes[name], None)
        ),
        in_paper=True,
    )


@shown("Experiments", 20)
def models(results: Results) -> list[Table]:
    """One table of layers for each data set's model."""
    found = []
    for name in TASKS:  # by name: a task of another package is loaded only if its runs are here
        spec = next((g.spec for g in results.values() if g.key.dataset == name), None)
        if spec is None:
            continue
        task, rows = TASKS[name], _layers(spec)
        found.append(
            Table(
                f"model_{task.model}",
                f"{task.model_title}, trained on {names.dataset(name)}: "
                f"{sum(row.parameters for row in rows):,} parameters.",
                (
                    *("layer", Column("kernel or output size", "number"), Column("stride", "number")),
                    *(Column("padding", "number"), "non-linearity", Column("parameters", "count")),
                ),
                [(r.kind, r.size, r.stride, r.padding, r.activation, r.parameters) for r in rows],
                in_paper=True,
            )
        )
    return found


def _layers(spec: RunSpec) -> list[Layer]:
    return layers(TASKS[spec.dataset.name].recipe(spec.task_options))
