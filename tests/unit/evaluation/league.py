"""A league of players whose strengths are known, for tests of ratings: blocks drawn from Plackett–Luce."""

import math
from collections.abc import Iterator, Sequence
from random import Random

from ringrift.evaluation.tally import Observed, Player, observed

VARIANTS = {2: "hex8_2p", 3: "hex8_3p", 4: "hex8_4p"}


def player(number: int, settings: str = "sims=16") -> Player:
    """A player whose place among others is that of its number."""
    return Player(weights=f"{number:04}", settings=settings)


def block(random: Random, one: Player, other: Player, nats: float, seats: int, mood: float = 0.0) -> Observed:
    """One block in which *one* is so much stronger; *mood* is how far all its games of this block deviate together."""
    odds = math.exp(nats + random.gauss(0.0, mood))
    scores = [_beaten(random, odds, seats - 1) / (seats - 1) for _ in range(seats)]
    return observed(VARIANTS[seats], one, other, scores)


def _beaten(random: Random, odds: float, opponents: int) -> int:
    """How many of equal *opponents* finish after one of these *odds*: places are filled from the first on."""
    for left in range(opponents, 0, -1):
        if random.random() < odds / (odds + left):
            return left
    return 0


def league(
    random: Random, nats: Sequence[float], pairs: Sequence[tuple[int, int]], blocks: int, seats: int, mood: float = 0.0
) -> Iterator[Observed]:
    """So many *blocks* of each of *pairs*, players by number."""
    for one, other in pairs:
        for _ in range(blocks):
            yield block(random, player(one), player(other), nats[one] - nats[other], seats, mood)
