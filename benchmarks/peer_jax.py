"""jax_privacy as a contender of peers.py, in an environment of its own: no torch and no dp_bench here.

    python peer_jax.py MODEL THREADS MICRO_BATCH CHECK.npz TIMED.npz

Each file is a problem (peers.py writes them): a batch, parameters as PyTorch has them, threshold, noise and step size;
CHECK also has the sum of its gradients clipped one at a time. Images are channels-last, which is fastest here too.
"""

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from protocol import Share, Step, serve

Arrays = Mapping[str, Any]
_TOLERANCE = 1e-3  # as in truth.py
_MOMENTUM = 0.9


def main() -> None:
    model, threads, micro_batch, check, timed = sys.argv[1:]
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[: int(threads)])  # jax makes a thread for each core that it finds
    import jax

    jax.numpy.zeros(1).block_until_ready()
    os.sched_setaffinity(0, cores)
    serve(
        lambda: _check(model, int(micro_batch), np.load(check)), lambda: _build(model, int(micro_batch), np.load(timed))
    )


def _build(model: str, micro_batch: int, problem: Arrays) -> tuple[Step, Share]:
    step, _, share = _training(model, micro_batch, problem)
    step()  # compiles
    return step, share


def _check(model: str, micro_batch: int, problem: Arrays) -> None:
    step, parameters, _ = _training(model, micro_batch, problem)
    before = parameters()
    step()
    expected = _loaded(model, problem, "sum")
    found = [(b - a) * len(problem["x"]) / float(problem["lr"]) for b, a in zip(before, parameters(), strict=True)]
    off = _norm([f - e for f, e in zip(found, expected, strict=True)]) / _norm(expected)
    if not off <= _TOLERANCE:
        raise ValueError(f"its sum differs from gradients clipped one at a time by {100 * off:.3g} %")


def _norm(arrays: list[Any]) -> float:
    return float(np.sqrt(sum(np.square(np.asarray(a, np.float64)).sum() for a in arrays)))


def _training(model: str, micro_batch: int, problem: Arrays) -> tuple[Step, Callable[[], list[Any]], Share]:
    """As jax_privacy's documentation has it; the whole update is one compiled function."""
    import jax
    import jax_privacy
    import optax

    apply, batch, clip = _MODELS[model], len(problem["x"]), float(problem["clip"])
    x, y = (jax.numpy.asarray(_channels_last(problem[name])) for name in ("x", "y"))

    def loss(params: Any, x: Any, y: Any) -> Any:
        outputs = apply(params, x)
        if model == "autoencoder":
            return jax.numpy.square(outputs - y).mean()
        return optax.softmax_cross_entropy_with_integer_labels(outputs, y).mean()

    size = min(micro_batch, batch)
    options = {"l2_clip_norm": clip, "batch_argnums": (1, 2), "microbatch_size": size}
    clipped = jax_privacy.clipped_grad(loss, **options)
    stddev = clip * float(problem["noise"])
    privatizer = jax_privacy.noise_addition.gaussian_privatizer(stddev=stddev, prng_key=0)
    optimizer = optax.sgd(float(problem["lr"]), momentum=_MOMENTUM)

    def update(params: Any, noise_state: Any, state: Any) -> Any:
        noisy, noise_state = privatizer.update(clipped(params, x, y), noise_state)
        updates, state = optimizer.update(jax.tree.map(lambda g: g / batch, noisy), state)
        return optax.apply_updates(params, updates), noise_state, state

    update = jax.jit(update, donate_argnums=(0, 1, 2))
    params = [jax.numpy.array(p) for p in _loaded(model, problem, "parameter")]
    now = (params, privatizer.init(params), optimizer.init(params))

    def step() -> None:
        nonlocal now
        now = update(*now)
        jax.block_until_ready(now[0])

    def share() -> float:
        measured = jax_privacy.clipped_grad(loss, return_grad_norms=True, **options)
        return float((np.asarray(measured(now[0], x, y)[1].grad_norms) > clip).mean())

    return step, lambda: [np.asarray(p, np.float64) for p in now[0]], share


def _channels_last(array: Any) -> Any:
    return array.transpose(0, 2, 3, 1) if array.ndim == 4 else array


def _loaded(model: str, problem: Arrays, kind: str) -> list[Any]:
    """PyTorch's parameters, or arrays of their shapes, as these models have them."""
    arrays = [problem[f"{kind}_{i}"] for i in range(int(problem["count"]))]
    if model == "cnn":  # its first linear layer reads 32 channels of 23 x 23
        arrays[4] = arrays[4].reshape(-1, 32, 23, 23).transpose(0, 2, 3, 1).reshape(len(arrays[4]), -1)
    if model == "autoencoder":  # the second half are transposed convolutions: (in, out, ...), mirrored
        half = len(arrays) // 2
        arrays[half:] = [a.swapaxes(0, 1)[..., ::-1, ::-1] if a.ndim == 4 else a for a in arrays[half:]]
    return [a.transpose(2, 3, 1, 0) if a.ndim == 4 else a.T for a in arrays]


def _cnn(params: Any, x: Any) -> Any:
    from jax import lax, nn

    x = nn.relu(_convolution(x, *params[:2], padding=3))
    x = lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 1, 1, 1), "VALID")
    x = nn.relu(_convolution(x, *params[2:4], padding=0))
    x = nn.relu(x.reshape(len(x), -1) @ params[4] + params[5])
    return x @ params[6] + params[7]


def _autoencoder(params: Any, x: Any) -> Any:
    from jax import nn

    layers = len(params) // 2
    for i in range(layers):
        x = _convolution(x, params[2 * i], params[2 * i + 1], padding=0 if i < layers // 2 else 2)
        x = nn.leaky_relu(x) if i < layers - 1 else nn.sigmoid(x)
    return x


def _bag_of_words(params: Any, x: Any) -> Any:
    from jax import nn

    x = nn.leaky_relu(x @ params[0] + params[1])
    x = nn.leaky_relu(x @ params[2] + params[3])
    return x @ params[4] + params[5]


def _convolution(x: Any, weight: Any, bias: Any, padding: int) -> Any:
    """As a product with patches: per-example gradients of XLA's own convolutions are several times as slow on a CPU."""
    import jax.numpy as jnp

    x = jnp.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    high, wide, _, outputs = weight.shape
    rows, columns = x.shape[1] - high + 1, x.shape[2] - wide + 1
    shifted = [x[:, i : i + rows, j : j + columns] for i in range(high) for j in range(wide)]
    return jnp.concatenate(shifted, axis=-1) @ weight.reshape(-1, outputs) + bias


_MODELS = {"cnn": _cnn, "autoencoder": _autoencoder, "bag_of_words": _bag_of_words}


if __name__ == "__main__":
    main()
