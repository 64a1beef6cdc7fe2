"""A league of players with fixed strengths, for tests of ratings: blocks drawn from Plackett–Luce."""

import math
from collections.abc import Iterator, Sequence
from random import Random

from ringrift.evaluation.interval import Interval
from ringrift.evaluation.rating import _CONFIDENCE, Group, _interval, _Shake
from ringrift.evaluation.tally import BlockScore, Player, score_block

VARIANTS = {2: "hex8_2p", 3: "hex8_3p", 4: "hex8_4p"}


def player(number: int, settings: str = "sims=16") -> Player:
    """Return a player that sorts among others by its number."""
    return Player(weights=f"{number:04}", settings=settings)


def block(random: Random, one: Player, other: Player, nats: float, seats: int, mood: float = 0.0) -> BlockScore:
    """One block in which *one* is so much stronger; *mood* is how far all its games of this block deviate together."""
    odds = math.exp(nats + random.gauss(0.0, mood))
    scores = [_beaten(random, odds, seats - 1) / (seats - 1) for _ in range(seats)]
    return score_block(VARIANTS[seats], one, other, scores)


def _beaten(random: Random, odds: float, opponents: int) -> int:
    """Return how many of equal *opponents* finish after one of these *odds*: ranks are filled from the first on."""
    for left in range(opponents, 0, -1):
        if random.random() < odds / (odds + left):
            return left
    return 0


def league(
    random: Random, nats: Sequence[float], pairs: Sequence[tuple[int, int]], blocks: int, seats: int, mood: float = 0.0
) -> Iterator[BlockScore]:
    """So many *blocks* of each of *pairs*, players by number."""
    for one, other in pairs:
        for _ in range(blocks):
            yield block(random, player(one), player(other), nats[one] - nats[other], seats, mood)


def variance_between(inverse: Sequence[Sequence[float]], shakes: Sequence[_Shake], one: int, other: int) -> float:
    """Return the variance of the difference between the strengths of two players by index; pinned ones do not move."""
    size = len(inverse)
    rows = [inverse[place] if place < size else (0.0,) * size for place in (one, other)]
    moves = [*(mine - theirs for mine, theirs in zip(*rows, strict=True)), 0.0]
    return math.fsum(by * (moves[min(mine, size)] - moves[min(theirs, size)]) ** 2 for mine, theirs, by in shakes)


def difference(group: Group, one: Player, other: Player, confidence: float = _CONFIDENCE) -> Interval:
    """By how much Elo *one* is stronger than *other*, both of *group*, with bounds."""
    places = [group.players.index(each) for each in (one, other)]
    variance = variance_between(group.inverse, group.shakes, *places)
    blocks = min(group.blocks[place] for place in places)
    return _interval(group.nats[places[0]] - group.nats[places[1]], variance, blocks, confidence)
