"""The log over the wire: a program follows it, reads it and keeps its place in it, as if it had a store of its own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import aclosing, asynccontextmanager, suppress

from ringrift.bus.remote_router import Publish, Published
from ringrift.events.base import Envelope
from ringrift.jobs import JobQuery
from ringrift.kernel.value import Value, changed
from ringrift.kernel.wire_errors import Forbidden
from ringrift.store.ports import Delivery, JobRow
from ringrift.wire.connection import Connection, Nothing

NOW = -1  #: The position at which whoever follows the log begins with the next event.


class FollowEvents(Value):
    """The stream `events`: the log after *position*, in order; it goes on with events as they become durable."""

    position: int = NOW
    names: tuple[str, ...] = ()  #: Only events of these names; none: every event.
    bodies: bool = True  #: False: only wake-ups, which tell the newest position.


class EventsNote(Value):
    """Events of the log; whoever goes on behind *position* misses none.  The first note says where it begins."""

    position: int
    envelopes: tuple[Envelope, ...] = ()


class ReadEvents(Value):
    """`events.read`: events after a position, or at *positions*.  An answer that is full may be followed by more."""

    after: int = 0
    limit: int = 0
    names: tuple[str, ...] = ()
    positions: tuple[int, ...] = ()


class ReadDeliveries(Value):
    """`reader.deliveries`: failed deliveries to *reader*, in *states* or of the events at *positions*."""

    reader: str
    states: tuple[str, ...] = ()
    positions: tuple[int, ...] = ()
    limit: int = 0


class Deliveries(Value):
    """The deliveries, oldest first."""

    deliveries: tuple[Delivery, ...] = ()


class RegisterReader(Value):
    """`reader.register`: the place of the handler *reader*, which starts at *position* if it is new."""

    reader: str
    position: int


class ReaderPlace(Value):
    """The place of a reader."""

    position: int


class MoveReader(Value):
    """`reader.move`: move *reader* from *old* to *new* and store *deliveries*, all or nothing.

    Raises Overtaken if its place is another, or if a delivery that was *seen* is not as it was.
    """

    reader: str
    old: int | None = None  #: None: it does not move.
    new: int = 0
    seen: tuple[Delivery, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    envelopes: tuple[Envelope, ...] = ()


class ListJobs(Value):
    """`jobs.list`: the newest jobs that *query* selects."""

    query: JobQuery
    limit: int


class JobRows(Value):
    """The jobs, newest first."""

    rows: tuple[JobRow, ...] = ()


class _View:
    """Questions about the log and the jobs: the part of :class:`ringrift.store.ports.Reads` that a program needs."""

    def __init__(self, connection: Connection) -> None:
        self._call = connection.call

    async def read(self, after: int, limit: int, names: Collection[str] = ()) -> Sequence[Envelope]:
        """Up to *limit* events after *after*."""
        envelopes = list[Envelope]()
        while len(envelopes) < limit:
            ask = ReadEvents(after=after, limit=limit - len(envelopes), names=tuple(sorted(names)))
            answer = await self._call("events.read", ask, EventsNote)
            envelopes += answer.envelopes
            if not answer.envelopes or answer.position <= answer.envelopes[-1].position:
                break  # the log ends there
            after = answer.envelopes[-1].position
        return envelopes

    async def events_at(self, positions: Sequence[int]) -> Sequence[Envelope]:
        """The events at *positions*."""
        if not positions:
            return ()
        return (await self._call("events.read", ReadEvents(positions=tuple(positions)), EventsNote)).envelopes

    async def deliveries(self, states: Collection[str], limit: int, reader: str) -> Sequence[Delivery]:
        """Failed deliveries to *reader* in *states*."""
        ask = ReadDeliveries(reader=reader, states=tuple(states), limit=limit)
        return (await self._call("reader.deliveries", ask, Deliveries)).deliveries

    async def list_jobs(self, query: JobQuery, limit: int) -> Sequence[JobRow]:
        """The jobs that *query* selects."""
        return list((await self._call("jobs.list", ListJobs(query=query, limit=limit), JobRows)).rows)


class _Tx(_View):
    """What a program writes: events at once, and the place of a handler with its deliveries together at the end."""

    def __init__(self, connection: Connection, on_position: Callable[[int], None]) -> None:
        super().__init__(connection)
        self._on_position = on_position
        self._move: MoveReader | None = None
        self._seen = tuple[Delivery, ...]()

    async def append(self, envelopes: Sequence[Envelope]) -> Sequence[Envelope]:
        """Publish *envelopes*; those about deliveries are stored with them."""
        if self._move is not None:
            self._move = changed(self._move, envelopes=(*self._move.envelopes, *envelopes))
            return envelopes
        answer = await self._call("publish", Publish(envelopes=tuple(envelopes)), Published)
        self._on_position(max(answer.positions, default=0))
        return [changed(envelope, position=at) for envelope, at in zip(envelopes, answer.positions, strict=True)]

    async def register_reader(self, reader: str, at: int) -> int:
        """The place of *reader*."""
        return (await self._call("reader.register", RegisterReader(reader=reader, position=at), ReaderPlace)).position

    async def advance(self, reader: str, old: int, new: int) -> None:
        """Move *reader*, at the end."""
        self._move = changed(self._move or MoveReader(reader=reader), old=old, new=new)

    async def deliveries_at(self, reader: str, positions: Sequence[int]) -> Sequence[Delivery]:
        """Failed deliveries of the events at *positions*; what is written at the end rests on them."""
        if positions:
            ask = ReadDeliveries(reader=reader, positions=tuple(positions))
            self._seen = (await self._call("reader.deliveries", ask, Deliveries)).deliveries
        return self._seen

    async def put_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        """Write *deliveries*, at the end."""
        if deliveries:
            self._move = changed(self._move or MoveReader(reader=deliveries[0].reader), deliveries=tuple(deliveries))

    async def commit(self) -> None:
        """Store what is to be stored together.  Raises Overtaken."""
        if self._move is not None:
            await self._call("reader.move", changed(self._move, seen=self._seen), Nothing)


class RemoteLog:
    """The part of :class:`ringrift.store.ports.Store` that publishing, following and handling events need."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._moved = connection, asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.position = 0  #: The newest one that is known here.

    async def open(self) -> None:
        """Learn where the log ends, and follow that from here on; a key that may not read only publishes."""
        try:
            self._note((await self._connection.call("events.read", ReadEvents(), EventsNote)).position)
        except Forbidden:
            return
        self._task = asyncio.get_running_loop().create_task(self._follow(), name="remote-log")

    async def close(self) -> None:
        """Follow no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        notes = self._connection.notes("events", FollowEvents(bodies=False), EventsNote)
        async with aclosing(notes):  # type: ignore[type-var]  # it is a generator
            async for note in notes:
                self._note(note.position)

    def _note(self, position: int) -> None:
        if position > self.position:
            self.position = position
            self._moved.set()

    async def wait(self, after: int | None, seconds: float) -> int:
        """Wait until the position is after *after*, or *seconds*; with None, until anything was published."""
        after = self.position if after is None else after
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.position <= after:
                    self._moved.clear()
                    await self._moved.wait()
        return self.position

    @asynccontextmanager
    async def read(self) -> AsyncIterator[_View]:
        """Ask questions; each is answered as of its own moment."""
        yield _View(self._connection)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[_Tx]:
        """Write."""
        tx = _Tx(self._connection, self._note)
        yield tx
        await tx.commit()
