"""Does an example's gradient depend on which others are computed with it? In the last bits it may, and they count.

A matrix product may round a row by where it lies and by how many rows there are, and the last elements of a tensor are
rounded otherwise than the same elements further in. Then one example more in a batch changes the others' gradients.
Smooth functions of them hardly move; but Online's second query and FixedQuantile's count jump where a norm passes the
threshold, and with ReLU a gradient does. Copies of an example, whose norm is below C in one batch and above it in the
next, all jump together, and one example moves a sum by many bounds.

Here an example's norm must be the same, to the bit, in batches of every size, with another one inserted at the front
and in the middle (everything behind moves by a row) or at the end (the next size), among others and among copies of
itself, whatever the micro-batch. If it is not, C is put between the norms that it has, and what one example then moves
is measured. The norms are read from the weights that `clipped_sums` asks a query for.
"""

import itertools
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from dp_bench.mechanism.clipping import FlatModel
from dp_bench.privacy.query import Query
from dp_bench.testing.harness import MICRO_BATCH, in_training, moved
from dp_bench.testing.replay import Case, cases, seeded
from dp_bench.testing.results import Finding
from dp_bench.testing.subjects import built

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33)
MICRO_BATCHES = {64: SIZES, 8: (3, 8, 9, 17)}  # and the sizes that are tried with each


def check(name: str) -> Finding:
    """Are the others' norms the same, to the bit, when one example more is in the batch?

    Of the model of this case, on examples of its kind.
    """
    case = cases()[name]
    model = FlatModel(seeded(case.build))
    inputs, targets = seeded(case.data, max(SIZES) + 1)
    seen: dict[int, set[float]] = {}  # the norms that each example had
    changed = set()  # sizes of batches in which one example more changes others' norms
    for micro_batch, sizes in MICRO_BATCHES.items():
        for members in _batches(sizes, len(inputs) - 1):
            norms = _norms(model, case, inputs[members], targets[members], micro_batch)
            for i, norm in zip(members, norms, strict=True):
                seen.setdefault(i, set()).add(norm)
                if len(seen[i]) > 1:
                    changed.add(len(members))
    # How far that moves a sum, in bounds: of the example whose norm changes most often.
    worst = max(reversed(seen), key=lambda i: len(seen[i]))
    influence = _jump(model, case, inputs[worst], targets[worst], seen[worst]) if changed else 0.0
    words = f"no norm changes in batches of 1 to {max(SIZES)}, at any place"
    if changed:
        words = f"norms change in batches of {', '.join(map(str, sorted(changed)))}: moves {influence:.1f}"
    return Finding("isolation", name, words, influence, "no norm changes", holds=not changed)


def _batches(sizes: Sequence[int], another: int) -> Iterator[list[int]]:
    for size in sizes:
        others = list(range(size))
        yield others
        yield [another, *others]
        yield [*others[: size // 2], another, *others[size // 2 :]]
        yield [0] * size  # copies


def _norms(model: FlatModel, case: Case, x: Tensor, y: Tensor, micro_batch: int) -> list[float]:
    """Of the examples' gradients, as `clipped_sums` computes them."""
    seen: list[Tensor] = []

    def weight(norms: Tensor) -> Tensor:
        seen.append(norms.clone())
        return torch.zeros_like(norms)

    in_training("clipped_sums")(model, case.losses, x, y, [Query("probe", "scalar", weight, 1.0, 1.0)], micro_batch)
    return [float(norm) for norm in torch.cat(seen)[: len(x)]]


def _jump(model: FlatModel, case: Case, x: Tensor, y: Tensor, clips: set[float]) -> float:
    """How far one more copy of an example, at either end, moves a sum over copies at one of these thresholds."""
    largest = 0.0
    for size in SIZES:
        several_x, several_y = (t.expand(size, *t.shape).clone() for t in (x, y))
        other_x, other_y = torch.zeros_like(x)[None], torch.zeros_like(y)[None]
        worlds = [
            (several_x, several_y),
            (torch.cat([several_x, x[None]]), torch.cat([several_y, y[None]])),
            (torch.cat([other_x, several_x]), torch.cat([other_y, several_y])),
        ]
        for clip, name in itertools.product(clips, ("online", "fixed_quantile")):
            strategy = built(name, 1.0, max(size, 16), clip_init=clip)
            largest = max(largest, moved(model, case.losses, strategy, MICRO_BATCH, *worlds))
    return largest
