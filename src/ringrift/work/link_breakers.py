"""Breakers of links: a node that a transport has failed to reach several times in a row is not tried by it for a while.

They are rows like the other breakers, so the same observer ends their time, and the same events and alerts tell.  While
one is half open, any transfer may try it, and the first that ends decides: there is no trial that could be lost.
"""

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.kernel import breaker as rules
from ringrift.kernel.breaker import BreakerLimits, BreakerState
from ringrift.kernel.clock import Clock
from ringrift.kernel.transfer_settings import TRANSPORTS, LinkSettings
from ringrift.kernel.value import changed
from ringrift.store.ports import Store
from ringrift.work.breakers import BREAKERS, LINK, StoredBreaker, write_changes


def link_subjects(node: str) -> list[str]:
    """The subjects of all links to *node*."""
    return [f"{LINK}:{node}/{transport}" for transport in TRANSPORTS]


class LinkBreakers:
    """:class:`ringrift.sync.transports.ports.LinkHealth` in the store."""

    def __init__(self, store: Store, envelopes: EnvelopeFactory, clock: Clock, links: LinkSettings) -> None:
        self._store, self._envelopes, self._clock, self._links = store, envelopes, clock, links

    async def allows(self, node: str, transport: str) -> bool:
        async with self._store.read() as view:
            row = await BREAKERS.get(view, f"{LINK}:{node}/{transport}")
        return row is None or row.state is not BreakerState.OPEN

    async def report(self, node: str, transport: str, error: str | None) -> None:
        subject = f"{LINK}:{node}/{transport}"
        async with self._store.read() as view:
            is_new = await BREAKERS.get(view, subject) is None
        if is_new and error is None:
            return  # as most are
        async with self._store.begin() as tx:
            row = await BREAKERS.get(tx, subject) or StoredBreaker(subject=subject)
            after = rules.succeeded(row) if error is None else self._failed(row, error)
            await write_changes(tx, self._envelopes, {subject: row}, [after], self._clock.now())

    def _failed(self, row: StoredBreaker, error: str) -> StoredBreaker:
        links = self._links
        limits = BreakerLimits(failures_max=links.failures_max, reset_seconds=links.reset_seconds)
        return changed(rules.failed(row, limits, error), seconds=links.reset_seconds, cause=LINK)
