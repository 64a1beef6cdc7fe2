"""Peers: which nodes have which files ready, where they serve them to others, and how far a fleet has come with one."""

from collections.abc import Collection, Mapping
from math import ceil, inf

from ringrift.kernel.value import Value
from ringrift.store.records import Records

READY_MAX = 64  #: Files that a node reports: the models and samples that it used last.
_SHARE = 0.95


class PeerRecord(Value):
    """The files that *node* has verified, and where it serves them."""

    node: str
    address: str = ""  #: Where it answers peers; empty: it only receives.
    ca: str = ""  #: The authority of its certificate, as PEM: peers trust it for this address alone.
    ready: dict[str, float] = {}  #: By file when the coordinator first heard of it, by its wall clock.


PEERS = Records("peer", PeerRecord, id="node", limit=10_000)


class Spread(Value):
    """How far a model has come among the nodes that should have it."""

    nodes: int
    ready: int
    p95_seconds: float | None = None  #: After how long 95 % of the nodes had it; None: they do not yet.


def measure_spread(model: str, since: float, peers: Mapping[str, PeerRecord], nodes: Collection[str]) -> Spread:
    """How far *model*, which counts *since* then, has come among *nodes*; one that had it before took no time."""
    times = [peers[node].ready.get(model, inf) if node in peers else inf for node in nodes]
    delays = sorted(max(time - since, 0.0) for time in times)
    p95 = delays[ceil(_SHARE * len(delays)) - 1] if delays else inf
    return Spread(
        nodes=len(delays), ready=sum(delay < inf for delay in delays), p95_seconds=None if p95 == inf else p95
    )
