"""Adopts orphans: files in this node's folder that no record lists are listed, and those of unknown origin reported.

A crash between a file and its record leaves one, and so does a person who copies files into the folder.  A file is
adopted when two looks in a row have seen it, and never while a job is under way that may be about to report it.
"""

import math
from collections.abc import Mapping

from ringrift.blobs.ports import Blobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events.data import Adopted
from ringrift.kernel.clock import Clock
from ringrift.pipeline import retention
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.sync import ledger
from ringrift.sync.orphans import ADOPTIONS, Adoption, find_orphans
from ringrift.work.checkpoints import CHECKPOINTS

_AT_ONCE = 200  #: Files in one transaction, and in one event.


class _Seen:
    """The orphans of the last look."""

    def __init__(self) -> None:
        self.blobs: frozenset[str] = frozenset()


async def adopt(*, store: Store, blobs: Blobs, envelopes: EnvelopeFactory, clock: Clock, memory: _Seen) -> int:
    """Look once; how many files were adopted."""
    async with store.read() as view:
        before = await retention.read_horizon(view)
    orphans = await find_orphans(store, blobs, envelopes.node, before)
    # What was deleted since it was listed is none any more.
    confirmed = await blobs.have(orphans.keys() & memory.blobs)
    memory.blobs = frozenset(orphans).difference(confirmed)
    await _adopt_all(store, envelopes, clock, {blob: orphans[blob] for blob in sorted(confirmed)})
    return len(confirmed)


async def adopt_left_over(store: Store, blobs: Blobs, envelopes: EnvelopeFactory, clock: Clock) -> None:
    """Adopt at once what is in the folder of a node that starts: nothing of its own is under way."""
    await _adopt_all(store, envelopes, clock, await find_orphans(store, blobs, envelopes.node, math.inf))


async def _adopt_all(store: Store, envelopes: EnvelopeFactory, clock: Clock, sizes: Mapping[str, int]) -> None:
    names = list(sizes)
    for first in range(0, len(names), _AT_ONCE):
        await _adopt(store, envelopes, clock.now(), {blob: sizes[blob] for blob in names[first : first + _AT_ONCE]})


async def _adopt(store: Store, envelopes: EnvelopeFactory, now: float, sizes: Mapping[str, int]) -> None:
    node = envelopes.node
    async with store.begin() as tx:
        await ledger.add(tx, [(blob, node, size) for blob, size in sizes.items()])
        mentioned = {origin.blob for origin in await tx.origins(list(sizes))}
        mentioned.update(await CHECKPOINTS.get_many(tx, list(sizes)))  # theirs are listed by job
        unknown = {blob: size for blob, size in sizes.items() if blob not in mentioned}
        rows = [Adoption(blob=blob, node=node, size=size, time=now) for blob, size in unknown.items()]
        await ADOPTIONS.put(tx, rows)
        event = Adopted(node=node, blobs=tuple(unknown), count=len(unknown), bytes=sum(unknown.values()))
        await tx.append([envelopes.make(event, source="adopt")] if unknown else [])


_SECONDS = "upkeep.adopt_seconds"
SPEC = Daemon(name="adopt", run=adopt, memory=_Seen, every=_SECONDS, seconds_max=600.0, category="sync")
