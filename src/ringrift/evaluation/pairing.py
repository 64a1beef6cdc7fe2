"""Pairing: who should meet next, as pure functions of what is known: by information, by neighbourhood, or everybody."""

import heapq
from collections.abc import Sequence
from itertools import combinations

from ringrift.evaluation.rating import Group, Rating
from ringrift.evaluation.solve import odds_of
from ringrift.evaluation.tally import Player
from ringrift.kernel.value import Value

PAIRS_MAX = 1000
"""The longest list that is handed out; who needs more asks again when these have been played."""


class Pairing(Value):
    """Two players, and what one comparison more says about their difference: the share of its variance that goes.

    None if no chain of blocks connects them yet, so that any block says more than all others could.
    """

    one: Player
    other: Player
    gain: float | None


def informative(groups: Sequence[Group], players: Sequence[Player], limit: int) -> tuple[Pairing, ...]:
    """The pairs of *players* whose next block says most, best first; *groups* are those of their variant.

    Who is not connected comes first: one bridge from each group or newcomer to the best known group.  Then by the
    variance of the difference times p (1 - p), which is what one comparison takes off it in the first order.
    """
    wanted = set(players)
    bridges = _bridges(groups, wanted)
    gains = [pairing for group in groups for pairing in _gains(group, wanted)]
    room = min(limit, PAIRS_MAX)
    best = heapq.nsmallest(max(0, room - len(bridges)), gains, key=_by_gain)
    return (*bridges[:room], *best)


def ladder(ratings: Sequence[Rating], reach: int, limit: int) -> tuple[tuple[Player, Player], ...]:
    """Each player with the *reach* next below it by rating, nearest first; *ratings* are of one variant."""
    order = [each.player for each in sorted(ratings, key=lambda each: (-each.elo.value, each.player))]
    pairs = [(order[place], order[place + by]) for by in range(1, reach + 1) for place in range(len(order) - by)]
    return tuple(pairs[: min(limit, PAIRS_MAX)])


def tournament(players: Sequence[Player], limit: int) -> tuple[tuple[Player, Player], ...]:
    """Everybody against everybody, round by round: in a round each plays once, so a list cut short is still even."""
    circle: list[Player | None] = [*sorted(set(players))]
    if len(circle) % 2:
        circle.append(None)
    half, pairs = len(circle) // 2, []
    for _ in range(len(circle) - 1):
        for one, other in zip(circle[:half], reversed(circle[half:]), strict=True):
            if one is not None and other is not None:
                pairs.append((min(one, other), max(one, other)))
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return tuple(pairs[: min(limit, PAIRS_MAX)])


def _bridges(groups: Sequence[Group], wanted: set[Player]) -> list[Pairing]:
    """From the best known group, by its most played member, one pair to each other group and newcomer."""
    known = {player for group in groups for player in group.players}
    heads = [
        (group.reference is not None, -sum(group.blocks), _most_played(group, wanted))
        for group in groups
        if wanted.intersection(group.players)
    ]
    order = [player for _, _, player in sorted(heads)] + sorted(wanted - known)
    return [Pairing(one=min(order[0], each), other=max(order[0], each), gain=None) for each in order[1:]]


def _most_played(group: Group, wanted: set[Player]) -> Player:
    played = zip(group.blocks, group.players, strict=True)
    return min((-blocks, player) for blocks, player in played if player in wanted)[1]


def _gains(group: Group, wanted: set[Player]) -> list[Pairing]:
    odds, free = odds_of(group.nats), len(group.inverse)
    # A pinned player is known exactly: it adds neither variance nor covariance.
    still = (0.0,) * len(group.players)
    rows = [(*row, *still[free:]) for row in group.inverse] + [still] * (len(group.players) - free)
    found = []
    for one, other in combinations([place for place, each in enumerate(group.players) if each in wanted], 2):
        variance = rows[one][one] + rows[other][other] - 2.0 * rows[one][other]
        gain = variance * odds[one] * odds[other] / (odds[one] + odds[other]) ** 2
        pair = group.players[one], group.players[other]
        found.append(Pairing(one=min(pair), other=max(pair), gain=gain))
    return found


def _by_gain(pairing: Pairing) -> tuple[float, Player, Player]:
    return -(pairing.gain or 0.0), pairing.one, pairing.other
