"""Canary: blocks with a known outcome, which show exactly whether a node reports what it has played.

A canary is a match between the two weakest players that never train, which compute with whole numbers only, so each of
its numbered blocks has one outcome on every sound machine.  A variant that declares no such player has no canaries.
The truth about a number is the report of more than half of the nodes that have played it, and of two or three at least:
one wrong node, be it the leader, convicts no other.  Where only two nodes play there is no majority, and the report of
the trusted node is the truth.  A report that comes before the truth is known waits for it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ringrift.events.evaluation import Block
from ringrift.jobs import URGENT, Match, Purpose
from ringrift.kernel.ids import seed_of
from ringrift.kernel.value import Value, changed

_CANARY_SHARE_MAX = 0.06  #: Of all games of a node, from its first one on, counting those that are only enqueued.
CANDIDATE, OPPONENT = "greedy", "random"
NUMBERS = 64  #: Different canaries of a variant: a fault has many positions to show in; then they come again.
_BLOCKS_PER_JOB = 8
_REPORTS_MAX = 16  #: Nodes whose report on one number is kept; what comes beyond is judged by theirs.
# Nodes that must report the same before it is the truth: more than half of the fleet, but no more than the truth can
# wait for.  Where there are five, two nodes with the same fault convict no other.
AGREE_MIN, AGREE_MAX = 2, 3

_Scores = tuple[float, ...]  #: All that a node reports of a block: scores, and ranks where there are any.


class Canaries(Value):
    """The canaries of one variant."""

    variant: str
    seed: int
    refused: bool = False  #: Whether the variant has no such players: then no canary is asked for.
    players: tuple[str, str] = (CANDIDATE, OPPONENT)
    reports: dict[int, dict[str, _Scores]] = {}  #: By number: what each node has reported first.


class _Mismatch(Value):
    """A node that did not report the outcome that a canary has."""

    node: str
    number: int
    scores: _Scores
    truth: _Scores


def fresh(variant: str, version: str, baselines: Sequence[str] | None = None) -> Canaries:
    """Canaries without reports between the first two of *baselines*; None: it is not known which the variant declares.

    Another *version* of the program may draw openings otherwise, so it has its own.
    """
    blank = Canaries(variant=variant, seed=seed_of("canary", version, variant, *(baselines or ())[:2]))
    if baselines is None:
        return blank
    if not baselines:
        return changed(blank, refused=True)
    return changed(blank, players=(baselines[:2][-1], baselines[0]))


def blocks_owed(games: int, canary_games: int, players: int) -> int:
    """How many blocks may be asked of a node with *games* games, after so many games of canaries."""
    return max(math.floor((_CANARY_SHARE_MAX * games - canary_games) / players), 0)


def job(canaries: Canaries, node: str, first: int, count: int) -> Match:
    """The canaries from number *first* on, for *node* alone; it ends where the numbers begin again."""
    count = min(count, _BLOCKS_PER_JOB, NUMBERS - first)
    candidate, opponent = canaries.players
    match = Match(variant=canaries.variant, candidate=candidate, baseline=opponent, first=first, count=count)
    return changed(match, seed=canaries.seed, priority=URGENT, node=node, purpose=Purpose.CANARY)


def agreement(voters: int) -> int:
    """How many of *voters* must report the same before it is the truth."""
    return min(max(voters // 2 + 1, AGREE_MIN), AGREE_MAX)


def judge_report(
    canaries: Canaries, node: str, blocks: Iterable[Block], *, trusted: str | None, agree: int
) -> tuple[Canaries, tuple[_Mismatch, ...]]:
    """*canaries* with the report of *node*, and every node that it shows to be wrong: it may make the truth known."""
    reports, mismatches = dict(canaries.reports), list[_Mismatch]()
    for block in blocks:
        number = block.number
        if not 0 <= number < NUMBERS:
            continue
        latest = (*block.scores, *block.ranks)
        first = {node: latest, **reports.get(number, {})}  # the first report stands
        truth = _settled(first, trusted, agree)
        # Its latest report, too: a node that contradicts itself is wrong as well.
        for reporter, scores in dict.fromkeys([*first.items(), (node, latest)]):
            right = truth or first[reporter]
            if scores != right:
                mismatches.append(_Mismatch(node=reporter, number=number, scores=scores, truth=right))
        if node in reports.get(number, {}) or len(first) <= _REPORTS_MAX:
            reports[number] = first
    return changed(canaries, reports=reports), tuple(mismatches)


def _settled(reports: Mapping[str, _Scores], trusted: str | None, agree: int) -> _Scores | None:
    """The truth that *reports* make known: that of the node *trusted* if there is one, else of more than half."""
    if trusted is not None:
        return reports.get(trusted)
    [(scores, votes)] = Counter(reports.values()).most_common(1)
    return scores if votes >= agree and 2 * votes > len(reports) else None


def forget(canaries: Canaries, node: str) -> Canaries:
    """*canaries* without the reports of *node*, which starts anew."""
    rest = {n: {of: scores for of, scores in by.items() if of != node} for n, by in canaries.reports.items()}
    return changed(canaries, reports={number: reports for number, reports in rest.items() if reports})
