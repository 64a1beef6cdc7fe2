"""Which models nodes that play should have before a job names them: champions, and candidates from their first day.

A candidate is fetched while it is evaluated and games go on with the champion, so that a promotion waits for nobody.
"""

from collections import Counter
from collections.abc import Iterable

from ringrift.cluster.liveness import stored_states
from ringrift.cluster.peers import PEERS, PeerRecord, Spread, measure_spread
from ringrift.cluster.roster import NODES, NodeState
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.models import MODELS
from ringrift.store.ports import Reads
from ringrift.sync import ledger
from ringrift.sync.receipts import receipts_of
from ringrift.work.limits import PLAYS

_AWAY = frozenset({NodeState.LOST, NodeState.LEFT})


def wanted_models(lines: Iterable[Line], peers: Iterable[PeerRecord]) -> list[str]:
    """The models that nodes should have, the rarest among *peers* first: then each has the most that others lack."""
    models = dict[str, None]()
    for line in lines:
        candidate = line.candidate.model if line.candidate else None
        own = (line.champion, candidate) if line.stage is not Stage.RESTING else ()
        models |= dict.fromkeys(model for model in own if model is not None)
    copies = Counter(blob for peer in peers for blob in peer.ready if blob in models)
    return sorted(models, key=lambda model: (copies[model], model))


async def champion_spread(view: Reads, line: Line) -> Spread | None:
    """How far the champion of *line* has come among the nodes that play; None without one.

    A worker reports what it has ready; what a node of the store holds, the ledger says.
    """
    row = await MODELS.get(view, f"{line.variant}:{line.champion}") if line.champion else None
    if row is None:
        return None
    nodes = await NODES.all(view)
    states = await stored_states(view, nodes)
    playing = [node.id for node in nodes if node.profile in PLAYS and states[node.id] not in _AWAY]
    arrivals = {receipt.node: receipt.time for receipt in await receipts_of(view, row.model)}
    holders = {node: arrivals.get(node, row.since) for node in await ledger.holders(view, row.model)}
    peers = {node: PeerRecord(node=node, ready={row.model: time}) for node, time in holders.items()}
    return measure_spread(row.model, row.since, peers | await PEERS.get_many(view, playing), playing)


def spread_text(spread: Spread) -> str:
    """*spread* for people."""
    if not spread.nodes:
        return "no node that plays is here"
    if spread.p95_seconds is not None:
        return f"{spread.ready} of {spread.nodes} nodes have it, 95 % after {spread.p95_seconds:.1f} s"
    return f"{spread.ready} of {spread.nodes} nodes have it"
