"""Trust: which nodes are believed, as one function without clock, disk or network.

    results of a node ─▶ its games are counted; canaries are asked for while their share allows it
    blocks of a match ─▶ tallied by node; who lies too far from the others is quarantined
    canaries          ─▶ compared exactly; who differs from the truth is quarantined

What a quarantined node still reports counts for nothing.
"""

from ringrift.evaluation import canary, homogeneity
from ringrift.evaluation.canary import Canaries
from ringrift.evaluation.homogeneity import Tally
from ringrift.events.evaluation import BlocksPlayed
from ringrift.events.node import CanaryPlayed, Quarantined
from ringrift.events.selfplay import BatchFinished
from ringrift.events.work import Buried
from ringrift.jobs import CANARY, Match
from ringrift.kernel.value import Value
from ringrift.kernel.variant import parse
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.step import changed

KIND, CANARIES, TALLY = "trust", "canary", "tally"
GATE = "trust"
TALLIES_MAX = 32
"""Matches that are remembered; the oldest go first."""
OPEN_MAX = 2
"""Canary jobs that may wait for one node: one that is away must not find a heap of them."""
MAJORITY_MIN = 3
"""Nodes that play from which on a majority tells the truth; among fewer the leader is trusted."""
SETTLE_SECONDS = 600.0
"""How long nobody must have joined before the leader is trusted: a fleet that just starts may yet have a majority."""

Result = BatchFinished | BlocksPlayed | CanaryPlayed


class Trust(Value):
    """What is remembered of one node."""

    node: str
    games: int = 0
    """All that it has reported, canaries included."""
    canary_games: int = 0
    """Games of the canaries asked of it."""
    answered: int = 0
    """Canary blocks that it has reported."""
    under_way: int = 0
    """Canary jobs asked for and neither answered nor given up."""
    following: dict[str, int] = {}
    """By variant: the number of its next canary."""


class Known(Value):
    """What is written down about the node of an event, its variant and the fleet."""

    trust: Trust
    canaries: Canaries
    tallies: tuple[Tally, ...] = ()
    quarantined: frozenset[str] = frozenset()
    trusted: str | None = None
    """Whose word is the truth because there is no majority to ask."""
    agree: int = canary.AGREE_MIN
    """How many must say the same of a canary before it is the truth."""


class Turn(Value):
    """What is known after an event, and what that calls for.  Everything in it is written in one transaction."""

    known: Known
    jobs: tuple[Match, ...] = ()
    events: tuple[Quarantined, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    """For each of *events*, why."""
    dropped: tuple[str, ...] = ()
    """Tallies that are remembered no more."""


def tally_id(event: BlocksPlayed) -> str:
    """The name of the match that *event* belongs to; with other settings the same models play another one."""
    return f"{event.variant}:{event.candidate}:{event.champion}:{event.settings}"


def take(known: Known, event: Result, at: float) -> Turn:
    """Take in what a node has reported."""
    if event.node in known.quarantined:
        return Turn(known=known)
    players = parse(event.variant).players
    games = event.games if isinstance(event, BatchFinished) else players * len(event.blocks)
    known = changed(known, trust=changed(known.trust, games=known.trust.games + games))
    turn = Turn(known=known)
    match event:
        case BlocksPlayed():
            turn = _compared(known, event, players, at)
        case CanaryPlayed():
            turn = _tried(known, event, at)
    return turn if event.node in turn.known.quarantined else _asked(turn, event.variant, players)


def give_up(known: Known, event: Buried) -> Turn:
    """A canary was not played.  One that was refused at once never will be: the workload has no such players."""
    trust = changed(known.trust, under_way=max(known.trust.under_way - 1, 0))
    canaries = canary.refused(known.canaries) if event.attempts <= 1 else known.canaries
    return Turn(known=changed(known, trust=trust, canaries=canaries))


def node_of(key: str) -> str | None:
    """The node that the canary job with this *key* was asked of; None for the key of another job."""
    return key.removeprefix(CANARY).partition(":")[0] if key.startswith(CANARY) else None


def by_hand(reason: str, at: float) -> Verdict:
    """The verdict of a person."""
    return Verdict(gate=GATE, allowed=False, rule=f"by hand: {reason}", value=1.0, limit=0.0, since=at)


def _compared(known: Known, event: BlocksPlayed, players: int, at: float) -> Turn:
    """Blocks of a match, seen beside those of the other nodes."""
    name = tally_id(event)
    mine = next((tally for tally in known.tallies if tally.match == name), Tally(match=name, since=at))
    mine = homogeneity.reported(mine, event.node, homogeneity.counted(event.blocks, players))
    tallies = sorted((mine, *(tally for tally in known.tallies if tally.match != name)), key=lambda one: one.since)
    dropped, tallies = tallies[:-TALLIES_MAX], tallies[-TALLIES_MAX:]
    verdicts = {
        found.node: Verdict(
            gate=GATE, allowed=False, rule="results away from those of other nodes, in deviations", value=found.z,
            limit=homogeneity.RESIDUAL_MAX, since=at,
        )
        for found in homogeneity.outliers(tallies)
    }  # fmt: skip
    turn = _convicted(changed(known, tallies=tuple(tallies)), verdicts)
    return changed(turn, dropped=tuple(tally.match for tally in dropped))


def _tried(known: Known, event: CanaryPlayed, at: float) -> Turn:
    """Canaries, compared with the truth.  Those of another seed were asked for by another version of the program."""
    trust = known.trust
    trust = changed(
        trust, answered=trust.answered + len(event.blocks), under_way=max(trust.under_way - 1, 0)
    )  # fmt: skip
    known = changed(known, trust=trust)
    if event.seed != known.canaries.seed:
        return Turn(known=known)
    heard = canary.heard(known.canaries, event.node, event.blocks, trusted=known.trusted, agree=known.agree)
    verdicts = {
        wrong.node: Verdict(
            gate=GATE, allowed=False, value=1.0, limit=0.0, since=at,
            rule=f"canary {wrong.number} of {event.variant} scores {list(wrong.truth)}, not {list(wrong.said)}: wrong",
        )
        for wrong in reversed(heard.wrong)
    }  # fmt: skip
    return _convicted(changed(known, canaries=heard.canaries), verdicts)


def _convicted(known: Known, verdicts: dict[str, Verdict]) -> Turn:
    """*known* with these nodes in quarantine and their blocks out of every tally."""
    new = {node: why for node, why in verdicts.items() if node not in known.quarantined}
    if not new:
        return Turn(known=known)
    known = changed(
        known, quarantined=known.quarantined | set(new),
        tallies=tuple(homogeneity.without(tally, new) for tally in known.tallies),
    )  # fmt: skip
    said = tuple(Quarantined(node=node, reason=f"{why.rule}: {why.value:.3g} of {why.limit:g}")
                 for node, why in new.items())  # fmt: skip
    return Turn(known=known, events=said, verdicts=tuple(new.values()))


def _asked(turn: Turn, variant: str, players: int) -> Turn:
    """*turn* with the next canaries of its node, if their share allows some."""
    trust, canaries = turn.known.trust, turn.known.canaries
    owed = canary.blocks_owed(trust.games, trust.canary_games, players)
    if not owed or canaries.refused or trust.under_way >= OPEN_MAX:
        return turn
    job = canary.job(canaries, trust.node, trust.following.get(variant, 0), owed)
    trust = changed(
        trust, canary_games=trust.canary_games + players * job.count, under_way=trust.under_way + 1,
        following={**trust.following, variant: (job.first + job.count) % canary.NUMBERS},
    )  # fmt: skip
    return changed(turn, known=changed(turn.known, trust=trust), jobs=(job,))
