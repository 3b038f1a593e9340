"""The least time that Online's step could take here: its products at sgemm's speed, then its memory traffic.

Both speeds are measured beside the steps. Counted are

- the floating-point operations of a plain step's forward and backward pass;
- the batch, read from the data and written once;
- what each layer but an activation function puts out, written on the way forward and read on the way back;
- of vectors as long as the model: parameters, velocity and two sums, each read and written, and the two sums that the
  step before released, read.

Not counted: drawing noise, norms, activation functions, the gradients that layers hand on (which a small micro-batch
keeps in the cache), and per-example gradients. Nothing overlaps.
"""

from collections.abc import Callable, Mapping

from contenders import COPY_BYTES, SGEMM_FLOPS
from job import Job, idiomatic, recipe_of, spec_for
from torch import Tensor, nn, zeros

from dp_bench.tasks import TASKS

FLOOR = "floor of Online"
_VECTORS = 10  # read or written
_BYTES = 4
_PRODUCTS_AND_POOLING = (nn.Linear, nn.Conv2d, nn.ConvTranspose2d, nn.MaxPool2d)


def traffic(model: str, batch: int = Job.batch) -> int:
    """Bytes of a step."""
    job = Job("", model, 1)
    module, spec = idiomatic(recipe_of(job)), spec_for(job, "no_dp")
    example = zeros(1, *TASKS[spec.dataset.name].shape(spec.task_options))
    outputs: list[int] = []
    for layer in module:
        if isinstance(layer, _PRODUCTS_AND_POOLING):
            layer.register_forward_hook(_counting(outputs))
    module(example)
    parameters = sum(p.numel() for p in module.parameters())
    return _BYTES * (2 * batch * (example.numel() + sum(outputs)) + _VECTORS * parameters)


def _counting(outputs: list[int]) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
    return lambda layer, inputs, output: outputs.append(output.numel())


def floor_times(products: Mapping[int, float], copies: Mapping[int, float], flops: int, moved: int) -> dict[int, float]:
    """Seconds by round, from those of a matrix product and of a copy in the same round."""
    common = products.keys() & copies.keys()
    return {turn: products[turn] * flops / SGEMM_FLOPS + copies[turn] * moved / COPY_BYTES for turn in common}
