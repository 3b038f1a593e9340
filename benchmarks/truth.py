"""What every private contender is held to: gradients clipped one example at a time, by nothing but autograd.

A contender whose sum differs is not timed. The threshold is one at which as many examples are clipped as in real runs:
Online sums clipped examples and the others separately, so data that is clipped throughout, or not at all, would spare
it half of that work.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

# Of Online, epsilon 3, k = 5, real data: the means over the first 300 and 200 steps, and over a whole run, by
#   DP_BENCH_DATA=FOLDER python benchmarks/clipped_shares.py --models MODEL --steps 300 (200, 2000)
CLIPPED_SHARE = {"cnn": 0.63, "autoencoder": 0.61, "bag_of_words": 0.71}
SHARE_TOLERANCE = 0.1
SUM_TOLERANCE = 1e-3  # rounding gives about 1e-6, a sum that is wrong 1e-2 and more
EXAMPLES = 512  # whose norms decide a threshold or a share

Losses = Callable[[Tensor, Tensor], Tensor]


class WrongError(Exception):
    """A contender that does not do what it is timed for."""


def gradients(module: nn.Module, losses: Losses, x: Tensor, y: Tensor) -> Iterator[list[Tensor]]:
    """Each example's, in a pass of its own."""
    for i in range(len(x)):
        loss = losses(module(x[i : i + 1]), y[i : i + 1]).sum()
        yield list(torch.autograd.grad(loss, list(module.parameters())))


def norm(gradient: Sequence[Tensor]) -> Tensor:
    return torch.stack([part.double().norm() for part in gradient]).norm()


def clipped_sum(module: nn.Module, losses: Losses, x: Tensor, y: Tensor, clip: float) -> list[Tensor]:
    total = [torch.zeros_like(p, dtype=torch.float64) for p in module.parameters()]
    for gradient in gradients(module, losses, x, y):
        factor = min(1.0, clip / float(norm(gradient)))
        for part, g in zip(total, gradient, strict=True):
            part.add_(g, alpha=factor)
    return total


def threshold(model: str, module: nn.Module, losses: Losses, x: Tensor, y: Tensor) -> float:
    """Longer than it are as many gradients as in real runs."""
    return float(_norms(module, losses, x[:EXAMPLES], y[:EXAMPLES]).quantile(1 - CLIPPED_SHARE[model]))


def share(module: nn.Module, losses: Losses, x: Tensor, y: Tensor, clip: float) -> float:
    """Of the last examples: how many it clips."""
    return float((_norms(module, losses, x[-EXAMPLES:], y[-EXAMPLES:]) > clip).double().mean())


def _norms(module: nn.Module, losses: Losses, x: Tensor, y: Tensor) -> Tensor:
    return torch.stack([norm(gradient) for gradient in gradients(module, losses, x, y)])


def check_sum(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    off = norm([f - e for f, e in zip(found, expected, strict=True)]) / norm(expected)
    if not off <= SUM_TOLERANCE:  # nor if it is not a number
        raise WrongError(f"its sum differs from gradients clipped one at a time by {100 * float(off):.3g} %")


def check_share(model: str, found: float) -> None:
    """At most a tenth from what is wanted, and neither 0 nor 1."""
    wanted = CLIPPED_SHARE[model]
    if abs(found - wanted) > SHARE_TOLERANCE or not 0 < found < 1:
        raise WrongError(f"it clipped a share of {found:.2f} at the end, where real runs clip {wanted:.2f}")
