"""Alerts through a real delivery: each problem is opened and closed exactly once, and no alert leads to another."""

from random import Random

import msgspec

from contract.engines import Engine, ManualClock, delivery
from ringrift.bus.delivery import Deliverer, Reader
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.alerts import _ALERTS, _CLOSED_MAX, Alert, closed_alerts, open_alerts
from ringrift.daemons.alert import SPEC, alert
from ringrift.events import catalog, daemon, node
from ringrift.events.alert import Cleared, Raised
from ringrift.events.base import Envelope, Event
from ringrift.events.delivery import Changed
from ringrift.kernel.errors import Retry
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import BusSettings
from ringrift.store.ports import Store, Tx

LOST, BACK = node.Lost(node="n", seconds=15.0), node.Recovered(node="n")
FAILED = daemon.Failed(daemon="fill", node="n", error="no", times=5, seconds=300.0)


class Desk:
    """A store with the daemon on it, which delivers all pending events on demand."""

    def __init__(self, store: Store) -> None:
        self.store, self.clock = store, ManualClock()
        self.envelopes = EnvelopeFactory("here", self.clock, Ids(self.clock, Random(7)))
        self.deliverer = Deliverer(store, self.clock, self.envelopes, BusSettings().redelivery, batch=4)
        self.broken = False

    async def react(self, event: Event, envelope: Envelope, tx: Tx) -> None:
        """Do what the daemon does, and possibly fail after it."""
        await alert(event, envelope, tx, envelopes=self.envelopes)
        if self.broken:
            raise Retry(after=0.0)

    @property
    def reader(self) -> Reader:
        """The daemon as a durable reader."""
        return Reader(name="alert", event_names=frozenset(event.name() for event in SPEC.on), react=self.react)

    async def publish(self, *events: Event, source: str = "test") -> None:
        """Publish *events* a second apart, and deliver all of them and all that follow to the daemon."""
        for event in events:
            self.clock.seconds += 1.0
            async with self.store.begin() as tx:
                await tx.append([self.envelopes.make(event, source=source)])
        await self.take()

    async def take(self) -> int:
        """Deliver until nothing is left; the position after that."""
        position = await self.deliverer.register(self.reader)
        for _ in range(100):
            new = await self.deliverer.deliver_batch(self.reader, position)
            if new == position:
                return position
            position = new
        raise AssertionError("it never comes to an end")

    async def published(self) -> list[Event]:
        """Every published event that an alert was raised or cleared."""
        async with self.store.read() as view:
            envelopes = await view.read(0, 1000, [Raised.name(), Cleared.name()])
        return [catalog.decode(envelope.name, envelope.body) for envelope in envelopes]

    async def open(self) -> list[str]:
        """The ids of the open alerts, with how often each was raised."""
        async with self.store.read() as view:
            return [f"{alert.id} {alert.count}" for alert in await open_alerts(view)]


def test_a_problem_is_raised_once_and_cleared_once(engine: Engine) -> None:
    """A problem that is reported several times is raised once and cleared once; the alert counts the reports."""

    async def story(store: Store) -> None:
        desk = Desk(store)
        await desk.publish(LOST, LOST, LOST)
        assert await desk.open() == ["node_lost:n 3"]
        await desk.publish(BACK, BACK, LOST, BACK)

        assert [type(event).__name__ for event in await desk.published()] == ["Raised", "Cleared"] * 2
        assert await desk.open() == []
        async with store.read() as view:
            [over] = await closed_alerts(view)
        assert (over.until, over.count) == (desk.clock.now(), 1)

    engine.run(story)


def test_a_failed_delivery_leaves_no_half_of_an_alert(engine: Engine) -> None:
    """A reaction that is undone has neither written nor published anything; delivered again it does both, once."""

    async def story(store: Store) -> None:
        desk = Desk(store)
        desk.broken = True
        await desk.publish(LOST)
        assert (await desk.open(), await desk.published()) == ([], [])
        desk.broken = False
        async with store.read() as view:
            parked = await view.deliveries_at("alert", [1])
        await desk.deliverer.redeliver(desk.reader, parked)
        await desk.take()

        assert await desk.open() == ["node_lost:n 1"]
        assert len(await desk.published()) == 1

    engine.run(story)


def test_alerts_lead_to_no_further_alerts(engine: Engine) -> None:
    """The daemon reads its own events and ignores them: the log stops growing."""

    async def story(store: Store) -> None:
        desk = Desk(store)
        await desk.publish(LOST, FAILED)
        before = store.position
        assert await desk.take() == before

        assert store.position == before
        assert len(await desk.published()) == 2
        async with store.read() as view:
            envelopes = await view.read(0, 10, [Raised.name()])
        assert [(envelope.source, bool(envelope.cause)) for envelope in envelopes] == [("alert", True)] * 2

    engine.run(story)


def test_alerts_raised_and_cleared_by_others_are_recorded_and_not_repeated(engine: Engine) -> None:
    """An alert of another source is one alert and one event; clearing an alert clears its parts too."""

    async def story(store: Store) -> None:
        desk = Desk(store)
        raised = [Raised(kind="disk", subject=subject, level="critical") for subject in ("n", "n/sda")]
        await desk.publish(*raised)
        assert await desk.open() == ["disk:n 1", "disk:n/sda 1"]
        cleared = Cleared(kind="disk", subject="n")
        await desk.publish(cleared)

        assert await desk.open() == []
        assert await desk.published() == [*raised, cleared, Cleared(kind="disk", subject="n/sda")]

    engine.run(story)


def test_a_restarted_node_has_no_failed_daemons(engine: Engine) -> None:
    """The alerts of its failed daemons are cleared; those of other nodes stay."""

    async def story(store: Store) -> None:
        desk = Desk(store)
        await desk.publish(FAILED, msgspec.structs.replace(FAILED, node="n2"), LOST)
        await desk.publish(node.Joined(node="n", profile="full"))

        assert await desk.open() == ["daemon:n2/fill 1"]

    engine.run(story)


def test_dead_letters_are_one_alert_until_the_last_is_settled(engine: Engine) -> None:
    """The alert counts them and ends when the reader has no dead letter left."""

    async def story(store: Store) -> None:
        desk = Desk(store)

        async def put_states(*states: str) -> None:
            async with store.begin() as tx:
                await tx.put_deliveries([delivery("r", number, state) for number, state in enumerate(states, 1)])

        await put_states("dead", "dead")
        await desk.publish(Changed(reader="r", positions=(1, 2), state="dead", error="no"))
        assert await desk.open() == ["dead_letter:r 2"]
        await put_states("done", "dead")
        await desk.publish(Changed(reader="r", positions=(1,), state="done"))
        assert await desk.open() == ["dead_letter:r 2"]
        await put_states("done", "discarded")
        await desk.publish(Changed(reader="r", positions=(2,), state="discarded"))
        assert await desk.open() == []

    engine.run(story)


def test_the_number_of_cleared_alerts_is_limited(engine: Engine) -> None:
    """The record does not grow: each cleared alert replaces the one that was cleared first."""

    async def story(store: Store) -> None:
        desk = Desk(store)
        old = [
            Alert(kind="old", subject=f"{number:04}", level="info", detail="", since=0.0, until=float(number))
            for number in range(_CLOSED_MAX)
        ]
        async with store.begin() as tx:
            await _ALERTS.put(tx, old)

        await desk.publish(LOST, BACK)

        async with store.read() as view:
            envelopes = await closed_alerts(view)
        assert (len(envelopes), envelopes[0].id, envelopes[-1].id) == (_CLOSED_MAX, "node_lost:n", "old:0001")

    engine.run(story)
