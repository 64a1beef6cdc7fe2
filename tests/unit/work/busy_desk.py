"""A desk whose store cannot be written for a while."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

from ringrift.events.base import Envelope
from ringrift.store.ports import Lease, Renewal
from ringrift.work.desk import Done, Fault, StoreDesk
from unit.work.world import World


class BusyDesk(StoreDesk):
    """While a verb has an *error*, it raises that and changes nothing; *refused* counts how often by verb.

    A claim that *is_cut_off* has happened, but its answer never comes.
    """

    def __init__(self, world: World, **changes: Any) -> None:
        desk = world.desk(**changes)
        super().__init__(world.store, world.clock, desk._envelopes, desk._settings)
        self.errors: dict[str, Exception] = {}
        self.refused: dict[str, int] = {}
        self.is_cut_off, self.claimed = False, asyncio.Event()

    def _check(self, verb: str) -> None:
        if verb in self.errors:
            self.refused[verb] = self.refused.get(verb, 0) + 1
            raise self.errors[verb]

    async def claim(self, kinds: Collection[str], limit: int) -> Sequence[Lease]:
        self._check("claim")
        leases = await super().claim(kinds, limit)
        if self.is_cut_off:
            self.claimed.set()
            await asyncio.Event().wait()
        return leases

    async def renew(self, renewals: Sequence[Renewal]) -> None:
        self._check("renew")
        await super().renew(renewals)

    async def finish(self, results: Sequence[Done]) -> Sequence[Envelope]:
        self._check("finish")
        return await super().finish(results)

    async def fail(self, faults: Sequence[Fault]) -> dict[str, bool]:
        self._check("fail")
        return await super().fail(faults)

    async def revoke_own(self, error: str, *, started: bool) -> Sequence[str]:
        self._check("revoke")
        return await super().revoke_own(error, started=started)


class OvertakingDesk(StoreDesk):
    """Whose answer to the end of a lease comes only after a renewal that found the lease gone."""

    def __init__(self, world: World) -> None:
        desk = world.desk()
        super().__init__(world.store, world.clock, desk._envelopes, desk._settings)
        self._has_ended, self._is_renewed = asyncio.Event(), asyncio.Event()

    async def renew(self, renewals: Sequence[Renewal]) -> None:
        try:
            await super().renew(renewals)
        finally:
            if self._has_ended.is_set():
                self._is_renewed.set()

    async def finish(self, results: Sequence[Done]) -> Sequence[Envelope]:
        envelopes = await super().finish(results)
        await self._wait_for_renewal()
        return envelopes

    async def fail(self, faults: Sequence[Fault]) -> dict[str, bool]:
        again = await super().fail(faults)
        await self._wait_for_renewal()
        return again

    async def _wait_for_renewal(self) -> None:
        self._has_ended.set()
        await self._is_renewed.wait()
