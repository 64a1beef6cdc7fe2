"""A fleet in which one node reports wrong results finds it, and shuts out nobody else."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random

import msgspec

from ringrift.evaluation import canary, homogeneity
from ringrift.evaluation.canary import CANARY_SHARE_MAX
from ringrift.events.evaluation import BlocksPlayed, Played
from ringrift.events.node import CanaryPlayed
from ringrift.events.selfplay import BatchFinished
from ringrift.jobs import Match
from ringrift.pipeline.trust import Known, Result, Trust, take

VARIANT, PLAYERS = "square8_2p", 2
NODES = tuple(f"n{number}" for number in range(8))
RUNS, GAMES = 200, 2_000
BATCH_GAMES, BLOCKS_PER_JOB, BLOCKS_PER_MATCH = 64, 32, 400
DRAWS = 0.04
"""Games of two equal players, and of a canary, that are drawn: turned round they look the same."""

Tell = Callable[[float, Random], float]


def honest(score: float, rng: Random) -> float:
    """A game as it was."""
    return score


def flips(share: float) -> Tell:
    """Turns this *share* of the games round."""
    return lambda score, rng: 1.0 - score if rng.random() < share else score


def boasts(score: float, rng: Random) -> float:
    """Every loss of the candidate is reported as a win."""
    return 1.0 if score == 0.0 else score


def game(chance: float, rng: Random) -> float:
    """What the candidate gets that wins *chance* of the games that are not drawn."""
    return 0.5 if rng.random() < DRAWS else float(rng.random() < chance)


@dataclass
class Fleet:
    """Nodes that report to one machine; *bad* tells results in its own way."""

    rng: Random
    bad: str
    tell: Tell
    chances: Sequence[float]
    """How strong the candidates of its matches are, one after the other."""
    canaries: bool = True
    known: Known = field(init=False)
    trusts: dict[str, Trust] = field(init=False)
    found: dict[str, int] = field(default_factory=dict)
    """Quarantined nodes, and after how many games each was."""
    share: float = 0.0
    """The largest share of canaries that any node ever had."""
    blocks: int = 0
    worst: float = 0.0
    """The largest residual that anybody of an honest fleet ever had."""

    def __post_init__(self) -> None:
        self.trusts = {node: Trust(node=node) for node in NODES}
        self.known = Known(trust=self.trusts[NODES[0]], canaries=canary.fresh(VARIANT, "1"),
                           agree=canary.agreeing(len(NODES)))  # fmt: skip
        self.truth = [[game(0.8, self.rng) for _ in range(PLAYERS)] for _ in range(canary.NUMBERS)]

    def run(self, games: int) -> "Fleet":
        """Let everybody play so many games, in an order of their own."""
        while left := [one for one in NODES if one not in self.found and self.trusts[one].games < games]:
            node = self.rng.choice(left)
            if self.rng.random() < 0.5:
                self.hear(BatchFinished(variant=VARIANT, batch="b", games=BATCH_GAMES, node=node, model="m"))
            else:
                self.hear(self.match(node))
        return self

    def match(self, node: str) -> BlocksPlayed:
        """The next blocks of the match that is on."""
        number = self.blocks // BLOCKS_PER_MATCH
        chance = self.chances[number % len(self.chances)]
        self.blocks += BLOCKS_PER_JOB
        scores = [[game(chance, self.rng) for _ in range(PLAYERS)] for _ in range(BLOCKS_PER_JOB)]
        candidate, played = f"c{number}", self.told(node, 0, scores)
        return BlocksPlayed(variant=VARIANT, candidate=candidate, champion="m", blocks=played, node=node)

    def told(self, node: str, first: int, scores: Sequence[Sequence[float]]) -> tuple[Played, ...]:
        """Blocks as *node* reports them."""
        tell = self.tell if node == self.bad else honest
        return tuple(
            Played(number=number, scores=tuple(tell(score, self.rng) for score in block))
            for number, block in enumerate(scores, first)
        )

    def hear(self, event: Result) -> None:
        """Take in a result, and have the canaries played that it leads to."""
        known = msgspec.structs.replace(self.known, trust=self.trusts[event.node])
        turn = take(known, event, 0.0)
        self.known, self.trusts[event.node] = turn.known, turn.known.trust
        if self.tell is honest and isinstance(event, BlocksPlayed):
            left = [one.z for one in homogeneity.residuals(self.known.tallies)]
            self.worst = max(self.worst, *left, 0.0)
        for said in turn.events:
            self.found[said.node] = self.trusts[said.node].games
        trust = self.trusts[event.node]
        self.share = max(self.share, trust.canary_games / trust.games)
        for job in turn.jobs if self.canaries else ():
            self.hear(self.canary(job))

    def canary(self, job: Match) -> CanaryPlayed:
        """A canary as its node reports it."""
        assert job.node is not None
        blocks = self.told(job.node, job.first, self.truth[job.first : job.first + job.count])
        return CanaryPlayed(variant=VARIANT, seed=job.seed, blocks=blocks, node=job.node)


BALANCED, MIXED = (0.5,), (0.5, 0.62, 0.35, 0.5)


@cache
def fleets(tell: Tell, chances: Sequence[float], canaries: bool = True, runs: int = RUNS) -> list[Fleet]:
    """Many runs; another node is the bad one each time, also the one that leads."""
    return [
        Fleet(Random(f"fleet {number}"), NODES[number % len(NODES)], tell, chances, canaries).run(GAMES)
        for number in range(runs)
    ]


FLIPPER = flips(0.05)


def test_a_node_that_flips_one_result_in_twenty_is_found() -> None:
    """In 98 of 100 runs and more it is quarantined within 2,000 games, also where scores are balanced."""
    games = [one.found[one.bad] for one in fleets(FLIPPER, BALANCED) if one.bad in one.found]

    assert len(games) >= 0.98 * RUNS
    assert max(games) <= GAMES


def test_nobody_honest_is_shut_out_beside_it() -> None:
    """In none of the runs with a flipper is another node quarantined: not even where the flipper leads."""
    assert all(set(one.found) <= {one.bad} for one in fleets(FLIPPER, BALANCED))


def test_nobody_is_shut_out_of_an_honest_fleet() -> None:
    """In as many runs of the same length with matches of all kinds nobody is, and no residual comes near the limit."""
    runs = fleets(honest, MIXED)

    assert not [one.found for one in runs if one.found]
    assert max(one.worst for one in runs) < homogeneity.RESIDUAL_MAX - 2


def test_canaries_stay_below_their_share() -> None:
    """At no moment of any run has a node had more canaries than allowed, and nearly as many are used."""
    shares = [one.share for one in (*fleets(FLIPPER, BALANCED), *fleets(honest, MIXED))]

    assert max(shares) <= CANARY_SHARE_MAX
    assert min(shares) > CANARY_SHARE_MAX - 0.01


def test_residuals_alone_find_who_turns_losses_into_wins() -> None:
    """Without any canary it is found in every run within half of the games, mostly within 300."""
    runs = fleets(boasts, MIXED, canaries=False, runs=50)
    games = sorted(one.found.get(one.bad, GAMES) for one in runs)

    assert all(set(one.found) == {one.bad} for one in runs)
    assert games[len(games) // 2] <= 300
    assert games[-1] <= GAMES // 2


def test_residuals_alone_cannot_see_a_flipper_at_balanced_scores() -> None:
    """This is what canaries are for: without them it is never found."""
    assert not [one.found for one in fleets(FLIPPER, BALANCED, canaries=False, runs=20) if one.found]
