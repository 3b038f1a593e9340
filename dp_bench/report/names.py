"""How things are called in print. A strategy says so itself; what is not listed here goes by its own name."""

from dp_bench.experiment.folder_names import EMULATED, choices
from dp_bench.privacy.accounting import exact
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS

# Letters that a strategy's symbols may be.
GREEK = (
    {"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "θ": "theta"}
    | {"κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau"}
    | {"φ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega"}
)


def dataset(name: str) -> str:
    return TASKS[name].title if name in TASKS else name


def strategy(name: str) -> str:
    """Its own label: one that it inherits is that of another strategy."""
    found = STRATEGIES[name]
    return str(vars(found).get("label") or found.__name__)


def axis(strategy_name: str, name: str) -> str:
    """The symbol of a hyperparameter or of an entry of the trajectory."""
    return STRATEGIES[strategy_name].symbol(name)


def commit(full: str) -> str:
    """A commit's first digits, and the "+" of a tree that was changed since."""
    return full[:7] + "+" * full.endswith("+")


def deviations(value: float) -> str:
    """A distance in standard deviations, with its sign, a proper minus, unless all that is printed is zero."""
    signed = f"{value:+.1f}"
    return signed.replace("-", "−") if float(signed) else signed[1:]


def number(value: float) -> str:
    """A hyperparameter, with the four digits that the paper gives."""
    return f"{value:.4g}"


def epsilon(value: float) -> str:
    return "∞" if value == float("inf") else exact(value)


def point(strategy_name: str, hyperparameters: dict[str, float]) -> str:
    """A grid point: "ρ = 0.3162, C = 0.01"."""
    swept = STRATEGIES[strategy_name].swept
    return ", ".join(f"{axis(strategy_name, name)} = {number(hyperparameters[name])}" for name in swept)


def protocol(variant: str) -> str:
    """A variant for a heading: "accountant rdp_wor, emulated at 120,000 examples"."""
    return ", ".join(map(_in_words, choices(variant))) or variant


def _in_words(choice: str) -> str:
    key, _, value = choice.partition("=")
    if key == EMULATED:
        return f"emulated at {int(value):,} examples"
    if key == "data":
        return {"subset": "a subset of the data", "stand-in": "synthetic data"}.get(value, value)
    return f"{key.rpartition('.')[2].replace('_', ' ')} {value}".strip()


def plural(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def lack(count: int) -> str:
    return "lacks" if count == 1 else "lack"
