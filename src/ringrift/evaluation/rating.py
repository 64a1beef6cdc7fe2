"""Rating: how strong each player is on one scale per variant, as a pure function of the tally of all blocks.

Bradley–Terry on pairwise comparisons: in a game of n players, the candidate finished before or after each of n - 1
opponents.  Under Plackett–Luce, which ranks n players, the chance to finish before one of them is just that of
Bradley–Terry, so two, three and four players are rated alike.  The comparisons of a block hang together, though, so
intervals come from the bootstrap over blocks (:mod:`ringrift.evaluation.spread`) and not from the likelihood.

Nothing is merged, edited or carried over: other weights or other settings are another player, and more blocks mean that
the same sums are taken over more counts.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from ringrift.evaluation.interval import PRIOR_BLOCKS, Interval, quantile
from ringrift.evaluation.solve import Link, odds_of, solve
from ringrift.evaluation.spread import Shake, variance_between, variances
from ringrift.evaluation.tally import Meeting, Player, Tally
from ringrift.kernel.value import Value

ELO_PER_NAT = 173.71779276130073
"""400 / ln 10."""
PRIOR_DRAWS = 1
"""Comparisons that each player is taken to have drawn, shared among all whom it met.

So who only won is rated high and not infinitely high; shared, because with many opponents one each would be a lot.
"""
CONFIDENCE = 0.95
QUANTILE_DIGITS = 9


class Rating(Value):
    """One player's Elo in one variant, with the bounds of its distance to the anchors."""

    variant: str
    player: Player
    elo: Interval
    blocks: int
    reference: Player | None
    """Who of its group stands at 0 instead of an anchor, because no chain of blocks leads to one; None if one does."""


class Group(Value):
    """Players that blocks connect, free ones first, and what was found about them."""

    variant: str
    players: tuple[Player, ...]
    reference: Player | None
    blocks: tuple[int, ...]
    nats: tuple[float, ...]
    inverse: tuple[tuple[float, ...], ...]
    """Of the information about the free players: how far one block more can still move them."""
    shakes: tuple[Shake, ...]


class _Score(Value, gc=False):
    """The sums over the blocks of a meeting: their number, comparisons, points, and squares and product of these."""

    blocks: int
    comparisons: int
    points: int
    comparisons_squared: int
    points_squared: int
    product: int


def rate(tally: Tally, anchors: Mapping[Player, float], confidence: float = CONFIDENCE) -> tuple[Rating, ...]:
    """Everybody in *tally*, by variant and player; *anchors* have the Elo given, in every variant they played in."""
    found = [each for group in fit(tally, anchors) for each in _ratings(group, confidence)]
    return tuple(sorted(found, key=lambda each: (each.variant, each.player)))


def fit(tally: Tally, anchors: Mapping[Player, float]) -> tuple[Group, ...]:
    """The groups of *tally*, each solved on its own, by variant and first player."""
    by_variant: dict[str, list[Meeting]] = {}
    for meeting in tally.meetings:
        by_variant.setdefault(meeting.variant, []).append(meeting)
    return tuple(
        _solved(variant, meetings, anchors)
        for variant in sorted(by_variant)
        for meetings in _connected(by_variant[variant])
    )


def difference(group: Group, one: Player, other: Player, confidence: float = CONFIDENCE) -> Interval:
    """By how much Elo *one* is stronger than *other*, both of *group*, with bounds."""
    places = [group.players.index(each) for each in (one, other)]
    variance = variance_between(group.inverse, group.shakes, *places)
    blocks = min(group.blocks[place] for place in places)
    return _interval(group.nats[places[0]] - group.nats[places[1]], variance, blocks, confidence)


def _ratings(group: Group, confidence: float) -> Iterable[Rating]:
    spreads = [*variances(group.inverse, group.shakes), *([0.0] * (len(group.players) - len(group.inverse)))]
    for player, nats, blocks, variance in zip(group.players, group.nats, group.blocks, spreads, strict=True):
        elo = _interval(nats, variance, blocks, confidence)
        yield Rating(variant=group.variant, player=player, elo=elo, blocks=blocks, reference=group.reference)


def _interval(nats: float, variance: float, blocks: int, confidence: float) -> Interval:
    # Student's t by the player's own blocks: however many others played, its own few decide about it.
    # Rounded, since that quantile goes through the C library's logarithm, whose last bit is the machine's.
    reach = round(quantile(confidence, max(1, blocks - 1)), QUANTILE_DIGITS) * math.sqrt(variance)
    lower, value, upper = ((nats + by) * ELO_PER_NAT for by in (-reach, 0.0, reach))
    return Interval(value=value, lower=lower, upper=upper)


def _connected(meetings: Sequence[Meeting]) -> list[Sequence[Meeting]]:
    """*meetings* by who is connected through them, in the order of each group's first meeting."""
    place = {player: number for number, player in enumerate(_players(meetings))}
    head, apart = list(range(len(place))), len(place)
    for meeting in meetings:
        one, other = _top(head, place[meeting.one]), _top(head, place[meeting.other])
        apart -= one != other
        head[one] = other
        if apart == 1:
            return [meetings]
    groups: dict[int, list[Meeting]] = {}
    for meeting in meetings:
        groups.setdefault(_top(head, place[meeting.one]), []).append(meeting)
    return list(groups.values())


def _top(head: list[int], player: int) -> int:
    """Who stands for all that *player* is connected with so far."""
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
    draws = [PRIOR_DRAWS / met[one] + PRIOR_DRAWS / met[other] for one, other in pairs]
    links = [
        Link(one=one, other=other, comparisons=score.comparisons + drawn, won=(score.points + drawn) / 2.0)
        for (one, other), score, drawn in zip(pairs, scores, draws, strict=True)
    ]
    free = len(players) - len(pinned)
    solution = solve(links, free, [anchors.get(player, 0.0) / ELO_PER_NAT for player in pinned])
    return Group(
        variant=variant,
        players=tuple(players),
        reference=None if pinned[0] in anchors else pinned[0],
        blocks=tuple(blocks),
        nats=solution.nats,
        inverse=solution.inverse,
        shakes=_shakes(pairs, scores, draws, odds_of(solution.nats), free),
    )


def _players(meetings: Sequence[Meeting]) -> list[Player]:
    return sorted({each.one for each in meetings} | {each.other for each in meetings})


def _score(meeting: Meeting) -> _Score:
    blocks = comparisons = points = comparisons_squared = points_squared = product = 0
    for met, won, times in meeting.outcomes:
        blocks += times
        comparisons += times * met
        points += times * won
        comparisons_squared += times * met * met
        points_squared += times * won * won
        product += times * met * won
    return _Score(
        blocks=blocks,
        comparisons=comparisons,
        points=points,
        comparisons_squared=comparisons_squared,
        points_squared=points_squared,
        product=product,
    )


def _shakes(
    pairs: Sequence[tuple[int, int]], scores: Sequence[_Score], draws: Sequence[float], odds: Sequence[float], free: int
) -> tuple[Shake, ...]:
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
    found = []
    for (one, other), score, drawn, chance, square, coin in zip(
        pairs, scores, draws, chances, squares, coins, strict=True
    ):
        spread = (square + PRIOR_BLOCKS * usual * coin / score.blocks) * score.blocks / (score.blocks + PRIOR_BLOCKS)
        spread += drawn * (chance * chance + (1.0 - chance) ** 2) / 2.0
        found.append(Shake(one=one, other=other, variance=spread))
    return tuple(found)


def _squares(score: _Score, chance: float) -> float:
    """The sum over blocks of the square of what was won more than *chance* says, in comparisons."""
    return score.points_squared / 4.0 - chance * score.product + chance * chance * score.comparisons_squared
