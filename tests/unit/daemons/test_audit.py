"""The audit: slots that are not accounted for and files with one copy are alerts, raised once and cleared."""

from pathlib import Path

from ringrift.cluster import alerts
from ringrift.cluster.leadership import Roles
from ringrift.cluster.roster import NodeRecord
from ringrift.daemons.alert import alert
from ringrift.daemons.audit import _SINGLE, _SINGLE_SECONDS_MAX, _UNACCOUNTED, audit
from ringrift.events import catalog
from ringrift.events.alert import Cleared, Raised
from ringrift.jobs import Play
from ringrift.kernel.stall_detector import StallDetector
from ringrift.kernel.value import changed
from ringrift.pipeline.line import Stage
from ringrift.pipeline.singles import Single, _judge_copies, find_singles
from unit.pipeline.story import VARIANT, at
from unit.work.world import World, play

NODES = ("a", "b")


class Auditor:
    """Audits a world, with the list of alerts kept as its daemon does."""

    def __init__(self, world: World, roles: Roles) -> None:
        self._world, self._roles, self._memory, self._position = world, roles, StallDetector(), 0

    async def look(self, *nodes: str) -> set[tuple[str, str]]:
        """Audit once while *nodes* are present; the alerts that are open then."""
        world = self._world
        world.clock.seconds += 1.0
        for node in nodes:
            await world.beat(node, ephemeral=node.startswith("spot"))
        parts = {"store": world.store, "roster": world.roster, "roles": self._roles, "envelopes": world.envelopes}
        await audit(**parts, clock=world.clock, memory=self._memory)
        async with world.store.begin() as tx:
            rows = await tx.read(self._position, 1_000, [Raised.name(), Cleared.name()])
            for row in rows:
                self._position, event = row.position, catalog.decode(row.name, row.body)
                assert isinstance(event, Raised | Cleared)
                await alert(event, row, tx, envelopes=world.envelopes)
        async with world.store.read() as view:
            return {(row.kind, row.subject) for row in await alerts.open_alerts(view)}


async def keep_line(world: World) -> str:
    """A line that needs its champion and nothing else."""
    line = changed(at(Stage.COLLECTING, rounds=0).line, pending=(), window=())
    await world.keep(changed(line, counts=type(line.counts)()))
    assert line.champion is not None
    return line.champion


def test_an_imbalance_is_an_alert_until_it_is_over(tmp_path: Path) -> None:
    """It is published once, however often it is seen, and cleared when the accounts agree again."""

    async def story(world: World) -> None:
        auditor = Auditor(world, await world.roles())
        job = Play(variant=VARIANT, model="m", games=10, seed=1)
        await world.desk().enqueue([job])
        assert await auditor.look() == set()

        async with world.store.begin() as tx:
            [row] = await tx.jobs(("ready",), 10)
            await tx.cancel([row.id])
        assert await auditor.look() == {(_UNACCOUNTED, VARIANT)}
        assert await auditor.look() == {(_UNACCOUNTED, VARIANT)}
        [event] = await world.events(Raised)
        assert isinstance(event, Raised)
        assert event.detail == "given up: 0 slots, 1 jobs"

        async with world.store.begin() as tx:
            await tx.delete("game_account", [VARIANT])
        assert await auditor.look() == set()
        assert await world.events(Cleared) == [Cleared(kind=_UNACCOUNTED, subject=VARIANT)]

    play(tmp_path, story)


def test_a_file_with_one_copy_is_an_alert_after_a_minute(tmp_path: Path) -> None:
    """Only where a second durable node is present; a second copy ends it."""

    async def story(world: World) -> None:
        auditor, champion = Auditor(world, await world.roles()), await keep_line(world)
        await world.hold(champion, "a")
        assert await auditor.look("a") == set()
        world.clock.seconds += _SINGLE_SECONDS_MAX
        assert await auditor.look("a") == set(), "one node alone cannot do better"

        assert await auditor.look(*NODES) == set()
        world.clock.seconds += _SINGLE_SECONDS_MAX - 2.0
        assert await auditor.look(*NODES) == set()
        world.clock.seconds += 1.0
        assert await auditor.look(*NODES) == {(_SINGLE, VARIANT)}

        await world.hold(champion, "b")
        assert await auditor.look(*NODES) == set()

    play(tmp_path, story)


def test_singles_are_counted_by_durable_nodes_that_are_present(tmp_path: Path) -> None:
    """A copy on a machine that may vanish, or on one that is away, is no second copy."""

    async def story(world: World) -> None:
        champion = await keep_line(world)
        await world.hold(champion, "a", "spot", "away")
        for node in ("a", "b", "spot", "away"):
            await world.beat(node, ephemeral=node == "spot")
        async with world.store.read() as view:
            [single] = await find_singles(view, ["a", "b", "spot"])

        holders = ("a", "away", "spot")
        expected = Single(
            blob=champion, kind="model", variant=VARIANT, holders=holders, durable=1, away=1, can_be_copied=True
        )
        assert single == expected

    play(tmp_path, story)


def test_what_cannot_be_copied_is_told_apart() -> None:
    """Without a source that is present, or without a durable target, nothing can be done now."""
    nodes = {
        id: NodeRecord(id=id, profile="full", address=id, beat=1, ephemeral=id == "spot") for id in ("a", "b", "spot")
    }
    remote = NodeRecord(id="remote", profile="full", address="", beat=1)

    def can_be_copied(holders: list[str], present: list[NodeRecord]) -> list[bool]:
        here = [node.id for node in present]
        rows = _judge_copies({"x": ("games", VARIANT)}, {"x": holders}, [*nodes.values(), remote], here)
        return [row.can_be_copied for row in rows]

    assert can_be_copied(["a"], [nodes["a"], nodes["b"]]) == [True]
    assert can_be_copied(["spot"], [nodes["a"], nodes["spot"]]) == [True]
    assert can_be_copied(["a"], [nodes["a"], nodes["spot"], remote]) == [False]
    assert can_be_copied(["away"], [nodes["a"], nodes["b"]]) == [False]
    assert can_be_copied(["a", "b"], [nodes["a"], nodes["b"]]) == []
    assert can_be_copied(["a", "hub"], [nodes["a"], nodes["b"]]) == []
