"""Disks: the blob folders of some nodes, in memory, each of which can be taken away and brought back."""

from collections import defaultdict

from ringrift.cluster.leadership import Roles
from ringrift.daemons.replicate import replicate
from ringrift.kernel.settings import Policy, Replicas
from ringrift.kernel.stall_detector import StallDetector
from ringrift.sim.blobs import MemoryBlobs
from ringrift.sync.transfer import Transfer
from unit.work.world import World

POLICY = Policy(model_away_seconds_max=1000.0, games_away_seconds_max=100.0)


class Disks:
    """A disk for every node that is asked for."""

    def __init__(self, world: World) -> None:
        self._world, self._memory = world, StallDetector()
        self._blobs: dict[str, MemoryBlobs] = defaultdict(MemoryBlobs)
        self._transfer = Transfer("here", world.store, self["here"], self._reach, world.envelopes)

    def __getitem__(self, node: str) -> MemoryBlobs:
        return self._blobs[node]

    async def _reach(self, node: str) -> MemoryBlobs:
        return self[node]

    async def replicate(self, roles: Roles, policy: Policy = POLICY) -> None:
        """Let the daemon look once."""
        world, parts = self._world, {"transfer": self._transfer, "memory": self._memory}
        await replicate(
            store=world.store, roster=world.roster, roles=roles, replicas=Replicas(copies_min=2), policy=policy,
            envelopes=world.envelopes, clock=world.clock, **parts,
        )  # fmt: skip
