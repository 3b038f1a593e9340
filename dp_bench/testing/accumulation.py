"""Sums in floating point: examples made so that one of them decides how all later ones are rounded.

Let a sum be added up in single precision, example by example. The first k examples bring it to k - 1/2 bounds, k a
power of two: just below it, where the grid of single precision is twice as fine as above. The canary adds its bound and
so crosses k. From there on examples add 5/8 u and take away 3/8 u in turn, u = k 2^-23 the spacing above k: without the
canary both are rounded to u/2, and the sum stays; with it they are rounded to u and to 0, and it drifts by u/2 per
example. So the canary moves a sum over B examples by 1 + k (B - k) 2^-24 times its bound, which is 1.004 at B = 512,
1.25 at 4,096, 2.0 at 8,192 and 54 at 60,000: the noise hides far less than was claimed.

Where only every m-th rounding is in single precision (sums of chunks of m examples), the examples in between add
nothing (`every`); where sums of chunks are added up in double precision, one chunk alone is attacked (`within`).

Everything goes through the `clipped_sums` that training calls, for every kind of layer, with one query and with
Online's two. Its second query weights an example by 0 or to norm 1; examples that must add little to the attacked
coordinate then point along another one, in turn forwards and backwards.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dp_bench.mechanism.clipping import FlatModel
from dp_bench.privacy.rounding import ROUNDING, summation
from dp_bench.strategies import Strategy
from dp_bench.testing.harness import linear_losses, moved
from dp_bench.testing.results import Finding
from dp_bench.testing.subjects import built

QUICK_SIZES, FULL_SIZES = (512, 4096, 8192), (512, 4096, 8192, 60_000)
CHUNKS = (64, 128)  # numbers of examples that a product may sum up before they are added to the rest
MICRO_BATCHES = (128, 1024)


class Attack(NamedTuple):
    """What each example adds to the attacked coordinate, in bounds: [examples]; and which of them is the canary."""

    values: Tensor
    canary: int


class Layer(NamedTuple):
    """A layer, and inputs and targets for which gradients of `linear_losses` are given ones: rows (v, rest, 0, 0)."""

    build: Callable[[], nn.Module]
    examples: Callable[[Tensor], tuple[Tensor, Tensor]]


class _WithoutRule(nn.Module):
    """A layer that the engine does not know: its gradients are made by vmap."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4))

    def forward(self, inputs: Tensor) -> Tensor:
        return (inputs * self.weight).sum(1, keepdim=True)


def _ones(rows: Tensor, *shape: int) -> Tensor:
    return rows.new_ones(len(rows), *shape)


def _wide(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of 64 x 16 numbers, each row of the weight's the same; 16 quarters have norm 1."""
    return torch.nn.functional.pad(rows, (0, 60)), _ones(rows, 16) / 4


LAYERS = {
    "linear, 1 output": Layer(lambda: nn.Linear(4, 1, bias=False), lambda g: (g, _ones(g, 1))),
    "linear, 1 input": Layer(lambda: nn.Linear(1, 4, bias=False), lambda g: (_ones(g, 1), g)),
    "linear, 4 to 4": Layer(lambda: nn.Linear(4, 4, bias=False), lambda g: (g, _ones(g, 4) / 2)),
    "linear, 64 to 16": Layer(lambda: nn.Linear(64, 16, bias=False), _wide),
    "convolution": Layer(lambda: nn.Conv2d(1, 1, 2, bias=False), lambda g: (g.view(-1, 1, 2, 2), _ones(g, 1, 1, 1))),
    "convolution, 2 channels": Layer(
        lambda: nn.Conv2d(2, 1, (1, 2), bias=False), lambda g: (g.view(-1, 2, 1, 2), _ones(g, 1, 1, 1))
    ),
    "transposed convolution": Layer(
        lambda: nn.ConvTranspose2d(1, 1, 2, bias=False), lambda g: (_ones(g, 1, 1, 1), g.view(-1, 1, 2, 2))
    ),
    "any layer (vmap)": Layer(_WithoutRule, lambda g: (g, _ones(g, 1))),
}


def hovering(examples: int, every: int = 1) -> Attack:
    """A sum that hovers at a power of two, as described above; after the canary, every so many examples add to it."""
    powers = [2**i for i in range(1, examples.bit_length()) if 2**i + 1 < examples]
    top = max(powers, key=lambda k: k * (examples - k))
    spacing = top * 2.0**-23
    values = torch.zeros(examples, dtype=torch.float64)
    values[: top - 1], values[top - 1], values[top] = 1.0, 0.5, 1.0
    later = values[top + 1 :][::every]
    later[0::2], later[1::2] = 0.625 * spacing, -0.375 * spacing
    return Attack(values, canary=top)


def within(examples: int, chunk: int) -> Attack:
    """The same in the first `chunk` examples alone; the others add nothing."""
    inner = hovering(min(chunk, examples))
    return Attack(torch.nn.functional.pad(inner.values, (0, examples - len(inner.values))), inner.canary)


def attacks(examples: int, micro_batch: int) -> Iterator[Attack]:
    """On sums of every example, of the chunks that the engine claims to make, and of others that a BLAS might make."""
    yield hovering(examples)
    for chunk in {*CHUNKS, summation(examples, micro_batch).chunk}:
        yield hovering(examples, every=chunk)
        yield within(examples, chunk)


def gradients(attack: Attack, norm: float) -> Tensor:
    """[examples, 4]: `norm` > 1 is that of every example, the clip is at 1; at 1, what the attack says and no more."""
    rows = torch.zeros(len(attack.values), 4, dtype=torch.float64)
    rows[:, 0] = attack.values
    if norm > 1:
        forwards = torch.where(torch.arange(len(rows)) % 4 < 2, 1.0, -1.0)
        rows[:, 1] = (1 - attack.values.square()).sqrt() * forwards
    return (norm * rows).float()


def influence(layer: Layer, strategy: Strategy[Any], attack: Attack, norm: float, micro_batch: int) -> float:
    """How far the canary moves a sum of `clipped_sums`, in units of its query's bound: the largest over queries."""
    model = FlatModel(nn.Sequential(layer.build()))
    rows = gradients(attack, norm)
    without = torch.cat([rows[: attack.canary], rows[attack.canary + 1 :]])
    return moved(model, linear_losses, strategy, micro_batch, layer.examples(rows), layer.examples(without))


def check(layer: str, sizes: Sequence[int], micro_batches: Sequence[int]) -> Finding:
    """Can one example move a sum by more than its bound through the rounding of the others?

    By any attack, with FixedThreshold's one query and Online's two, on clipped examples and on others.
    """
    largest = dict.fromkeys(sizes, 0.0)
    for n, micro_batch in itertools.product(sizes, micro_batches):
        strategies = built("fixed_threshold", 1.0, n, clip=1.0), built("online", 1.0, n, clip_init=1.0)
        for attack, strategy, norm in itertools.product(attacks(n, micro_batch), strategies, (1.0, 2.0)):
            largest[n] = max(largest[n], influence(LAYERS[layer], strategy, attack, norm, micro_batch))
    moves = "moves " + ", ".join(f"{value:.4f} at {size:,}" for size, value in largest.items())
    most = max(largest.values())
    return Finding("accumulation", layer, moves, most, f"<= {1 + ROUNDING:.4f}", holds=most <= 1 + ROUNDING)
