"""Canary: blocks with a known outcome, which show exactly whether a node reports what it has played.

A canary is a match between two players that never train and compute with whole numbers only, so each of its numbered
blocks has one outcome on every sound machine.  The truth about a number is what more than half of those who have played
it say, and two or three at least: one wrong node, be it the leader, convicts nobody.  Where only two nodes play there
is no majority, and the word of the trusted node is the truth.  What comes before the truth is known waits for it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from ringrift.events.evaluation import Played
from ringrift.jobs import URGENT, Match
from ringrift.kernel.ids import seed_of
from ringrift.kernel.value import Value

CANARY_SHARE_MAX = 0.06
"""Of all games of a node, those of its canaries: from its first game on, also while they are only asked for."""
CANDIDATE, OPPONENT = "greedy", "random"
NUMBERS = 64
"""Different canaries of a variant: enough that a fault has many positions to show in; then they come again."""
BLOCKS_PER_JOB = 8
WORDS_MAX = 16
"""Nodes whose word on one number is kept; what comes beyond is judged by theirs."""
AGREE_MIN, AGREE_MAX = 2, 3
"""Nodes that must say the same before it is the truth: more than half of the fleet, but no more than the truth can wait
for.  Where there are five, two nodes with the same fault convict nobody."""

Scores = tuple[float, ...]
"""All that a node says of a block: scores, and ranks where there are any."""


class Canaries(Value):
    """What is known of the canaries of one variant."""

    variant: str
    seed: int
    refused: bool = False
    """The workload has no such players: none is asked for any more."""
    words: dict[int, dict[str, Scores]] = {}
    """By number: what each node has said first."""


class Wrong(Value):
    """A node that did not report the outcome that a canary has."""

    node: str
    number: int
    said: Scores
    truth: Scores


class Heard(Value):
    """What is known after a report, and whom it convicts."""

    canaries: Canaries
    wrong: tuple[Wrong, ...] = ()


def fresh(variant: str, version: str) -> Canaries:
    """Nothing known yet.  Another *version* of the program may draw openings otherwise, so it has its own canaries."""
    return Canaries(variant=variant, seed=seed_of("canary", version, variant))


def blocks_owed(games: int, asked: int, players: int) -> int:
    """How many blocks may be asked of a node with *games* games, after *asked* games of canaries."""
    return max(math.floor((CANARY_SHARE_MAX * games - asked) / players), 0)


def job(known: Canaries, node: str, first: int, count: int) -> Match:
    """The canaries from number *first* on, for *node* alone; it ends where the numbers begin again."""
    return Match(
        variant=known.variant, candidate=CANDIDATE, baseline=OPPONENT, first=first,
        count=min(count, BLOCKS_PER_JOB, NUMBERS - first), seed=known.seed, priority=URGENT, node=node,
        purpose="canary",
    )  # fmt: skip


def agreeing(voters: int) -> int:
    """How many of *voters* must say the same before it is the truth."""
    return min(max(voters // 2 + 1, AGREE_MIN), AGREE_MAX)


def heard(known: Canaries, node: str, blocks: Iterable[Played], *, trusted: str | None, agree: int) -> Heard:
    """What *node* reports, kept and judged; also others are, where it makes the truth known."""
    words, wrong = dict(known.words), list[Wrong]()
    for block in blocks:
        number = block.number
        if not 0 <= number < NUMBERS:
            continue
        word = (*block.scores, *block.ranks)
        said = {node: word, **words.get(number, {})}  # the first word stands
        truth = settled(said, trusted, agree)
        told = [*said.items(), (node, word)]  # its last word, too: who contradicts himself is wrong as well
        wrong += [
            Wrong(node=one, number=number, said=scores, truth=truth or said[one])
            for one, scores in dict.fromkeys(told)
            if scores != (truth or said[one])
        ]
        if node in words.get(number, {}) or len(said) <= WORDS_MAX:
            words[number] = said
    return Heard(canaries=_with(known, words), wrong=tuple(wrong))


def settled(said: Mapping[str, Scores], trusted: str | None, agree: int) -> Scores | None:
    """The truth that the words of nodes make known: that of *trusted* if there is one, else of more than half."""
    if trusted is not None:
        return said.get(trusted)
    [(scores, votes)] = Counter(said.values()).most_common(1)
    return scores if votes >= agree and 2 * votes > len(said) else None


def forgotten(known: Canaries, node: str) -> Canaries:
    """*known* without the words of *node*, for it starts anew."""
    kept = {number: {one: word for one, word in said.items() if one != node} for number, said in known.words.items()}
    return _with(known, {number: said for number, said in kept.items() if said})


def refused(known: Canaries) -> Canaries:
    """*known*, of a workload that has no such players."""
    return Canaries(variant=known.variant, seed=known.seed, refused=True, words=known.words)


def _with(known: Canaries, words: dict[int, dict[str, Scores]]) -> Canaries:
    return Canaries(variant=known.variant, seed=known.seed, refused=known.refused, words=words)
