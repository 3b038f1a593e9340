"""What is trained on what: one file per task. Starts without torch, as planning and reporting read this too.

A task of another package has an entry point `dp_bench.tasks` (examples/plugin).
"""

from typing import Any

from dp_bench.errors import invalid
from dp_bench.registry import Registry
from dp_bench.tasks.base import Classification, Reconstruction, Task

__all__ = ["TASKS", "Classification", "Reconstruction", "Task"]


# Keys of every data set: no option can be called so.
_TAKEN = ("name", "limit", "emulate_size", "stand_in")


def _task(found: object) -> Task | None:
    made = found() if isinstance(found, type) and issubclass(found, Task) else found
    if not isinstance(made, Task):
        return None
    if not type(made).__module__.startswith(f"{__name__}."):
        _check_options(made)
    return made


def _check_options(task: Task) -> None:
    """Refuse options of an outside task that could not be configured."""
    key, built_in = type(task).__name__, [TASKS[name] for name in TASKS.built_in]
    types = {name: type(default) for known in built_in for name, default in _options(known)}
    for name, default in _options(task):
        if not name.isidentifier() or name.startswith("_") or name in _TAKEN:
            raise invalid(key, f"options named like variables, and not {', '.join(_TAKEN)}", name, "rename it")
        if type(default) not in (bool, int, float, str):
            got = f"{name} = {default!r}"
            raise invalid(key, "options that are true or false, numbers or text", got, "give it such a default")
        if type(default) is not types.get(name, type(default)):
            expected = f"{name} of the type that it has in a built-in task, {types[name].__name__}"
            raise invalid(key, expected, repr(default), "rename it")
    if both := task.data_options.keys() & task.model_options.keys():
        raise invalid(key, "options of the data or of the model", f"{min(both)} as both", "rename one of them")


def _options(task: Task) -> list[tuple[str, Any]]:
    return [*task.data_options.items(), *task.model_options.items()]


TASKS: Registry[Task] = Registry(
    "dataset",
    "dp_bench.tasks",
    {
        "mnist": "dp_bench.tasks.mnist:Mnist",
        "fashion_mnist": "dp_bench.tasks.fashion_mnist:FashionMnist",
        "ag_news": "dp_bench.tasks.ag_news:AgNews",
    },
    "a subclass of dp_bench.tasks.Task, or an object of one",
    _task,
)
