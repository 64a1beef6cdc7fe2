"""Gate: the sequential test that promotes, as a pure function of block means in dispatch order.

GSPRT on block means with the normal approximation: with n blocks of mean x̄ and variance v,

    LLR = n (s1 - s0) (2 x̄ - s0 - s1) / (2 v)

where s0 and s1 are the expected scores at the two Elo bounds on the Plackett–Luce scale for *players* seats.
The walk stops at the first prefix that crosses a bound, so that more blocks can never change a decision.
"""

import math
from collections.abc import Sequence

from ringrift.kernel.settings import Gate
from ringrift.kernel.value import Value

PRIOR_BLOCKS = 4
"""Blocks' worth of a plain coin's variance: keeps the first few equal results from looking like certainty."""


ELO_MAX = 800.0


class Outcome(Value):
    """What the test says: *decided* is None while it goes on."""

    decided: bool | None
    blocks: int
    score: float
    llr: float
    lower: float
    upper: float
    rule: str


def expected(elo: float, players: int) -> float:
    """The expected score of one seat that is *elo* stronger than its *players* - 1 equal opponents."""
    return 1.0 / (1.0 + (players - 1) * math.pow(10.0, -elo / 400.0))


def elo(score: float, players: int) -> float:
    """How much stronger a seat with *score* is than its *players* - 1 equal opponents: what :func:`expected` undoes.

    Capped, because a score of 0 or 1 says only that it is a lot.
    """
    score = min(max(score, 1e-9), 1 - 1e-9)
    return max(min(400.0 * math.log10(score * (players - 1) / (1.0 - score)), ELO_MAX), -ELO_MAX)


def bounds(gate: Gate) -> tuple[float, float]:
    """The lower and upper bound of the log likelihood ratio for the stated error rates."""
    return math.log(gate.beta / (1.0 - gate.alpha)), math.log((1.0 - gate.beta) / gate.alpha)


def judge(scores: Sequence[float], players: int, gate: Gate) -> Outcome:
    """Decide on block means *scores* in dispatch order.  Undecided at the cap is a rejection."""
    s0, s1 = expected(gate.elo_0, players), expected(gate.elo_1, players)
    lower, upper = bounds(gate)
    coin = s0 * (1.0 - s0) / players  # variance of a block mean if every seat were an independent coin
    total = squares = llr = 0.0
    for count, score in enumerate(scores[: gate.blocks_max], start=1):
        total += score
        squares += score * score
        mean = total / count
        variance = (squares - count * mean * mean + PRIOR_BLOCKS * coin) / (count + PRIOR_BLOCKS - 1)
        llr = count * (s1 - s0) * (2.0 * mean - s0 - s1) / (2.0 * max(variance, 1e-9))
        if count >= gate.blocks_min and (llr >= upper or llr <= lower):
            rule = (
                "likelihood ratio above the upper bound" if llr >= upper else "likelihood ratio below the lower bound"
            )
            return _outcome(llr >= upper, count, mean, llr, lower, upper, rule)
    count = min(len(scores), gate.blocks_max)
    mean = total / count if count else 0.0
    if count >= gate.blocks_max:
        return _outcome(False, count, mean, llr, lower, upper, "undecided at the most blocks allowed")
    return _outcome(None, count, mean, llr, lower, upper, "likelihood ratio between the bounds")


def _outcome(
    decided: bool | None, blocks: int, score: float, llr: float, lower: float, upper: float, rule: str
) -> Outcome:
    return Outcome(decided=decided, blocks=blocks, score=score, llr=llr, lower=lower, upper=upper, rule=rule)
