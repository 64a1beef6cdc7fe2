"""Proof: which matches show that a run made its models stronger, and what they say once they have been played.

A claim is about the champion of one line: it beats generation 0, and on some variants a baseline that never learns.
Openings come from a seed and block numbers of their own and are longer than those of self-play and of the gate, so that
no position which a game of the proof begins with has helped to train or to promote anybody.
"""

import math
from collections.abc import Iterable, Sequence

from ringrift.evaluation import blocks as results
from ringrift.evaluation import interval
from ringrift.evaluation.blocks import Block
from ringrift.events.evaluation import BlocksPlayed
from ringrift.jobs import URGENT, Match
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import Value
from ringrift.kernel.variant import parse
from ringrift.pipeline.line import Decision, Line

GAMES_MIN = 256
"""Games below which a claim counts as not shown."""
OPENING_PLIES = 10
"""Random moves before the players begin: two more than elsewhere, so no opening of a proof is one of another match."""
BLOCKS_PER_JOB, BLOCKS_PER_BASELINE_JOB = 32, 16
"""Enough games at once to fill the network's batches; fewer where the opponent searches long, so that cores share."""
GENERATION_0_CONFIDENCE, BASELINE_CONFIDENCE = 0.99, 0.95


class Claim(Value):
    """That *model* scores more than *limit* against *opponent*, a blob or the name of a baseline."""

    variant: str
    players: int
    model: str
    generation: int
    opponent: str
    baseline: bool
    confidence: float
    limit: float
    first: int
    """Its first block: beyond every one that the gate may ask for."""

    @property
    def blocks(self) -> int:
        """How many blocks it takes to have the games."""
        return math.ceil(GAMES_MIN / self.players)

    @property
    def text(self) -> str:
        """The claim in words."""
        whom = self.opponent if self.baseline else "generation 0"
        return f"{self.variant}: the champion scores above {self.limit:.3g} against {whom}"


class Finding(Value):
    """What became of a claim."""

    claim: str
    variant: str
    model: str
    generation: int
    opponent: str
    baseline: bool
    score: float
    lower: float
    upper: float
    elo: float
    elo_lower: float
    elo_upper: float
    limit: float
    confidence: float
    blocks: int
    n: int
    """Games."""
    met: bool
    why: str
    """What it rests on, or what missed."""


def generation_0(decisions: Sequence[Decision]) -> str | None:
    """The model that a line began with: the first that was promoted."""
    return next((decision.model for decision in decisions if decision.promoted), None)


def claims(
    variant: str, line: Line | None, decisions: Sequence[Decision], policy: Policy, baselines: Sequence[str] = ()
) -> tuple[Claim, ...]:
    """What is to be shown of *variant*, also if it has no model yet: then it cannot be shown."""
    players = parse(variant).players
    champion, generation = (line.champion or "", line.generation) if line else ("", -1)
    opponents = [(generation_0(decisions) or "", False), *((name, True) for name in baselines)]
    return tuple(
        Claim(
            variant=variant, players=players, model=champion, generation=generation, opponent=opponent,
            baseline=baseline, limit=1.0 / players, first=policy.gate.blocks_max,
            confidence=BASELINE_CONFIDENCE if baseline else GENERATION_0_CONFIDENCE,
        )
        for opponent, baseline in opponents
    )  # fmt: skip


def matches(claim: Claim, seed: int) -> tuple[Match, ...]:
    """The jobs that play for *claim*.  What has learnt nothing yet is not worth a match."""
    if claim.generation < 1:
        return ()
    size = BLOCKS_PER_BASELINE_JOB if claim.baseline else BLOCKS_PER_JOB
    end = claim.first + claim.blocks
    return tuple(
        Match(
            variant=claim.variant, candidate=claim.model, champion="" if claim.baseline else claim.opponent,
            baseline=claim.opponent if claim.baseline else "", first=first, count=min(size, end - first),
            purpose="proof", plies=OPENING_PLIES, seed=seed_of(seed, "proof", claim.variant), priority=URGENT,
        )
        for first in range(claim.first, end, size)
    )  # fmt: skip


def asked(wanted: Sequence[Claim], seed: int) -> tuple[Match, ...]:
    """The jobs for all of *wanted*, those that take longest first: then the cores end together."""
    return tuple(job for claim in sorted(wanted, key=lambda one: not one.baseline) for job in matches(claim, seed))


def judge(claim: Claim, events: Iterable[BlocksPlayed]) -> Finding:
    """What *events* say about *claim*; blocks of other matches change nothing, and the first result of one stands."""
    mine = (event for event in events if _belongs(event, claim))
    played = results.merged((), (block for event in mine for block in results.of(event) if _counts(block, claim)))
    score = interval.of_score(results.means(played), claim.players, claim.confidence)
    elo = interval.in_elo(score, claim.players)
    games = len(played) * claim.players
    met, why = _verdict(claim, score.lower, games)
    return Finding(
        claim=claim.text, variant=claim.variant, model=claim.model, generation=claim.generation,
        opponent=claim.opponent, baseline=claim.baseline, score=score.value, lower=score.lower, upper=score.upper,
        elo=elo.value, elo_lower=elo.lower, elo_upper=elo.upper, limit=claim.limit, confidence=claim.confidence,
        blocks=len(played), n=games, met=met, why=why,
    )  # fmt: skip


def done(wanted: Sequence[Claim], events: Sequence[BlocksPlayed]) -> float:
    """Which share of the blocks that *wanted* asks for has been played."""
    total = sum(job.count for job in asked(wanted, 0))
    return sum(judge(claim, events).blocks for claim in wanted) / total if total else 1.0


def _belongs(event: BlocksPlayed, claim: Claim) -> bool:
    said = (event.variant, event.candidate, event.champion)
    return said == (claim.variant, claim.model, claim.opponent)


def _counts(block: Block, claim: Claim) -> bool:
    return claim.first <= block.number < claim.first + claim.blocks and len(block.scores) == claim.players


def _verdict(claim: Claim, lower: float, games: int) -> tuple[bool, str]:
    if claim.generation < 1:
        return False, "no candidate has passed the gate yet" if claim.model else "there is no model yet"
    if games < GAMES_MIN:
        return False, f"only {games} of {GAMES_MIN} games were played"
    bound = f"the lower {claim.confidence:.0%} bound {lower:.3f}"
    if lower <= claim.limit:
        return False, f"{bound} is not above {claim.limit:.3f}"
    return True, f"{bound} is above {claim.limit:.3f}"
