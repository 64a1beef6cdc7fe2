"""Publishing in the documented style: one function that every documented publish and ``emit_*`` uses.

An event without an id is published once within a short time: the same payload under the same name, from the same source
and for the same views, is one event.  An event with an id is published once for ever.
"""

import asyncio
import hashlib
from collections import Counter, OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ringrift.bus import trace
from ringrift.bus.trace import Context
from ringrift.events import catalog, custom
from ringrift.events.base import Envelope, Event, Unknown
from ringrift.events.selfplay import BatchFinished
from ringrift.kernel.errors import IdConflict, TooLarge
from ringrift.kernel.value import Value
from ringrift_compat.embedded_node import EmbeddedNode
from ringrift_compat.events import old_names
from ringrift_compat.events.router_event import EventSource, Origins, RouterEvent, payload_of
from ringrift_compat.events.subscriptions import Subscriptions

_FILE_EVENTS = frozenset({"TRAINING_COMPLETED", "MODEL_IMPORTED"})
"""Events that may bring a model in a file, which is imported before they count."""
_REQUEST_ENDINGS = ("_TRIGGERED", "_REQUESTED")
"""How the names of events end that ask for a stage."""
_LOCAL_MAX = 1000
"""Events past the log that are remembered because their ids were chosen."""
_ENCODER = msgspec.json.Encoder(order="deterministic")


class Publish(Value):
    """Something that is to be published."""

    name: str
    payload: dict[str, Any]
    event: Event
    """The event that *payload* under *name* becomes here."""
    source: str = ""
    view: EventSource = EventSource.ROUTER
    hidden: frozenset[EventSource] = frozenset()
    is_local: bool = False
    """Whether it is for this process only, past the log."""
    id: str = ""
    """Chosen by the user: the same id again is no new event."""
    trace: str = ""
    correlation: str = ""
    cause: str = ""


class Publisher:
    """Publishes for one program, on the loop of its node."""

    def __init__(self, node: EmbeddedNode) -> None:
        self._node, self._origins = node, node.extension(Origins)
        self._recent: OrderedDict[bytes, tuple[float, asyncio.Task[Envelope]]] = OrderedDict()
        self._local: OrderedDict[str, tuple[Event, Envelope]] = OrderedDict()
        self.suppressed = 0
        """Publishes that repeated the content of an earlier one."""
        self.repeated = 0
        """Publishes that repeated the id of an earlier one."""
        self.local: Counter[tuple[str, str]] = Counter()
        """Events that skip the log, by name and view."""
        self.in_router: Counter[str] = Counter()
        """Those of them that the router counts too, by our name."""

    async def publish(self, publish: Publish) -> RouterEvent:
        """Publish; returns when the event is durable, or delivered if it stays in this process.

        Raises InputError or JobFailed, and nothing is published, where it brings a file that is no model or has no
        games that replay; WorkError where no node can import that file; IdConflict where its id belongs to another.
        """
        if _needs_completion(publish):
            from ringrift_compat.pipeline.model_import import complete_payload  # it loads much of a node

            payload = await complete_payload(self._node, publish.name, publish.payload)
            if payload != publish.payload:
                event = old_names.make_event(publish.name, payload, strict=self._strict, evidence=False)
                publish = msgspec.structs.replace(publish, payload=payload, event=event)
        context = self._context(publish)
        if context is None:
            envelope = await self._publish_once(publish)
        else:
            with trace.within(context):
                envelope = await self._publish_once(publish)
        return self._origins.router_event(publish.event, envelope, publish.name)

    @property
    def _strict(self) -> bool:
        return self._node.options.strict

    def _context(self, publish: Publish) -> Context | None:
        """The context that the event names; None if it names none, and belongs where it is published."""
        if not (publish.trace or publish.correlation or publish.cause):
            return None
        context = trace.current() or Context(trace=self._node.ids.trace())
        if publish.trace and publish.trace != context.trace:
            context = msgspec.structs.replace(context, trace=publish.trace, span="", sampled=False)
        correlation, cause = publish.correlation or context.correlation, publish.cause or context.cause
        return msgspec.structs.replace(context, correlation=correlation, cause=cause)

    async def _publish_once(self, publish: Publish) -> Envelope:
        if publish.id:
            return await self._publish_id(publish)
        return await (self._append(publish) if publish.is_local else self._publish_content(publish))

    async def _publish_content(self, publish: Publish) -> Envelope:
        """Publish, or return the envelope of an equal publish within the window, which may still be under way.

        A publish that fails is forgotten.  Cancelling one caller does not cancel the publish for the others.
        """
        node, recent = self._node, self._recent
        key, now = _content_key(publish, node.settings.node.id), node.clock.tick()
        while recent and next(iter(recent.values()))[0] <= now - node.options.window_seconds:
            recent.popitem(last=False)
        if key in recent:
            self.suppressed += 1
            return await asyncio.shield(recent[key][1])
        task = node.loop.create_task(self._append(publish))
        task.add_done_callback(lambda done: self._forget_failed(key, done))
        recent[key] = now, task
        if len(recent) > node.options.window_events_max:
            recent.popitem(last=False)
        return await asyncio.shield(task)

    def _forget_failed(self, key: bytes, task: "asyncio.Task[Envelope]") -> None:
        if task.cancelled() or task.exception() is not None:
            self._recent.pop(key, None)

    async def _publish_id(self, publish: Publish) -> Envelope:
        """Publish under a chosen id, or return the first envelope under it if it is the same.  Raises IdConflict."""
        is_logged = publish.event.SCOPE == "log" and not publish.is_local
        event: Event | Unknown
        try:
            if is_logged or publish.id not in self._local:
                envelope = await self._append(publish)
                if not is_logged:
                    self._local[publish.id] = publish.event, envelope
                    if len(self._local) > _LOCAL_MAX:
                        self._local.popitem(last=False)
                return envelope
            event, first = self._local[publish.id]
        except IdConflict:
            async with self._node.store.read() as view:
                [first] = await view.events_by_id([publish.id])
            event = catalog.decode(first.name, first.body)
        if not _is_same(event, first, publish):
            raise IdConflict(publish.id)
        self.repeated += 1
        return first

    async def _append(self, publish: Publish) -> Envelope:
        """Write the event with every published field, also those that ours does not have."""
        node, event, is_memory = self._node, publish.event, publish.event.SCOPE == "memory"
        labels = _labels(publish, self._origins.maker if publish.id else "")
        body = b"" if is_memory else _body(publish)
        envelope = node.envelopes.make(event, body=body, id=publish.id or None, source=publish.source, labels=labels)
        if is_memory or publish.is_local:
            self.local[publish.name, publish.view.value] += 1
            if publish.is_local:
                node.extension(Subscriptions).deliver_local(event, envelope)
            else:
                self.in_router[envelope.name] += 1
                node.router.publish_local(event, envelope)
            return envelope
        async with node.store.begin() as tx:
            [first] = await tx.append((envelope,))
        self.repeated += (first.time, first.trace) != (envelope.time, envelope.trace)
        return first


def _labels(publish: Publish, by: str) -> str:
    """The view that the event is given to, the views that must not show it, and the maker of its id if *by* a user."""
    view = "" if publish.view is EventSource.ROUTER else publish.view.value
    labels = {"view": view, "hide": ",".join(sorted(publish.hidden)), "by": by}
    return ";".join(f"{key}={value}" for key, value in labels.items() if value)


def _needs_completion(publish: Publish) -> bool:
    """Whether the event brings a file of this machine, or asks for a stage without saying of which line."""
    is_request = isinstance(publish.event, custom.Published) and publish.name.endswith(_REQUEST_ENDINGS)
    return is_request or any(has_file(publish.name, publish.payload) for has_file in (has_model_file, has_game_file))


def has_model_file(name: str, payload: Mapping[str, Any]) -> bool:
    """Whether the event *name* with *payload* brings a model in a file of this machine."""
    path = payload.get("model_path")
    return name in _FILE_EVENTS and isinstance(path, str) and Path(path).is_file()


def has_game_file(name: str, payload: Mapping[str, Any]) -> bool:
    """Whether the event *name* with *payload* brings games in a file of this machine."""
    row, path = old_names.resolve(name), payload.get("db_path")
    return row is not None and row.event is BatchFinished and isinstance(path, str) and Path(path).is_file()


def _content_key(publish: Publish, node: str) -> bytes:
    """The digest that two equal publishes share.  Three nodes that report equal batches publish three events."""
    content = [publish.name, publish.payload, publish.source, node, sorted(publish.hidden)]
    return hashlib.blake2b(_ENCODER.encode(content), digest_size=16).digest()


def _is_same(event: Event | Unknown, first: Envelope, publish: Publish) -> bool:
    """Whether *publish* repeats the *first* event under its id.

    An event of ours that is published again as it was received has our fields under the documented words too.
    """
    if isinstance(event, Unknown) or publish.name not in old_names.names_of(event):
        return False
    payload = payload_of(publish.event, _body(publish) if first.body else b"", publish.name)
    return payload_of(event, first.body, publish.name) == payload


def _body(publish: Publish) -> bytes:
    event = publish.event
    fields = event if isinstance(event, custom.Published) else {**publish.payload, **msgspec.to_builtins(event)}
    body = msgspec.json.encode(fields)
    if len(body) > catalog.SIZE_MAX:
        raise TooLarge(len(body), catalog.SIZE_MAX)
    return body
