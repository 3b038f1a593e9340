"""What was trained, on which data: the paper's table of data sets, and of layers, read off the modules themselves."""

from typing import TYPE_CHECKING, Any, NamedTuple

from dp_bench.experiment.spec import RunSpec
from dp_bench.report import names
from dp_bench.report.contents import shown
from dp_bench.report.load.results import Results
from dp_bench.report.table import Column, Table
from dp_bench.tasks import TASKS
from dp_bench.tasks.base import Recipe

if TYPE_CHECKING:
    from torch import nn


class Layer(NamedTuple):
    kind: str
    size: str  # kernel or output size, as the paper's appendix prints it
    stride: str
    padding: str
    activation: str
    parameters: int


@shown("Experiments", 10)
def datasets(results: Results) -> Table:
    """The paper's first table: what each experiment trains on and with."""
    specs = _specs(results)
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
    return [_model(name, spec) for name, spec in _specs(results).items()]


def _model(dataset: str, spec: RunSpec) -> Table:
    task, rows = TASKS[dataset], _layers(spec)
    return Table(
        f"model_{task.model}",
        f"{task.model_title}, trained on {task.title}: {sum(row.parameters for row in rows):,} parameters.",
        (
            *("layer", Column("kernel or output size", "number"), Column("stride", "number")),
            *(Column("padding", "number"), "non-linearity", Column("parameters", "count")),
        ),
        rows,
        in_paper=True,
    )


def _specs(results: Results) -> dict[str, RunSpec]:
    """By data set."""
    return {name: grid.spec for name in TASKS for grid in results.values() if grid.key.dataset == name}


def _layers(spec: RunSpec) -> list[Layer]:
    return layers(TASKS[spec.dataset.name].recipe(spec.task_options))


def layers(recipe: Recipe) -> list[Layer]:
    """The layers of a model in order, each with the activation that follows it; reshaping is left out."""
    import torch  # a report without tables of models needs none

    with torch.device("meta"):  # shapes only, nothing is drawn or stored
        modules = [module for module in recipe.build().modules() if not list(module.children())]
    found: list[Layer] = []
    for module in modules:
        kind = type(module).__name__
        if found and type(module).__module__ == torch.nn.modules.activation.__name__:
            found[-1] = found[-1]._replace(activation=kind)
        elif "Flatten" not in kind:
            found.append(_layer(module))
    return found


def _layer(module: "nn.Module") -> Layer:
    kind, parameters = type(module).__name__, sum(p.numel() for p in module.parameters())
    known: dict[str, Any] = vars(module)
    if "kernel_size" in known:
        size = _size(known["kernel_size"], *([known["out_channels"]] if "out_channels" in known else []))
        padding = _size(known["padding"]) if parameters else "-"
        return Layer(_in_print(kind), size, _size(known["stride"]), padding, "-", parameters)
    return Layer(kind, str(known.get("out_features", "-")), "-", "-", "-", parameters)


def _in_print(kind: str) -> str:
    """Conv2d is a "2D Conv", ConvTranspose2d a "2D Transpose Conv"."""
    name = kind.removesuffix("2d").replace("ConvTranspose", "Transpose Conv")
    return f"2D {name}" if kind.endswith("2d") else name


def _size(value: Any, *channels: int) -> str:
    """torch takes one number for both dimensions, and paddings by name."""
    both = value if isinstance(value, tuple) else (value,) if isinstance(value, str) else (value, value)
    return "×".join(map(str, (*channels, *both)))
