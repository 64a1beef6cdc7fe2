"""Solve: the strengths that explain best who beat whom, and how each gives way to a push, the same to the last bit.

Every sum is ``math.fsum``, which rounds once and so does not care what comes first.  Exponentials and logarithms are
those of ``decimal``, which rounds correctly, while the C libraries of two machines may differ in the last bit.  The
start is fixed and work is done in the order of the players: equal counts give equal bits, on any node.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from decimal import Context, Decimal
from operator import mul

from ringrift.kernel.value import Value

_SWEEPS = 5  #: Cheap steps from the fixed start before the first factor; where all met all, they end nearby.
_STEPS_MAX = 200  #: Steps of Newton's method: a dozen suffice; results as lopsided as whole numbers allow need more.
_NEAR = 0.02  #: Below this step, in nats (3.5 Elo), the factor is kept: the information changes by 4 % at most.
_SHRINK = 0.5  #: A step longer than this share of the one before asks for a new factor all the same.
_CLOSE = 1e-10  #: The step, in nats, after which nothing is left to gain: a fifty-millionth of an Elo.
_CONTEXT = Context(prec=20)
_PIVOT_MIN = 1e-14
_NATS_MAX = 650.0  #: Strengths end here, a hundred thousand Elo from 0, so that odds times comparisons stay numbers.

_Rows = list[list[float]]


class Link(Value, gc=False):
    """*one* and *other*, players by place, met in *comparisons*, of which *one* won *won*, draws as halves."""

    one: int
    other: int
    comparisons: float
    won: float


class _Solution(Value):
    """Strengths in nats, and the inverse of the information about the free players, who are the first ones."""

    nats: tuple[float, ...]
    inverse: tuple[tuple[float, ...], ...]
    steps: int


class _Side(Value):
    """The meetings of one free player: opponents, how often they met, and how often each of the two won."""

    others: list[int]
    comparisons: list[float]
    won: list[float]
    lost: list[float]


def solve(links: Sequence[Link], free: int, pinned: Sequence[float]) -> _Solution:
    """The Bradley–Terry strengths of *free* players; those of the *pinned* ones, who follow them, are given.

    Newton's method on a concave likelihood.  Of a step that moves two who met by x nats against each other, a share of
    1 / (1 + x / 2) is taken, which never overshoots: the curvature of a logistic grows at most with the exponential of
    the way.  Every player must have met another player, and have won and lost a part of its comparisons.
    """
    order = _narrow(links, free)
    sides = _sides(links, free + len(pinned), [*order, *range(free, free + len(pinned))])
    nats = _swept(sides, free, pinned)
    factor, columns, step = _Rows(), _Rows(), 0
    largest = before = math.inf
    still, totals = [0.0] * len(pinned), [math.fsum(side.won) for side in sides[:free]]
    while largest >= _CLOSE and step < _STEPS_MAX:
        odds = odds_of(nats)
        if largest >= _NEAR or largest > _SHRINK * before:
            factor = _factored(_triangle(sides[:free], odds))
            columns = _transposed(factor)
        move = _substituted(factor, columns, _push(sides, totals, odds))
        before, largest, step = largest, max(map(abs, move), default=0.0), step + 1
        share = 1.0 / (1.0 + _apart(sides, [*move, *still]) / 2.0) if largest >= _NEAR else 1.0
        reached = [now + share * by for now, by in zip(nats, move, strict=False)]
        nats = [*(min(max(each, -_NATS_MAX), _NATS_MAX) for each in reached), *pinned]
    rank = _ranks(order)
    inverse = _inverted(factor)
    rows = tuple(tuple([inverse[rank[one]][other] for other in rank]) for one in range(free))
    return _Solution(nats=(*(nats[rank[place]] for place in range(free)), *pinned), inverse=rows, steps=step)


def odds_of(nats: Iterable[float]) -> list[float]:
    """Strengths as odds: the chance that one finishes before another is its odds' share of both."""
    return [float(_CONTEXT.exp(Decimal(each))) for each in nats]


def _narrow(links: Sequence[Link], free: int) -> list[int]:
    """The free players in an order that puts who met near each other, after Cuthill and McKee: the factor is thin."""
    # Matches are mostly chains, of champions with the candidates that each of them met.
    met: list[list[int]] = [[] for _ in range(free)]
    for link in links:
        if link.one < free and link.other < free:
            met[link.one].append(link.other)
            met[link.other].append(link.one)
    few = sorted(range(free), key=lambda place: (len(met[place]), place))
    rank = _ranks(few)
    order, visited = list[int](), [False] * free
    for start in few:
        waiting = deque([] if visited[start] else [start])
        visited[start] = True
        while waiting:
            place = waiting.popleft()
            order.append(place)
            for other in sorted(met[place], key=rank.__getitem__):
                if not visited[other]:
                    visited[other] = True
                    waiting.append(other)
    return order[::-1]


def _ranks(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def _sides(links: Sequence[Link], players: int, order: Sequence[int]) -> list[_Side]:
    rank = _ranks(order)
    sides = [_Side(others=[], comparisons=[], won=[], lost=[]) for _ in range(players)]
    for link in links:
        one, other, lost = rank[link.one], rank[link.other], link.comparisons - link.won
        for mine, theirs, by, to in ((one, other, link.won, lost), (other, one, lost, link.won)):
            side = sides[mine]
            side.others.append(theirs)
            side.comparisons.append(link.comparisons)
            side.won.append(by)
            side.lost.append(to)
    return sides


def _swept(sides: Sequence[_Side], free: int, pinned: Sequence[float]) -> list[float]:
    """A start near the solution, from all free players at 0 nats, by Newman's iteration: each player in turn."""
    # A single pinned player takes part and everybody is shifted at the end, or it would hold all others back.
    moving = free + 1 if len(pinned) == 1 else free
    odds = [1.0] * free + odds_of(pinned)
    lowest, highest = odds_of((-_NATS_MAX, _NATS_MAX))
    for _ in range(_SWEEPS):
        for place, side in enumerate(sides[:moving]):
            mine = odds[place]
            theirs = [odds[other] for other in side.others]
            shares = [1.0 / (mine + each) for each in theirs]
            above = math.fsum(map(mul, map(mul, side.won, theirs), shares))
            odds[place] = min(max(above / math.fsum(map(mul, side.lost, shares)), lowest), highest)
    nats = [float(_CONTEXT.ln(Decimal(each))) for each in odds]
    shift = pinned[0] - nats[free] if len(pinned) == 1 else 0.0
    return [*(each + shift for each in nats[:free]), *pinned]


def _push(sides: Sequence[_Side], totals: Sequence[float], odds: Sequence[float]) -> list[float]:
    """By how much each free player has won more, *totals* in all, than its odds say."""
    pushes = []
    for mine, side, total in zip(odds, sides, totals, strict=False):
        theirs = [odds[other] for other in side.others]
        expected = [met * mine / (mine + each) for met, each in zip(side.comparisons, theirs, strict=True)]
        pushes.append(total - math.fsum(expected))
    return pushes


def _apart(sides: Sequence[_Side], move: Sequence[float]) -> float:
    """By how much *move* moves two who met against each other, at most."""
    return max([abs(mine - move[other]) for mine, side in zip(move, sides, strict=True) for other in side.others])


def _triangle(sides: Sequence[_Side], odds: Sequence[float]) -> _Rows:
    """The lower triangle of the information, minus the second derivative; rows begin at their first entry."""
    rows = []
    for place, side in enumerate(sides):
        mine = odds[place]
        theirs = [odds[other] for other in side.others]
        sums = [mine + each for each in theirs]
        meetings = zip(side.comparisons, theirs, sums, strict=True)
        weights = [met * (mine / both) * (each / both) for met, each, both in meetings]
        first = min(place, *side.others)
        row = [0.0] * (place - first + 1)
        for other, weight in zip(side.others, weights, strict=True):
            if other < place:
                row[other - first] = -weight
        row[-1] = math.fsum(weights)
        rows.append(row)
    return rows


def _factored(lower: _Rows) -> _Rows:
    """Cholesky's factor of the positive matrix with this lower triangle; rows begin at their first entry."""
    factor: _Rows = []
    for place, entries in enumerate(lower):
        first = place + 1 - len(entries)
        row: list[float] = []
        for column, value in enumerate(entries[:-1], start=first):
            above = factor[column]
            ahead = first - (column + 1 - len(above))
            # Only what both rows have counts: the one that begins further left waits for the other.
            pairs = map(mul, row, above[ahead:]) if ahead >= 0 else map(mul, row[-ahead:], above)
            row.append((value - math.fsum(pairs)) / above[-1])
        # Rounding may leave less than nothing where the others say nearly everything about a player.
        row.append(math.sqrt(max(entries[-1] - math.fsum(map(mul, row, row)), entries[-1] * _PIVOT_MIN)))
        factor.append(row)
    return factor


def _substituted(factor: _Rows, columns: _Rows, push: Sequence[float]) -> list[float]:
    """Solve the matrix behind *factor*, with its *columns* from the last row up, for *push*."""
    half: list[float] = []
    for place, (row, value) in enumerate(zip(factor, push, strict=True)):
        half.append((value - math.fsum(map(mul, row, half[place + 1 - len(row) :]))) / row[-1])
    values: list[float] = []
    for column, value in zip(reversed(columns), reversed(half), strict=True):
        values.append((value - math.fsum(map(mul, column, values))) / column[-1])
    return values[::-1]


def _transposed(factor: _Rows) -> _Rows:
    """The columns of *factor*, each from the last row up to its diagonal."""
    size = len(factor)
    full = [[0.0] * (place + 1 - len(row)) + row for place, row in enumerate(factor)]
    return [[row[column] for row in full[size - 1 : column - 1 if column else None : -1]] for column in range(size)]


def _inverted(factor: _Rows) -> tuple[tuple[float, ...], ...]:
    halves: _Rows = []
    for start in range(len(factor)):
        half = [1.0 / factor[start][-1]]
        for place, row in enumerate(factor[start + 1 :], start=start + 1):
            ahead = start - (place + 1 - len(row))
            pairs = map(mul, row[ahead:], half) if ahead >= 0 else map(mul, row, half[-ahead:])
            half.append(-math.fsum(pairs) / row[-1])
        # From the last row up, so that the product of two of them ends where the shorter one does.
        halves.append(half[::-1])
    whole: _Rows = [[] for _ in factor]
    for place, half in enumerate(halves):
        column = [math.fsum(map(mul, half, other)) for other in halves[: place + 1]]
        whole[place][:] = column
        for row, value in zip(whole, column[:-1], strict=False):
            row.append(value)
    return tuple(map(tuple, whole))
