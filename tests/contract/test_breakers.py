"""Breakers on a real store: counted where jobs end, obeyed where jobs are claimed, timed by an observer, by node."""

from random import Random
from typing import Any

from contract.engines import Engine, ManualClock, renewal
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.alerts import Alert, judge
from ringrift.cluster.leadership import Roles
from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.daemons.rescue import rescue
from ringrift.events import catalog
from ringrift.events.health import BreakerChanged
from ringrift.jobs import Play, Sync
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import BreakerSettings, WorkSettings
from ringrift.kernel.stall_detector import StallDetector
from ringrift.store.ports import Lease, Store
from ringrift.work.breakers import BREAKERS
from ringrift.work.desk import Done, Fault, StoreDesk
from ringrift.work.durations import JobRun
from ringrift.work.limits import VERDICTS

RESET_SECONDS = 60.0
BREAKERS_SET = BreakerSettings(
    node_failures_max=3, stage_failures_max=4, workload_failures_max=60, reset_seconds=RESET_SECONDS
)
WORK = WorkSettings(
    lease_seconds=1000.0,
    retry=Backoff(first_seconds=0.001, seconds_max=0.001, tries=9),
    breakers=BREAKERS_SET,
    workload="fake",
)
PLAY, SYNC = Play.kind(), Sync.kind()


class Cluster:
    """Two nodes with their desks on one store, and the observer of leases and breakers."""

    def __init__(self, store: Store) -> None:
        self.store, self.clock, self.memory = store, ManualClock(), StallDetector()
        self.jobs = 0
        self.roles = Roles("n1", store, self.clock, ("rescue",), 15.0, envelopes=self.envelopes("n1"))
        self.desks = {name: StoreDesk(store, self.clock, self.envelopes(name), WORK) for name in ("n1", "n2")}

    def envelopes(self, node: str) -> EnvelopeFactory:
        """The envelopes of *node*."""
        return EnvelopeFactory(node, self.clock, Ids(self.clock, Random(node)))

    async def join(self, *nodes: str) -> None:
        """Let *nodes* be in the roster."""
        async with self.store.begin() as tx:
            await NODES.put(tx, [NodeRecord(id=node, profile="full", address=node, beat=1) for node in nodes])

    async def observe(self, seconds: float = 0.0) -> None:
        """Look once as the daemon does, *seconds* later."""
        self.clock.seconds += seconds
        await self.roles.elect()
        await rescue(
            store=self.store,
            desk=self.desks["n1"],
            envelopes=self.envelopes("n1"),
            roles=self.roles,
            clock=self.clock,
            memory=self.memory,
        )

    async def offer(self, count: int = 1) -> None:
        """Enqueue *count* new Play jobs."""
        wishes = [Play(variant="v", seed=self.jobs + n, model="m", games=2) for n in range(count)]
        self.jobs += count
        await self.desks["n1"].enqueue(wishes)

    async def claim(self, node: str, limit: int = 9) -> list[Lease]:
        """Claim Play and Sync jobs for *node*."""
        return list(await self.desks[node].claim({PLAY, SYNC}, limit))

    async def fail(self, node: str, times: int = 1, **changes: Any) -> None:
        """Let *times* new jobs fail on *node*."""
        for _ in range(times):
            await self.offer()
            [lease] = await self.claim(node, 1)
            fault = {"error": "the worker ended with signal 9", "cause": "child_died"} | changes
            await self.desks[node].fail([Fault(lease=lease, **fault)])

    async def succeed(self, node: str, lease: Lease) -> None:
        """Let the job of *lease* be done."""
        run = JobRun(kind=lease.kind, variant=lease.variant, seconds=1.0, size=2)
        await self.desks[node].finish([Done(lease=renewal(lease), run=run)])

    async def states(self) -> dict[str, str]:
        """The stored state of every breaker."""
        async with self.store.read() as view:
            return {row.subject: row.state.value for row in await BREAKERS.all(view)}

    async def changes(self) -> list[tuple[str, str]]:
        """Every published change: subject and new state."""
        async with self.store.read() as view:
            envelopes = await view.read(0, 1000, [BreakerChanged.name()])
        events = [catalog.decode(envelope.name, envelope.body) for envelope in envelopes]
        return [(event.subject, event.state) for event in events if isinstance(event, BreakerChanged)]


def test_a_bad_node_gets_no_more_games_and_others_go_on(engine: Engine) -> None:
    """Its third failure in a row opens its breaker; it still copies files, and the other node plays."""

    async def story(store: Store) -> None:
        cluster = Cluster(store)
        await cluster.join("n1", "n2")
        await cluster.fail("n1", 3)
        await cluster.offer(4)
        await cluster.desks["n1"].enqueue([Sync(variant="v", blob="b", kind_of="games", source="n1")])

        assert [lease.kind for lease in await cluster.claim("n1")] == [SYNC]
        assert {lease.kind for lease in await cluster.claim("n2")} == {PLAY}
        assert await cluster.states() == {"node:n1": "open", "stage:selfplay": "closed", "workload:fake": "closed"}
        assert await cluster.changes() == [("node:n1", "open")]

    engine.run(story)


def test_the_refusal_is_a_stored_verdict(engine: Engine) -> None:
    """It names the breaker and its last error, and goes when the breaker lets jobs through."""

    async def verdicts(store: Store) -> list[str]:
        async with store.read() as view:
            return [verdict.rule for id, verdict in (await VERDICTS.scan(view)).items() if "n1" in id]

    async def story(store: Store) -> None:
        cluster = Cluster(store)
        await cluster.join("n1", "n2")
        await cluster.fail("n1", 3)
        await cluster.offer()
        assert await cluster.claim("n1") == []
        assert await verdicts(store) == ["the breaker of node:n1 is open: the worker ended with signal 9"]

        await cluster.observe()
        await cluster.observe(RESET_SECONDS)
        [lease] = await cluster.claim("n1", 1)
        await cluster.succeed("n1", lease)
        await cluster.claim("n1")
        assert await verdicts(store) == []

    engine.run(story)


def test_one_job_decides_after_the_time_of_the_observer(engine: Engine) -> None:
    """Not a moment before; a failure opens the breaker for its whole time again, a success closes it."""

    async def story(store: Store) -> None:
        cluster = Cluster(store)
        await cluster.join("n1", "n2")
        await cluster.fail("n1", 3)
        await cluster.offer(5)
        await cluster.observe()
        await cluster.observe(RESET_SECONDS - 1.0)
        assert await cluster.claim("n1") == []

        await cluster.observe(1.0)
        [trial] = await cluster.claim("n1")
        assert await cluster.claim("n1") == []
        await cluster.desks["n1"].fail([Fault(lease=trial, error="again", cause="spawn")])
        assert (await cluster.states())["node:n1"] == "open"
        assert await cluster.claim("n1") == []

        await cluster.observe()
        await cluster.observe(RESET_SECONDS)
        [trial] = await cluster.claim("n1")
        await cluster.succeed("n1", trial)
        assert len(await cluster.claim("n1")) > 1
        states = ("open", "half_open", "open", "half_open", "closed")
        assert await cluster.changes() == [("node:n1", state) for state in states]

    engine.run(story)


def test_a_trial_that_was_lost_lets_another_job_through(engine: Engine) -> None:
    """A node that stops gives its trial back; neither that nor a lost lease decides anything."""

    async def story(store: Store) -> None:
        cluster = Cluster(store)
        await cluster.join("n1", "n2")
        await cluster.fail("n1", 3)
        await cluster.offer(2)
        await cluster.observe()
        await cluster.observe(RESET_SECONDS)
        [trial] = await cluster.claim("n1")
        await cluster.desks["n1"].fail([Fault(lease=trial, error="n1 is stopping", started=False, cause="stopped")])
        assert (await cluster.states())["node:n1"] == "half_open"

        await cluster.observe(1.0)
        assert len(await cluster.claim("n1")) == 1

    engine.run(story)


def test_a_stage_opens_only_on_two_nodes(engine: Engine) -> None:
    """Eight failures of one node leave it closed; one of the other opens it for both."""

    async def story(store: Store) -> None:
        cluster = Cluster(store)
        await cluster.join("n1", "n2")
        for _ in range(4):
            await cluster.fail("n1", 2)
            async with store.begin() as tx:
                await BREAKERS.delete(tx, ["node:n1"])  # it would keep the node from failing on
        assert (await cluster.states())["stage:selfplay"] == "closed"

        await cluster.fail("n2")
        assert (await cluster.states())["stage:selfplay"] == "open"
        await cluster.offer()
        assert await cluster.claim("n2") == []

    engine.run(story)


def test_the_only_node_of_a_stage_opens_it_alone(engine: Engine) -> None:
    """A node that has left, or that plays no games, does not count as another."""

    async def story(store: Store) -> None:
        cluster = Cluster(store)
        async with store.begin() as tx:
            gone = NodeRecord(id="n2", profile="full", address="n2", beat=1, gone=True)
            files_only = NodeRecord(id="n3", profile="coordinator", address="n3", beat=1)
            await NODES.put(tx, [NodeRecord(id="n1", profile="full", address="n1", beat=1), gone, files_only])
        await cluster.fail("n1", 2)
        async with store.begin() as tx:
            await BREAKERS.delete(tx, ["node:n1"])
        await cluster.fail("n1", 2)

        assert (await cluster.states())["stage:selfplay"] == "open"

    engine.run(story)


def test_failures_that_say_nothing_are_not_counted(engine: Engine) -> None:
    """A job given back, a lease that was lost, an input that is bad: no breaker has a failure."""

    async def story(store: Store) -> None:
        cluster = Cluster(store)
        await cluster.join("n1", "n2")
        await cluster.fail("n1", 5, started=False)
        await cluster.fail("n1", 5, blob="b", retry=False)
        for _ in range(5):
            await cluster.offer()
            await cluster.claim("n1")
            await cluster.desks["n1"].revoke_own("n1 started again", started=True)

        assert (await cluster.states(), await cluster.changes()) == ({}, [])

    engine.run(story)


def test_success_forgets_failures_and_writes_nothing_else(engine: Engine) -> None:
    """Two failures and a success leave no row; a success without failures writes none."""

    async def story(store: Store) -> None:
        cluster = Cluster(store)
        await cluster.join("n1", "n2")
        await cluster.fail("n1", 2)
        await cluster.offer()
        [lease, *_] = await cluster.claim("n1", 1)
        await cluster.succeed("n1", lease)

        assert await cluster.states() == {}

    engine.run(story)


def test_an_alert_is_open_while_the_breaker_is_not_closed() -> None:
    """Opening raises it, the trial changes nothing, closing clears it."""
    changes = [
        judge(BreakerChanged(subject="stage:train", state=state, before="x", failures=4, error="exit 1"))
        for state in ("open", "half_open", "closed")
    ]

    [opened], half_open, [closed] = changes
    assert isinstance(opened, Alert)
    assert (opened.kind, opened.subject, half_open) == ("breaker", "stage:train", ())
    assert "4 failures in a row, the last: exit 1" in opened.detail
    assert closed == ("breaker", "stage:train")


def test_leases_are_longer_for_jobs_that_are_silent_for_long(engine: Engine) -> None:
    """The length is stored with the lease, so that the observer waits for it; it never passes its bound."""

    async def story(store: Store) -> None:
        cluster = Cluster(store)
        desk = StoreDesk(
            store, cluster.clock, cluster.envelopes("n1"), WorkSettings(lease_seconds=30.0, lease_seconds_max=100.0)
        )
        lengths = []
        for silence in (1.0, 15.0, 1000.0, 0.0):
            await cluster.offer()
            [lease] = await desk.claim({PLAY}, 1)
            async with store.read() as view:
                [row] = await view.jobs(("claimed",), 9)
            lengths.append((lease.seconds, row.seconds))
            run = JobRun(kind=PLAY, variant="v", seconds=silence, silence=silence)
            await desk.finish([Done(lease=renewal(lease), run=run)])

        assert lengths == [(30.0, 30.0), (30.0, 30.0), (60.0, 60.0), (100.0, 100.0)]

    engine.run(story)
