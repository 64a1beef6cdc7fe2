"""Voice: what this program has said itself, and what reached it from others: where an event came from."""

from collections import OrderedDict
from typing import Any

from ringrift.events.base import Envelope
from ringrift_compat.ambient import HOST, Embedded
from ringrift_compat.router_event import EventSource, origin_marked

KEPT = "voice"
GIVEN_MAX = 10_000
"""Ids from outside that are remembered as ours."""
_MAKER = slice(10, 18)
"""The part of an id that all of one maker have, and no other maker."""


class Voice:
    """Tells what was said in this program, since its node was opened, from what other processes said."""

    def __init__(self, node: Embedded) -> None:
        self._node = node
        self._makers = {node.ids.next()[_MAKER]}
        self._host: Any = None
        self._given: OrderedDict[str, EventSource] = OrderedDict()

    @classmethod
    def of(cls, node: Embedded) -> "Voice":
        """That of *node*."""
        found: Voice = node.kept.get(KEPT) or node.kept.setdefault(KEPT, cls(node))
        return found

    def remember(self, id: str, origin: EventSource) -> None:
        """An event is about to be said here under an *id* that somebody chose, which tells nothing of us."""
        self._given.setdefault(id, origin)
        if len(self._given) > GIVEN_MAX:
            self._given.popitem(last=False)

    def origin_of(self, envelope: Envelope) -> EventSource:
        """The view that an event was given to, anywhere; of the others, *router* for ours and *cross_process*."""
        found = origin_marked(envelope) or self._given.get(envelope.id)
        if found is not None:
            return found
        return EventSource.ROUTER if self._is_own(envelope.id) else EventSource.CROSS_PROCESS

    def _is_own(self, id: str) -> bool:
        host = self._node.kept.get(HOST)
        if host is not self._host:
            self._host = host
            if host is not None:
                self._makers.add(host[0].ids.next()[_MAKER])
        return id[_MAKER] in self._makers
