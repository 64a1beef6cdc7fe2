"""Gate: the sequential test that promotes, as a pure function of block scores in dispatch order.

GSPRT on block scores with the variance v that the blocks themselves show: with n blocks of mean x,

    LLR = n (s1 - s0) (2 x - s0 - s1) / (2 v)

where s0 and s1 are the expected scores at the two Elo bounds.  It is compared with Wald's bounds, drawn in by the mean
overshoot of such a walk.  The walk stops at the first prefix that crosses one: more blocks never change a decision.

A score is a *rank score*, 1 for the first place and 0 for the last, which is the mean over opponents of having beaten
them; or, where only winners are known, the share of first place.  On the Plackett-Luce scale two seats compare as in
Bradley and Terry's model, however many others play: the rank score of equals is 1/2 for 2, 3 and 4 players.
"""

import math
from collections.abc import Iterable
from itertools import islice

from ringrift.events.model import Evidence
from ringrift.kernel.settings import Gate
from ringrift.kernel.value import changed

# Blocks' worth of plain variance added to the sample's: one that looks too small by chance promotes by chance.
# Chosen by error rates: with 4 more equal candidates pass than alpha says, with 8 fewer (docs/why/promotion.md).
_CAUTION_BLOCKS = 8
_OVERSHOOT = 0.583  #: How far a walk with normal steps overshoots a bound, as a share of a step's deviation (Siegmund).
_DRAWN_SHARE_MAX = 0.5  #: Share of a bound by which it is drawn in at most, however large the steps are.
_ELO_MAX = 800.0


class Outcome(Evidence):
    """The state of the test: *decided* is None while it goes on; *lower* and *upper* are the bounds in force."""

    decided: bool | None


def expected(elo: float, players: int) -> float:
    """The expected share of first place of one seat that is *elo* stronger than its *players* - 1 equal opponents.

    With two players it is the expected rank score, for every number of players.
    """
    return 1.0 / (1.0 + (players - 1) * math.pow(10.0, -elo / 400.0))


def elo(score: float, players: int) -> float:
    """How much stronger a seat with *score* is than its equal opponents; capped, for 0 and 1 only say: a lot."""
    score = min(max(score, 1e-9), 1 - 1e-9)
    return max(min(400.0 * math.log10(score * (players - 1) / (1.0 - score)), _ELO_MAX), -_ELO_MAX)


def bounds(gate: Gate) -> tuple[float, float]:
    """Wald's lower and upper bound of the log likelihood ratio for the stated error rates."""
    return math.log(gate.beta / (1.0 - gate.alpha)), math.log((1.0 - gate.beta) / gate.alpha)


def _plain(players: int, *, ranked: bool) -> float:
    """The variance of a block's score if its games were independent and all players equal."""
    one = (players + 1) / (12.0 * (players - 1)) if ranked else (players - 1) / players**2
    return one / players


def judge(scores: Iterable[float], players: int, gate: Gate, *, ranked: bool = False) -> Outcome:
    """Decide on block *scores* in dispatch order; undecided at the cap is a rejection.

    With *ranked* they are rank scores, else shares of first place.  Scores behind the decision are not looked at.
    """
    scale = 2 if ranked else players
    s0, s1 = expected(gate.elo_0, scale), expected(gate.elo_1, scale)
    both, gap, chance = s0 + s1, s1 - s0, _plain(players, ranked=ranked)
    lower, upper = bounds(gate)
    added, blocks_min = _CAUTION_BLOCKS * chance, gate.blocks_min
    # Between the bounds drawn in as far as they ever are nothing is decided, and there the walk spends its time.
    low, high = lower * (1.0 - _DRAWN_SHARE_MAX), upper * (1.0 - _DRAWN_SHARE_MAX)
    count, total, squares, llr, variance = 0, 0.0, 0.0, 0.0, chance
    decided, rule = None, "likelihood ratio between the bounds"
    for count, score in enumerate(islice(scores, gate.blocks_max), start=1):
        total += score
        squares += score * score
        sample = squares / count - (total / count) ** 2
        # Caution makes it no larger than plain variance, unless the blocks themselves do.
        variance = min(sample + added / count, max(sample, chance))
        llr = gap * (2.0 * total - count * both) / (2.0 * variance)
        if low < llr < high or count < blocks_min:
            continue
        drawn = _drawn(lower, upper, gap / math.sqrt(variance))
        if not drawn[0] < llr < drawn[1]:
            decided = llr >= drawn[1]
            rule = f"likelihood ratio {'above the upper' if decided else 'below the lower'} bound"
            break
    else:
        drawn = _drawn(lower, upper, gap / math.sqrt(variance))
        if count >= gate.blocks_max:
            decided, rule = False, "undecided at the most blocks allowed"
    score = total / count if count else 0.0
    outcome = Outcome(decided=decided, blocks=count, score=score, llr=llr, lower=drawn[0], upper=drawn[1], rule=rule)
    return changed(outcome, ranked=ranked, alpha=gate.alpha)


def _drawn(lower: float, upper: float, step: float) -> tuple[float, float]:
    """The bounds drawn in by the overshoot of a walk whose steps have the deviation *step*."""
    overshoot = _OVERSHOOT * step
    return lower + min(overshoot, -lower * _DRAWN_SHARE_MAX), upper - min(overshoot, upper * _DRAWN_SHARE_MAX)
