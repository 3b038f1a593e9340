"""Random streams: one generator per run and purpose, its whole state expanded from the run's whole identity.

torch's `manual_seed` keeps 32 bits on a CPU: two of the 36,870 streams of the paper's grids would probably collide, and
composition needs them independent. So a SHAKE-256 hash of the name fills all 624 words of the Mersenne twister.
Reproducible, and therefore only as secret as the name: `seed=secure` names streams by 256 bits of the operating system.
"""

import hashlib

import torch

_WORDS = 624
_HEADER = 24  # bytes of a CPU generator's state before its words, each of which takes eight bytes


def generator(name: str, purpose: str, device: torch.device | str = "cpu") -> torch.Generator:
    """The stream of `name` for `purpose`; different names or purposes give unrelated streams."""
    fresh = torch.Generator(device).manual_seed(0)
    state = fresh.get_state()
    expander = hashlib.shake_256(f"dp_bench stream 1\n{purpose}\n{name}".encode())
    if fresh.device.type == "cpu":
        _check_layout(state)
        words = torch.frombuffer(bytearray(expander.digest(4 * _WORDS)), dtype=torch.int32)
        # Each 32-bit word sits in the low half of a 64-bit slot.
        slots = torch.stack([words, torch.zeros_like(words)], dim=1).contiguous()
        state[_HEADER : _HEADER + 8 * _WORDS] = slots.view(torch.uint8).flatten()
    else:
        # Philox: 64 bits of key and an offset, which must be a multiple of 4.
        key, offset = expander.digest(8), int.from_bytes(expander.digest(16)[8:], "little")
        state = torch.tensor(list(key + ((offset >> 2) & ~3).to_bytes(8, "little")), dtype=torch.uint8)
    fresh.set_state(state)
    return fresh


def initial_weights(seed: int) -> torch.Generator:
    """Keyed by the seed alone: every strategy and grid point starts from the same weights."""
    return generator(f"seed {seed}", "initial weights")


def _check_layout(state: torch.Tensor) -> None:
    """The words must be where this torch keeps them: after seed 0 they follow the twister's seeding recurrence."""
    words = state[_HEADER : _HEADER + 8 * _WORDS].clone().view(torch.int64)
    second = (1812433253 * (int(words[0]) ^ (int(words[0]) >> 30)) + 1) & 0xFFFFFFFF
    if state.numel() != 5056 or int(words[0]) != 0 or int(words[1]) != second:
        raise RuntimeError(f"torch {torch.__version__} keeps its CPU generator's state in an unknown layout")
