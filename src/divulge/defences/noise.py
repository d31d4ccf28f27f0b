"""Where noise comes from: a seed, for experiments; or the system's entropy, for publication.

*Seeded* noise is the same in every run, which audits and comparisons need. Whoever knows the seed
can take it off again, so a model or an update that leaves needs *secure* noise: AES in counter
mode, under a key that the operating system draws for each call and that is kept nowhere. There is
nothing to seed, and no state that a second process could inherit.

Noise in floating point has holes: some sums can come from one value and not from its neighbour,
so that what is published tells which it was (Mironov 2012; Holohan and Braghin 2021). Secure noise
is therefore drawn much finer than needed, and values and noise are each rounded to multiples of one
power of two before they are added. That is what rounding the exact sum would give: a function of
what the mechanism on real numbers publishes, which costs no privacy. See
docs/secure-noise.md.
"""

import math
import os
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float64

from divulge._util.arguments import check_arguments
from divulge._util.extras import name_missing_extra
from divulge.core import NoiseKind

Vector = Float64[np.ndarray, " entries"]

GRID_BITS = 28
"""The grid is at most this many binary digits finer than the scale of the noise."""

_CHUNK = 8_192
"""Pairs of numbers drawn at once: few enough that all of them stay in the processor's cache."""

_COARSE = 2.0**-22
"""Below this a uniform number of 63 bits gets as many more: its logarithms would lie apart."""


@check_arguments
class SeededNoise:
    """Noise that can be drawn again from a seed: for experiments.

    Args:
        rng: the random stream; no two clients or rounds may share one.
    """

    kind: ClassVar[NoiseKind] = "seeded"

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def add_normal(self, values: Vector, scale: float) -> Vector:
        """The values with normal noise of this standard deviation."""
        return np.asarray(values + self._rng.normal(0.0, scale, values.size))

    def add_laplace(self, values: Vector, scale: float) -> Vector:
        """The values with Laplace noise of this scale b."""
        return np.asarray(values + self._rng.laplace(0.0, scale, values.size))


@check_arguments
class SecureNoise:
    """Noise that nobody can draw again or predict: for models and updates that leave.

    It takes no seed and keeps no state, so copies of it, and processes that inherit it, never draw
    the same noise. PyTorch computes it.

    Raises:
        MissingExtra: cryptography or PyTorch is not installed.

    Examples:
        >>> noise = SecureNoise()
        >>> noise.add_normal(np.zeros(3), 1.0).shape
        (3,)
    """

    kind: ClassVar[NoiseKind] = "secure"

    def __init__(self) -> None:
        _torch()
        _cipher(fresh_key())

    def add_normal(self, values: Vector, scale: float) -> Vector:
        """The values with normal noise of this standard deviation, on a grid."""
        return add_on_grid(values, scale, fresh_key(), normal)

    def add_laplace(self, values: Vector, scale: float) -> Vector:
        """The values with Laplace noise of this scale b, on a grid."""
        return add_on_grid(values, scale, fresh_key(), laplace)

    def coins(self, count: int, rate: float) -> Bool[np.ndarray, " coins"]:
        """So many independent coins, each of which is True with this probability."""
        return uniform(count, fresh_key()) < rate


def fresh_key() -> bytes:
    """A key that the operating system draws: 32 bytes."""
    return os.urandom(32)


def grid_step(scale: float) -> float:
    """The distance of neighbouring values: the largest power of two up to 2^-28 of the scale.

    Examples:
        >>> grid_step(1.5) == 2.0**-28
        True
    """
    # a power of two: multiplying and dividing by it rounds nothing
    return math.ldexp(1.0, math.frexp(scale)[1] - 1 - GRID_BITS)


def uniform(count: int, key: bytes) -> Float64[np.ndarray, " numbers"]:
    """Numbers from 0 to below 1, multiples of 2^-53, that follow from a key."""
    # the keystream itself: zeros encrypted in counter mode
    drawn = _cipher(key).update(bytes(8 * count))
    return np.asarray((np.frombuffer(drawn, "<u8") >> np.uint64(11)) * 2.0**-53)


def exponential(count: int, key: bytes) -> Float64[np.ndarray, " numbers"]:
    """Standard exponential numbers that follow from a key."""
    return np.asarray(-np.log1p(-uniform(count, key)))


class _Stream:
    """Pairs of uniform random numbers from a key, chunk by chunk, in memory that is used again."""

    def __init__(self, key: bytes, pairs: int) -> None:
        torch = _torch()
        self._cipher, self._zeros = _cipher(key), bytes(16 * pairs)
        self._buffer = bytearray(len(self._zeros) + 15)  # the library wants a block more
        words = torch.frombuffer(self._buffer, dtype=torch.int64, count=2 * pairs)
        self._words = words.view(2, pairs)
        self.numbers = torch.empty(2, pairs, dtype=torch.float64)
        self.spare = torch.empty(pairs, dtype=torch.float64)

    def draw_words(self) -> Any:
        """The next words: integers of 64 bits with a sign, shape (2, pairs)."""
        self._cipher.update_into(self._zeros, self._buffer)
        return self._words

    def logarithms(self, words: Any, out: Any) -> Any:
        """Logarithms of uniform numbers above 0, as fine near 0 as near 1."""
        # + 0.5: never the logarithm of zero, and the middle of each cell
        out.copy_(words.bitwise_and_(2**63 - 1)).add_(0.5).mul_(2.0**-63)
        if float(out.min()) < _COARSE:
            small = out < _COARSE
            more = np.frombuffer(self._cipher.update(bytes(8 * int(small.sum()))), "<u8")
            fine = _torch().from_numpy(((more >> np.uint64(11)) + 0.5) * 2.0**-53 - 0.5)
            out[small] += fine * 2.0**-63
        return out.log_()


def add_on_grid(
    values: Vector, scale: float, key: bytes, draw: Callable[[_Stream, float], Any]
) -> Vector:
    """The values, rounded to a grid, with noise rounded to the same grid, that follows from a key.

    Args:
        values: any finite numbers.
        scale: the scale of the noise, above 0.
        key: secret, and used for nothing else: 16 or 32 bytes.
        draw: makes a chunk of noise of this scale; `normal` or `laplace`.
    """
    step, start = grid_step(scale), 0
    out = _torch().from_numpy(np.array(values, np.float64))
    stream = _Stream(key, max(1, min(_CHUNK, -(-len(out) // 2))))
    while start < len(out):
        noise = draw(stream, scale / step).round_()[: len(out) - start]
        # both are rounded before they are added, exactly: floats leave no holes (Mironov 2012)
        out[start : start + len(noise)].mul_(1 / step).round_().add_(noise).mul_(step)
        start += len(noise)
    return np.asarray(out.numpy())


def normal(stream: _Stream, scale: float) -> Any:
    """Normal numbers, by Box and Muller (1958): radius and angle make two that are independent."""
    words, (radius, angle) = stream.draw_words(), stream.numbers
    # Box and Muller: a radius of √(-2 log u), and an angle
    stream.logarithms(words[0], radius).mul_(-2 * scale * scale).sqrt_()
    angle.copy_(words[1]).mul_(math.pi * 2.0**-63)
    _torch().cos(angle, out=stream.spare)
    angle.sin_().mul_(radius)
    radius.mul_(stream.spare)
    return stream.numbers.view(-1)


def laplace(stream: _Stream, scale: float) -> Any:
    """Laplace numbers: differences of two exponential ones."""
    words, (first, second) = stream.draw_words(), stream.numbers
    stream.logarithms(words[1], second)
    # the difference of two exponential numbers is a Laplace one
    return stream.logarithms(words[0], first).sub_(second).mul_(scale)


def _cipher(key: bytes) -> Any:
    """AES in counter mode: its stream, laid over zeros, is the random numbers."""
    with name_missing_extra():
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    # a key serves one stream, so the counter may begin at 0
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()


def _torch() -> Any:
    with name_missing_extra():
        import torch
    return torch
