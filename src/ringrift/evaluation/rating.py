"""Rating: how strong each player is on one scale per variant, as a pure function of the tally of all blocks.

Bradley–Terry on pairwise comparisons: in a game of n players, the candidate finished before or after each of n - 1
opponents.  Under Plackett–Luce, which ranks n players, the chance to finish before one of them is just that of
Bradley–Terry, so two, three and four players are rated alike.  The comparisons of a block hang together, though, so
intervals come from the bootstrap over blocks and not from the likelihood.  It needs no drawing: a replicate is a set of
blocks drawn anew; linearised, it moves the strengths by one step of Newton's method, inverse × push.  A push is a sum
over blocks, so its variance over all replicates is known, and with it that of the strengths: inverse × variance ×
inverse.  That is what endless replicates would say, without their noise.

Nothing is merged, edited or carried over: other weights or other settings are another player, and more blocks mean that
the same sums are taken over more counts.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ringrift.evaluation.interval import PRIOR_BLOCKS, Interval, quantile
from ringrift.evaluation.solve import Link, odds_of, solve
from ringrift.evaluation.tally import Meeting, Player, Tally
from ringrift.kernel.value import Value

_ELO_PER_NAT = 173.71779276130073  #: 400 / ln 10.
# Comparisons that each player is taken to have drawn, so that one that only won is not rated infinitely high; shared
# among all its opponents, because with many of them one each would be a lot.
_PRIOR_DRAWS = 1
_CONFIDENCE, _QUANTILE_DIGITS = 0.95, 9
_LANE_BYTES = 12
_MIDDLE = 1 << (8 * _LANE_BYTES - 1)  #: What is added to an entry so that none is below 0.
ENTRY_BITS, WEIGHT_BITS = 46, 30
"""Bits of the largest number of each kind.  Python multiplies by 30 bits fastest; the rest is for sums over players."""
_PLAYERS_MAX = 1 << (8 * _LANE_BYTES - ENTRY_BITS - WEIGHT_BITS - 4)


_Shake = tuple[int, int, float]
"""Two players, by place, and the variance over the replicates of the sum by which their blocks push them apart."""


def _variances(inverse: Sequence[Sequence[float]], shakes: Sequence[_Shake]) -> list[float]:
    """The variance of each free player's strength.

    A row of the inverse is packed into one whole number, an entry to each lane: then a row times a weight is one
    multiplication, and every sum is exact.  In floats, entry by entry, this would be most of the work of a rating.
    """
    size = len(inverse)
    assert size <= _PLAYERS_MAX
    entry = _scale(max((row[place] for place, row in enumerate(inverse)), default=0.0), ENTRY_BITS)
    weight = _scale(max((variance for _, _, variance in shakes), default=0.0), WEIGHT_BITS)
    rows = [[round(math.ldexp(value, entry)) for value in row] for row in inverse]
    packed = [_packed(row) for row in rows]
    # A pinned player does not move: its lanes are all 0.
    packed.append(0)
    pulled = [0] * (size + 1)
    for one, other, variance in shakes:
        one, other = min(one, size), min(other, size)
        apart = round(math.ldexp(variance, weight)) * (packed[one] - packed[other])
        pulled[one] += apart
        pulled[other] -= apart
    totals = [0] * size
    for row, lanes in zip(rows, pulled, strict=False):
        totals = [total + mine * lane for total, mine, lane in zip(totals, row, _unpacked(lanes, size), strict=True)]
    return [math.ldexp(float(total), -2 * entry - weight) for total in totals]


def _scale(largest: float, bits: int) -> int:
    """By which power of 2 to multiply so that *largest* has so many bits."""
    return bits - math.frexp(largest)[1]


def _packed(values: Sequence[int]) -> int:
    """Whole numbers as one: each in its lane, those below 0 borrowing from the next."""
    lanes = b"".join([(value + _MIDDLE).to_bytes(_LANE_BYTES, "little") for value in values])
    return int.from_bytes(lanes, "little") - _middles(len(values))


def _unpacked(packed: int, count: int) -> list[int]:
    lanes = (packed + _middles(count)).to_bytes(_LANE_BYTES * count, "little")
    starts = range(0, _LANE_BYTES * count, _LANE_BYTES)
    return [int.from_bytes(lanes[start : start + _LANE_BYTES], "little") - _MIDDLE for start in starts]


def _middles(count: int) -> int:
    return int.from_bytes(_MIDDLE.to_bytes(_LANE_BYTES, "little") * count, "little")


class Rating(Value):
    """One player's Elo in one variant, with the bounds of its distance to the anchors."""

    variant: str
    player: Player
    elo: Interval
    blocks: int
    reference: Player | None  #: Who in its group stands at 0, if no chain of blocks leads to an anchor.


class Group(Value):
    """Players that blocks connect, free ones first, and the solution for them."""

    variant: str
    players: tuple[Player, ...]
    reference: Player | None
    blocks: tuple[int, ...]
    nats: tuple[float, ...]
    inverse: tuple[tuple[float, ...], ...]  #: Of the information about free ones: how far a block can still move them.
    shakes: tuple[_Shake, ...]


class _Score(NamedTuple):
    """The sums over the blocks of a meeting: their number, comparisons, points, and squares and product of these."""

    blocks: int
    comparisons: int
    points: int
    comparisons_squared: int
    points_squared: int
    product: int


def rate(groups: Iterable[Group], confidence: float = _CONFIDENCE) -> tuple[Rating, ...]:
    """Everybody in *groups*, by variant and player."""
    ratings = []
    for group in groups:
        spreads = [*_variances(group.inverse, group.shakes), *([0.0] * (len(group.players) - len(group.inverse)))]
        for player, nats, blocks, variance in zip(group.players, group.nats, group.blocks, spreads, strict=True):
            elo = _interval(nats, variance, blocks, confidence)
            rating = Rating(variant=group.variant, player=player, elo=elo, blocks=blocks, reference=group.reference)
            ratings.append(rating)
    return tuple(sorted(ratings, key=lambda each: (each.variant, each.player)))


def fit(tally: Tally, anchors: Mapping[Player, float]) -> tuple[Group, ...]:
    """The groups of *tally*, each solved alone, by variant and first player; *anchors* have these Elo everywhere."""
    by_variant: dict[str, list[Meeting]] = {}
    for meeting in tally.meetings:
        by_variant.setdefault(meeting.variant, []).append(meeting)
    return tuple(_solved(name, group, anchors) for name in sorted(by_variant) for group in _connected(by_variant[name]))


def _interval(nats: float, variance: float, blocks: int, confidence: float) -> Interval:
    # Student's t by the player's own blocks: however many others played, its own few decide about it.
    # Rounded, since that quantile goes through the C library's logarithm, whose last bit is the machine's.
    reach = round(quantile(confidence, max(1, blocks - 1)), _QUANTILE_DIGITS) * math.sqrt(variance)
    lower, value, upper = ((nats + by) * _ELO_PER_NAT for by in (-reach, 0.0, reach))
    return Interval(value=value, lower=lower, upper=upper)


def _connected(meetings: Sequence[Meeting]) -> list[list[Meeting]]:
    """*meetings* by who is connected through them, in the order of each group's first meeting."""
    place = {player: number for number, player in enumerate(_players(meetings))}
    head = list(range(len(place)))
    for meeting in meetings:
        head[_top(head, place[meeting.one])] = _top(head, place[meeting.other])
    groups: dict[int, list[Meeting]] = {}
    for meeting in meetings:
        groups.setdefault(_top(head, place[meeting.one]), []).append(meeting)
    return list(groups.values())


def _top(head: list[int], player: int) -> int:
    """The representative of all players that *player* is connected with so far."""
    while head[player] != player:
        head[player] = player = head[head[player]]
    return player


def _solved(variant: str, meetings: Sequence[Meeting], anchors: Mapping[Player, float]) -> Group:
    everybody = _players(meetings)
    pinned = [player for player in everybody if player in anchors] or everybody[:1]
    players = [player for player in everybody if player not in pinned] + pinned
    place = {player: number for number, player in enumerate(players)}
    pairs = [(place[each.one], place[each.other]) for each in meetings]
    scores = [_score(each) for each in meetings]
    met, blocks = [0] * len(players), [0] * len(players)
    for pair, score in zip(pairs, scores, strict=True):
        for each in pair:
            met[each] += 1
            blocks[each] += score.blocks
    draws = [_PRIOR_DRAWS / met[one] + _PRIOR_DRAWS / met[other] for one, other in pairs]
    links = [
        Link(one=one, other=other, comparisons=score.comparisons + drawn, won=(score.points + drawn) / 2.0)
        for (one, other), score, drawn in zip(pairs, scores, draws, strict=True)
    ]
    free = len(players) - len(pinned)
    solution = solve(links, free, [anchors.get(player, 0.0) / _ELO_PER_NAT for player in pinned])
    shakes = _shakes(pairs, scores, draws, odds_of(solution.nats), free)
    shared: dict[str, Any] = {"variant": variant, "players": tuple(players), "blocks": tuple(blocks), "shakes": shakes}
    reference = None if pinned[0] in anchors else pinned[0]
    return Group(reference=reference, nats=solution.nats, inverse=solution.inverse, **shared)


def _players(meetings: Sequence[Meeting]) -> list[Player]:
    return sorted({each.one for each in meetings} | {each.other for each in meetings})


def _score(meeting: Meeting) -> _Score:
    rows = [(n, n * met, n * won, n * met * met, n * won * won, n * met * won) for met, won, n in meeting.outcomes]
    return _Score(*map(sum, zip(*rows, strict=True)))


def _shakes(
    pairs: Sequence[tuple[int, int]], scores: Sequence[_Score], draws: Sequence[float], odds: Sequence[float], free: int
) -> tuple[_Shake, ...]:
    """The variance over the replicates of what each meeting pushes.

    A few equal blocks must not look like certainty, so each meeting has some blocks more of the usual spread: that of
    all meetings, in terms of the spread of independent comparisons, and at least that.  The drawn comparisons of the
    prior are coins and are drawn anew as well.
    """
    chances = [odds[one] / (odds[one] + odds[other]) for one, other in pairs]
    squares = [max(0.0, _squares(score, chance)) for score, chance in zip(scores, chances, strict=True)]
    coins = [score.comparisons * chance * (1.0 - chance) for score, chance in zip(scores, chances, strict=True)]
    blocks = sum(score.blocks for score in scores)
    scale = math.fsum(coins) * max(1, blocks - free) / blocks
    usual = max(1.0, math.fsum(squares) / scale) if scale else 1.0
    shakes = []
    columns = zip(pairs, scores, draws, chances, squares, coins, strict=True)
    for (one, other), score, drawn, chance, square, coin in columns:
        spread = (square + PRIOR_BLOCKS * usual * coin / score.blocks) * score.blocks / (score.blocks + PRIOR_BLOCKS)
        spread += drawn * (chance * chance + (1.0 - chance) ** 2) / 2.0
        shakes.append((one, other, spread))
    return tuple(shakes)


def _squares(score: _Score, chance: float) -> float:
    """The sum over blocks of the square of what was won more than *chance* says, in comparisons."""
    return score.points_squared / 4.0 - chance * score.product + chance * chance * score.comparisons_squared
