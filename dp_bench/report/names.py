"""How things are called in print. What is not listed here (a new strategy, say) goes by its own name."""

from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS

_DATASETS = {"mnist": "MNIST", "fashion_mnist": "Fashion MNIST", "ag_news": "AG News"}
_STRATEGIES = {
    "online": "Online",
    "fixed_threshold": "FixedThreshold",
    "fixed_quantile": "FixedQuantile",
    "adam_wosm": "AdamWOSM",
    "no_dp": "NoDP",
}
_AXES = {"lr": "ρ", "clip": "C", "quantile": "γ"}
_MODELS = {"cnn": "CNN", "autoencoder": "AutoEncoder", "bag_of_words": "BagOfWords-FC"}

# Accuracy in percent, mean squared error x 10^2: what a metric is multiplied by to be printed.
PRINTED_SCALE = 100


def dataset(name: str) -> str:
    return _DATASETS.get(name, name)


def strategy(name: str) -> str:
    return _STRATEGIES.get(name, name)


def axis(name: str) -> str:
    return _AXES.get(name, name)


def model(name: str) -> str:
    return _MODELS.get(name, name)


def metric_column(dataset_name: str) -> str:
    """The heading of a column of metrics."""
    return "acc" if TASKS[dataset_name].metric == "accuracy" else f"{TASKS[dataset_name].metric} ×10²"


def metric_axis(dataset_name: str) -> str:
    """The label of a figure's axis."""
    if TASKS[dataset_name].metric == "accuracy":
        return "test accuracy (%)"
    return "test mean squared error ×10²"


def metric(value: float | None) -> str:
    """A metric or its standard deviation as the paper prints it; nothing where there is none."""
    return "" if value is None or value != value else _signed(f"{PRINTED_SCALE * value:.2f}")


def deviations(value: float) -> str:
    """A distance in standard deviations, with its sign."""
    return _signed(f"{value:+.1f}")


def _signed(number: str) -> str:
    """With a proper minus, and without a sign where all that is printed is zero."""
    return number.replace("-", "−") if float(number) else number.lstrip("+-")


def number(value: float) -> str:
    """A hyperparameter, with the four digits that the paper gives."""
    return f"{value:.4g}"


def epsilon(value: float) -> str:
    return "∞" if value == float("inf") else f"{value:g}"


def point(strategy_name: str, hyperparameters: dict[str, float]) -> str:
    """A grid point: "ρ = 0.3162, C = 0.01"."""
    return ", ".join(f"{axis(n)} = {number(hyperparameters[n])}" for n in STRATEGIES[strategy_name].swept)


def plural(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def lack(count: int) -> str:
    return "lacks" if count == 1 else "lack"
