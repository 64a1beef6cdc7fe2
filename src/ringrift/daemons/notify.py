"""Sends promotions, rollbacks and alerts to a webhook or a command, from the one node that holds the role.

Each target is a durable handler: what happened while it was down, or while no node ran, is sent later.  A message comes
at least once, every time with the same key, and after its last try it is a dead letter (``ringrift dlq``).
"""

import asyncio
import subprocess
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ringrift.bus.filters import EventFilter
from ringrift.bus.router import Router
from ringrift.events import alert, model
from ringrift.events.base import Envelope, Event
from ringrift.kernel.errors import DeliveryError, UnknownName, printable
from ringrift.kernel.settings import NotifySettings
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon

_LIFE_SECONDS = 10.0  #: Between two signs of life: a call has a limit of its own.
_CALL_LIMITS = 3  #: Connecting, sending and the answer may each take as long as the settings say.
_ERROR_CHARACTERS_MAX = 300
_SHORT = 12
_EVENTS = (model.Promoted, model.RolledBack, alert.Raised, alert.Cleared)
_SAME = ("rollback", "regression")  #: Alerts about a rollback, which is sent itself.
_READERS = {"url": "notify_url", "command": "notify_command"}  #: Each target has a place of its own in the log.

_Send = Callable[[Mapping[str, Any]], None]


async def notify(*, router: Router, store: Store, notify_settings: NotifySettings, alive: Callable[[], None]) -> None:
    """Serve every target that is set; one that is not set any more is forgotten, and begins anew if it is set again."""
    targets, limit = targets_of(notify_settings), _CALL_LIMITS * notify_settings.seconds_max
    for reader in (reader for name, reader in _READERS.items() if name not in targets):
        async with store.begin() as tx:
            with suppress(UnknownName):
                await tx.forget_reader(reader)
    news = EventFilter(names=frozenset(event.name() for event in _EVENTS), check=_is_news)
    readers = {_READERS[name]: send for name, send in targets.items()}
    try:
        for reader, send in readers.items():
            deliver, retry = partial(_deliver, send), notify_settings.retry
            router.handle(news, deliver, name=reader, timeout_seconds=limit, retry=retry)
        while True:
            alive()
            await asyncio.sleep(_LIFE_SECONDS)
    finally:
        for reader in readers:
            with suppress(UnknownName):
                await router.unsubscribe(reader)


def _is_news(event: Event, envelope: Envelope) -> bool:
    return not (isinstance(event, alert.Raised | alert.Cleared) and event.kind in _SAME)


def _deliver(send: _Send, event: Event, envelope: Envelope, key: str) -> None:
    """Send one event; called in a thread."""
    about = {"id": envelope.id, "time": envelope.time, "node": envelope.node}
    body = msgspec.to_builtins(event)
    send({"event": envelope.name, "key": key, "text": _text(event), **about, "body": body})


def _text(event: Event) -> str:
    """*event* in a sentence, under the name that chat systems read."""
    match event:
        case model.Promoted():
            return f"{event.variant}: generation {event.generation} is champion: {event.model[:_SHORT]}"
        case model.RolledBack():
            change = f"{event.model[:_SHORT]} to {event.to[:_SHORT]} of generation {event.generation}"
            return f"{event.variant}: rolled back from {change}: {event.reason}"
        case alert.Raised():
            return f"alert ({event.level}): {event.kind} {event.subject}: {event.detail}"
        case alert.Cleared():
            return f"alert is over: {event.kind} {event.subject}"
    return event.name()


def targets_of(settings: NotifySettings) -> dict[str, _Send]:
    """How to send to each target that is set."""
    url, command, seconds = settings.url, settings.command, settings.seconds_max
    targets: dict[str, _Send] = {"url": partial(_post, url, seconds)} if url else {}
    return targets | ({"command": partial(_call, command, seconds)} if command else {})


def _post(url: str, seconds: float, message: Mapping[str, Any]) -> None:
    """POST *message* as JSON.  Raises DeliveryError unless the answer is 2xx; a redirection is none."""
    import http.client  # only a node with a webhook needs it

    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    where = f"{parts.scheme}://{parts.hostname}"  # the path of a webhook is often its secret
    headers = {"Content-Type": "application/json", "Idempotency-Key": str(message["key"])}
    try:
        with closing(kind(parts.hostname or "", parts.port, timeout=seconds)) as connection:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", path, msgspec.json.encode(message), headers)
            with closing(connection.getresponse()) as answer:
                status, reason = answer.status, printable(answer.reason, _ERROR_CHARACTERS_MAX)
    except (OSError, http.client.HTTPException) as error:
        reason = printable(f"{type(error).__name__}: {error}", _ERROR_CHARACTERS_MAX)
        raise DeliveryError(f"{where} cannot be reached: {reason}") from error
    if not 200 <= status < 300:
        raise DeliveryError(f"{where} answered {status} {reason}")


def _call(command: tuple[str, ...], seconds: float, message: Mapping[str, Any]) -> None:
    """Run *command* with *message* as JSON on its stdin.  Raises DeliveryError unless it ends with 0 in time."""
    content = msgspec.json.encode(message)
    try:
        ended = subprocess.run(command, input=content, capture_output=True, timeout=seconds)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeliveryError(printable(f"notify.command {command[0]}: {error}", _ERROR_CHARACTERS_MAX)) from error
    if ended.returncode:
        text = printable(ended.stderr.decode(errors="replace").strip(), _ERROR_CHARACTERS_MAX)
        raise DeliveryError(f"notify.command {command[0]} ended with {ended.returncode}: {text}")


SPEC = Daemon(name="notify", run=notify, serve=True, role="notify", category="health")
