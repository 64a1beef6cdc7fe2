"""The survey reads what the health of the system is judged from, and what stays as it is only with a second look."""

from pathlib import Path

import msgspec

from ringrift.cluster import alerts
from ringrift.cluster.activity import Activity
from ringrift.cluster.alerts import Alert
from ringrift.cluster.daemon_summary import DaemonSummary
from ringrift.cluster.liveness import STARTING
from ringrift.cluster.recovery import ERRORS, ErrorReport
from ringrift.cluster.roster import NodeRecord
from ringrift.events.alert import Raised
from ringrift.jobs import Train
from ringrift.kernel.breaker import BreakerState
from ringrift.kernel.health import Health, Status
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import changed
from ringrift.pipeline.healer import find_troubles
from ringrift.pipeline.health_survey import HealthSurvey
from ringrift.pipeline.line import Stage, needed_blobs
from ringrift.pipeline.system_health import HealthFacts, judge
from ringrift.store.ports import Delivery
from ringrift.supervision.status import DaemonStatus
from ringrift.work.breakers import BREAKERS, StoredBreaker
from ringrift.work.run_states import set_run_state
from unit.pipeline.story import VARIANT, at, blob
from unit.work.world import LEASE_SECONDS, World, play

RATE = DaemonStatus(name="rate", health=Health(part="rate", status=Status.HEALTHY))
BUSY = Activity(daemons=DaemonSummary(statuses=(RATE,)))
SETTINGS = Settings().overlaid({"replicas.copies_min": 2, "replicas.every_seconds": 30.0})


class Watched:
    """A survey of a world with two nodes that beat."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.survey = HealthSurvey(world.store, world.roster, world.clock, SETTINGS)

    async def look(self, seconds: float = 0.0) -> HealthFacts:
        """Look again after so many *seconds* and another beat."""
        self.world.clock.seconds += seconds
        for node in ("n1", "n2"):
            await self.world.beat(node)
        return await self.survey.look({"n1": BUSY, "n2": BUSY})

    async def issues(self, seconds: float = 0.0) -> list[str]:
        """The parts that are not well."""
        return [issue.part for issue in judge(await self.look(seconds)).issues]


def test_a_system_that_is_well_has_no_issues(tmp_path: Path) -> None:
    """Nodes of this process need no second beat; their daemons are as they are now, and not as they were reported."""

    async def story(world: World) -> None:
        watched = Watched(world)
        assert await watched.issues() == []
        facts = await watched.look()
        assert [node.part for node in facts.nodes] == ["n1", "n2"]
        assert facts.daemons == {"n1": (RATE,), "n2": (RATE,)}
        others = HealthSurvey(world.store, world.roster, world.clock, SETTINGS)
        [unknown, *_] = judge(await others.look()).issues
        assert (unknown.part, unknown.status) == ("nodes/n1", Status.UNKNOWN)

    play(tmp_path, story)


def test_a_rented_machine_that_vanishes_is_no_issue(tmp_path: Path) -> None:
    """A silent node is one; an ephemeral node that is silent has left, however many of them there were."""

    async def story(world: World) -> None:
        watched = Watched(world)
        for number in range(5):
            await world.beat(f"e{number}", ephemeral=True)
        await watched.look()
        assert await watched.issues(60.0) == []
        await world.beat("n3")
        await watched.look()
        assert await watched.issues(60.0) == ["nodes/n3"]

    play(tmp_path, story)


def test_a_node_that_is_starting_is_outside_the_score_and_left_alone(tmp_path: Path) -> None:
    """Until it reports: however long it is silent, whatever it reported before; its files count as there."""

    async def story(world: World) -> None:
        failed = changed(RATE, state="failed", health=Health(part="rate", status=Status.UNHEALTHY, reason="no disk"))
        activity = Activity(daemons=DaemonSummary(statuses=(failed,)))
        record = NodeRecord(id="n3", profile="full", address="n3", beat=7, activity=activity)
        await world.roster.put(record)
        async with world.store.begin() as tx:
            await STARTING.put_at(tx, {"n3": 7})
        await world.keep(at(Stage.COLLECTING).line)
        for name in needed_blobs(at(Stage.COLLECTING).line):
            await world.hold(name, "n3", "n1")
        watched = Watched(world)
        await watched.look()

        facts = await watched.look(400.0)

        assert judge(facts).issues == ()
        assert judge(facts).off[-1] == "nodes/n3 (starting)"
        assert find_troubles(facts) == []
        await world.roster.put(changed(record, beat=8))
        facts = await watched.look(1.0)
        assert [issue.part for issue in judge(facts).issues] == ["daemons/n3/rate", "nodes/n3"]
        assert [trouble.subject for trouble in find_troubles(facts)] == ["daemon:n3/rate"]

    play(tmp_path, story)


def test_every_record_of_trouble_is_read(tmp_path: Path) -> None:
    """Breakers, brakes, dead letters, alerts and errors, each as an issue of its part."""

    async def story(world: World) -> None:
        watched, now = Watched(world), world.clock.now()
        async with world.store.begin() as tx:
            opened = {"failures": 9, "state": BreakerState.OPEN, "opened": 1, "error": "no gpu"}
            await BREAKERS.put(tx, [StoredBreaker(subject=name, **opened) for name in ("stage:train", "node:n2")])
            await set_run_state(tx, world.envelopes, scope="stage:train", state="paused", now=now)
            await tx.append([world.envelope(Raised(kind="k"))])
            await tx.register_reader("mine", 0)
            await tx.put_deliveries([Delivery(reader="mine", position=1, state="dead", error="no")])
            for kind, subject in (("data_lost", VARIANT), ("quarantine", "n1"), ("work_buried", f"{VARIANT}/train")):
                await alerts.apply(tx, [Alert(kind=kind, subject=subject, level="severe", detail="so it is")], now)
            report = {"component": "trainer", "error": "no loss", "severity": "error", "node": "n1"}
            await ERRORS.put(tx, [ErrorReport(id="1", time=now, tick=world.clock.tick(), **report)])
        issues = await watched.issues()
        assert sorted(issues) == [
            f"blobs/{VARIANT}",
            "breakers/node:n2",
            "breakers/stage:train",
            "dead_letters/mine",
            "jobs/errors",
            "jobs/given_up",
            "jobs/run_state",
            "nodes/n1",
            "nodes/n2",
        ]
        health = judge(await watched.look())
        [failing] = [issue for issue in health.issues if issue.part == "nodes/n2"]
        assert failing.reason == "its jobs fail, it gets none: no gpu"
        async with world.store.begin() as tx:
            await tx.lapse_readers([("mine", 0)])
        assert "readers/mine" in await watched.issues()

    play(tmp_path, story)


def test_a_lease_that_nobody_ends_is_a_stuck_slot(tmp_path: Path) -> None:
    """After twice its time without a renewal, or at once if its node is silent."""

    async def story(world: World) -> None:
        watched = Watched(world)
        train = Train(variant=VARIANT, generation=1, samples=blob("s"), parent=blob("m"))
        await world.claim(train, node="n9")
        assert await watched.issues() == []
        assert await watched.issues(2 * LEASE_SECONDS - 1.0) == []
        [slot] = await watched.issues(2.0)
        assert slot == f"slots/{train.key}"
        facts = await watched.look()
        assert facts.stuck == {train.key: "train on n9"}

    play(tmp_path, story)


def test_a_file_is_thin_only_if_it_stays_so(tmp_path: Path) -> None:
    """A new file has one copy for a while; after ten rounds of replication it is an issue, without a copy at once."""

    async def story(world: World) -> None:
        watched, line = Watched(world), at(Stage.COLLECTING).line
        await world.keep(line)
        blobs = sorted(needed_blobs(line))
        for name in blobs:
            await world.hold(name, "n1", "n2")
        assert await watched.issues() == []
        async with world.store.begin() as tx:
            await tx.delete("holding", [f"{blobs[0]}@n2"])
        assert await watched.issues() == []
        assert await watched.issues(299.0) == []
        assert await watched.issues(2.0) == [f"blobs/{VARIANT}"]
        async with world.store.begin() as tx:
            await tx.delete("holding", [f"{blobs[0]}@n1"])
        assert await watched.issues() == [f"blobs/{VARIANT}"]

    play(tmp_path, story)


def test_a_daemon_that_waits_for_room_is_the_trouble_of_the_store(tmp_path: Path) -> None:
    """A full disk is named as what it is."""

    async def story(world: World) -> None:
        await world.beat("n1")
        survey = HealthSurvey(world.store, world.roster, world.clock, SETTINGS)
        health = Health(part="rate", status=Status.DEGRADED, reason="waits: no room")
        waiting = msgspec.structs.replace(RATE, state="waiting", health=health)
        facts = await survey.look({"n1": Activity(daemons=DaemonSummary(statuses=(RATE, waiting), more=1))})
        assert "store" in [issue.part for issue in judge(facts).issues]

    play(tmp_path, story)
