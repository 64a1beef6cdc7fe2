"""Figures: counts what goes through the router, whoever says it, by name and by where it came from.

    the log, from every process ─▶ read now and then, and when somebody asks ─▶ by name, by origin
    what skips the log          ─▶ counted where it is said

Nobody waits for it: who only publishes pays nothing, and what was said between two looks is in the log until the next.
"""

import asyncio
import logging
from collections import Counter

from ringrift.events import catalog, old_names
from ringrift.events.base import Envelope, Unknown
from ringrift.events.custom import Said
from ringrift.kernel.errors import InputError, StoreError
from ringrift_compat.ambient import Embedded
from ringrift_compat.router_event import RouterEvent
from ringrift_compat.voice import Voice

KEPT = "figures"
LOOK_POLLS = 5
"""How many polls of the bus lie between two looks when nobody asks: the log must not drop what is not counted yet."""
_MEMORY = frozenset(event.name() for event in catalog.EVENTS if event.SCOPE == "memory")
log = logging.getLogger(__name__)


class Figures:
    """What went through since the router was first used.  Made and changed on the ambient loop only."""

    def __init__(self, node: Embedded) -> None:
        self._node, self._voice = node, Voice.of(node)
        self._place = node.store.position
        self._reading = asyncio.Lock()
        self._by_name: Counter[str] = Counter()
        self._by_origin: Counter[str] = Counter()
        self._fleeting: Counter[str] = Counter()
        self._named: dict[str, str] = {}
        rows = old_names.names().values()
        self._several = {Said.name()} | {row.event.name() for row in rows if row.event is not None and row.fixed}
        following = node.loop.create_task(self._follow(), name="figures")
        node.stack.push_async_callback(_end, following)

    @classmethod
    def of(cls, node: Embedded) -> "Figures":
        """Those of *node*; they begin with the first call, on the ambient loop."""
        found: Figures | None = node.kept.get(KEPT)
        if found is None:
            found = node.kept[KEPT] = cls(node)
        return found

    def note(self, event: RouterEvent, counted: str = "") -> None:
        """Count *event*, which skips the log; *counted* is its name on the wire if the router has counted it too."""
        self._by_name[event.event_type] += 1
        self._by_origin[event.origin.value] += 1
        self._fleeting[counted] += 1

    async def catch_up(self) -> None:
        """Count what the log has that was not counted yet."""
        batch = self._node.settings.bus.batch
        async with self._reading:
            while True:
                async with self._node.store.read() as view:
                    page = await view.read(self._place, batch)
                for envelope in page:
                    self._place = envelope.position
                    self._by_name[self._name(envelope)] += 1
                    self._by_origin[self._voice.origin_of(envelope).value] += 1
                if len(page) < batch:
                    return

    def by_name(self) -> dict[str, int]:
        """How many events had which name."""
        return dict(self._by_name + self._unsaid())

    def by_origin(self) -> dict[str, int]:
        """How many came from where."""
        return dict(self._by_origin + Counter({"router": self._unsaid().total()}))

    def _unsaid(self) -> Counter[str]:
        """What our own parts told past the log; the router counts it without looking at it."""
        published = self._node.router.published
        told = {name: published[name] - self._fleeting[name] for name in _MEMORY}
        return Counter({_plain_name(name): count for name, count in told.items() if count > 0})

    def _name(self, envelope: Envelope) -> str:
        """The closest old name; the body is looked at only where several stand for one name of ours."""
        found = self._named.get(envelope.name)
        if found is None:
            found = _closest(envelope)
            if envelope.name not in self._several:
                self._named[envelope.name] = found
        return found

    async def _follow(self) -> None:
        seconds = LOOK_POLLS * self._node.settings.bus.poll_seconds
        try:
            while True:
                await asyncio.sleep(seconds)
                await self.catch_up()
        except StoreError as gone:
            log.warning("events are counted no more by themselves: %s", gone)


def _closest(envelope: Envelope) -> str:
    try:
        event = catalog.decode(envelope.name, envelope.body)
    except InputError:
        event = Unknown(wire_name=envelope.name, raw=b"")  # it went through, readable or not
    names = () if isinstance(event, Unknown) else old_names.spoken(event)
    return names[0] if names else old_names.canonical(envelope.name)


def _plain_name(wire_name: str) -> str:
    """The old name of an event that nobody has looked at: the first that stands for all of them."""
    rows = old_names.names().items()
    plain = (name for name, row in rows if row.event is not None and not row.fixed and row.event.name() == wire_name)
    return next(plain, old_names.canonical(wire_name))


async def _end(following: "asyncio.Task[None]") -> None:
    following.cancel()
    await asyncio.wait((following,))
