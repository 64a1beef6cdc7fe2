"""Ratings: 100,000 blocks of 200 players, refitted and updated, against one pass over the same in plain Python.

``python -m bench.rating [PLAYERS]`` prints every shape of who met whom.  Times are CPU time of this process, which
others hardly change.  That everybody met everybody is the dearest shape: its factor has no zeros.
"""

import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

from bench.measure import Contest, Line, Metrics, Side
from ringrift.evaluation.rating import Rating, fit, rate
from ringrift.evaluation.tally import BlockScore, Player, Tally, add

PLAYERS = 200
BLOCKS = 100_000
BATCH = 500
SPREAD_NATS = 1.5
SHAPES = {"all": 10_000, "ladder": 5, "chain": 1}
"""By name, how many places apart by strength players may be to have met."""


def league(reach: int, size: int = PLAYERS) -> list[BlockScore]:
    """Blocks of two seats between *size* players of known strengths, at most *reach* places apart."""
    random = Random(reach)
    nats = sorted(random.gauss(0.0, SPREAD_NATS) for _ in range(size))
    players = [Player(weights=f"{random.getrandbits(256):064x}", settings="sims=16") for _ in range(size)]
    blocks: list[BlockScore] = []
    while len(blocks) < BLOCKS:
        first = random.randrange(size)
        second = random.randint(max(0, first - reach), min(size - 1, first + reach))
        if first == second:
            continue
        chance = 1.0 / (1.0 + math.exp(nats[second] - nats[first]))
        points = 2 * sum(random.random() < chance for _ in range(2))
        blocks.append(
            BlockScore(variant="hex8_2p", one=players[first], other=players[second], points=points, comparisons=2)
        )
    return blocks


def refit(blocks: Sequence[BlockScore]) -> tuple[Rating, ...]:
    """Everything from the log."""
    return rate(fit(add(Tally(), blocks), {blocks[0].one: 0.0}))


def counted(blocks: Sequence[BlockScore]) -> int:
    """The raw limit of a refit: each block is looked at once and counted."""
    return len(Counter([(block.one, block.other, block.points) for block in blocks]))


def summed(tally: Tally) -> int:
    """The raw limit of an update: each count of the tally is looked at once and added up."""
    return sum(times * points for each in tally.meetings for _, points, times in each.outcomes)


@contextmanager
def _sides(_: Path) -> Iterator[Mapping[str, Side]]:
    blocks = league(SHAPES["all"])
    past, fresh, anchors = add(Tally(), blocks[:-BATCH]), blocks[-BATCH:], {blocks[0].one: 0.0}

    def ours(_: Path) -> Metrics:
        begun = time.process_time()
        whole = refit(blocks)
        between = time.process_time()
        updated = rate(fit(add(past, fresh), anchors))
        ended = time.process_time()
        assert updated == whole  # whatever was added when, and to the last bit
        return {"refit": between - begun, "update": ended - between}

    def raw(_: Path) -> Metrics:
        begun = time.process_time()
        counted(blocks)
        between = time.process_time()
        summed(past)
        return {"refit": between - begun, "update": time.process_time() - between}

    yield {"ours": ours, "raw": raw}


RATINGS = Contest(
    "rating",
    _sides,
    (
        Line("rating.refit", f"ratings of {PLAYERS} from {BLOCKS:,} blocks; a count", "s CPU", "refit", ours_max=10.0),
        Line("rating.update", f"the same after {BATCH} blocks more; a sum", "s CPU", "update", ours_max=0.5),
    ),
)


def main(size: int) -> None:
    """Print the table for so many players: the best of three."""
    print(f"{'s CPU':10}{'meetings':>10}{'refit':>10}{'update':>10}")
    for name, reach in SHAPES.items():
        blocks = league(reach, size)
        past, fresh, anchors = add(Tally(), blocks[:-BATCH]), blocks[-BATCH:], {blocks[0].one: 0.0}
        refits, updates = [], []
        for _ in range(3):
            begun = time.process_time()
            refit(blocks)
            between = time.process_time()
            rate(fit(add(past, fresh), anchors))
            refits.append(between - begun)
            updates.append(time.process_time() - between)
        print(f"{name:10}{len(past.meetings):10}{min(refits):10.2f}{min(updates):10.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PLAYERS)
