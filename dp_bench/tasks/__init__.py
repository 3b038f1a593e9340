"""What is trained on what: one file per task. Starts without torch, as planning and reporting read this too.

A task of another package has an entry point `dp_bench.tasks` (examples/plugin).
"""

from dp_bench.registry import Registry
from dp_bench.tasks.base import Classification, Reconstruction, Task

__all__ = ["TASKS", "Classification", "Reconstruction", "Task"]


def _task(found: object) -> Task | None:
    made = found() if isinstance(found, type) and issubclass(found, Task) else found
    return made if isinstance(made, Task) else None


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
