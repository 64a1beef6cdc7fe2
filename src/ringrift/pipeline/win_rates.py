"""Win rates: how the last blocks of a line's champion went against each opponent, compared with its predecessor.

A champion that does clearly worse against an opponent than the champion before it did is reviewed at once, and not only
when a review is due.  The review decides, by its own blocks: a bad row of blocks alone rolls nothing back.
"""

import math
from collections.abc import Sequence
from statistics import fmean, pvariance

from ringrift.evaluation.tally import BlockScore, Player
from ringrift.events.evaluation import WinRateFell
from ringrift.kernel.value import Value, changed
from ringrift.store.ports import Tx
from ringrift.store.records import Records

_BLOCKS_MAX = 64  #: Blocks against one opponent that a rate is made of, the newest.
_BLOCKS_MIN = 16  #: Blocks that a rate needs to be compared.
_OPPONENTS_MAX = 16  #: Opponents of one line; the one that was met least lately goes.
_DROP_MIN = 0.1  #: A drop below this is not worth a review.
_ERRORS = 2.0  #: Standard errors of the difference that a drop must exceed.


class _OpponentRates(Value):
    """The rates of one champion against one opponent, and the rate of the champion before it."""

    opponent: Player
    model: str
    rates: tuple[float, ...] = ()  #: Its share of the points in each block, the newest last.
    before: tuple[float, ...] = ()  #: The rates of *predecessor*, the champion before it that played enough.
    predecessor: str = ""
    is_reported: bool = False


class _WinRates(Value):
    """Rolling win rates of a line's champion, the opponent met last last."""

    variant: str
    opponents: tuple[_OpponentRates, ...] = ()


_WIN_RATES = Records("win_rates", _WinRates, id="variant")


def _with_blocks(rates: _WinRates, champion: str, scores: Sequence[BlockScore]) -> _WinRates:
    """*rates* after blocks in which *champion* met an opponent; blocks of others change nothing."""
    by_opponent = {row.opponent: row for row in rates.opponents}
    for score in scores:
        if champion not in (score.one.weights, score.other.weights):
            continue
        is_first = score.one.weights == champion
        opponent = score.other if is_first else score.one
        points = score.points / (2 * score.comparisons)
        share = points if is_first else 1.0 - points
        row = by_opponent.pop(opponent, None) or _OpponentRates(opponent=opponent, model=champion)
        row = row if row.model == champion else _succeed(row, champion)
        by_opponent[opponent] = changed(row, rates=(*row.rates, share)[-_BLOCKS_MAX:])
    return changed(rates, opponents=tuple(by_opponent.values())[-_OPPONENTS_MAX:])


def _succeed(row: _OpponentRates, champion: str) -> _OpponentRates:
    """The row of the next champion; one that hardly played leaves the comparison with its own predecessor."""
    before, predecessor = row.before, row.predecessor
    if len(row.rates) >= _BLOCKS_MIN:
        before, predecessor = row.rates, row.model
    return _OpponentRates(opponent=row.opponent, model=champion, before=before, predecessor=predecessor)


def _find_drop(rates: _WinRates) -> WinRateFell | None:
    """The first drop that was not reported yet."""
    for row in rates.opponents:
        if not row.is_reported and _is_drop(row):
            models = {"model": row.model, "predecessor": row.predecessor, "opponent": row.opponent.weights}
            before, blocks = fmean(row.before), len(row.rates)
            return WinRateFell(variant=rates.variant, rate=fmean(row.rates), before=before, blocks=blocks, **models)
    return None


def _is_drop(row: _OpponentRates) -> bool:
    if min(len(row.rates), len(row.before)) < _BLOCKS_MIN or row.predecessor == row.model:
        return False
    error = math.sqrt(pvariance(row.rates) / len(row.rates) + pvariance(row.before) / len(row.before))
    return fmean(row.before) - fmean(row.rates) > max(_DROP_MIN, _ERRORS * error)


async def record_rates(tx: Tx, variant: str, champion: str | None, scores: Sequence[BlockScore]) -> WinRateFell | None:
    """Add blocks to the win rates of *variant*, and return a drop that they show for the first time."""
    if champion is None or not scores:
        return None
    before = await _WIN_RATES.get(tx, variant) or _WinRates(variant=variant)
    rates = _with_blocks(before, champion, scores)
    drop = _find_drop(rates)
    if drop is not None:
        rows = rates.opponents
        fell = tuple(changed(row, is_reported=True) if row.opponent.weights == drop.opponent else row for row in rows)
        rates = changed(rates, opponents=fell)
    if rates != before:
        await _WIN_RATES.put(tx, [rates])
    return drop
