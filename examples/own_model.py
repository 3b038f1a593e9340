"""A model and tensors of your own, trained with Online under one (epsilon, delta) for three learning rates together."""

import secrets

import torch
from torch import nn

import dp_bench as dp

N, BATCH, STEPS, RATES = 4000, 200, 100, (0.1, 0.3, 1.0)
x = torch.randn(N, 20)
y = (x[:, :5].sum(1) > 0).long()  # stands for your private data
test_x = torch.randn(1000, 20)
test_y = (test_x[:, :5].sum(1) > 0).long()  # public, or charged as well

# The noise that keeps the whole search, every rate and all that is released of it, within the budget.
grid = dp.allocate(dp.Budget(3.0, 1e-5, "rdp"), dp.Sampling(BATCH, N), candidates=len(RATES), steps=STEPS)
print(f"epsilon {grid.epsilon_grid:.3f} for {len(RATES)} rates: noise multiplier {grid.noise_multiplier:.3f}")

for rate in RATES:
    model = dp.FlatModel(nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 2)))
    strategy = dp.Online(lr=rate, noise_multiplier=grid.noise_multiplier, batch_size=BATCH)
    state, key = strategy.init(model.params), secrets.token_hex(32)
    batches, noise = dp.rng(key, "batches"), dp.rng(key, "noise")
    for _ in range(STEPS):
        batch = dp.poisson(N, BATCH / N, batches)
        queries = strategy.queries(state)
        sums = dp.clipped_sums(model, nn.CrossEntropyLoss(reduction="none"), x[batch], y[batch], queries)
        released = dp.release(sums, queries, BATCH, noise, model.params.dtype)
        params, state = strategy.update(state, model.params, released)
        model.params.copy_(params)
    accuracy = (model.module(test_x).argmax(1) == test_y).float().mean()
    print(f"rate {rate}: accuracy {accuracy:.3f}, threshold {float(state.clip):.3f}, step size {float(state.lr):.3f}")
