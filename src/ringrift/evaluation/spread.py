"""Spread: how far strengths may be off by chance, by the bootstrap over blocks, without drawing.

A replicate of the bootstrap is a set of blocks drawn anew; linearised, it moves the strengths by one step of Newton's
method, inverse × push.  A push is a sum over blocks, so over all replicates its variance is known, and with it that of
the strengths: inverse × variance × inverse.  That is what endless replicates would say, without their noise.
"""

import math
from collections.abc import Sequence

from ringrift.kernel.value import Value

LANE_BYTES = 12
ENTRY_BITS, WEIGHT_BITS = 46, 30
"""Of the largest number of each kind.  Python multiplies by 30 bits fastest; what is left is for sums over players."""
PLAYERS_MAX = 1 << (8 * LANE_BYTES - ENTRY_BITS - WEIGHT_BITS - 4)

Inverse = Sequence[Sequence[float]]


class Shake(Value, gc=False):
    """By how much the blocks of two players, by place, push them apart over the replicates: the variance of the sum."""

    one: int
    other: int
    variance: float


def variances(inverse: Inverse, shakes: Sequence[Shake]) -> list[float]:
    """The variance of each free player's strength.

    A row of the inverse is packed into one whole number, an entry to each lane: then a row times a weight is one
    multiplication, and every sum is exact.  In floats, entry by entry, this would be most of the work of a rating.
    """
    size = len(inverse)
    assert size <= PLAYERS_MAX
    entry = _scale(max((row[place] for place, row in enumerate(inverse)), default=0.0), ENTRY_BITS)
    weight = _scale(max((each.variance for each in shakes), default=0.0), WEIGHT_BITS)
    rows = [[round(math.ldexp(value, entry)) for value in row] for row in inverse]
    packed = [_packed(row) for row in rows]
    # A pinned player does not move: its lanes are all 0.
    packed.append(0)
    pulled = [0] * (size + 1)
    for each in shakes:
        one, other = min(each.one, size), min(each.other, size)
        apart = round(math.ldexp(each.variance, weight)) * (packed[one] - packed[other])
        pulled[one] += apart
        pulled[other] -= apart
    totals = [0] * size
    for row, lanes in zip(rows, pulled, strict=False):
        totals = [total + mine * lane for total, mine, lane in zip(totals, row, _unpacked(lanes, size), strict=True)]
    return [math.ldexp(float(total), -2 * entry - weight) for total in totals]


def variance_between(inverse: Inverse, shakes: Sequence[Shake], one: int, other: int) -> float:
    """The variance of the difference between the strengths of two players by place; pinned ones do not move."""
    size = len(inverse)
    rows = [inverse[place] if place < size else (0.0,) * size for place in (one, other)]
    moves = [*(mine - theirs for mine, theirs in zip(*rows, strict=True)), 0.0]
    return math.fsum(
        each.variance * (moves[min(each.one, size)] - moves[min(each.other, size)]) ** 2 for each in shakes
    )


def _scale(largest: float, bits: int) -> int:
    """By which power of 2 to multiply so that *largest* has so many bits."""
    return bits - math.frexp(largest)[1]


def _packed(values: Sequence[int]) -> int:
    """Whole numbers as one: each in its lane, those below 0 borrowing from the next."""
    middle = 1 << (8 * LANE_BYTES - 1)
    lanes = b"".join([(value + middle).to_bytes(LANE_BYTES, "little") for value in values])
    return int.from_bytes(lanes, "little") - _middles(len(values))


def _unpacked(packed: int, count: int) -> list[int]:
    """What :func:`_packed` made one of."""
    middle = 1 << (8 * LANE_BYTES - 1)
    lanes = (packed + _middles(count)).to_bytes(LANE_BYTES * count, "little")
    starts = range(0, LANE_BYTES * count, LANE_BYTES)
    return [int.from_bytes(lanes[start : start + LANE_BYTES], "little") - middle for start in starts]


def _middles(count: int) -> int:
    return int.from_bytes(((1 << (8 * LANE_BYTES - 1)).to_bytes(LANE_BYTES, "little")) * count, "little")
