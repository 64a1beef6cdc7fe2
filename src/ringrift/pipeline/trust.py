"""Trust: which nodes are believed, as one function without clock, disk or network.

    results of a node ─▶ its games are counted; canaries are asked for while their share allows it
    blocks of a match ─▶ tallied by node; a node too far from the others is quarantined
    canaries          ─▶ compared exactly; a node that differs from the truth is quarantined

What a quarantined node still reports counts for nothing.
"""

from ringrift.evaluation import canary, homogeneity
from ringrift.evaluation.canary import Canaries
from ringrift.evaluation.homogeneity import MatchTally
from ringrift.events.evaluation import BlocksPlayed
from ringrift.events.node import CanaryPlayed, Quarantined
from ringrift.events.selfplay import BatchFinished
from ringrift.events.work import Buried
from ringrift.jobs import Match
from ringrift.kernel.value import Value, changed
from ringrift.kernel.variant import parse
from ringrift.kernel.verdict import Verdict
from ringrift.store.records import Records

_TALLIES_MAX = 32  #: Matches that are remembered; the oldest go first.
_OPEN_MAX = 2  #: Canary jobs that may wait for one node: one that is away must not find a heap of them.
MAJORITY_MIN = 3  #: Nodes that play from which on a majority tells the truth; among fewer the leader is trusted.
SETTLE_SECONDS = 600.0  #: Without a node joining before the leader is trusted: a fleet may yet have a majority.

Result = BatchFinished | BlocksPlayed | CanaryPlayed


class Trust(Value):
    """The trust record of one node."""

    node: str
    games: int = 0  #: All that it has reported, canaries included.
    canary_games: int = 0  #: Games of the canaries asked of it.
    answered: int = 0  #: Canary blocks that it has reported.
    open_jobs: int = 0  #: Canary jobs neither answered nor given up.
    following: dict[str, int] = {}  #: By variant: the number of its next canary.


TRUSTS = Records("trust", Trust, id="node")
CANARIES = Records("canary", Canaries, id="variant")
TALLIES = Records("tally", MatchTally, id="match", limit=2 * _TALLIES_MAX)


class TrustState(Value):
    """The records about the node of an event, its variant and the fleet."""

    trust: Trust
    canaries: Canaries
    tallies: tuple[MatchTally, ...] = ()
    quarantined: frozenset[str] = frozenset()
    trusted: str | None = None  #: The node whose report is the truth because there is no majority to ask.
    room: bool = True  #: Whether the queue of matches has room for canaries.
    agree: int = canary.AGREE_MIN  #: How many nodes must report the same of a canary before it is the truth.


class TrustStep(Value):
    """The state after an event, and what follows.  Everything in it is written in one transaction."""

    state: TrustState
    jobs: tuple[Match, ...] = ()
    events: tuple[Quarantined, ...] = ()
    verdicts: tuple[Verdict, ...] = ()  #: For each of *events*, why.
    dropped: tuple[str, ...] = ()  #: Tallies that are remembered no more.


def judge_result(state: TrustState, event: Result, at: float) -> TrustStep:
    """The state after a report of a node."""
    if event.node in state.quarantined:
        return TrustStep(state=state)
    players = parse(event.variant).players
    games = event.games if isinstance(event, BatchFinished) else players * len(event.blocks)
    state = changed(state, trust=changed(state.trust, games=state.trust.games + games))
    step = TrustStep(state=state)
    if isinstance(event, BlocksPlayed):
        step = _judge_blocks(state, event, players, at)
    elif isinstance(event, CanaryPlayed):
        step = _judge_canaries(state, event, at)
    return step if event.node in step.state.quarantined else _with_canaries(step, event.variant, players)


def give_up_canary(state: TrustState, event: Buried) -> TrustStep:
    """A canary was not played.  One that was refused at once never will be: the workload has no such players."""
    trust = changed(state.trust, open_jobs=max(state.trust.open_jobs - 1, 0))
    canaries = changed(state.canaries, refused=True) if event.attempts <= 1 else state.canaries
    return TrustStep(state=changed(state, trust=trust, canaries=canaries))


def operator_verdict(reason: str, at: float) -> Verdict:
    """The verdict of an operator who quarantines a node."""
    return _verdict(f"by hand: {reason}", at)


def _verdict(rule: str, at: float, value: float = 1.0, limit: float = 0.0) -> Verdict:
    return Verdict("trust", False, rule, value, limit, at)


def _judge_blocks(state: TrustState, event: BlocksPlayed, players: int, at: float) -> TrustStep:
    # With other settings the same models play another match.
    name = f"{event.variant}:{event.candidate}:{event.champion}:{event.settings}"
    own = next((tally for tally in state.tallies if tally.match == name), MatchTally(match=name, since=at))
    own = homogeneity.add_counts(own, event.node, homogeneity.count_outcomes(event.blocks, players))
    others = [tally for tally in state.tallies if tally.match != name]
    tallies = sorted((own, *others), key=lambda tally: tally.since)
    dropped, tallies = tallies[:-_TALLIES_MAX], tallies[-_TALLIES_MAX:]
    rule, limit = "results away from those of other nodes, in deviations", homogeneity.RESIDUAL_MAX
    verdicts = {outlier.node: _verdict(rule, at, outlier.z, limit) for outlier in homogeneity.outliers(tallies)}
    step = _quarantine(changed(state, tallies=tuple(tallies)), verdicts)
    return changed(step, dropped=tuple(tally.match for tally in dropped))


def _judge_canaries(state: TrustState, event: CanaryPlayed, at: float) -> TrustStep:
    """Compare canaries with the truth.  Those of another seed belong to another version of the program."""
    trust = state.trust
    answered, open_jobs = trust.answered + len(event.blocks), max(trust.open_jobs - 1, 0)
    state = changed(state, trust=changed(trust, answered=answered, open_jobs=open_jobs))
    if event.seed != state.canaries.seed:
        return TrustStep(state=state)
    canaries, mismatches = canary.judge_report(
        state.canaries, event.node, event.blocks, trusted=state.trusted, agree=state.agree
    )
    verdicts = {}
    for row in reversed(mismatches):
        scores = f"scores {list(row.truth)}, this node reported {list(row.scores)}"
        verdicts[row.node] = _verdict(f"canary {row.number} of {event.variant} {scores}; wrong canaries", at)
    return _quarantine(changed(state, canaries=canaries), verdicts)


def _quarantine(state: TrustState, verdicts: dict[str, Verdict]) -> TrustStep:
    """*state* with these nodes in quarantine and their blocks out of every tally."""
    new = {node: verdict for node, verdict in verdicts.items() if node not in state.quarantined}
    if not new:
        return TrustStep(state=state)
    tallies = tuple(homogeneity.without(tally, new) for tally in state.tallies)
    state = changed(state, quarantined=state.quarantined | set(new), tallies=tallies)
    reasons = {node: f"{verdict.rule}: {verdict.value:.3g} of {verdict.limit:g}" for node, verdict in new.items()}
    events = tuple(Quarantined(node=node, reason=reason) for node, reason in reasons.items())
    return TrustStep(state=state, events=events, verdicts=tuple(new.values()))


def _with_canaries(step: TrustStep, variant: str, players: int) -> TrustStep:
    """*step* with the next canaries of its node, if their share allows some."""
    trust, canaries = step.state.trust, step.state.canaries
    owed = canary.blocks_owed(trust.games, trust.canary_games, players)
    # What is owed is not forgotten: the next result asks for it, when the queue has room.
    if not owed or canaries.refused or trust.open_jobs >= _OPEN_MAX or not step.state.room:
        return step
    job = canary.job(canaries, trust.node, trust.following.get(variant, 0), owed)
    following = {**trust.following, variant: (job.first + job.count) % canary.NUMBERS}
    games = trust.canary_games + players * job.count
    trust = changed(trust, canary_games=games, open_jobs=trust.open_jobs + 1, following=following)
    return changed(step, state=changed(step.state, trust=trust), jobs=(job,))
