"""Pairing: which players should meet next, as a pure function of the ratings: those whose next block says most."""

import heapq
from collections.abc import Sequence
from itertools import combinations

from ringrift.evaluation.rating import Group
from ringrift.evaluation.solve import odds_of
from ringrift.evaluation.tally import Player
from ringrift.kernel.value import Value

_PAIRS_MAX = 1000  #: The longest list; a caller that needs more asks again when these have been played.


class _Pairing(Value):
    """Two players, and what one comparison more says about their difference: the share of its variance that goes."""

    one: Player
    other: Player
    gain: float | None  #: None if no chain of blocks connects them yet: any block says more than all others could.


def informative(groups: Sequence[Group], players: Sequence[Player], limit: int) -> tuple[_Pairing, ...]:
    """The pairs of *players* whose next block says most, best first; *groups* are those of their variant.

    Who is not connected comes first: one bridge from each group or newcomer to the best known group.  Then by the
    variance of the difference times p (1 - p), which is what one comparison takes off it in the first order.
    """
    chosen = set(players)
    bridges = _bridges(groups, chosen)
    gains = [pairing for group in groups for pairing in _gains(group, chosen)]
    room = min(limit, _PAIRS_MAX)
    count = max(0, room - len(bridges))
    best = heapq.nsmallest(count, gains, key=lambda each: (-(each.gain or 0.0), each.one, each.other))
    return (*bridges[:room], *best)


def _bridges(groups: Sequence[Group], chosen: set[Player]) -> list[_Pairing]:
    """From the best known group, by its most played member, one pair to each other group and newcomer."""
    rated = {player for group in groups for player in group.players}
    own = [group for group in groups if chosen.intersection(group.players)]
    heads = [(group.reference is not None, -sum(group.blocks), _most_played(group, chosen)) for group in own]
    order = [player for _, _, player in sorted(heads)] + sorted(chosen - rated)
    return [_Pairing(one=min(order[0], each), other=max(order[0], each), gain=None) for each in order[1:]]


def _most_played(group: Group, chosen: set[Player]) -> Player:
    played = zip(group.blocks, group.players, strict=True)
    return min((-blocks, player) for blocks, player in played if player in chosen)[1]


def _gains(group: Group, chosen: set[Player]) -> list[_Pairing]:
    odds, free = odds_of(group.nats), len(group.inverse)
    # A pinned player is known exactly: it adds neither variance nor covariance.
    still = (0.0,) * len(group.players)
    rows = [(*row, *still[free:]) for row in group.inverse] + [still] * (len(group.players) - free)
    pairings = []
    for one, other in combinations([place for place, each in enumerate(group.players) if each in chosen], 2):
        variance = rows[one][one] + rows[other][other] - 2.0 * rows[one][other]
        gain = variance * odds[one] * odds[other] / (odds[one] + odds[other]) ** 2
        pair = group.players[one], group.players[other]
        pairings.append(_Pairing(one=min(pair), other=max(pair), gain=gain))
    return pairings
