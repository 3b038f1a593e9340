"""Random streams: one per run and purpose, its whole state a hash of the run's whole identity.

Composition needs the 36,870 streams of the paper's grids to be independent, so none may start from 32 or 64 bits of
seed, where two would collide sooner or later. Reproducible, and therefore only as secret as the name: `seed=secure`
names streams by 256 bits of the operating system.
"""

import hashlib
from typing import Any, Protocol

import numpy as np
import torch

# Odd 32-bit numbers times this: never 0, and as it is a little less than 2^-32, the largest ones, which single
# precision rounds to 2^32, stay below 1. A radius or a sine of exactly 0 would be no noise, and give an example away.
_BELOW_ONE = np.float32(2**-32 * (1 - 2**-24))


class Stream(Protocol):
    """Uniform numbers, drawn where they are needed."""

    def uniform(self, size: int, dtype: torch.dtype) -> torch.Tensor:
        """Independent. Double: multiples of 2^-53 in [0, 1). Single: in (0, 1), and finer than 2^-24 near 0."""
        ...

    def state(self) -> Any:
        """Where the stream is, for a checkpoint."""
        ...

    def restore(self, state: Any) -> None: ...


def stream(name: str, purpose: str, device: torch.device | str = "cpu") -> Stream:
    """The stream of `name` for `purpose`; different names or purposes give unrelated streams."""
    key = hashlib.shake_256(f"dp_bench stream 2\n{purpose}\n{name}".encode()).digest(32)
    device = torch.device(device)
    return _HostStream(key) if device.type == "cpu" else _DeviceStream(key, device)


class _HostStream:
    """numpy's PCG64 DXSM: about half the time of torch's Mersenne twister, and 255 bits of state to fill."""

    def __init__(self, key: bytes) -> None:
        self._bits = np.random.PCG64DXSM()
        state, increment = (int.from_bytes(half, "little") for half in (key[:16], key[16:]))
        self._bits.state = self._bits.state | {
            "state": {"state": state, "inc": increment | 1},  # an even increment would shorten the period
            "has_uint32": 0,
            "uinteger": 0,
        }
        self._generator = np.random.Generator(self._bits)

    def uniform(self, size: int, dtype: torch.dtype) -> torch.Tensor:
        if dtype == torch.float64:
            return torch.from_numpy(self._generator.random(size))
        halves = self._bits.random_raw((size + 1) // 2).view(np.uint32)[:size]  # of 64-bit words
        halves |= 1
        return torch.from_numpy(np.multiply(halves, _BELOW_ONE, dtype=np.float32)).to(dtype)

    def state(self) -> Any:
        return self._bits.state

    def restore(self, state: Any) -> None:
        self._bits.state = state


class _DeviceStream:
    """torch's Philox on a GPU: 64 bits of key and an offset, which must be a multiple of 4."""

    def __init__(self, key: bytes, device: torch.device) -> None:
        offset = (int.from_bytes(key[8:16], "little") >> 2) & ~3
        self._generator = torch.Generator(device)
        self.restore(torch.tensor(list(key[:8] + offset.to_bytes(8, "little")), dtype=torch.uint8))

    def uniform(self, size: int, dtype: torch.dtype) -> torch.Tensor:
        drawn = torch.rand(size, dtype=dtype, device=self._generator.device, generator=self._generator)
        return drawn if dtype == torch.float64 else drawn.clamp_(min=2**-32)

    def state(self) -> Any:
        return self._generator.get_state()

    def restore(self, state: Any) -> None:
        self._generator.set_state(state.cpu())


def initial_weights(seed: int) -> torch.Generator:
    """Keyed by the seed alone: every strategy and grid point starts from the same weights."""
    key = hashlib.shake_256(f"dp_bench initial weights\n{seed}".encode()).digest(8)
    return torch.Generator().manual_seed(int.from_bytes(key, "little") >> 1)
