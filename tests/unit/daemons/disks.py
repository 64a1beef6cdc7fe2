"""Disks: the blob folders of some nodes, in memory, each of which can be taken away and brought back."""

from collections import defaultdict
from typing import NoReturn

from ringrift.cluster.leadership import Roles
from ringrift.cluster.roster import NodeRecord
from ringrift.daemons.replicate import replicate
from ringrift.jobs import Sync, decode
from ringrift.kernel.errors import NoRoom
from ringrift.kernel.settings import Policy, Settings
from ringrift.kernel.stall_detector import StallDetector
from ringrift.kernel.transfer_settings import Replicas
from ringrift.kernel.value import changed
from ringrift.pipeline.file_jobs import FileJobs
from ringrift.sim.blobs import MemoryBlobs
from ringrift.store.ports import Renewal
from ringrift.sync.transfer import Transfer
from ringrift.work.desk import Done
from unit.work.world import World

POLICY = Policy(model_away_seconds_max=1000.0, games_away_seconds_max=100.0)


class FullBlobs(MemoryBlobs):
    """A disk without room."""

    def part(self, blob: str, owner: str) -> NoReturn:
        raise NoRoom(self.name)


class Disks:
    """A disk for every node that is asked for."""

    def __init__(self, world: World) -> None:
        self._world, self._memory = world, StallDetector()
        self._blobs: dict[str, MemoryBlobs] = defaultdict(MemoryBlobs)
        self.transfer = Transfer("here", world.store, self["here"], self._reach, world.envelopes, clock=world.clock)

    def fill(self, node: str) -> None:
        """Leave no room on the disk of *node*."""
        self._blobs[node].__class__ = FullBlobs

    def free(self, node: str) -> None:
        """Make room on the disk of *node*."""
        self._blobs[node].__class__ = MemoryBlobs

    def __getitem__(self, node: str) -> MemoryBlobs:
        return self._blobs[node]

    async def _reach(self, node: str) -> MemoryBlobs:
        return self[node]

    async def replicate(self, roles: Roles, policy: Policy = POLICY, strategy: str = "hybrid") -> None:
        """Let the daemon look once."""
        world, parts = self._world, {"transfer": self.transfer, "memory": self._memory}
        replicas = Replicas(copies_min=2, strategy=strategy)
        await replicate(
            store=world.store,
            roster=world.roster,
            roles=roles,
            replicas=replicas,
            policy=policy,
            envelopes=world.envelopes,
            clock=world.clock,
            **parts,
        )

    async def do_jobs(self, strategy: str = "hybrid") -> int:
        """Let the node "here" do the jobs about files that are ready; how many there were."""
        desk, record = self._world.desk(), NodeRecord(id="here", profile="full", address="here", beat=0)
        settings = changed(Settings.local(), replicas=Replicas(copies_min=2, strategy=strategy))
        jobs = FileJobs(record, self.transfer, self._world.roster, settings)
        leases = await desk.claim({Sync.kind()}, 100)
        for lease in leases:
            outcome = await jobs.move(decode(lease.kind, lease.body), lambda: None)
            await desk.finish([Done(lease=Renewal(job=lease.job, fence=lease.fence), outcome=outcome)])
        return len(leases)
