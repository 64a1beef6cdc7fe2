"""Trial: simulated matches between players of known strength, to measure what the gate and the budget do.

Finishing orders follow Plackett and Luce: a seat takes the next place with a chance that grows with its strength, that
of its place at the table and that of the opening, which all games of a block have in common.  Games take a time of
gamma distribution, longer when they are lost.  Arrival order exists only here, to show what it does.

A block is one draw from a table of all outcomes, made once, so that a thousand matches take a fraction of a second.
"""

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import chain, islice, repeat
from random import Random

from ringrift.evaluation.budget import begin, open_account, settle
from ringrift.evaluation.gate import expected, judge
from ringrift.kernel.settings import Budget, Gate
from ringrift.kernel.value import Value

_DRAWS = 1 << 16  #: Entries of a table, so that two random bytes choose one.
_CHUNK = 256  #: Draws made at a time.
_OPENINGS = 64
_SHAPE = 4.0  #: Shape of the gamma distribution of a game's duration: a deviation of half its mean.
_STEPS = 40  #: Halvings in the search for a strength: the rest is below what a float holds.
_REACH_ELO = 2000.0


class Order(StrEnum):
    """Which results may decide: those without a hole before them, or whichever have come."""

    DISPATCH = "dispatch"
    ARRIVAL = "arrival"


class Contest(Value):
    """The players: the candidate is *elo* stronger than its equal opponents, by its score over all openings."""

    elo: float
    players: int = 2
    seat_elo: float = 40.0  #: Elo by which the first seat is better than the last.
    opening_elo: float = 60.0  #: Deviation of what an opening is worth to a seat.
    rotated: bool = True  #: Blocks of all seats with rank scores; else single games from a random seat, by wins alone.

    @property
    def games(self) -> int:
        """Games for each score."""
        return self.players if self.rotated else 1


class Fleet(Value):
    """How blocks are played: so many at once, losses slower than wins by the factor *slow*, and who may decide."""

    in_flight: int = 1
    slow: float = 1.0
    order: Order = Order.DISPATCH


class _Trial(Value):
    """One simulated match: the decision, the blocks it rests on, and those that were dispatched without need."""

    promoted: bool
    blocks: int
    surplus: int


class Rates(Value):
    """The summary of many trials."""

    trials: int
    promoted: float  #: The share that passed.
    games: float  #: Mean games that a decision rests on.
    surplus: float  #: Mean games that were on their way or had come out of turn when it fell.


class Season(Value):
    """The outcome of all candidate tests of a simulated run."""

    tests: int
    stronger: int  #: Candidates that were truly stronger.
    promoted: int
    false: int  #: Promotions of candidates that were only equal.
    blocks: int

    @property
    def false_share(self) -> float:
        """Share of the promotions that are false; 0 if there was none."""
        return self.false / max(self.promoted, 1)


def outcomes(contest: Contest, rng: Random) -> tuple[float, ...]:
    """The table of *contest*: :data:`_DRAWS` scores, each as often as it is likely."""
    seats = range(contest.players)
    slope = [contest.seat_elo * (0.5 - seat / (contest.players - 1)) for seat in seats]
    tables = [[seat + rng.gauss(0.0, contest.opening_elo) for seat in slope] for _ in range(_OPENINGS)]
    strength = _strength(contest, tables)
    likely = [0.0] * (contest.games * (contest.players - 1) + 1)
    for table in tables:
        places = [_places(strength, table, seat) for seat in seats]
        for units, chance in enumerate(_rotated(places) if contest.rotated else _single(places)):
            likely[units] += chance / _OPENINGS
    return _table(likely)


def _strength(contest: Contest, tables: Sequence[Sequence[float]]) -> float:
    """How strong the candidate must be so that its rank score over all *tables* and seats is that of *contest.elo*."""
    target, low, high = expected(contest.elo, 2), -_REACH_ELO, _REACH_ELO
    gaps = [mine - other for table in tables for mine in table for other in table]
    # A seat meets every seat but itself, which is the gap of 0 that each seat has with itself.
    pairs, selves = len(gaps), _OPENINGS * contest.players
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        score = math.fsum(expected(middle + gap, 2) for gap in gaps) - selves * expected(middle, 2)
        low, high = (middle, high) if score / (pairs - selves) < target else (low, middle)
    return low


def _places(strength: float, table: Sequence[float], seat: int) -> list[float]:
    """The chances of the candidate in *seat* to finish first, second … last."""
    weights = [math.pow(10.0, elo / 400.0) for elo in table]
    others = tuple(weights[:seat] + weights[seat + 1 :])
    return _finishing(weights[seat] * math.pow(10.0, strength / 400.0), others)


def _finishing(mine: float, others: tuple[float, ...]) -> list[float]:
    total = mine + sum(others)
    chances = [mine / total] + [0.0] * len(others)
    for index, other in enumerate(others):
        rest = _finishing(mine, others[:index] + others[index + 1 :])
        for place, chance in enumerate(rest, start=1):
            chances[place] += other / total * chance
    return chances


def _rotated(places: Sequence[Sequence[float]]) -> list[float]:
    """The chances of each sum of rank points over all seats: last has 0 points, first as many as opponents."""
    sums = [1.0]
    for chances in places:
        points = list(reversed(chances))
        longer = [0.0] * (len(sums) + len(points) - 1)
        for have, chance in enumerate(sums):
            for more, other in enumerate(points):
                longer[have + more] += chance * other
        sums = longer
    return sums


def _single(places: Sequence[Sequence[float]]) -> list[float]:
    """The chances of no win and of a win from a random seat, as no points and all points."""
    won = sum(chances[0] for chances in places) / len(places)
    return [1.0 - won, *[0.0] * (len(places) - 2), won]


def _table(likely: Sequence[float]) -> tuple[float, ...]:
    """A table of scores from the chances of 0, 1, 2 … points."""
    table: list[float] = []
    total = 0.0
    for points, chance in enumerate(likely):
        total += chance
        table += [points / (len(likely) - 1)] * (round(total * _DRAWS) - len(table))
    assert len(table) == _DRAWS
    return tuple(table)


def _drawn(table: Sequence[float], rng: Random) -> Iterator[float]:
    choose = table.__getitem__
    return chain.from_iterable(map(choose, memoryview(rng.randbytes(2 * _CHUNK)).cast("H")) for _ in repeat(None))


def _paces(games: int, rng: Random) -> tuple[float, ...]:
    """A table of durations of *games* games that take 1 together on average."""
    shape = _SHAPE * games
    return tuple(rng.gammavariate(shape, 1.0 / shape) for _ in range(_DRAWS))


class _Flight:
    """Blocks on their way: iterating tells them in order of arrival, each with its number."""

    def __init__(self, scores: Iterator[float], paces: Iterator[float], fleet: Fleet) -> None:
        self._scores, self._paces, self._slower = scores, paces, fleet.slow - 1.0
        self._heap: list[tuple[float, int, float]] = []
        self.dispatched = 0
        for score in islice(scores, fleet.in_flight):
            self._dispatch(0.0, score)

    def _dispatch(self, now: float, score: float) -> None:
        arrival = now + next(self._paces) * (1.0 + self._slower * (1.0 - score))
        heapq.heappush(self._heap, (arrival, self.dispatched, score))
        self.dispatched += 1

    def __iter__(self) -> Iterator[tuple[int, float]]:
        for score in self._scores:
            now, number, come = heapq.heappop(self._heap)
            yield number, come
            self._dispatch(now, score)
        while self._heap:
            yield heapq.heappop(self._heap)[1:]


def _in_turn(arriving: Iterable[tuple[int, float]]) -> Iterator[float]:
    """Scores in dispatch order, each as soon as all before it have come."""
    waiting: dict[int, float] = {}
    turn = 0
    for number, score in arriving:
        waiting[number] = score
        while turn in waiting:
            yield waiting.pop(turn)
            turn += 1


def trials(contest: Contest, gate: Gate, fleet: Fleet, rng: Random) -> Iterator[_Trial]:
    """Matches of *contest* under *gate* on *fleet*, without end."""
    table = outcomes(contest, rng)
    lasting = _drawn(_paces(contest.games, rng), rng)
    while True:
        flight = _Flight(islice(_drawn(table, rng), gate.blocks_max), lasting, fleet)
        coming = _in_turn(flight) if fleet.order is Order.DISPATCH else (score for _, score in flight)
        outcome = judge(coming, contest.players, gate, ranked=contest.rotated)
        assert outcome.decided is not None
        surplus = flight.dispatched - outcome.blocks
        yield _Trial(promoted=outcome.decided, blocks=outcome.blocks, surplus=surplus)


def rates(trials: Iterable[_Trial], contest: Contest) -> Rates:
    """The mean over *trials* of *contest*."""
    rows = [(trial.promoted, trial.blocks, trial.surplus) for trial in trials]
    promoted, blocks, surplus = (sum(column) / len(rows) for column in zip(*rows, strict=True)) if rows else (0, 0, 0)
    games = contest.games
    return Rates(trials=len(rows), promoted=promoted, games=blocks * games, surplus=surplus * games)


def season(
    tables: tuple[Sequence[float], Sequence[float]],
    gate: Gate,
    *,
    players: int,
    tests: int,
    null: float,
    budget: Budget | None,
    open_max: int,
    rng: Random,
) -> Season:
    """A run of *tests*, up to *open_max* at once, of candidates that are equal with the chance *null*.

    *tables* are those of equal and of stronger candidates.  Without a budget each test has the gate's own alpha.
    """
    account = open_account(budget) if budget else None
    running: list[tuple[int, int, bool]] = []
    now = stronger = promoted = false = blocks = 0
    for number in range(tests):
        if len(running) >= open_max:
            now, _, passed = heapq.heappop(running)
            account = settle(account, budget, promoted=passed) if account and budget else None
        is_stronger = rng.random() >= null
        account, own = begin(account, gate) if account else (None, gate)
        outcome = judge(_drawn(tables[is_stronger], rng), players, own, ranked=True)
        heapq.heappush(running, (now + outcome.blocks, number, outcome.decided is True))
        stronger += is_stronger
        promoted += outcome.decided is True
        false += outcome.decided is True and not is_stronger
        blocks += outcome.blocks
    return Season(tests=tests, stronger=stronger, promoted=promoted, false=false, blocks=blocks)
