"""The verbs of events: publish what the scope of a key allows, and follow the log and the queue as streams.

What a node or a program says is no evidence: events that decisions rest on come from jobs under a lease alone.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

from ringrift.bus import remote_router
from ringrift.bus.remote_log import EventsNote, FollowEvents
from ringrift.bus.remote_router import Publish
from ringrift.coordinator.verbs import WORK, Parts, Peer, Stream, Verb, allows
from ringrift.events import alert, catalog, daemon, health
from ringrift.events.base import Envelope, Event, Unknown
from ringrift.events.custom import Published
from ringrift.kernel.errors import InputError, TooLarge
from ringrift.kernel.ids import check_name
from ringrift.kernel.value import changed
from ringrift.kernel.wire_errors import Forbidden
from ringrift.store.ports import Store
from ringrift.wire.ports import NOTE_BYTES_MAX
from ringrift.work.remote_desk import WatchWork

PUBLISH, ADMINISTER, READ = "publish", "administer", "read"
_OWN = (alert.Raised, alert.Cleared, daemon.Failed, daemon.Cleared, health.Changed)  # what a worker says of itself
_EVENTS_MAX = 1000  # in one request, and read at once
_BRIEF_EVENTS_MAX = 16  # so few are read without another thread, which would cost more
_NAMES_MAX = 1000
_TEXTS = ("id", "source", "labels", "correlation", "cause", "trace")
_TEXT_CHARACTERS_MAX = 1000
_POLL_SECONDS = 1.0
_WAKE_SECONDS_MIN = 0.02  # between two wake-ups of one follower


async def _publish(peer: Peer, body: Publish, parts: Parts) -> remote_router.Published:
    if len(body.envelopes) > _EVENTS_MAX:
        raise InputError(f"{len(body.envelopes)} events are published at once: at most {_EVENTS_MAX}")
    now = parts.clock.now()
    envelopes = [_own_envelope(peer, envelope, now) for envelope in body.envelopes]
    async with parts.store.begin() as tx:
        stored = await tx.append(envelopes)
    parts.router.published.update(envelope.name for envelope in envelopes)
    return remote_router.Published(positions=tuple(envelope.position for envelope in stored))


def _own_envelope(peer: Peer, envelope: Envelope, now: float) -> Envelope:
    """*envelope* as far as *peer* may say it.  Raises Forbidden, InputError."""
    if len(envelope.body) > catalog.SIZE_MAX:
        raise TooLarge(len(envelope.body), catalog.SIZE_MAX)
    if not envelope.id or any(len(getattr(envelope, name)) > _TEXT_CHARACTERS_MAX for name in _TEXTS):
        raise InputError(f"an event has an id, and no text around it is longer than {_TEXT_CHARACTERS_MAX} characters")
    event = catalog.decode(check_name("event", envelope.name), envelope.body)
    if isinstance(event, Unknown):
        raise InputError(
            f"this coordinator does not know the event {envelope.name}: upgrade it, or publish a custom one"
        )
    if event.SCOPE == "memory" or event.EVIDENCE:
        why = "it is not stored" if event.SCOPE == "memory" else "decisions rest on it: it comes from jobs alone"
        raise InputError(f"{envelope.name} cannot be published over the wire: {why}")
    if not _may_say(peer, event):
        raise Forbidden(f"publish {envelope.name}", PUBLISH if PUBLISH not in peer.scopes else ADMINISTER)
    return changed(envelope, node=peer.node, position=0, time=now, depth=max(envelope.depth, 0))


def _may_say(peer: Peer, event: Event) -> bool:
    """Whether *peer* may publish *event*: about another node only an administrator, and a worker about itself alone."""
    if ADMINISTER in peer.scopes:
        return True
    if getattr(event, "node", peer.node) != peer.node:
        return False
    if isinstance(event, _OWN):
        subject = getattr(event, "subject", peer.node)
        return not _is_worker(peer) or f"{subject}/".replace(":", "/").startswith(f"{peer.node}/")
    is_custom = isinstance(event, Published) or type(event) not in catalog.EVENTS
    return PUBLISH in peer.scopes and (is_custom or not _is_worker(peer))


def _is_worker(peer: Peer) -> bool:
    return allows(peer.scopes, WORK)


async def _events(_: Peer, body: FollowEvents, parts: Parts) -> AsyncIterator[EventsNote]:
    if len(body.names) > _NAMES_MAX:
        raise InputError(f"{len(body.names)} names of events are followed at once: at most {_NAMES_MAX}")
    names = [check_name("event", name) for name in body.names]
    store = parts.store
    position = store.position if body.position < 0 else body.position
    if position > store.position:
        await _require_position(store, position)
    yield EventsNote(position=position)
    while True:
        newest = store.position
        envelopes = list[Envelope]()
        if body.bodies and newest > position:
            async with store.read(brief=newest - position <= _BRIEF_EVENTS_MAX) as view:
                envelopes += await view.read(position, _EVENTS_MAX, names)
        for note in _notes(envelopes):
            yield note
            position = note.position
        if not body.bodies and newest > position:
            yield EventsNote(position=newest)
            await asyncio.sleep(_WAKE_SECONDS_MIN)
        if len(envelopes) < _EVENTS_MAX:
            position = max(position, newest)
            await store.wait(position, _POLL_SECONDS)


async def _require_position(store: Store, position: int) -> None:
    """Raise InputError for a position that this log has not reached: whoever follows it would miss what comes next."""
    async with store.read() as view:
        newest = max([envelope.position for envelope in await view.last(None, 1)], default=0)
    if position > newest:
        reason = "the store was restored from a backup"
        raise InputError(f"the log ends at position {newest}, before {position}: {reason}; follow it from there")


def _notes(envelopes: Sequence[Envelope]) -> Iterator[EventsNote]:
    """*envelopes* in notes of a size that a wire carries."""
    batch, size = list[Envelope](), 0
    for envelope in envelopes:
        length = len(envelope.body) + len(_TEXTS) * _TEXT_CHARACTERS_MAX
        if batch and size + length > NOTE_BYTES_MAX:
            yield EventsNote(position=batch[-1].position, envelopes=tuple(batch))
            batch, size = [], 0
        batch.append(envelope)
        size += length
    if batch:
        yield EventsNote(position=batch[-1].position, envelopes=tuple(batch))


VERBS = (Verb("publish", Publish, remote_router.Published, f"{WORK} {PUBLISH}", _publish, writes=True),)
STREAMS = (
    Stream("events", FollowEvents, READ, _events),
    Stream("work", WatchWork, WORK, lambda peer, body, parts: parts.desks.wakes.notes(peer.node, body.kinds)),
)
