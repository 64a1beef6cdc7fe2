"""A healer on a real store with a clock that tests move, and the nodes that it looks at."""

from collections.abc import Sequence

from ringrift.cluster import daemon_commands
from ringrift.cluster.activity import Activity
from ringrift.cluster.daemon_summary import DaemonSummary
from ringrift.cluster.roster import NodeRecord
from ringrift.daemons.heal import _HealMemory, heal
from ringrift.events.daemon import CommandIssued
from ringrift.events.health import RecoveryFinished, RecoveryStarted
from ringrift.kernel.breaker import BreakerState
from ringrift.kernel.health import Health, Status
from ringrift.kernel.settings import Settings
from ringrift.pipeline.healer import load_verdicts
from ringrift.supervision.status import DaemonStatus
from ringrift.work.breakers import BREAKERS, StoredBreaker
from ringrift.work.run_states import RunState, load_run_states, set_run_state
from unit.work.world import World

REST, PAUSE, RESUME = 300.0, 60.0, 120.0
STEP = 20.0
FAILED = DaemonStatus(
    name="rate", health=Health(part="rate", status=Status.UNHEALTHY, reason="given up: no disk"), state="failed"
)
WELL = tuple(
    DaemonStatus(name=name, health=Health(part=name, status=Status.HEALTHY))
    for name in ("beat", "work", "run_commands")
)


class Rig:
    """The healer of one node, and what it sees."""

    def __init__(self, world: World, mode: str = "act") -> None:
        self.world, self.memory = world, _HealMemory()
        self.settings = Settings().overlaid({"cluster.heal": mode, "replicas.copies_min": 1})
        self.daemons: dict[str, Sequence[DaemonStatus]] = {"n1": WELL}
        self.silent: set[str] = set()

    async def look(self, seconds: float = 0.0) -> None:
        """Let time pass in steps of a beat, each with a look of the healer."""
        end = self.world.clock.tick() + seconds
        while True:
            for node, statuses in self.daemons.items():
                if node not in self.silent:
                    await self._beat(node, statuses)
            roles = await self.world.roles()
            await heal(
                store=self.world.store,
                roster=self.world.roster,
                roles=roles,
                envelopes=self.world.envelopes,
                clock=self.world.clock,
                settings=self.settings,
                memory=self.memory,
            )
            await roles.resign()
            if self.world.clock.tick() >= end:
                return
            self.world.clock.seconds += STEP

    async def _beat(self, node: str, statuses: Sequence[DaemonStatus]) -> None:
        activity = Activity(daemons=DaemonSummary(statuses=tuple(statuses)))
        beat = int(self.world.clock.tick() * 1000)
        record = NodeRecord(id=node, profile="full", address=node, beat=beat, activity=activity)
        await self.world.roster.put(record)

    async def open_breaker(self, subject: str, state: BreakerState = BreakerState.OPEN) -> None:
        """Let everything fail for *subject*."""
        async with self.world.store.begin() as tx:
            await BREAKERS.put(tx, [StoredBreaker(subject=subject, failures=6, state=state, opened=1, error="no gpu")])

    async def close_breaker(self, subject: str) -> None:
        async with self.world.store.begin() as tx:
            await BREAKERS.delete(tx, [subject])

    async def brake(self, state: str, by: str = "anna", scope: str = "cluster") -> None:
        """Set the state of *scope* by hand."""
        async with self.world.store.begin() as tx:
            now = self.world.clock.now()
            await set_run_state(tx, self.world.envelopes, scope=scope, state=state, by=by, now=now)

    async def state(self, node: str = "") -> RunState | None:
        """The state of the cluster, or of *node*, that keeps work from starting."""
        async with self.world.store.read() as view:
            return (await load_run_states(view)).find(node=node, now=self.world.clock.now())

    async def steps(self) -> list[str]:
        """The steps that began, in order."""
        events = await self.world.events(RecoveryStarted)
        return [f"{event.subject} {event.step}" for event in events if isinstance(event, RecoveryStarted)]

    async def outcomes(self) -> list[tuple[str, bool]]:
        """The steps that ended, each with whether it helped."""
        events = await self.world.events(RecoveryFinished)
        return [(event.step, event.helped) for event in events if isinstance(event, RecoveryFinished)]

    async def commands(self) -> list[str]:
        """The commands that were issued to daemons."""
        events = await self.world.events(CommandIssued)
        return [f"{event.action} {event.node}/{event.daemon}" for event in events if isinstance(event, CommandIssued)]

    async def run_commands(self) -> None:
        """Let the nodes carry out what was issued to them."""
        for node in self.daemons:
            async with self.world.store.begin() as tx:
                for command in await daemon_commands.pending(tx, node):
                    await daemon_commands.complete(tx, self.world.envelopes, command)

    async def rules(self) -> list[str]:
        """The verdicts of the healer."""
        async with self.world.store.read() as view:
            return [f"{verdict.gate}: {verdict.rule}" for verdict in await load_verdicts(view)]
