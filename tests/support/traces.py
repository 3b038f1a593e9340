"""Traces of a strategy by hand: theta_0 = (1, 2), the gradients (0.2, -0.4), (-0.1, 0.3), (0.3, -0.1)."""

import pytest
import torch

GRADIENTS = [[0.2, -0.4], [-0.1, 0.3], [0.3, -0.1]]


def vector(*values):
    return torch.tensor(values, dtype=torch.float64)


def trace(strategy, *steps):
    """(params, state) after each step; a step is what was released, by query."""
    params = vector(1, 2)
    state = strategy.init(params)
    for step in steps:
        params, state = strategy.update(
            state, params, {n: torch.as_tensor(v, dtype=torch.float64) for n, v in step.items()}
        )
        yield params, state


def close(tensor, *values):
    return tensor.tolist() == pytest.approx(list(values), rel=1e-12, abs=1e-15)
