"""What the paper does with each data set. No torch: planning and reporting read this too."""

from dataclasses import dataclass

MAX_WORDS = 64
"""Words kept of each text of AG News; nine in ten are shorter."""


@dataclass(frozen=True)
class Task:
    model: str
    metric: str
    higher_is_better: bool
    epsilons: tuple[float, ...]  # the paper's budgets per grid
    # Examples whose per-example gradients are held at once: what fits the cache. Bits depend on it.
    micro_batch: int
    step_cost: float  # about how long a step takes, in steps of the bag of words

    def better(self, a: float, b: float) -> bool:
        """Whether metric `a` is better than `b`; nothing is worse than NaN."""
        if b != b:
            return a == a
        return a > b if self.higher_is_better else a < b


TASKS = {
    "mnist": Task("cnn", "accuracy", True, (3, 5, 7, 9), micro_batch=128, step_cost=40),
    "fashion_mnist": Task("autoencoder", "mse", False, (1, 2, 3, 4), micro_batch=128, step_cost=100),
    "ag_news": Task("bag_of_words", "accuracy", True, (3, 5, 7, 9), micro_batch=1024, step_cost=1),
}
