"""Random generators: one per run and purpose, its key a hash of the run's whole identity.

Composition needs the 36,870 generators of the paper's grids to be independent, so none may start from 32 or 64 bits of
seed, where two would collide sooner or later. Reproducible, and therefore only as secret as the name: `seed=secure`
names generators by 256 bits of the operating system.
"""

import hashlib
from typing import Any, Protocol

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

_BLOCK = 16  # bytes of an AES block
_CHUNK = 2**18  # bytes drawn per chunk: they are still in the cache when they are turned into numbers
_ZEROS = memoryview(bytes(_CHUNK))  # what is encrypted: the key stream itself is what comes out

# Odd 32-bit numbers times this: never 0, and as it is a little less than 2^-32, the largest ones, which single
# precision rounds to 2^32, stay below 1. A radius or a sine of exactly 0 would be no noise, and give an example away.
_BELOW_ONE = np.float32(2**-32 * (1 - 2**-24))


class Rng(Protocol):
    """Uniform numbers, drawn where they are needed."""

    def uniform(self, size: int, dtype: torch.dtype) -> torch.Tensor:
        """Independent. Double: multiples of 2^-53 in [0, 1). Single: in (0, 1), and finer than 2^-24 near 0."""
        ...

    def state(self) -> Any:
        """Where the generator is, for a checkpoint."""
        ...

    def restore(self, state: Any) -> None: ...


def rng(name: str, purpose: str, device: torch.device | str = "cpu") -> Rng:
    """The generator of `name` for `purpose`; different names or purposes give unrelated generators.

    The name is the key: anyone who knows it can draw the same numbers again, and subtract the noise. Two runs on the
    same data must not share one, or the difference of what they release has no noise.

    >>> import secrets
    >>> from dp_bench import rng
    >>> noise = rng(secrets.token_hex(32), "noise")  # 256 secret bits
    >>> a, b = rng("my run, seed 0", "batches"), rng("my run, seed 0", "batches")
    >>> bool((a.uniform(3, torch.float64) == b.uniform(3, torch.float64)).all())
    True
    """
    key = hashlib.shake_256(f"dp_bench stream 3\n{purpose}\n{name}".encode()).digest(32)
    device = torch.device(device)
    return _AesRng(key) if device.type == "cpu" else _PhiloxRng(key, device)


class _AesRng:
    """AES-256 in counter mode: without the key it cannot be told from chance, and the hardware does it.

    A generator made for simulation could be guessed from the noise it makes, and takes longer.
    """

    def __init__(self, key: bytes) -> None:
        self.restore({"key": key.hex(), "blocks": 0})

    def uniform(self, size: int, dtype: torch.dtype) -> torch.Tensor:
        if dtype not in (torch.float32, torch.float64):
            raise TypeError(f"dtype: expected torch.float32 or torch.float64, got {dtype}")
        single = dtype == torch.float32
        drawn = np.empty(size, np.float32 if single else np.float64)
        memory = np.empty(_CHUNK // drawn.itemsize, "<u4" if single else "<u8")
        for start in range(0, size, len(memory)):
            chunk = drawn[start : start + len(memory)]
            words = memory[: len(chunk)]
            self._fill(words.view(np.uint8))
            if single:
                words |= 1
            else:
                words >>= 11
            chunk[:] = words  # a product of both kinds of numbers takes twice as long
            np.multiply(chunk, _BELOW_ONE if single else 2.0**-53, out=chunk)
        return torch.from_numpy(drawn)

    def _fill(self, memory: np.ndarray) -> None:
        """With the next blocks; what is left of the last one is never used."""
        self._cipher.update_into(_ZEROS[: memory.nbytes], memory.data)
        spare = -memory.nbytes % _BLOCK
        self._cipher.update(_ZEROS[:spare])
        self._blocks += (memory.nbytes + spare) // _BLOCK

    def state(self) -> Any:
        return {"key": self._key, "blocks": self._blocks}

    def restore(self, state: Any) -> None:
        self._key, self._blocks = state["key"], state["blocks"]
        counter = modes.CTR(self._blocks.to_bytes(_BLOCK, "big"))
        self._cipher = Cipher(algorithms.AES(bytes.fromhex(self._key)), counter).encryptor()


class _PhiloxRng:
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
