"""Proof: which matches show that a run made its models stronger, and what their results prove.

A claim is about the champion of one line: it beats generation 0, and on some variants a baseline that never learns.
Openings have the length that the variant declares, and come from a seed and block numbers of their own: no game of the
proof has helped to train or to promote a model.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from ringrift.evaluation import blocks as results
from ringrift.evaluation import interval
from ringrift.events.evaluation import BlocksPlayed
from ringrift.jobs import URGENT, Match, Purpose, match_jobs
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import Value, changed
from ringrift.kernel.variant import parse
from ringrift.pipeline.line import Decision, Line

GAMES_MIN = 256  #: Games below which a claim counts as not proven.
DIFFERENCE = (  #: Why a gain in a proof is not the Elo of the same model.
    "A gain of the proof is the result of one match: so many blocks, decided beforehand, with openings of their own. "
    "Elo is fitted to all matches of the line, most of them between neighbours that stopped as soon as they were "
    "decided: the two are measured apart, and the proof is the one to trust."
)
# Enough games at once to fill the network's batches; fewer where the opponent searches long, so that cores share.
BLOCKS_PER_JOB, BLOCKS_PER_BASELINE_JOB = 32, 16
_GENERATION_0_CONFIDENCE, _BASELINE_CONFIDENCE = 0.99, 0.95


class _Subject(Value):
    """That *model* scores more than *limit* against *opponent*, a blob or the name of a baseline."""

    variant: str
    model: str
    generation: int
    opponent: str
    baseline: bool
    limit: float
    confidence: float


class Claim(_Subject):
    """The claim, and the blocks that are played for it."""

    players: int
    first: int  #: Its first block: beyond every one that the gate may ask for.
    plies: int = 0  #: Random moves of an opening, as the variant declares; 0: as many as the workload likes.

    @property
    def blocks(self) -> int:
        """How many blocks it takes to have the games."""
        return math.ceil(GAMES_MIN / self.players)

    @property
    def text(self) -> str:
        """The claim in words."""
        opponent = self.opponent if self.baseline else "generation 0"
        return f"{self.variant}: the champion scores above {self.limit:.3g} against {opponent}"


class Finding(_Subject):
    """The outcome of a claim."""

    claim: str
    score: float
    lower: float
    upper: float
    gain: float  #: Over the opponent, on the scale of Elo: of this match alone.
    gain_lower: float
    gain_upper: float
    blocks: int
    n: int  #: Games.
    met: bool
    why: str  #: Its evidence, or the reason why it is not proven.


def generation_0(decisions: Sequence[Decision]) -> str | None:
    """The model that a line began with: the first that was promoted."""
    return next((decision.model for decision in decisions if decision.promoted), None)


def claims(
    variant: str,
    line: Line | None,
    decisions: Sequence[Decision],
    policy: Policy,
    baselines: Sequence[str] = (),
    plies: int = 0,
) -> tuple[Claim, ...]:
    """The claims about *variant*, also if it has no model yet: then they cannot be proven."""
    players = parse(variant).players
    champion, generation = (line.champion or "", line.generation) if line else ("", -1)
    shared: dict[str, Any] = {"variant": variant, "players": players, "model": champion, "generation": generation}
    shared |= {"limit": 1.0 / players, "first": policy.gate.blocks_max, "plies": plies}
    first = Claim(opponent=generation_0(decisions) or "", baseline=False, confidence=_GENERATION_0_CONFIDENCE, **shared)
    others = {"baseline": True, "confidence": _BASELINE_CONFIDENCE}
    return (first, *(changed(first, opponent=name, **others) for name in baselines))


def _matches(claim: Claim, seed: int) -> tuple[Match, ...]:
    """The jobs that play for *claim*.  A model that has learnt nothing yet is not worth a match."""
    if claim.generation < 1:
        return ()
    size = BLOCKS_PER_BASELINE_JOB if claim.baseline else BLOCKS_PER_JOB
    champion, baseline = ("", claim.opponent) if claim.baseline else (claim.opponent, "")
    blank = Match(variant=claim.variant, candidate=claim.model, champion=champion, baseline=baseline, first=0, count=1)
    seed = seed_of(seed, "proof", claim.variant)
    blank = changed(blank, purpose=Purpose.PROOF, plies=claim.plies, seed=seed, priority=URGENT)
    return match_jobs(blank, claim.first, claim.first + claim.blocks, size)


def jobs_for(claims: Sequence[Claim], seed: int) -> tuple[Match, ...]:
    """The jobs for all of *claims*, those that take longest first: then the cores end together."""
    return tuple(job for claim in sorted(claims, key=lambda claim: not claim.baseline) for job in _matches(claim, seed))


def judge(claim: Claim, events: Iterable[BlocksPlayed]) -> Finding:
    """The result of *claim* after *events*; blocks of other matches change nothing, the first result of one stands."""
    players = (claim.variant, claim.model, claim.opponent)
    own = [event for event in events if (event.variant, event.candidate, event.champion) == players]
    played = (block for event in own for block in results.from_event(event))
    numbers = range(claim.first, claim.first + claim.blocks)
    valid = (block for block in played if block.number in numbers and len(block.scores) == claim.players)
    blocks = results.merge((), valid)
    score = interval.of_score(results.means(blocks), claim.players, claim.confidence)
    gain = interval.in_elo(score, claim.players)
    games = len(blocks) * claim.players
    met, why = _verdict(claim, score.lower, games)
    subject: dict[str, Any] = {name: getattr(claim, name) for name in _Subject.__struct_fields__}
    subject |= {"score": score.value, "lower": score.lower, "upper": score.upper}
    subject |= {"gain": gain.value, "gain_lower": gain.lower, "gain_upper": gain.upper}
    return Finding(claim=claim.text, blocks=len(blocks), n=games, met=met, why=why, **subject)


def progress(claims: Sequence[Claim], events: Sequence[BlocksPlayed]) -> float:
    """Which share of the blocks that *claims* ask for has been played."""
    total = sum(job.count for job in jobs_for(claims, 0))
    return sum(judge(claim, events).blocks for claim in claims) / total if total else 1.0


def _verdict(claim: Claim, lower: float, games: int) -> tuple[bool, str]:
    if claim.generation < 1:
        return False, "no candidate has passed the gate yet" if claim.model else "there is no model yet"
    if games < GAMES_MIN:
        return False, f"only {games} of {GAMES_MIN} games were played"
    met = lower > claim.limit
    above = "is above" if met else "is not above"
    return met, f"the lower {claim.confidence:.0%} bound {lower:.3f} {above} {claim.limit:.3f}"
