"""The verbs of programs: each needs its scope, a program has its own place in the log, and every answer is bounded."""

import asyncio
from pathlib import Path

import pytest

from contract.coordinator_rig import ADDRESS, Coordinator, DirectWire, tell
from ringrift.bus import remote_log as log
from ringrift.bus.remote_log import Deliveries, EventsNote, MoveReader, ReadDeliveries, ReadEvents, RegisterReader
from ringrift.client import connect
from ringrift.coordinator import questions
from ringrift.events import catalog
from ringrift.events.base import Envelope
from ringrift.events.custom import Published
from ringrift.events.delivery import Changed
from ringrift.jobs import JobQuery, Verify
from ringrift.kernel.errors import InputError, NoRoute, Overtaken, SettingsError, UnknownName
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import Value, changed
from ringrift.kernel.wire_errors import Forbidden
from ringrift.pipeline.models import MODELS, Model, State
from ringrift.remote_client import connect_url
from ringrift.store.ports import Delivery
from ringrift.wire.connection import Nothing

READER = "program.mailer"
JOB = Verify(variant="v", model="ab" * 32)


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("events.read", ReadEvents()),
        ("reader.deliveries", ReadDeliveries(reader=READER)),
        ("reader.register", RegisterReader(reader=READER, position=0)),
        ("reader.move", MoveReader(reader=READER)),
        ("jobs.list", log.ListJobs(query=JobQuery(), limit=1)),
        ("jobs.show", questions.ShowJob(id="x")),
        ("models.list", questions.ListModels()),
        ("models.find", questions.FindModel(name="x")),
        ("status", questions.AskStatus()),
        ("facts", questions.AskFacts()),
    ],
)
def test_reading_needs_the_scope(tmp_path: Path, verb: str, body: Value) -> None:
    """A worker's key reads nothing of the store."""

    async def story(c: Coordinator) -> None:
        with pytest.raises(Forbidden):
            await (await c.node()).call(verb, body)

    tell(tmp_path, story)


def test_jobs_are_for_administrators(tmp_path: Path) -> None:
    """Who may read may not enqueue or cancel."""

    async def story(c: Coordinator) -> None:
        [id] = await c.enqueue(JOB)
        node = await c.node("p", ("read", "publish", "play"))
        for verb, body in (
            ("jobs.enqueue", questions.EnqueueJob(kind="verify", body=b"{}")),
            ("jobs.cancel", questions.CancelJob(id=id, reason="r")),
        ):
            with pytest.raises(Forbidden):
                await node.call(verb, body)
        assert (await c.job(id)).state == "ready"
        admin = await c.node("a", ("administer",), beats=False)
        with pytest.raises(UnknownName):
            await admin.call("jobs.enqueue", questions.EnqueueJob(kind="steal", body=b"{}"))

    tell(tmp_path, story)


@pytest.mark.parametrize("reader", ["pipeline", "program", "", "program.\n"])
def test_no_program_moves_the_place_of_a_daemon(tmp_path: Path, reader: str) -> None:
    """Every verb of readers takes the names of programs' handlers alone."""

    async def story(c: Coordinator) -> None:
        async with c.store.begin() as tx:
            await tx.register_reader("pipeline", 0)
        node = await c.node("p", ("read",), beats=False)
        for verb, body in (
            ("reader.register", RegisterReader(reader=reader, position=0)),
            ("reader.deliveries", ReadDeliveries(reader=reader, limit=9, states=("parked",))),
            ("reader.move", MoveReader(reader=reader, old=0, new=0)),
        ):
            with pytest.raises(InputError):
                await node.call(verb, body)

    tell(tmp_path, story)


def test_a_place_moves_with_its_deliveries_or_not_at_all(tmp_path: Path) -> None:
    """Whoever was overtaken, or has seen a delivery that was settled since, changes nothing."""

    async def story(c: Coordinator) -> None:
        node = await c.node("p", ("read",), beats=False)
        for number in range(3):
            await c.parts.router.publish(Published(event=f"n{number}"))
        end = c.store.position
        await node.call("reader.register", RegisterReader(reader=READER, position=0))
        row = Delivery(reader=READER, position=1, state="parked", attempts=1, error="e", first=1.0, last=1.0)

        await node.call("reader.move", MoveReader(reader=READER, old=0, new=1, deliveries=(row,)), Nothing)
        for move in (
            MoveReader(reader=READER, old=0, new=2),
            MoveReader(reader=READER, old=1, new=2, seen=(changed(row, attempts=9),)),
        ):
            with pytest.raises(Overtaken):
                await node.call("reader.move", move, Nothing)
        for move in (
            MoveReader(reader=READER, old=1, new=end + 5),
            MoveReader(reader=READER, old=1, new=0),
            MoveReader(reader=READER, deliveries=(changed(row, reader="pipeline"),)),
            MoveReader(reader=READER, envelopes=(_changed("pipeline"),)),
            MoveReader(reader=READER, envelopes=(Envelope("i", "custom.published", b'{"event":"x"}'),)),
        ):
            with pytest.raises(InputError):
                await node.call("reader.move", move, Nothing)

        async with c.store.read() as view:
            assert (await view.positions())[READER] == 1
        answer = await node.call(
            "reader.deliveries", ReadDeliveries(reader=READER, states=("parked",), limit=9), Deliveries
        )
        assert answer.deliveries == (row,)
        done = MoveReader(reader=READER, seen=(row,), deliveries=(changed(row, state="done"),))
        await node.call("reader.move", changed(done, envelopes=(_changed(READER),)), Nothing)
        assert [envelope.node for envelope in await c.log(Changed.name())] == ["p"]

    tell(tmp_path, story)


def _changed(reader: str) -> Envelope:
    event = Changed(reader=reader, positions=(1,), state="done", error="", timed_out=False)
    return Envelope(id=f"of {reader}", name=event.name(), body=catalog.encode(event))


def test_a_long_log_is_read_in_answers_that_a_wire_carries(tmp_path: Path) -> None:
    """A program reads on by itself and gets as many as it asked for."""

    async def story(c: Coordinator) -> None:
        await c.parts.router.publish_many([Published(event=f"n{n}", payload={"x": "y" * 60_000}) for n in range(100)])
        await c.program(tmp_path / "p")
        node = await c.node("r", ("read",), beats=False)
        answer = await node.call("events.read", ReadEvents(after=0, limit=10**9), EventsNote)
        assert 10 < len(answer.envelopes) < 100
        async with connect_url([ADDRESS], Settings.local(tmp_path / "p"), wire=DirectWire(c.gate)) as client:
            envelopes = await client.read(0, limit=90, names=[Published.name()])
            assert [row.position for row in envelopes] == sorted({row.position for row in envelopes})
            assert len(envelopes) == 90
            assert client.position == c.store.position

    tell(tmp_path, story)


def test_the_weights_of_a_champion_are_fetched_and_verified(tmp_path: Path) -> None:
    """Into a cache of the program's home; a model that is not there has no route."""

    async def story(c: Coordinator) -> None:
        [blob] = await c.blobs.put([b"weights"])
        await c.open_line("hex8_2p", blob)
        await c.open_line("hex8_3p", "cd" * 32)
        async with c.store.begin() as tx:
            model = Model(variant="hex8_2p", model=blob, generation=3, state=State.CHAMPION, since=1.0)
            await MODELS.put(tx, [model, changed(model, variant="hex8_3p", model="cd" * 32)])
        await c.program(tmp_path / "p", ("read",))
        async with connect_url([ADDRESS], Settings.local(tmp_path / "p"), wire=DirectWire(c.gate)) as client:
            assert await client.models.weights("hex8_2p") == b"weights"
            path = await client.models.path(blob[:12])
            assert path.is_relative_to(tmp_path / "p" / "cache")
            assert await client.models.champion("hex8_2p") == model
            assert list(await client.models.list("hex8_2p")) == [model]
            with pytest.raises(NoRoute):
                await client.models.path("hex8_3p")
            with pytest.raises(UnknownName):
                await client.models.champion("hex9_2p")

    tell(tmp_path, story)


def test_nodes_with_their_facts_are_in_the_status(tmp_path: Path) -> None:
    """As many as there are, page by page."""

    async def story(c: Coordinator) -> None:
        for number in range(120):
            await c.node(f"w{number:03}")
        await c.program(tmp_path / "p", ("read",))
        async with connect_url([ADDRESS], Settings.local(tmp_path / "p"), wire=DirectWire(c.gate)) as client:
            nodes = (await client.status()).nodes
            assert [node.id for node in nodes] == [f"w{number:03}" for number in range(120)]
            assert {node.facts.cores for node in nodes} == {2}

    tell(tmp_path, story)


def test_a_key_that_only_publishes_connects_and_reads_nothing(tmp_path: Path) -> None:
    """The scopes of the key decide, one call at a time."""

    async def story(c: Coordinator) -> None:
        await c.program(tmp_path / "p", ("publish",))
        async with connect_url([ADDRESS], Settings.local(tmp_path / "p"), wire=DirectWire(c.gate)) as client:
            assert (await client.publish(Published(event="x"))).position == c.store.position
            with pytest.raises(Forbidden):
                await client.status()
            with pytest.raises(Forbidden):
                await anext(client.subscribe())

    tell(tmp_path, story)


def test_without_a_key_of_a_program_nothing_is_asked(tmp_path: Path) -> None:
    """What to do is said; the key of a worker is not used for a second process."""

    async def story() -> None:
        async with connect("http://127.0.0.1:1", settings=Settings.local(tmp_path)):
            """Not reached."""

    with pytest.raises(SettingsError, match="ringrift join URL --program"):
        asyncio.run(story())
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "node.json").write_text("{}")
    (tmp_path / "keys" / "joined.json").write_text('{"addresses":[],"profile":"full"}')
    with pytest.raises(SettingsError, match="its key is that of a worker"):
        asyncio.run(story())
