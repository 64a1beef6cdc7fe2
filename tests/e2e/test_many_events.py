"""Many events, many durable handlers and reactions, and killed processes: nothing is lost, doubled or out of order."""

import asyncio
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest

from ringrift.events.node import Left
from wait import wait_until

CHILD = Path(__file__).with_name("many.py")
EVENTS = 100_000
READERS = 20
PROCESSES = 3
ROUNDS = 4
"""How often each of the processes is killed."""
AHEAD = 15_000
"""Events that the publisher may be ahead of the readers, so that it works most of the time."""
ORDER = 2_500
SECONDS_MAX = 400.0
"""For one show.  It takes half a minute on a machine that does nothing else."""
SEED = int(os.environ.get("RINGRIFT_MANY_SEED") or Random().getrandbits(32))


class Show:
    """A publisher and three processes that share twenty handlers or reactions, on one store."""

    def __init__(self, part: str, home: Path) -> None:
        self._part, self._store, self.folder = part, home / "store.db", home / "files"
        self.folder.mkdir(parents=True)
        self.names = [f"{part}{number:02}" for number in range(READERS)]
        self._ordered = 0
        self._db: apsw.Connection | None = None
        self.publisher = self._start("publish")
        self.children = [self._listen(number) for number in range(PROCESSES)]
        self.kills: list[float] = []

    def _start(self, *words: object) -> "subprocess.Popen[bytes]":
        part, *rest = map(str, words)
        line = [sys.executable, str(CHILD), part, str(self._store), *rest]
        return subprocess.Popen(line, stdin=subprocess.PIPE, start_new_session=True)

    def _listen(self, number: int) -> "subprocess.Popen[bytes]":
        folder = [self.folder] if self._part == "handle" else []
        return self._start(self._part, *folder, *self.names[number::PROCESSES])

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Rows, from a connection that can only read."""
        if self._db is None:
            self._db = apsw.Connection(str(self._store), flags=apsw.SQLITE_OPEN_READONLY)
            self._db.set_busy_timeout(10_000)
        return list(self._db.execute(query))

    def progress(self) -> float:
        """The share of all deliveries that is done; the publisher is ordered to continue meanwhile."""
        ended = [child.args for child in (self.publisher, *self.children) if child.poll() is not None]
        assert ended == [], "only we kill"
        if not self._store.exists() or not self.ask("SELECT 1 FROM sqlite_schema WHERE name = 'readers'"):
            return 0.0
        [(delivered,)] = self.ask("SELECT coalesce(sum(position), 0) FROM readers")
        while self._ordered < EVENTS and self._ordered - delivered / READERS < AHEAD:
            assert self.publisher.stdin is not None
            self.publisher.stdin.write(b"%d\n" % ORDER)
            self.publisher.stdin.flush()
            self._ordered += ORDER
        return float(delivered) / (EVENTS * READERS)

    def kill(self, number: int) -> None:
        """SIGKILL one of the three at once, and start it again."""
        child = self.children[number]
        assert child.poll() is None, "it was alive until now"
        child.send_signal(signal.SIGKILL)
        with child:
            assert child.wait() == -signal.SIGKILL
        self.children[number] = self._listen(number)
        self.kills.append(self.progress())

    def clear(self) -> None:
        """End all processes."""
        if self._db is not None:
            self._db.close()
        for child in (self.publisher, *self.children):
            child.kill()
            with child:
                child.wait()


@contextmanager
def running_show(part: str, home: Path) -> Iterator[Show]:
    """A show that leaves no process behind."""
    show = Show(part, home)
    try:
        yield show
    finally:
        show.clear()


def perform(show: Show) -> None:
    """Kill each of the three a few times at random moments, and wait until all events have been delivered."""
    rng = Random(SEED)
    victims = [number for _ in range(ROUNDS) for number in rng.sample(range(PROCESSES), PROCESSES)]
    moments = sorted(rng.uniform(0.02, 0.95) for _ in victims)

    async def play() -> None:
        for moment, victim in zip(moments, victims, strict=True):
            await wait_until(lambda moment=moment: show.progress() >= moment, SECONDS_MAX)  # type: ignore[misc]  # its own
            show.kill(victim)
        await wait_until(lambda: show.progress() >= 1.0, SECONDS_MAX)

    asyncio.run(play())


def ids(show: Show) -> Sequence[str]:
    """The ids of all events, in order; checks that each was published once, and that no delivery ever failed."""
    rows = show.ask("SELECT position, id, name, body FROM log ORDER BY position")
    assert [position for position, *_ in rows] == list(range(1, EVENTS + 1))
    assert {name for _, _, name, _ in rows} == {Left.name()}
    assert len({body for *_, body in rows}) == EVENTS
    assert show.ask("SELECT reader, error FROM deliveries") == []
    return [id for _, id, *_ in rows]


@pytest.mark.slow
@pytest.mark.timeout(1.5 * SECONDS_MAX)
def test_reactions_happen_once_and_in_order_despite_kills(tmp_path: Path) -> None:
    """100,000 events through 20 reactions in three processes that are killed: every effect exactly once, in order."""
    print(f"RINGRIFT_MANY_SEED={SEED}")  # noqa: T201 - shown when the test fails

    with running_show("react", tmp_path) as show:
        perform(show)
        checksum = 0
        for id in ids(show):
            checksum = zlib.crc32(id.encode(), checksum)
        chains = dict(show.ask("SELECT id, body FROM records WHERE kind = 'chain'"))

    assert chains == {name: b"%d %d %d" % (EVENTS, checksum, EVENTS) for name in show.names}
    assert len(show.kills) == ROUNDS * PROCESSES
    assert max(show.kills) < 1.0


@pytest.mark.slow
@pytest.mark.timeout(1.5 * SECONDS_MAX)
def test_handlers_receive_every_event_under_one_key_despite_kills(tmp_path: Path) -> None:
    """The same with 20 handlers: every event at least once, in order, and each duplicate under the same key."""
    print(f"RINGRIFT_MANY_SEED={SEED}")  # noqa: T201 - shown when the test fails

    with running_show("handle", tmp_path) as show:
        perform(show)
        event_ids = ids(show)
    repeated = 0
    for name in show.names:
        lines = (show.folder / name).read_bytes().splitlines()
        keys = dict(zip(range(1, EVENTS + 1), (f"{name}@{id}".encode() for id in event_ids), strict=True))
        first = list(dict.fromkeys(lines))
        assert first == [b"%d %s" % (position, key) for position, key in keys.items()], name
        repeated += len(lines) - len(first)

    assert repeated > 0, "no kill interrupted a delivery"
    assert len(show.kills) == ROUNDS * PROCESSES
    assert max(show.kills) < 1.0
