"""Alerts through a real delivery: each trouble is opened and closed exactly once, and no alert leads to another."""

from random import Random

import msgspec

from contract.engines import Engine, HandClock, delivery
from ringrift.bus.delivery import Courier, Reader
from ringrift.bus.scribe import Scribe
from ringrift.cluster.alerts import CLOSED_MAX, KIND, Alert, closed_alerts, open_alerts
from ringrift.daemons.alert import SPEC, alert
from ringrift.events import catalog, daemon, node
from ringrift.events.alert import Cleared, Raised
from ringrift.events.base import Envelope, Event
from ringrift.events.letter import Changed
from ringrift.kernel.errors import Retry
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import BusSettings
from ringrift.store.ports import Put, Store, Tx

LOST, BACK = node.Lost(node="n", seconds=15.0), node.Recovered(node="n")
FAILED = daemon.Failed(daemon="fill", node="n", error="no", times=5, seconds=300.0)


class Desk:
    """A store with the daemon on it, which takes in what there is when it is told to."""

    def __init__(self, store: Store) -> None:
        self.store, self.clock = store, HandClock()
        self.scribe = Scribe("here", self.clock, Ids(self.clock, Random(7)))
        self.courier = Courier(store, self.clock, self.scribe, BusSettings().redelivery, batch=4)
        self.broken = False

    async def react(self, event: Event, envelope: Envelope, tx: Tx) -> None:
        """Do what the daemon does, and perhaps fail behind it."""
        await alert(event, envelope, tx, scribe=self.scribe)
        if self.broken:
            raise Retry(after=0.0)

    @property
    def reader(self) -> Reader:
        """The daemon as a durable reader."""
        return Reader(name="alert", wants=frozenset(event.name() for event in SPEC.on), react=self.react)

    async def say(self, *events: Event, source: str = "somebody") -> None:
        """Let *events* happen a second apart, and the daemon take in all of them and what follows."""
        for event in events:
            self.clock.seconds += 1.0
            async with self.store.begin() as tx:
                await tx.append([self.scribe.wrap(event, source=source)])
        await self.take()

    async def take(self) -> int:
        """Deliver until nothing is left: the place then."""
        place = await self.courier.enrol(self.reader)
        for _ in range(100):
            new = await self.courier.take(self.reader, place)
            if new == place:
                return place
            place = new
        raise AssertionError("it never comes to an end")

    async def said(self) -> list[Event]:
        """Every alert that was said to be raised or over."""
        async with self.store.read() as view:
            found = await view.read(0, 1000, [Raised.name(), Cleared.name()])
        return [catalog.decode(envelope.name, envelope.body) for envelope in found]

    async def open(self) -> list[str]:
        """The ids of what is open, with how often it was said."""
        async with self.store.read() as view:
            return [f"{one.id} {one.count}" for one in await open_alerts(view)]


def test_trouble_opens_once_and_its_end_closes_once(engine: Engine) -> None:
    """However often it is said, one alert is raised and one is over; between them it counts."""

    async def story(store: Store) -> None:
        desk = Desk(store)
        await desk.say(LOST, LOST, LOST)
        assert await desk.open() == ["node_lost:n 3"]
        await desk.say(BACK, BACK, LOST, BACK)

        assert [type(said).__name__ for said in await desk.said()] == ["Raised", "Cleared"] * 2
        assert await desk.open() == []
        async with store.read() as view:
            [over] = await closed_alerts(view)
        assert (over.until, over.count) == (desk.clock.now(), 1)

    engine.run(story)


def test_a_failed_delivery_leaves_no_half_of_an_alert(engine: Engine) -> None:
    """A reaction that is undone has neither written nor said anything; taken again it does both, once."""

    async def story(store: Store) -> None:
        desk = Desk(store)
        desk.broken = True
        await desk.say(LOST)
        assert (await desk.open(), await desk.said()) == ([], [])
        desk.broken = False
        async with store.read() as view:
            parked = await view.deliveries(("parked",), 10, "alert", 1)
        await desk.courier.again(desk.reader, parked)
        await desk.take()

        assert await desk.open() == ["node_lost:n 1"]
        assert len(await desk.said()) == 1

    engine.run(story)


def test_what_the_daemon_says_leads_to_nothing_more(engine: Engine) -> None:
    """It reads its own words and leaves them: the log stops growing."""

    async def story(store: Store) -> None:
        desk = Desk(store)
        await desk.say(LOST, FAILED)
        before = store.position
        assert await desk.take() == before

        assert store.position == before
        assert len(await desk.said()) == 2
        async with store.read() as view:
            told = await view.read(0, 10, [Raised.name()])
        assert [(one.source, bool(one.cause)) for one in told] == [("alert", True)] * 2

    engine.run(story)


def test_what_others_raise_and_clear_is_kept_and_not_repeated(engine: Engine) -> None:
    """An alert of somebody else's is one alert and one event; whoever clears the whole clears its parts too."""

    async def story(store: Store) -> None:
        desk = Desk(store)
        raised = [Raised(kind="disk", subject=subject, level="critical") for subject in ("n", "n/sda")]
        await desk.say(*raised)
        assert await desk.open() == ["disk:n 1", "disk:n/sda 1"]
        cleared = Cleared(kind="disk", subject="n")
        await desk.say(cleared)

        assert await desk.open() == []
        assert await desk.said() == [*raised, cleared, Cleared(kind="disk", subject="n/sda")]

    engine.run(story)


def test_a_node_that_starts_again_has_failed_in_nothing(engine: Engine) -> None:
    """Its daemons that were given up run again with it; those of others are as they were."""

    async def story(store: Store) -> None:
        desk = Desk(store)
        await desk.say(FAILED, msgspec.structs.replace(FAILED, node="n2"), LOST)
        await desk.say(node.Joined(node="n", profile="full"))

        assert await desk.open() == ["daemon:n2/fill 1"]

    engine.run(story)


def test_dead_letters_are_one_alert_until_the_last_is_settled(engine: Engine) -> None:
    """The alert counts them and ends when the reader has no dead letter left."""

    async def story(store: Store) -> None:
        desk = Desk(store)

        async def letters(*states: str) -> None:
            async with store.begin() as tx:
                await tx.park([delivery("r", number, state) for number, state in enumerate(states, 1)])

        await letters("dead", "dead")
        await desk.say(Changed(reader="r", positions=(1, 2), state="dead", error="no"))
        assert await desk.open() == ["letter:r 2"]
        await letters("done", "dead")
        await desk.say(Changed(reader="r", positions=(1,), state="done"))
        assert await desk.open() == ["letter:r 2"]
        await letters("done", "discarded")
        await desk.say(Changed(reader="r", positions=(2,), state="discarded"))
        assert await desk.open() == []

    engine.run(story)


def test_only_so_many_that_are_over_are_kept(engine: Engine) -> None:
    """The record does not grow: with each that is over, the one that has been over longest goes."""

    async def story(store: Store) -> None:
        desk = Desk(store)
        old = [
            Alert(kind="old", subject=f"{number:04}", level="info", detail="", since=0.0, until=float(number))
            for number in range(CLOSED_MAX)
        ]
        async with store.begin() as tx:
            await tx.put([
                Put(kind=KIND, id=one.id, body=msgspec.json.encode(one), index={"state": "closed"}) for one in old
            ])  # fmt: skip

        await desk.say(LOST, BACK)

        async with store.read() as view:
            found = await closed_alerts(view)
        assert (len(found), found[0].id, found[-1].id) == (CLOSED_MAX, "node_lost:n", "old:0001")

    engine.run(story)
