"""A fleet in which one node reports wrong results detects it, and quarantines no other node."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random

import msgspec

from ringrift.evaluation import canary, homogeneity
from ringrift.evaluation.canary import _CANARY_SHARE_MAX
from ringrift.events.evaluation import Block, BlocksPlayed
from ringrift.events.node import CanaryPlayed
from ringrift.events.selfplay import BatchFinished
from ringrift.jobs import Match
from ringrift.pipeline.trust import Result, Trust, TrustState, judge_result

VARIANT, PLAYERS = "square8_2p", 2
NODES = tuple(f"n{number}" for number in range(8))
RUNS, GAMES = 200, 2_000
BATCH_GAMES, BLOCKS_PER_JOB, BLOCKS_PER_MATCH = 64, 32, 400
DRAWS = 0.04
"""Games of two equal players, and of a canary, that are drawn: flipped they look the same."""

Distort = Callable[[float, Random], float]


def honest(score: float, rng: Random) -> float:
    """Report a game as it was."""
    return score


def flips(share: float) -> Distort:
    """Flip this *share* of the games."""
    return lambda score, rng: 1.0 - score if rng.random() < share else score


def boasts(score: float, rng: Random) -> float:
    """Report every loss of the candidate as a win."""
    return 1.0 if score == 0.0 else score


def game(chance: float, rng: Random) -> float:
    """The score of a candidate that wins *chance* of the games that are not drawn."""
    return 0.5 if rng.random() < DRAWS else float(rng.random() < chance)


@dataclass
class Fleet:
    """Nodes that report to one machine; *bad* distorts its results with *distort*."""

    rng: Random
    bad: str
    distort: Distort
    chances: Sequence[float]
    """How strong the candidates of its matches are, one after the other."""
    canaries: bool = True
    state: TrustState = field(init=False)
    trusts: dict[str, Trust] = field(init=False)
    actual: dict[str, int] = field(default_factory=dict)
    """Quarantined nodes, and after how many games each was."""
    share: float = 0.0
    """The largest share of canaries that any node ever had."""
    blocks: int = 0
    worst: float = 0.0
    """The largest residual that a node of an honest fleet ever had."""

    def __post_init__(self) -> None:
        self.trusts = {node: Trust(node=node) for node in NODES}
        canaries, agree = canary.fresh(VARIANT, "1"), canary.agreement(len(NODES))
        self.state = TrustState(trust=self.trusts[NODES[0]], canaries=canaries, agree=agree)
        self.truth = [[game(0.8, self.rng) for _ in range(PLAYERS)] for _ in range(canary.NUMBERS)]

    def run(self, games: int) -> "Fleet":
        """Let all nodes play this many games, in an order of their own."""
        while left := [node for node in NODES if node not in self.actual and self.trusts[node].games < games]:
            node = self.rng.choice(left)
            if self.rng.random() < 0.5:
                self.record(BatchFinished(variant=VARIANT, batch="b", games=BATCH_GAMES, node=node, model="m"))
            else:
                self.record(self.match(node))
        return self

    def match(self, node: str) -> BlocksPlayed:
        """The next blocks of the current match."""
        number = self.blocks // BLOCKS_PER_MATCH
        chance = self.chances[number % len(self.chances)]
        self.blocks += BLOCKS_PER_JOB
        scores = [[game(chance, self.rng) for _ in range(PLAYERS)] for _ in range(BLOCKS_PER_JOB)]
        candidate, played = f"c{number}", self.log(node, 0, scores)
        return BlocksPlayed(variant=VARIANT, candidate=candidate, champion="m", blocks=played, node=node)

    def log(self, node: str, first: int, scores: Sequence[Sequence[float]]) -> tuple[Block, ...]:
        """Blocks as *node* reports them."""
        distort = self.distort if node == self.bad else honest
        return tuple(
            Block(number=number, scores=tuple(distort(score, self.rng) for score in block))
            for number, block in enumerate(scores, first)
        )

    def record(self, event: Result) -> None:
        """Record a result, and have the canaries played that it leads to."""
        before = msgspec.structs.replace(self.state, trust=self.trusts[event.node])
        step = judge_result(before, event, 0.0)
        self.state, self.trusts[event.node] = step.state, step.state.trust
        if self.distort is honest and isinstance(event, BlocksPlayed):
            left = [residual.z for residual in homogeneity._residuals(self.state.tallies)]
            self.worst = max(self.worst, *left, 0.0)
        for verdict in step.events:
            self.actual[verdict.node] = self.trusts[verdict.node].games
        trust = self.trusts[event.node]
        self.share = max(self.share, trust.canary_games / trust.games)
        for job in step.jobs if self.canaries else ():
            self.record(self.canary(job))

    def canary(self, job: Match) -> CanaryPlayed:
        """A canary as its node reports it."""
        assert job.node is not None
        blocks = self.log(job.node, job.first, self.truth[job.first : job.first + job.count])
        return CanaryPlayed(variant=VARIANT, seed=job.seed, blocks=blocks, node=job.node)


BALANCED, MIXED = (0.5,), (0.5, 0.62, 0.35, 0.5)


@cache
def fleets(distort: Distort, chances: Sequence[float], canaries: bool = True, runs: int = RUNS) -> list[Fleet]:
    """Many runs; another node is the bad one each time, also the one that leads."""
    return [
        Fleet(Random(f"fleet {number}"), NODES[number % len(NODES)], distort, chances, canaries).run(GAMES)
        for number in range(runs)
    ]


FLIPPER = flips(0.05)


def test_a_node_that_flips_one_result_in_twenty_is_detected() -> None:
    """In 98 of 100 runs and more it is quarantined within 2,000 games, also where scores are balanced."""
    games = [fleet.actual[fleet.bad] for fleet in fleets(FLIPPER, BALANCED) if fleet.bad in fleet.actual]

    assert len(games) >= 0.98 * RUNS
    assert max(games) <= GAMES


def test_no_honest_node_is_quarantined_beside_it() -> None:
    """In none of the runs with such a node is another node quarantined, not even where that node leads."""
    assert all(set(fleet.actual) <= {fleet.bad} for fleet in fleets(FLIPPER, BALANCED))


def test_no_node_of_an_honest_fleet_is_quarantined() -> None:
    """In as many runs of the same length with matches of all kinds none is, and no residual comes near the limit."""
    runs = fleets(honest, MIXED)

    assert not [fleet.actual for fleet in runs if fleet.actual]
    assert max(fleet.worst for fleet in runs) < homogeneity.RESIDUAL_MAX - 2


def test_canaries_stay_below_their_share() -> None:
    """At no moment of any run has a node had more canaries than allowed, and nearly as many are used."""
    shares = [fleet.share for fleet in (*fleets(FLIPPER, BALANCED), *fleets(honest, MIXED))]

    assert max(shares) <= _CANARY_SHARE_MAX
    assert min(shares) > _CANARY_SHARE_MAX - 0.01


def test_residuals_alone_detect_losses_reported_as_wins() -> None:
    """Without any canary the node is detected in every run within half of the games, mostly within 300."""
    runs = fleets(boasts, MIXED, canaries=False, runs=50)
    games = sorted(fleet.actual.get(fleet.bad, GAMES) for fleet in runs)

    assert all(set(fleet.actual) == {fleet.bad} for fleet in runs)
    assert games[len(games) // 2] <= 300
    assert games[-1] <= GAMES // 2


def test_residuals_alone_cannot_detect_flips_at_balanced_scores() -> None:
    """This is the purpose of canaries: without them the node is never detected."""
    assert not [fleet.actual for fleet in fleets(FLIPPER, BALANCED, canaries=False, runs=20) if fleet.actual]
