"""A program uses a store by a client: publish, subscribe, handle, jobs, models, status, and it is no node."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import ringrift
from contract.coordinator_rig import ADDRESS, DirectWire, opened
from ringrift.blobs.folder import Folder
from ringrift.client import Client
from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.events.base import Envelope, Event
from ringrift.events.custom import Published
from ringrift.events.node import Joined, Left
from ringrift.events.work import Finished
from ringrift.jobs import Verify
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import IdConflict, InputError, NoRoute, UnknownName, Unreachable, WorkError
from ringrift.kernel.settings import Settings
from ringrift.pipeline.line import LINES, Line
from ringrift.pipeline.models import MODELS, Model, State
from ringrift.remote_client import connect_url
from ringrift.store.open import open_store
from ringrift.store.ports import Tx
from ringrift.sync import ledger
from wait import wait_until

SECONDS_MAX = 10.0
QUICK_BUS = {"bus.redeliver_seconds": 0.05, "bus.poll_seconds": 0.05}
Use = Callable[[Path, Callable[[Client], Awaitable[None]]], None]
QUICK = Backoff(first_seconds=0.01, seconds_max=0.02, tries=5)
JOB = Verify(variant="hex8_2p", model="ab" * 32)


def use_home(home: Path, story: Callable[[Client], Awaitable[None]]) -> None:
    """Tell *story* with a client of the store in *home*."""

    async def tell() -> None:
        settings = Settings.local(home).overlaid(QUICK_BUS)
        async with asyncio.timeout(60.0), ringrift.connect(settings=settings, create=True) as client:
            await story(client)

    asyncio.run(tell())


def use_url(home: Path, story: Callable[[Client], Awaitable[None]]) -> None:
    """Tell *story* with a client of a coordinator whose store is in *home*."""

    async def tell() -> None:
        async with asyncio.timeout(60.0), opened(home) as coordinator:
            program = home / "program"
            await coordinator.program(program)
            settings = Settings.local(program).overlaid(QUICK_BUS)
            async with connect_url([ADDRESS], settings, wire=DirectWire(coordinator.gate)) as client:
                await story(client)

    asyncio.run(tell())


@pytest.fixture(params=[use_home, use_url])
def use(request: pytest.FixtureRequest) -> Use:
    """Both ways to connect."""
    way: Use = request.param
    return way


def look(home: Path, write: Callable[[Tx], Awaitable[None]]) -> None:
    """Read or write the store of *home* while no client is open."""

    async def story() -> None:
        async with open_store(Settings.local(home).store, SystemClock()) as store, store.begin() as tx:
            await write(tx)

    asyncio.run(story())


def test_a_home_without_a_store_is_not_made_by_a_mistake(tmp_path: Path) -> None:
    """A misspelt home is an error, and nothing is created there."""

    async def story() -> None:
        async with ringrift.connect(tmp_path / "hoem"):
            """Not reached."""

    with pytest.raises(Unreachable, match=r"no store at .*hoem.*create=True"):
        asyncio.run(story())
    assert not (tmp_path / "hoem").exists()


def test_the_settings_of_the_home_are_used(tmp_path: Path) -> None:
    """Its ``ringrift.toml`` says where the store is."""
    (tmp_path / "ringrift.toml").write_text(f'[store]\npath = "{tmp_path / "elsewhere.db"}"\n')

    async def story() -> None:
        async with ringrift.connect(tmp_path, create=True) as client:
            await client.publish(Joined(node="x", profile="full"))

    asyncio.run(story())
    assert (tmp_path / "elsewhere.db").exists()


def test_a_published_event_is_durable_and_repeated_by_its_id(tmp_path: Path, use: Use) -> None:
    """The same id and event is the first event; another event under it is refused."""
    envelopes = list[Envelope]()

    async def story(client: Client) -> None:
        event = Published(event="lab.note", payload={"n": 1})
        envelopes.append(await client.publish(event, id="once"))
        assert (await client.publish(event, id="once")).position == envelopes[0].position
        with pytest.raises(IdConflict):
            await client.publish(Published(event="lab.note", payload={"n": 2}), id="once")

    async def check(tx: Tx) -> None:
        [stored] = await tx.events_by_id(["once"])
        assert (stored.position, stored.source) == (envelopes[0].position, "program")

    use(tmp_path, story)
    look(tmp_path, check)


def test_an_event_that_nobody_could_read_is_refused(tmp_path: Path, use: Use) -> None:
    """One of no catalog, and one that only lives inside a node."""

    class Mine(Event, tag="lab.mine"):
        """Declared nowhere."""

    async def story(client: Client) -> None:
        with pytest.raises(InputError, match=r"entry point group ringrift\.events"):
            await client.publish(Mine())
        with pytest.raises(InputError, match="only for subscribers inside a node"):
            await client.publish(Finished(job="j", kind="play", variant="hex8_2p", node="n", seconds=1.0))

    use(tmp_path, story)


def test_a_subscription_begins_when_it_is_made(tmp_path: Path, use: Use) -> None:
    """What is published before its first step is not missed; other events and earlier ones are not in it."""

    async def story(client: Client) -> None:
        first = await client.publish(Joined(node="early", profile="full"))
        events, again = client.subscribe(Joined), client.subscribe({"node.joined", "lab.note"}, after=first.position)
        await client.publish(Left(node="n", profile="full"))
        await client.publish(Joined(node="late", profile="full"))
        event, envelope = await anext(events)
        assert (event, envelope.name) == (Joined(node="late", profile="full"), "node.joined")
        assert (await anext(again))[0] == event
        await client.publish(Published(event="other"))
        await client.publish(Published(event="lab.note"))
        assert (await anext(again))[0] == Published(event="lab.note")
        with pytest.raises(InputError):
            client.subscribe(7)  # type: ignore[arg-type] - refused, whatever its type

    use(tmp_path, story)


def test_a_handler_goes_on_in_the_next_program_with_the_same_keys(tmp_path: Path, use: Use) -> None:
    """A failed call is repeated with its key; what was published in between is handled; done is done."""
    calls = list[tuple[str, str]]()

    async def handle(event: Joined, envelope: Envelope, key: str) -> None:
        calls.append((event.node, key))
        if len(calls) == 1:
            raise ValueError("not yet")

    async def first(client: Client) -> None:
        await client.handle(Joined, handle, name="mailer", from_start=True, retry=QUICK)
        envelope = await client.publish(Joined(node="a", profile="full"))
        await wait_until(lambda: len(calls) == 2, SECONDS_MAX)
        assert calls == [("a", f"program.mailer@{envelope.id}")] * 2

    async def between(client: Client) -> None:
        await client.publish(Joined(node="b", profile="full"))

    async def second(client: Client) -> None:
        await client.handle(Joined, handle, name="mailer", retry=QUICK)
        await wait_until(lambda: "b" in [node for node, _ in calls], SECONDS_MAX)
        await client.publish(Joined(node="c", profile="full"))
        await wait_until(lambda: "c" in [node for node, _ in calls], SECONDS_MAX)

    for story in (first, between, second):
        use(tmp_path, story)
    assert [node for node, _ in calls].count("b") == 1


def test_a_handler_never_takes_the_place_of_a_daemon(tmp_path: Path, use: Use) -> None:
    """A handler named after a daemon has a reader of its own: the daemon's position does not move."""

    async def seed(tx: Tx) -> None:
        await tx.register_reader("pipeline", 0)

    async def story(client: Client) -> None:
        done = asyncio.Event()

        async def handle(event: Event, envelope: Envelope, key: str) -> None:
            done.set()

        await client.handle(None, handle, name="pipeline")
        await client.publish(Joined(node="a", profile="full"))
        await done.wait()

    async def check(tx: Tx) -> None:
        positions = await tx.positions()
        assert positions["pipeline"] == 0
        assert "program.pipeline" in positions

    look(tmp_path, seed)
    use(tmp_path, story)
    look(tmp_path, check)


def test_a_client_is_no_node(tmp_path: Path, use: Use) -> None:
    """It takes no role, is in no roster, and leaves jobs that it asks for to nodes."""

    async def story(client: Client) -> None:
        id = await client.jobs.enqueue(JOB)
        assert await client.jobs.enqueue(JOB) == id, "the same key is the same job"
        status = await client.status()
        assert (status.nodes, status.lines, status.alerts) == ((), (), ())
        assert status.jobs == {("verify", "ready"): 1}
        with pytest.raises(WorkError, match=r"has not ended after 0\.3 s"):
            await client.jobs.wait(id, 0.3)
        assert (await client.jobs.show(id)).state == "ready"

    async def check(tx: Tx) -> None:
        assert [row for row in await tx.roles() if row.holder] == []
        assert await NODES.all(tx) == []

    use(tmp_path, story)
    look(tmp_path, check)


def test_jobs_are_listed_shown_waited_for_and_cancelled(tmp_path: Path, use: Use) -> None:
    """A cancelled job ends the wait for it; to cancel it again changes nothing."""

    async def story(client: Client) -> None:
        id = await client.jobs.enqueue(JOB)
        assert [row.id for row in await client.jobs.list(variant="hex8_2p")] == [id]
        assert await client.jobs.list(states=("done",)) == []
        waiting = asyncio.create_task(client.jobs.wait(id, SECONDS_MAX))
        await asyncio.sleep(0)
        assert await client.jobs.cancel(id)
        facts = await waiting
        assert (facts.id, facts.state, facts.kind) == (id, "cancelled", "verify")
        assert not await client.jobs.cancel(id)
        for call in (client.jobs.show, client.jobs.wait, client.jobs.cancel):
            with pytest.raises(UnknownName, match="unknown job 'nothing'"):
                await call("nothing")

    use(tmp_path, story)


def test_weights_of_a_champion_are_read_and_verified(tmp_path: Path) -> None:
    """They come from a folder of this machine, whether or not its node runs; a damaged file is not handed out."""
    folder = Folder(tmp_path / "blobs" / "n1", "n1")
    folder.mark()
    blob = folder.put(b"weights")

    async def seed(tx: Tx) -> None:
        line = Line(variant="hex8_2p", workload="fake", players=2, champion=blob, generation=3)
        model = Model(variant="hex8_2p", model=blob, generation=3, state=State.CHAMPION, since=1.0)
        node = NodeRecord(id="n1", profile="full", address=str(folder.root), beat=1, gone=True)
        await LINES.put(tx, [line, Line(variant="hex8_3p", workload="fake", players=3)])
        await MODELS.put(tx, [model])
        await NODES.put(tx, [node])
        await tx.put([ledger.holding(blob, "n1")])

    async def story(client: Client) -> None:
        assert await client.models.weights("hex8_2p") == b"weights"
        assert await client.models.path(blob[:12]) == folder.path(blob)
        champion = await client.models.champion("hex8_2p")
        assert champion is not None
        assert (champion.model, champion.generation) == (blob, 3)
        assert await client.models.champion("hex8_3p") is None
        assert list(await client.models.list("hex8_2p")) == list(await client.models.list()) == [champion]
        with pytest.raises(UnknownName, match="unknown variant 'hex9_2p'; known: hex8_2p, hex8_3p"):
            await client.models.champion("hex9_2p")
        folder.path(blob).write_bytes(b"damaged")
        with pytest.raises(NoRoute):
            await client.models.weights("hex8_2p")

    look(tmp_path, seed)
    use_home(tmp_path, story)
