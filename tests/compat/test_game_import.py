"""A publish that brings a database of games: imported once by a running node, before the event counts."""

import asyncio
import json
import sqlite3  # noqa: TID251 - makes the foreign file
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ringrift.events.base import Event
from ringrift.events.data import Imported
from ringrift.events.selfplay import BatchFinished
from ringrift.kernel.errors import InputError, InvalidId, JobFailed, WorkError
from ringrift_compat.embedded_host import get_host
from ringrift_compat.embedded_node import embedded
from ringrift_compat.events.event_emitters import emit_selfplay_complete
from ringrift_compat.events.event_router import get_router
from ringrift_compat.events.router_event import RouterEvent
from ringrift_compat.pipeline.pipeline_actions import trigger_training
from wait import wait_until

V = "hex8_2p"
SECONDS_MAX = 60.0
REFUSED_SECONDS_MAX = 1.0
QUICK = """
[work]
workload = "fake"
[policy]
games_per_batch = 20
games_per_export = 1000000
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of its own."""
    monkeypatch.setenv("RINGRIFT_HOME", str(tmp_path))
    (tmp_path / "ringrift.toml").write_text(QUICK)
    yield tmp_path
    embedded.shutdown()


def write(path: Path, numbers: Iterable[int], *, end: int = 60) -> str:
    """A database with the games of *numbers*; they replay if *end* repeats the move before it."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE IF NOT EXISTS games (id INTEGER PRIMARY KEY, variant, moves, result)")
        rows = [(number, V, json.dumps([number, 60, end]), "[1, 0]") for number in numbers]
        database.executemany("INSERT INTO games VALUES (?, ?, ?, ?)", rows)
        database.commit()
    return str(path)


def logged(*kinds: type[Event]) -> list[str]:
    """The names of the events of *kinds* in the log, in its order."""

    async def read() -> list[str]:
        async with embedded.node().store.read() as view:
            return [row.name for row in await view.read(0, 10_000, [kind.name() for kind in kinds])]

    return embedded.call(read())


def test_the_games_of_a_database_count_once_and_before_the_event(tmp_path: Path) -> None:
    """The batch is in the log before the event; a database that has grown brings what is new."""
    received: list[RouterEvent] = []

    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            assert (await trigger_training("hex8", 2)).success
            get_router().subscribe("SELFPLAY_COMPLETE", received.append)
            file = write(tmp_path / "selfplay.db", range(40))
            first = await emit_selfplay_complete(config_key=V, games_generated=40, db_path=file)
            again = await emit_selfplay_complete(config_key=V, games_generated=41, db_path=file)
            write(tmp_path / "selfplay.db", range(40, 50))
            grown = await get_router().publish("NEW_GAMES", {"config_key": V, "games_count": 50, "db_path": file})

            counts = [
                (event.payload["games_imported"], event.payload["games_repeated"]) for event in (first, again, grown)
            ]
            assert counts == [(40, 0), (0, 40), (10, 40)]
            assert first.payload["games_generated"] == 40
            assert len(first.payload["batches"]) == 1
            assert logged(BatchFinished, Imported) == [
                *("selfplay.batch_finished", "data.imported", "data.imported"),
                *("selfplay.batch_finished", "data.imported"),
            ]
            await wait_until(lambda: len(received) >= 4)
            assert [bool(event.payload.get("source")) for event in received[:2]] == [True, False], "the batch is first"

    asyncio.run(story())


def test_a_database_without_a_game_that_replays_is_an_error_and_no_event(tmp_path: Path) -> None:
    """Neither is one that is none, or that is still being written."""

    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            assert (await trigger_training("hex8", 2)).success
            bad, junk, used = (tmp_path / name for name in ("bad.db", "junk.db", "used.db"))
            write(bad, range(3), end=1)
            junk.write_bytes(b"no database at all")
            write(used, range(3))
            (tmp_path / "used.db-wal").write_bytes(b"games")

            for file, error in ((bad, "none of its 3 games"), (junk, "it has neither lines of JSON nor a database")):
                with pytest.raises(JobFailed, match=error):
                    await emit_selfplay_complete(config_key=V, games_generated=3, db_path=str(file))
            with pytest.raises(InputError, match=r"still in used\.db-wal"):
                await emit_selfplay_complete(config_key=V, games_generated=3, db_path=str(used))
            assert logged(BatchFinished, Imported) == []
            assert get_router().get_recent_events(event_type="SELFPLAY_COMPLETE") == []

    asyncio.run(story())


def test_without_a_node_the_publish_is_refused_soon(tmp_path: Path) -> None:
    """It returns at once; awaiting it raises, no event is published, and this program opens no node for it."""
    file = write(tmp_path / "selfplay.db", range(3))

    async def story() -> None:
        embedded.node()
        started = time.monotonic()
        pending = emit_selfplay_complete(config_key=V, games_generated=3, db_path=file)
        assert not pending.done()
        with pytest.raises(WorkError, match="no running node on this machine can import games"):
            await pending
        assert time.monotonic() - started < REFUSED_SECONDS_MAX
        with pytest.raises(InvalidId):
            await get_router().publish("SELFPLAY_COMPLETE", {"games_generated": 3, "db_path": file})
        assert get_host(embedded.node()) is None
        assert get_router().get_recent_events() == []

    asyncio.run(story())


def test_a_path_of_another_machine_is_published_as_it_is() -> None:
    """The file does not exist here, so nothing is imported or counted."""

    async def story() -> None:
        event = await emit_selfplay_complete(config_key=V, games_generated=1000, db_path="/elsewhere/selfplay.db")

        assert event.payload == {"config_key": V, "games_generated": 1000, "db_path": "/elsewhere/selfplay.db"}
        assert logged(BatchFinished, Imported) == []

    asyncio.run(story())
