"""Homogeneity: how far the results of each node lie from what the others say of the same matches.

Blocks are told apart by their outcome only: the candidate ahead, even or behind.  What is expected of a node in a match
is the outcome of the others' blocks there, so a match that no two others have played says nothing about it, nor does
one in which an outcome is too rare.  Deviations add up over matches in three directions: towards the candidate, towards
whoever the others see ahead, and towards even blocks.

A deviation t with variance V, of which one block makes at most b, has by Bernstein's inequality a chance of at most
exp(-z² / 2) in either direction, where z = t / √(V + b t / 3).  No limit theorem is needed, and z reads like a
residual in standard deviations.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from operator import add

from ringrift.events.evaluation import Block
from ringrift.kernel.value import Value, changed

RESIDUAL_MAX = 7.0  #: Beyond it a node is an outlier: by chance alone at most once in 7,000,000,000 looks at a node.
_EXPECTED_MIN = 5.0  #: Blocks of either side ahead that the others must let expect of a node, and must have themselves.
_OTHERS_MIN = 2  #: Other nodes that must have played a match: of two nodes there is no telling which is wrong.
_NODES_MAX = 1000  #: Nodes that are told apart in one match.
_EVEN = 1e-9


class _OutcomeCounts(Value):
    """Blocks by their outcome for the candidate."""

    ahead: int = 0
    even: int = 0
    behind: int = 0

    @property
    def outcomes(self) -> "_Outcomes":
        return self.ahead, self.even, self.behind

    @property
    def blocks(self) -> int:
        return self.ahead + self.even + self.behind


_Outcomes = tuple[int, int, int]  #: Blocks ahead, even and behind.
_Match = tuple[_OutcomeCounts, _Outcomes]  #: What a node has reported of a match, and what all others have.


class MatchTally(Value):
    """One match: what each node has reported of it."""

    match: str
    since: float = 0.0
    nodes: dict[str, _OutcomeCounts] = {}


class _Residual(Value):
    """How far a node lies from the others, as if in standard deviations, over so many blocks."""

    node: str
    z: float
    blocks: int


def count_outcomes(blocks: Iterable[Block], players: int) -> _OutcomeCounts:
    """The outcomes of *blocks*."""
    gains = [sum(block.scores) / len(block.scores) - 1.0 / players for block in blocks]
    ahead, behind = sum(gain > _EVEN for gain in gains), sum(gain < -_EVEN for gain in gains)
    return _OutcomeCounts(ahead=ahead, even=len(gains) - ahead - behind, behind=behind)


def add_counts(tally: MatchTally, node: str, more: _OutcomeCounts) -> MatchTally:
    """*tally* with what *node* reports; a match knows no more than NODES_MAX nodes."""
    if node not in tally.nodes and len(tally.nodes) >= _NODES_MAX:
        return tally
    ahead, even, behind = map(add, tally.nodes.get(node, _OutcomeCounts()).outcomes, more.outcomes)
    return changed(tally, nodes={**tally.nodes, node: _OutcomeCounts(ahead=ahead, even=even, behind=behind)})


def without(tally: MatchTally, nodes: Collection[str]) -> MatchTally:
    """*tally* without what *nodes* have reported."""
    rest = {node: counts for node, counts in tally.nodes.items() if node not in nodes}
    return tally if len(rest) == len(tally.nodes) else changed(tally, nodes=rest)


def outliers(tallies: Sequence[MatchTally], limit: float = RESIDUAL_MAX) -> tuple[_Residual, ...]:
    """The nodes beyond *limit*, worst first: each is looked for among those that are left, for one spoils the rest."""
    worst: list[_Residual] = []
    for _ in {node for tally in tallies for node in tally.nodes}:
        left = _residuals(tallies)
        if not left or left[0].z < limit:
            break
        worst.append(left[0])
        tallies = [without(tally, {left[0].node}) for tally in tallies]
    return tuple(worst)


def _residuals(tallies: Iterable[MatchTally]) -> tuple[_Residual, ...]:
    """Every node with enough blocks to judge it, the worst first."""
    walks: dict[str, list[_Match]] = {}
    for tally in tallies:
        active = {node: counts for node, counts in tally.nodes.items() if counts.blocks}
        if len(active) <= _OTHERS_MIN:
            continue
        ahead, even, behind = map(sum, zip(*(counts.outcomes for counts in active.values()), strict=True))
        for node, own in active.items():
            others = (ahead - own.ahead, even - own.even, behind - own.behind)
            if _is_telling(own.blocks, others):
                walks.setdefault(node, []).append((own, others))
    measured = [_measure(node, walk) for node, walk in walks.items()]
    return tuple(sorted(measured, key=lambda residual: (-residual.z, residual.node)))


def _is_telling(blocks: int, others: _Outcomes) -> bool:
    """Whether both sides are ahead often enough: a share of nothing would make one odd block a certainty."""
    rarer = min(others[0], others[2])
    return rarer >= _EXPECTED_MIN and blocks * rarer >= _EXPECTED_MIN * sum(others)


def _measure(node: str, matches: Iterable[_Match]) -> _Residual:
    """The largest of the three deviations of *node*; a block counts 1 ahead and -1 behind, or 1 if it is even."""
    blocks = 0
    sided = favourite = evens = variance = even_variance = most = even_most = 0.0
    for own, (ahead, even, behind) in matches:
        n, pool = own.blocks, ahead + even + behind
        mean, even_mean = (ahead - behind) / pool, even / pool
        deviation = own.ahead - own.behind - n * mean
        # The others are a sample too: their mean is off by as much as their number allows.
        spread, weight = n * (1.0 + n / pool), max(1.0, n / pool)
        blocks += n
        sided += deviation
        favourite += deviation if mean >= 0.0 else -deviation
        variance += spread * ((ahead + behind) / pool - mean * mean)
        most = max(most, weight * (1.0 + abs(mean)))
        evens += own.even - n * even_mean
        even_variance += spread * even_mean * (1.0 - even_mean)
        even_most = max(even_most, weight * max(even_mean, 1.0 - even_mean))
    z = _bernstein(max(abs(sided), abs(favourite)), variance, most)
    return _Residual(node=node, z=max(z, _bernstein(abs(evens), even_variance, even_most)), blocks=blocks)


def _bernstein(deviation: float, variance: float, most: float) -> float:
    return deviation / math.sqrt(variance + most * deviation / 3) if deviation else 0.0
