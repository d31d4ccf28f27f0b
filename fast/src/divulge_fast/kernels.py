"""The loops of training, in native code: Numba compiles them, and keeps it in the user's cache.

Nothing here holds Python's lock: each thread trains a model of its own. Weights lie in one vector,
as `layout` says, and rows begin at multiples of 64 bytes and are padded, so that no loop over
them has a remainder. The first training of dense networks, and of convolutions, takes some seconds
more where nothing is compiled yet. All of it is in one file, since Numba compiles anew when this
file has changed, and does not look at others.
"""

from collections.abc import Callable
from functools import cache
from inspect import unwrap
from threading import Lock
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from divulge_fast.blocks import RELU, SIGMOID, TANH
from divulge_fast.layout import CONV_TABLE, DENSE_TABLE, LANES

Vector = np.ndarray
"""Numbers in single precision."""
Place = Any
"""A place in a vector, or a size: a whole number without sign, which the compiler need not wrap
around as Python does."""
Places = np.ndarray
"""Places where rows begin."""
Table = Any
"""Rows of `CONV_TABLE` or `DENSE_TABLE`; the compiler knows their fields."""
Pairs = Any
"""Pairs of numbers in bfloat16, each pair in 32 bits: the first of the two in the lower ones."""

_VECTOR = 16
"""Numbers that are computed with as one, in several registers where these hold fewer."""


def _has(feature: str) -> bool:
    """Whether the processor that is compiled for can do something."""
    features = numba.config.CPU_FEATURES  # which somebody may have chosen
    if features is None:
        return bool(get_host_cpu_features().get(feature))
    return f"+{feature}" in features.split(",")


HAS_BFLOAT16 = _has("avx512bf16")
"""Whether the processor multiplies in bfloat16; else it is done in float32, which is slow."""

_TILE = (8, 2) if _has("avx512f") else (4, 1)
"""Rows and vectors of results that registers hold, with what they are made of: of 32 registers of
16 numbers, or 16 of 8, or 32 of 4."""

assert LANES % (_TILE[1] * _VECTOR) == 0

_CACHED: Place = np.uint64(65536)
"""Numbers of a matrix that stay in a core's cache while another one streams past."""

U: Any = np.uint64

_0, _1, _2, _3, _4, _8 = U(0), U(1), U(2), U(3), U(4), U(8)
_NOTHING, _ONE = np.float32(0.0), np.float32(1.0)

_ANY_ORDER = {"reassoc", "contract", "arcp", "nsz"}
"""What the compiler may do to sums; what is not a number stays so."""


_PLACES = "UserProvidedCacheLocator,UserWideCacheLocator"
"""Where Numba keeps what it compiled: in `NUMBA_CACHE_DIR`, or else in the user's cache."""


def _compiled(*signature: Any, math: Any = _ANY_ORDER) -> Callable[[Any], Any]:
    """The compiler, as a decorator."""

    def compile_function(function: Any) -> Any:
        plain = unwrap(function)  # tests wrap functions to check arguments
        options = {"nogil": True, "error_model": "numpy", "fastmath": math}
        places = numba.config.CACHE_LOCATOR_CLASSES
        # of itself Numba writes beside this file, which others may own or copy
        numba.config.CACHE_LOCATOR_CLASSES = places or _PLACES
        try:
            return numba.njit(*signature, cache=True, **options)(plain)
        except RuntimeError:  # there is no folder to keep it in
            return numba.njit(*signature, **options)(plain)
        finally:
            numba.config.CACHE_LOCATOR_CLASSES = places

    return compile_function


class _BFloat16(ir.types._BaseFloatType):  # type: ignore[misc]
    """The compiler's name for bfloat16, which llvmlite lacks."""

    null = "0.0"
    intrinsic_name = "bf16"

    def __str__(self) -> str:
        return "bfloat"


_BFloat16._create_instance()


def _add_products(builder: Any, total: Any, left: Any, right: Any) -> Any:
    """Add the products of numbers to a vector."""
    product = builder.fmul(left, right, flags=["contract"])
    return builder.fadd(product, total, flags=["contract"])


def _add_products_of_pairs(builder: Any, total: Any, left: Any, right: Any) -> Any:
    """Add both products of pairs to a vector of numbers, as the processor does it."""
    halves = ir.VectorType(_BFloat16(), 2 * _VECTOR)
    dot = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(total.type, [total.type, halves, halves]),
        "llvm.x86.avx512bf16.dpbf16ps.512",
    )
    return builder.call(dot, [total, *(builder.bitcast(x, halves) for x in (left, right))])


def _add_products_of_widened_pairs(builder: Any, total: Any, left: Any, right: Any) -> Any:
    """The same on any processor: bfloat16 is the upper half of a number."""
    bits, mask = (ir.Constant(left.type, [number] * _VECTOR) for number in (16, 0xFFFF0000))
    firsts = [builder.shl(pair, bits) for pair in (left, right)]
    seconds = [builder.and_(pair, mask) for pair in (left, right)]
    for both in (firsts, seconds):
        total = _add_products(builder, total, *(builder.bitcast(x, total.type) for x in both))
    return total


_add_pairs: Any = _add_products_of_pairs if HAS_BFLOAT16 else _add_products_of_widened_pairs


def _tile_adder(high: int, wide: int, add_pairs: Any = _add_pairs) -> Any:
    """`_add_rows` for so many rows and vectors of a goal, which stay in registers meanwhile.

    The compiler does not find this from loops: it cannot know that goal and rows do not overlap.

    Args:
        high: rows of the goal.
        wide: vectors of the goal in each.
        add_pairs: what adds a share of a vector to another one where both are pairs.
    """

    # the compiler looks at the names of these arguments, and gives their types
    @intrinsic  # type: ignore[untyped-decorator]
    def add_to_tile(
        _context: Any, goal: Any, at: Any, stride: Any, share: Any, share_at: Any, by_goal: Any,
        by_row: Any, right: Any, rows: Any, x: Any,
    ) -> tuple[Any, Any]:  # fmt: skip
        del at, stride, share_at, by_goal, by_row, x
        place = types.uint64
        signature = types.void(goal, place, place, share, place, place, place, right, rows, place)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            number = ir.FloatType()
            vector, first = ir.VectorType(number, _VECTOR), ir.Constant(ir.IntType(32), 0)
            paired = signature.args[3].dtype == types.uint32
            add = add_pairs if paired else _add_products
            read = ir.VectorType(ir.IntType(32), _VECTOR) if paired else vector
            nothing = ir.Constant(read, ir.Undefined)
            everywhere = ir.Constant(ir.VectorType(ir.IntType(32), _VECTOR), [0] * _VECTOR)
            goal, share, right, rows = (
                context.make_array(signature.args[k])(context, builder, arguments[k])
                for k in (0, 3, 7, 8)
            )
            at, stride, share_at, by_goal, by_row, x = (arguments[k] for k in (1, 2, 4, 5, 6, 9))

            def shifted(start: Any, step: Any, count: int) -> Any:
                return builder.add(start, builder.mul(step, ir.Constant(step.type, count)))

            def address(array: Any, start: Any, k: int, kind: Any = vector) -> Any:
                begin = builder.add(start, ir.Constant(start.type, k * _VECTOR))
                return builder.bitcast(builder.gep(array.data, [begin]), kind.as_pointer())

            def load(array: Any, start: Any, k: int, kind: Any = vector) -> Any:
                instruction = builder.load(address(array, start, k, kind))
                instruction.align = 4
                return instruction

            starts = [builder.add(shifted(at, stride, i), x) for i in range(high)]
            sums = [[cgutils.alloca_once(builder, vector) for _ in range(wide)] for _ in starts]
            for start, parts in zip(starts, sums, strict=True):
                for k, part in enumerate(parts):
                    builder.store(load(goal, start, k), part)
            with cgutils.for_range(builder, rows.nitems) as loop:
                begin = builder.add(builder.load(builder.gep(rows.data, [loop.index])), x)
                right_vectors = [load(right, begin, k, read) for k in range(wide)]
                column = builder.add(share_at, builder.mul(loop.index, by_row))
                for i, parts in enumerate(sums):
                    scalar = builder.load(builder.gep(share.data, [shifted(column, by_goal, i)]))
                    same = builder.insert_element(nothing, scalar, first)
                    same = builder.shuffle_vector(same, nothing, everywhere)
                    for part, other in zip(parts, right_vectors, strict=True):
                        builder.store(add(builder, builder.load(part), same, other), part)
            for start, parts in zip(starts, sums, strict=True):
                for k, part in enumerate(parts):
                    builder.store(builder.load(part), address(goal, start, k)).align = 4
            return context.get_dummy_value()

        return signature, generate

    return add_to_tile


_add_to_tile = _tile_adder(*_TILE)
_add_to_row = _tile_adder(1, 2)
_add_to_long_row = _tile_adder(1, 8)


@_compiled()
def _up(number: Place, multiple: Place) -> Place:
    return (number + multiple - _1) // multiple * multiple


@_compiled()
def _aligned(numbers: Place) -> Vector:
    """Zeros that begin where a cache line begins."""
    whole = np.zeros(numbers + U(16), np.float32)
    begin = (U(64) - U(whole.ctypes.data) % U(64)) // _4
    return whole[begin : begin + numbers]


@_compiled()
def _add_rows(
    goal: Vector, at: Place, stride: Place, m: Place,
    share: Any, share_at: Place, by_goal: Place, by_row: Place,
    right: Any, rows: Places, n: Place,
) -> None:  # fmt: skip
    """Add shares of rows: ``goal[i] += sum(share[i, l] * right[l])``.

    Shares and rows may both be pairs: rows 2l and 2l + 1 are then in one row, and their shares
    likewise.

    Args:
        goal: where row i begins at ``at + i * stride``.
        at: see ``goal``.
        stride: see ``goal``.
        m: rows of ``goal``, a multiple of 8.
        share: where the share of row l in row i is at ``share_at + i * by_goal + l * by_row``.
        share_at: see ``share``.
        by_goal: see ``share``.
        by_row: see ``share``.
        right: where row l begins at ``rows[l]``.
        rows: as many as there are.
        n: length of a row, a multiple of 32.
    """
    for x in range(_0, n, U(_TILE[1] * _VECTOR)):
        for i in range(_0, m, U(_TILE[0])):
            _add_to_tile(
                goal, at + i * stride, stride, share, share_at + i * by_goal, by_goal, by_row,
                right, rows, x,
            )  # fmt: skip


@_compiled()
def _rounded(bits: Any) -> Any:
    """A number's bits, rounded to the nearest bfloat16, or of two to the even one.

    What is not a number stays so, if arithmetic made it: its lower bits are zero.
    """
    return bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))


@_compiled()
def _pair_rows(goal: Pairs, source: Vector, at: Place, pairs: Place, n: Place) -> None:
    """Put two rows after one another, from ``at`` on, into one row of pairs; so many times."""
    bits = source.view(np.uint32)
    for i in range(pairs):
        for j in range(n):
            low, high = bits[at + _2 * i * n + j], bits[at + (_2 * i + _1) * n + j]
            upper = _rounded(high) & np.uint32(0xFFFF0000)
            goal[i * n + j] = _rounded(low) >> np.uint32(16) | upper


@_compiled()
def _pair_records(goal: Pairs, source: Pairs, pairs: Place, n: Place) -> None:
    """From n pairs of features a record, to a row of 2n features for each pair of records."""
    low, high, bits = np.uint32(0xFFFF), np.uint32(0xFFFF0000), np.uint32(16)
    for i in range(_0, pairs):
        begin = _2 * i * n
        for j in range(n):
            first, second = source[begin + j], source[begin + n + j]
            goal[begin + _2 * j] = first & low | second << bits
            goal[begin + _2 * j + _1] = first >> bits | second & high


@_compiled()
def _add_to_one(
    goal: Vector, at: Place, share: Vector, share_at: Place, right: Vector, rows: Places, n: Place
) -> None:
    """`_add_rows` for one row of a goal; its shares lie one after another."""
    long = n // U(8 * _VECTOR) * U(8 * _VECTOR)
    for x in range(_0, long, U(8 * _VECTOR)):
        _add_to_long_row(goal, at, _0, share, share_at, _0, _1, right, rows, x)
    for x in range(long, n, U(2 * _VECTOR)):
        _add_to_row(goal, at, _0, share, share_at, _0, _1, right, rows, x)


@_compiled()
def _add_dots(
    goal: Vector, at: Place, stride: Place, m: Place,
    left: Vector, left_at: Place, left_stride: Place,
    right: Vector, rows: Places, k: Place,
) -> None:  # fmt: skip
    """Add dot products of rows: ``goal[i, j] += left[i] @ right[j]``.

    Args:
        goal: where row i begins at ``at + i * stride``.
        at: see ``goal``.
        stride: see ``goal``.
        m: rows of ``left``, a multiple of 4.
        left: where row i begins at ``left_at + i * left_stride``.
        left_at: see ``left``.
        left_stride: see ``left``.
        right: where row j begins at ``rows[j]``.
        rows: a multiple of 4 of them.
        k: length of a row, a multiple of 32.
    """
    k = k // U(32) * U(32)  # which tells the compiler
    block = max(_4, _CACHED // k // _4 * _4)
    for first in range(_0, m, block):
        for j in range(_0, U(len(rows)), _4):
            b0, b1, b2, b3 = rows[j], rows[j + _1], rows[j + _2], rows[j + _3]
            for i in range(first, min(m, first + block), _4):
                a0 = left_at + i * left_stride
                a1, a2 = a0 + left_stride, a0 + _2 * left_stride
                a3 = a2 + left_stride
                c00 = c01 = c02 = c03 = c10 = c11 = c12 = c13 = _NOTHING
                c20 = c21 = c22 = c23 = c30 = c31 = c32 = c33 = _NOTHING
                for x in range(k):
                    u0, u1, u2, u3 = left[a0 + x], left[a1 + x], left[a2 + x], left[a3 + x]
                    v0, v1, v2, v3 = right[b0 + x], right[b1 + x], right[b2 + x], right[b3 + x]
                    c00 += u0 * v0
                    c01 += u0 * v1
                    c02 += u0 * v2
                    c03 += u0 * v3
                    c10 += u1 * v0
                    c11 += u1 * v1
                    c12 += u1 * v2
                    c13 += u1 * v3
                    c20 += u2 * v0
                    c21 += u2 * v1
                    c22 += u2 * v2
                    c23 += u2 * v3
                    c30 += u3 * v0
                    c31 += u3 * v1
                    c32 += u3 * v2
                    c33 += u3 * v3
                p = at + i * stride + j
                _add_four(goal, p, c00, c01, c02, c03)
                _add_four(goal, p + stride, c10, c11, c12, c13)
                _add_four(goal, p + _2 * stride, c20, c21, c22, c23)
                _add_four(goal, p + _3 * stride, c30, c31, c32, c33)


@_compiled()
def _add_four(goal: Vector, at: Place, a: Any, b: Any, c: Any, d: Any) -> None:
    goal[at] += a
    goal[at + _1] += b
    goal[at + _2] += c
    goal[at + _3] += d


@_compiled()
def _begins(scratch: Places, at: Place, stride: Place, count: Place) -> Places:
    """Where rows begin that lie one after another."""
    for i in range(count):
        scratch[i] = at + i * stride
    return scratch[:count]


@_compiled()
def _fill(goal: Vector, at: Place, n: Place, value: Any) -> None:
    for j in range(n):
        goal[at + j] = value


@_compiled()
def _copy(goal: Vector, at: Place, source: Vector, source_at: Place, n: Place) -> None:
    for j in range(n):
        goal[at + j] = source[source_at + j]


@_compiled()
def _add_scaled(
    goal: Vector, at: Place, scale: Any, source: Vector, source_at: Place, n: Place
) -> None:
    for j in range(n):
        goal[at + j] += scale * source[source_at + j]


@_compiled(math={"contract", "nsz"})
def _exponentials(z: Vector, at: Place, n: Place, bits: Any, powers: Vector) -> None:
    """``exp`` of each number, in place; beyond 87 as at 87.

    By 2**k times a polynomial in what is left (Moshier, Cephes Mathematical Library, `expf`).

    Args:
        z: the numbers, from ``at`` on.
        at: see ``z``.
        n: how many.
        bits: scratch, as integers of 32 bits.
        powers: the same memory, as numbers.
    """
    for j in range(n):
        t = min(max(z[at + j], np.float32(-87.0)), np.float32(87.0))
        k = np.floor(t * np.float32(1.44269504) + np.float32(0.5))
        r = t - k * np.float32(0.693359375)
        r = r + k * np.float32(2.12194440e-4)
        p = np.float32(1.9875691500e-4)
        p = p * r + np.float32(1.3981999507e-3)
        p = p * r + np.float32(8.3334519073e-3)
        p = p * r + np.float32(4.1665795894e-2)
        p = p * r + np.float32(1.6666665459e-1)
        p = p * r + np.float32(5.0000001201e-1)
        z[at + j] = p * r * r + r + _ONE
        bits[j] = (np.int32(k) + 127) << 23  # the bits of 2**k
    for j in range(n):
        z[at + j] *= powers[j]


@_compiled()
def _activate(z: Vector, at: Place, n: Place, activation: int, bits: Any, powers: Vector) -> None:
    """Apply an activation, in place."""
    if activation == RELU:
        for j in range(n):
            z[at + j] = max(z[at + j], _NOTHING)
    elif activation == TANH:
        for j in range(n):
            z[at + j] *= np.float32(2.0)
        _exponentials(z, at, n, bits, powers)
        for j in range(n):
            z[at + j] = _ONE - np.float32(2.0) / (z[at + j] + _ONE)
    elif activation == SIGMOID:
        for j in range(n):
            z[at + j] = -z[at + j]
        _exponentials(z, at, n, bits, powers)
        for j in range(n):
            z[at + j] = _ONE / (z[at + j] + _ONE)


@_compiled()
def _differentiate(
    slopes: Vector, at: Place, outputs: Vector, output_at: Place, n: Place, activation: int
) -> None:
    """Turn a gradient by outputs of an activation into one by its inputs, in place."""
    if activation == RELU:
        for j in range(n):
            slopes[at + j] = slopes[at + j] if outputs[output_at + j] > 0 else _NOTHING
    elif activation == TANH:
        for j in range(n):
            out = outputs[output_at + j]
            slopes[at + j] *= _ONE - out * out
    elif activation == SIGMOID:
        for j in range(n):
            out = outputs[output_at + j]
            slopes[at + j] *= out * (_ONE - out)


@_compiled(math=True)
def _largest(z: Vector, at: Place, n: Place) -> Any:
    best = z[at]
    for j in range(n):
        best = max(best, z[at + j])
    return best


@_compiled()
def _loss_gradient(
    z: Vector, at: Place, n: Place, label: Place, records: Place, bits: Any, powers: Vector
) -> None:
    """Turn the logits of a record into the gradient of the mean cross-entropy, in place."""
    top = _largest(z, at, n)
    for j in range(n):
        z[at + j] -= top
    _exponentials(z, at, n, bits, powers)
    total = _NOTHING
    for j in range(n):
        total += z[at + j]
    scale = _ONE / (total * np.float32(records))
    for j in range(n):
        z[at + j] *= scale
    z[at + label] -= _ONE / np.float32(records)


@_compiled()
def _update(
    w: Vector, v: Vector, m: Vector, s: Vector, kind: int, rate: Any, hyper: Vector, step: int
) -> None:
    """Change all weights, and leave in ``v`` what the gradients of the next step are added to."""
    decay, n = hyper[1], U(len(w))
    if kind == 0:
        momentum = hyper[0]
        for i in range(n):
            change = v[i]
            w[i] -= rate * change
            v[i] = momentum * change + decay * w[i]
        return
    beta1, beta2, epsilon = hyper[2], hyper[3], hyper[4]
    by_step = np.float32(rate / (1.0 - np.float64(beta1) ** step))
    root = np.float32(np.sqrt(1.0 - np.float64(beta2) ** step))
    shrunk = _ONE - rate * decay if kind == 2 else _ONE
    added = decay if kind == 1 else _NOTHING
    for i in range(n):
        g = v[i]
        m[i] += (_ONE - beta1) * (g - m[i])
        s[i] = beta2 * s[i] + (_ONE - beta2) * g * g
        w[i] = w[i] * shrunk - by_step * m[i] / (np.sqrt(s[i]) / root + epsilon)
        v[i] = added * w[i]


@_compiled()
def _taps(scratch: Places, layer: Table, begin: Place) -> Places:
    """Where the channels of an input begin, shifted as each weight of a kernel sees them."""
    kernel, count = layer.kernel, _0
    for channel in range(layer.channels):
        for down in range(kernel):
            for across in range(kernel):
                scratch[count] = begin + channel * layer.plane + down * layer.row + across
                count += _1
    for k in range(count, layer.taps):
        scratch[k] = begin  # their weights are zero
    return scratch[: layer.taps]


@_compiled()
def _inside(layer: Table, channel: Place, down: Place) -> Place:
    """Where a row of a convolution's input begins, within its padding."""
    inside = (down + layer.padding) * layer.row + layer.padding
    return layer.plane_at + channel * layer.plane + inside


@_compiled()
def _convolve(
    image: Place, conv: Table, k: Place, w: Vector, inputs: Vector, choices: Any, choice_at: Place,
    spread: Vector, pooled: Vector, features: Vector, feature_at: Place, scratch: Places, bits: Any,
    powers: Vector,
) -> None:  # fmt: skip
    """One convolution of one image, with what follows it: from its input to the next one's.

    Args:
        image: where the numbers of the image begin among ``inputs``.
        conv: all convolutions.
        k: number of this one.
        w: all weights.
        inputs: inputs of all convolutions, of all images of the batch.
        choices: winners of all poolings; those of the image begin at ``choice_at``.
        choice_at: see ``choices``.
        spread: scratch for the outputs.
        pooled: scratch for the outputs once they are pooled.
        features: where the last convolution's outputs go, at ``feature_at``.
        feature_at: see ``features``.
        scratch: for places.
        bits: scratch of `_exponentials`.
        powers: the same memory.
    """
    layer = conv[k]
    n = layer.spread
    for channel in range(layer.outputs):
        bias = w[layer.bias_at + channel] if layer.biased else _NOTHING
        _fill(spread, channel * n, n, bias)
    taps = _taps(scratch, layer, image + layer.plane_at)
    _add_rows(spread, _0, n, layer.outputs, w, layer.weight_at, layer.taps, _1, inputs, taps, n)
    _pool(layer, spread, pooled, choices, choice_at + layer.choice_at)
    size = layer.real_outputs * layer.pooled_height * layer.line
    _activate(pooled, _0, size, layer.activation, bits, powers)
    across, last = layer.pooled_width, k + _1 == len(conv)
    for channel in range(layer.real_outputs):
        for down in range(layer.pooled_height):
            row = channel * layer.pooled_height + down
            if last:
                _copy(features, feature_at + row * across, pooled, row * layer.line, across)
            else:
                begin = image + _inside(conv[k + _1], channel, down)
                _copy(inputs, begin, pooled, row * layer.line, across)


@_compiled()
def _pool(layer: Table, spread: Vector, pooled: Vector, choices: Any, choice_at: Place) -> None:
    """The largest number of each window, and which one: the first of these, as in PyTorch."""
    row, pool, line = layer.row, layer.pool, layer.line
    for channel in range(layer.real_outputs):
        for down in range(layer.pooled_height):
            begin = channel * layer.spread + down * pool * row
            out = (channel * layer.pooled_height + down) * line
            if pool == 2:  # the usual width, in the loop that can be vectorised
                for j in range(line):
                    p = begin + _2 * j
                    best, which, other = spread[p], np.int32(0), spread[p + _1]
                    which = np.int32(1) if other > best else which
                    best = other if other > best else best
                    other = spread[p + row]
                    which = np.int32(2) if other > best else which
                    best = other if other > best else best
                    other = spread[p + row + _1]
                    which = np.int32(3) if other > best else which
                    pooled[out + j] = other if other > best else best
                    choices[choice_at + out + j] = which
            else:
                for j in range(layer.pooled_width):
                    best, place = spread[begin + pool * j], _0
                    for k in range(_1, pool * pool):
                        other = spread[begin + k // pool * row + pool * j + k % pool]
                        if other > best:
                            best, place = other, k
                    pooled[out + j] = best
                    choices[choice_at + out + j] = place


@_compiled()
def _convolve_back(
    image: Place, conv: Table, k: Place, w: Vector, v: Vector, inputs: Vector, choices: Any,
    choice_at: Place, spread: Vector, pooled: Vector, features: Vector, slopes: Vector,
    feature_at: Place, down_slopes: Vector, up_slopes: Vector, scratch: Places,
) -> None:  # fmt: skip
    """The gradients of one convolution by one image; arguments as in `_convolve`, but for these.

    Args:
        image: see `_convolve`, as for others without a word.
        conv: see there.
        k: see there.
        w: see there.
        v: what gradients of weights are added to.
        inputs: see there.
        choices: see there.
        choice_at: see there.
        spread: scratch for the gradient by the outputs.
        pooled: scratch for the gradient by the outputs once they are pooled.
        features: the last convolution's outputs.
        slopes: gradient by these, at ``feature_at``.
        feature_at: see ``slopes``.
        down_slopes: gradient by the next convolution's input.
        up_slopes: where the gradient by this one's input goes, unless it is the first.
        scratch: see there.
    """
    layer = conv[k]
    n, across, last = layer.spread, layer.pooled_width, k + _1 == len(conv)
    _fill(spread, _0, layer.outputs * n, _NOTHING)
    for channel in range(layer.real_outputs):
        for down in range(layer.pooled_height):
            row = channel * layer.pooled_height + down
            if last:
                out, source, begin = features, slopes, feature_at + row * across
                source_at = begin
            else:
                out, source, begin = inputs, down_slopes, _inside(conv[k + _1], channel, down)
                source_at = begin - conv[k + _1].plane_at
                begin += image
            _copy(pooled, _0, source, source_at, across)
            _differentiate(pooled, _0, out, begin, across, layer.activation)
            begin = channel * n + down * layer.pool * layer.row
            chosen = choice_at + layer.choice_at + row * layer.line
            if layer.pool == 1:
                _copy(spread, begin, pooled, _0, across)
            elif layer.pool == 2:
                for j in range(across):
                    won = U(choices[chosen + j])
                    spread[begin + _2 * j + (won >> _1) * layer.row + (won & _1)] = pooled[j]
            else:
                for j in range(across):
                    won = U(choices[chosen + j])
                    begun = begin + layer.pool * j + won // layer.pool * layer.row
                    spread[begun + won % layer.pool] = pooled[j]
    if layer.biased:
        for channel in range(layer.real_outputs):
            total = _NOTHING
            for j in range(n):
                total += spread[channel * n + j]
            v[layer.bias_at + channel] += total
    taps = _taps(scratch, layer, image + layer.plane_at)
    _add_dots(v, layer.weight_at, layer.taps, layer.outputs, spread, _0, n, inputs, taps, n)
    size = layer.kernel * layer.kernel
    used = layer.channels * size
    for channel in range(layer.outputs):  # what fills up a row is no weight
        begin = layer.weight_at + channel * layer.taps
        _fill(v, begin + used, layer.taps - used, _NOTHING)
    if k > 0:
        _fill(up_slopes, _0, layer.channels * layer.plane, _NOTHING)
        rows = _begins(scratch, _0, n, layer.real_outputs)
        for tap in range(size):
            shift = tap // layer.kernel * layer.row + tap % layer.kernel
            _add_rows(
                up_slopes, shift, layer.plane, layer.channels,
                w, layer.weight_at + tap, size, layer.taps, spread, rows, n,
            )  # fmt: skip


@_compiled()
def _by_feature(
    rows: Any, begins: Any, columns: Any, entries: Any, n: Place, ends: Places, starts: Places,
    shares: Vector,
) -> None:  # fmt: skip
    """Sort the entries of a batch by feature.

    Args:
        rows: the records of the batch.
        begins: see `train_epochs`, like the next two.
        columns: see there.
        entries: see there.
        n: length of a row of outputs.
        ends: where the entries of each feature end in the next two; overwritten, like these.
        starts: where the row of the record of each entry begins.
        shares: the entries.
    """
    for column in range(U(len(ends))):
        ends[column] = _0
    for i in range(len(rows)):
        for e in range(U(begins[rows[i]]), U(begins[rows[i] + 1])):
            ends[U(columns[e])] += _1
    total = _0
    for column in range(U(len(ends))):
        total += ends[column]
        ends[column] = total - ends[column]  # where they begin, for now
    for i in range(U(len(rows))):
        for e in range(U(begins[rows[i]]), U(begins[rows[i] + 1])):
            column = U(columns[e])
            starts[ends[column]], shares[ends[column]] = i * n, entries[e]
            ends[column] += _1


@_compiled()
def _read_images(
    rows: Any, x: Any, conv: Table, per_image: Place, w: Vector, inputs: Vector, choices: Any,
    choice_count: Place, spread: Vector, pooled: Vector, features: Vector, width: Place,
    scratch: Places, bits: Any, powers: Vector,
) -> None:  # fmt: skip
    """All convolutions of a batch: from its images to features; arguments as in `_convolve`."""
    first = conv[0]
    for i in range(U(len(rows))):
        image = i * per_image
        for channel in range(first.channels):
            for down in range(first.height):
                begin = (channel * first.height + down) * first.width
                inside = image + _inside(first, channel, down)
                _copy(inputs, inside, x[rows[i]], begin, first.width)
        for k in range(U(len(conv))):
            _convolve(
                image, conv, k, w, inputs, choices, i * choice_count, spread, pooled,
                features, i * width, scratch, bits, powers,
            )  # fmt: skip


@_compiled()
def _forward(
    rows: Any, begins: Any, columns: Any, entries: Any, dense: Table, w: Vector, outputs: Vector,
    offsets: Places, scratch: Places, bits: Any, powers: Vector, features: Any, weights: Any,
) -> None:  # fmt: skip
    """All linear layers of a batch.

    Rows beyond the batch are whatever they were; their gradients are zero.

    Args:
        rows: the records of the batch.
        begins: see `train_epochs`, like the next two; None where it is empty there.
        columns: see there.
        entries: see there.
        dense: the layers.
        w: all weights.
        outputs: of all layers; those of layer k begin at ``offsets[k + 1]``, its inputs
            at ``offsets[k]``.
        offsets: see ``outputs``.
        scratch: for places.
        bits: scratch of `_exponentials`.
        powers: the same memory.
        features: the inputs of the first layer in pairs, where that multiplies in bfloat16;
            else None, of which the compiler knows what to leave out.
        weights: scratch for its weights, or None.
    """
    count = U(len(rows))
    full = _up(count, _8)
    for k in range(U(len(dense))):
        layer = dense[k]
        n, width, at = layer.outputs, layer.inputs, offsets[k + _1]
        for i in range(full):
            if layer.biased:
                _copy(outputs, at + i * n, w, layer.bias_at, n)
            else:
                _fill(outputs, at + i * n, n, _NOTHING)
        if not layer.by_input:
            places = _begins(scratch, layer.weight_at, width, n)
            _add_dots(outputs, at, n, full, outputs, offsets[k], width, w, places, width)
        elif features is not None:
            pairs = width >> _1
            _pair_rows(weights, w, layer.weight_at, pairs, n)
            places = _begins(scratch, _0, n, pairs)
            _add_rows(
                outputs, at, n, full, features, _0, pairs, _1, weights, places, n
            )  # fmt: skip
        elif begins is None:
            places = _begins(scratch, layer.weight_at, n, layer.real_inputs)
            _add_rows(outputs, at, n, full, outputs, offsets[k], width, _1, w, places, n)
        else:
            for i in range(count):
                begin, end = U(begins[rows[i]]), U(begins[rows[i] + 1])
                for e in range(begin, end):
                    scratch[e - begin] = layer.weight_at + U(columns[e]) * n
                places = scratch[: end - begin]
                _add_to_one(outputs, at + i * n, entries, begin, w, places, n)
        for i in range(full):
            _activate(outputs, at + i * n, layer.real_outputs, layer.activation, bits, powers)


@_compiled()
def _backward(
    rows: Any, begins: Any, columns: Any, entries: Any, ends: Places, starts: Places,
    shares: Vector, dense: Table, w: Vector, v: Vector, outputs: Vector, offsets: Places,
    slopes: Vector, other: Vector, scratch: Places, further: Place,
    records: Any, paired_slopes: Any,
) -> Any:  # fmt: skip
    """The gradients of all linear layers; arguments beyond these as in `_forward`.

    Args:
        rows: see `_forward`, as for others without a word.
        begins: see there.
        columns: see there.
        entries: see there.
        ends: see `_by_feature`, like the next two.
        starts: see there.
        shares: see there.
        dense: see there.
        w: see there.
        v: what gradients of weights are added to.
        outputs: see there.
        offsets: see there.
        slopes: the gradient by the logits; overwritten.
        other: scratch of the same size.
        scratch: see there.
        further: whether the gradient by the first layer's inputs is needed.
        records: the inputs of the first layer, in pairs of records; see ``features`` there.
        paired_slopes: scratch for its gradients, or None.

    Returns:
        The last two; the first of them holds that gradient.
    """
    count = U(len(rows))
    full, layers = _up(count, _8), U(len(dense))
    for back in range(layers):
        k = layers - _1 - back
        layer = dense[k]
        n, width = layer.outputs, layer.inputs
        if layer.biased:
            for i in range(count):
                _add_scaled(v, layer.bias_at, _ONE, slopes, i * n, n)
        if not layer.by_input:
            places = _begins(scratch, offsets[k], width, count)
            _add_rows(v, layer.weight_at, width, n, slopes, _0, _1, n, outputs, places, width)
        elif records is not None:
            pairs = _up(count, _2) >> _1  # the slopes of a record too many are zero
            _pair_rows(paired_slopes, slopes, _0, pairs, n)
            places = _begins(scratch, _0, n, pairs)
            _add_rows(
                v, layer.weight_at, n, width, records, _0, _1, width, paired_slopes, places, n
            )  # fmt: skip
        elif begins is None:
            places = _begins(scratch, _0, n, count)
            _add_rows(v, layer.weight_at, n, width, outputs, _0, _1, width, slopes, places, n)
        else:
            _by_feature(rows, begins, columns, entries, n, ends, starts, shares)
            first = _0
            for column in range(U(len(ends))):
                places = starts[first : ends[column]]
                _add_to_one(v, layer.weight_at + column * n, shares, first, slopes, places, n)
                first = ends[column]
        if k > 0 or further:
            _fill(other, _0, full * width, _NOTHING)
            places = _begins(scratch, layer.weight_at, width, layer.real_outputs)
            _add_rows(other, _0, width, full, slopes, _0, n, _1, w, places, width)
            slopes, other = other, slopes
        if k > 0:
            real, activation = dense[k - _1].real_outputs, dense[k - _1].activation
            for i in range(count):
                _differentiate(slopes, i * width, outputs, offsets[k] + i * width, real, activation)
    return slopes, other


_NUMBERS = types.Array(types.float32, 1, "C")
_GIVEN = types.Array(types.float32, 1, "C", readonly=True)
_GIVEN_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)


_EPOCHS = types.void(
    types.Array(types.int64, 2, "C", readonly=True),
    _GIVEN_INTEGERS,
    types.Array(types.float32, 2, "C", readonly=True),
    types.Array(types.float32, 2, "C", readonly=True),
    _GIVEN_INTEGERS,
    _GIVEN_INTEGERS,
    types.Array(types.int32, 1, "C", readonly=True),
    _GIVEN,
    types.Array(types.uint32, 2, "C", readonly=True),
    types.Array(numba.from_dtype(CONV_TABLE), 1, "C", readonly=True),
    types.Array(numba.from_dtype(DENSE_TABLE), 1, "C", readonly=True),
    _NUMBERS,
    _NUMBERS,
    _NUMBERS,
    _NUMBERS,
    types.int64,
    _GIVEN,
    types.int64,
)


_COMPILING = Lock()
"""Held while threads that train the first networks wait for the compiler."""


@cache
def _trainer(images: bool, sparse: bool, halved: bool) -> Any:  # noqa: FBT001 (constants of the code)
    """`train_epochs` with convolutions, sparse records, bfloat16 or none, compiled when asked for.

    The compiler drops what is behind a constant that is false, or None: dense networks, which are
    most, take a third as long to compile.
    """

    @_compiled(_EPOCHS)
    def train(
        order: Any, edges: Any, rates: Any, x: Any, y: Any, begins: Any, columns: Any, entries: Any,
        halves: Pairs, conv: Table, dense: Table, w: Vector, v: Vector, m: Vector, s: Vector,
        kind: int, hyper: Vector, step: int,
    ) -> None:  # fmt: skip
        layers, convolutions, records = U(len(dense)), U(len(conv)), _0
        for b in range(len(edges) - 1):
            records = max(records, U(edges[b + 1] - edges[b]))
        records = _up(records, _8)
        features, first_width = U(x.shape[1]), dense[0].inputs
        # outputs of all layers, each the input of the next
        offsets = np.empty(layers + _1, np.uint64)
        offsets[0], size, widest = _0, records * first_width, first_width
        for k in range(layers):
            offsets[k + _1] = size
            size += records * dense[k].outputs
            widest = max(widest, dense[k].outputs)
        outputs = _aligned(size)
        slopes, other = _aligned(records * widest), _aligned(records * widest)
        longest, most = max(records, widest), _0
        for i in range(len(begins) - 1):
            most = max(most, U(begins[i + 1] - begins[i]))
        ends = np.empty(features if sparse else _0, np.uint64)
        starts, shares = np.empty(records * most, np.uint64), np.empty(records * most, np.float32)
        if images:
            per_image = choice_count = spread_size = pooled_size = plane_size = _0
            for k in range(convolutions):
                layer = conv[k]
                lines = layer.real_outputs * layer.pooled_height
                per_image += layer.channels * layer.plane
                choice_count += lines * layer.line
                # poolings read whole vectors, beyond the last row
                spread_size = max(spread_size, layer.outputs * layer.spread + layer.row + U(64))
                pooled_size = max(pooled_size, lines * layer.line)
                plane_size = max(plane_size, layer.channels * layer.plane)
                longest = max(longest, layer.taps, lines * layer.line)
            inputs = _aligned(records * per_image)
            spread, pooled = _aligned(spread_size), _aligned(pooled_size)
            before, after = _aligned(plane_size), _aligned(plane_size)
            choices = np.zeros(records * choice_count, np.int32)
        scratch, bits = np.empty(longest, np.uint64), np.empty(longest, np.int32)
        powers = bits.view(np.float32)
        record_begins = begins if sparse else None
        if halved:
            paired = first_width >> _1
            of_features = np.zeros(records * paired, np.uint32)
            of_records = np.zeros(len(of_features), np.uint32)
            of_slopes = np.empty((records >> _1) * dense[0].outputs, np.uint32)
            of_weights = _aligned(paired * dense[0].outputs).view(np.uint32)
        else:
            of_features = of_records = of_slopes = of_weights = None  # type: ignore[assignment]

        for epoch in range(len(order)):
            for b in range(len(edges) - 1):
                rows = order[epoch, edges[b] : edges[b + 1]]
                count = U(len(rows))
                if images:
                    _read_images(
                        rows, x, conv, per_image, w, inputs, choices, choice_count, spread, pooled,
                        outputs, first_width, scratch, bits, powers,
                    )  # fmt: skip
                elif halved:
                    for i in range(count):
                        _copy(of_features, i * paired, halves[rows[i]], _0, paired)
                    _pair_records(of_records, of_features, _up(count, _2) >> _1, paired)
                elif not sparse:
                    for i in range(count):
                        _copy(outputs, i * first_width, x[rows[i]], _0, features)
                _forward(
                    rows, record_begins, columns, entries, dense, w, outputs, offsets, scratch,
                    bits, powers, of_features, of_weights,
                )  # fmt: skip
                n, real = dense[layers - _1].outputs, dense[layers - _1].real_outputs
                _fill(slopes, _0, _up(count, _8) * n, _NOTHING)
                for i in range(count):
                    _copy(slopes, i * n, outputs, offsets[layers] + i * n, real)
                    _loss_gradient(slopes, i * n, real, U(y[rows[i]]), count, bits, powers)
                slopes, other = _backward(
                    rows, record_begins, columns, entries, ends, starts, shares, dense, w, v,
                    outputs, offsets, slopes, other, scratch, convolutions, of_records, of_slopes,
                )  # fmt: skip
                if images:
                    for i in range(count):
                        for back in range(convolutions):
                            _convolve_back(
                                i * per_image, conv, convolutions - _1 - back, w, v, inputs,
                                choices, i * choice_count, spread, pooled, outputs, slopes,
                                i * first_width, after, before, scratch,
                            )  # fmt: skip
                            before, after = after, before
                step += 1
                _update(w, v, m, s, kind, rates[epoch, b], hyper, step)

    return train


def train_epochs(
    order: Any, edges: Any, rates: Any, x: Any, y: Any, begins: Any, columns: Any, entries: Any,
    halves: Pairs, conv: Table, dense: Table, w: Vector, v: Vector, m: Vector, s: Vector,
    kind: int, hyper: Vector, step: int,
) -> None:  # fmt: skip
    """Train for some epochs.

    Args:
        order: the row numbers of the records in each epoch, shape (epochs, records).
        edges: where batches begin within an epoch, and where the last one ends.
        rates: the learning rate of each step, shape (epochs, batches).
        x: features of the pool, shape (pool, features).
        y: labels of the pool.
        begins: where the entries of each record begin in the next two, and where the last ones
            end; empty where records have many entries, or are images.
        columns: the features that are not zero.
        entries: their values.
        halves: features of the pool in pairs, where the first layer multiplies in bfloat16; as
            many as its padded inputs. Else empty.
        conv: the convolutions.
        dense: the linear layers.
        w: all weights; changed.
        v: what gradients are added to; changed. Before the first step: weights times decay where
            the decay is part of the gradient, else zeros.
        m: mean of gradients of Adam; changed. Empty for SGD, like the next one.
        s: mean of their squares.
        kind: 0 is SGD, 1 Adam and 2 AdamW.
        hyper: momentum, weight decay, beta 1, beta 2, epsilon.
        step: steps before these.
    """
    with _COMPILING:
        train = _trainer(len(conv) > 0, len(begins) > 0, len(halves) > 0)
    train(
        order, edges, rates, x, y, begins, columns, entries, halves, conv, dense, w, v, m, s, kind,
        hyper, step,
    )  # fmt: skip
