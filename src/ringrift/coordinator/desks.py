"""What the coordinator keeps for remote nodes: a desk each, so that what one does counts as its own, uploads, peers."""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import NamedTuple

from ringrift.blobs.ports import Blobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.leadership import Leader, find_leader
from ringrift.cluster.remote_roster import Beat
from ringrift.coordinator.peer_table import PeerTable
from ringrift.coordinator.together import Batches, Together
from ringrift.coordinator.uploads import Uploads
from ringrift.coordinator.wakes import Wakes
from ringrift.kernel.clock import Clock
from ringrift.kernel.settings import WorkSettings
from ringrift.pipeline.line import Line
from ringrift.store.ports import JobRow, Reads, Store
from ringrift.sync.tickets import TicketIssuer
from ringrift.wire.keys import secret_rng
from ringrift.work.desk import StoreDesk

_DESKS_MAX = 10_000  # nodes; a desk that is made again has only forgotten which jobs it had left to other nodes
_LEADER_SECONDS = 5.0


class BeatsView(NamedTuple):
    """What the store said when it took a batch of heartbeats."""

    run_states: bytes
    leader: Leader
    leases: Mapping[str, Mapping[str, JobRow]]  #: Jobs by id, of the nodes that sent events about theirs.
    lines: Sequence[Line]  #: Only if a node may become an island.
    commands: Collection[str]  #: The nodes whose daemons may have commands.


class Desks:
    """Makes and keeps the desks of remote nodes, by node."""

    def __init__(
        self, store: Store, blobs: Blobs, clock: Clock, envelopes: EnvelopeFactory, settings: WorkSettings, rng: Random
    ) -> None:
        self._store, self._clock, self._envelopes, self._settings = store, clock, envelopes, settings
        self.together = Together()  #: Heartbeats and renewals, which can wait.
        self.beats: Batches[Beat, BeatsView] = Batches(self.together)
        self.uploads, self.wakes = Uploads(blobs, clock), Wakes(store)
        self.peers, self.issuer = PeerTable(clock), TicketIssuer(clock, secret_rng(clock, rng))
        self.fetching = asyncio.Lock()  # held while a file is fetched from another node, for all that ask for it
        self._desks = OrderedDict[str, StoreDesk]()
        self._leader, self._leader_read = Leader(), float("-inf")

    def envelopes_of(self, node: str) -> EnvelopeFactory:
        """Makes the envelopes of what *node* publishes."""
        return self._envelopes.for_node(node)

    async def leader(self, view: Reads) -> Leader:
        """Who leads, at most _LEADER_SECONDS out of date: every heartbeat asks."""
        if self._clock.tick() - self._leader_read >= _LEADER_SECONDS:
            self._leader, self._leader_read = await find_leader(view), self._clock.tick()
        return self._leader

    def of(self, node: str) -> StoreDesk:
        """The desk of *node*."""
        desk = self._desks.get(node)
        if desk is None:
            desk = self._desks[node] = StoreDesk(self._store, self._clock, self.envelopes_of(node), self._settings)
            desk.is_remote = True
            if len(self._desks) > _DESKS_MAX:
                self._desks.popitem(last=False)
        self._desks.move_to_end(node)
        return desk
