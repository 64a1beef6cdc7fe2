"""An office: one store with a desk for every node, and short words for what happens there."""

from random import Random
from typing import Any

from contract.engines import ManualClock
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.jobs import JOB_KINDS, Job, Play, Train
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import WorkSettings
from ringrift.store.ports import Store
from ringrift.work.desk import StoreDesk
from ringrift.work.limits import VERDICTS
from ringrift.work.run_states import set_run_state


def train(variant: str = "v", seed: int = 0) -> Train:
    """A training."""
    return Train(variant=variant, generation=1, seed=seed)


def play(variant: str = "v", seed: int = 0) -> Play:
    """A batch of games."""
    return Play(variant=variant, model="m", games=2, seed=seed)


class Office:
    """One store and clock, with a desk for every node."""

    def __init__(self, store: Store) -> None:
        self.store, self.clock = store, ManualClock()
        self.envelopes = self._factory("operator")
        self._desks: dict[str, StoreDesk] = {}

    def _factory(self, node: str) -> EnvelopeFactory:
        return EnvelopeFactory(node, self.clock, Ids(self.clock, Random(node)))

    def desk(self, node: str = "n") -> StoreDesk:
        """The desk of *node*, always the same."""
        if node not in self._desks:
            self._desks[node] = StoreDesk(self.store, self.clock, self._factory(node), WorkSettings())
        return self._desks[node]

    async def enqueue(self, *jobs: Job) -> None:
        """Enqueue *jobs*."""
        await self.desk().enqueue(jobs)

    async def claim(self, node: str = "n", limit: int = 9) -> list[str]:
        """The keys of what *node* gets."""
        return [lease.key for lease in await self.desk(node).claim(JOB_KINDS, limit)]

    async def set(self, scope: str, state: str, **changes: Any) -> None:
        """Put *scope* into *state*."""
        async with self.store.begin() as tx:
            facts = {"scope": scope, "state": state, "now": self.clock.now()} | changes
            await set_run_state(tx, self.envelopes, **facts)

    async def verdicts(self, variant: str = "v") -> dict[str, str]:
        """The rules of the stored refusals of *variant*, by gate."""
        async with self.store.read() as view:
            return {verdict.gate: verdict.rule for verdict in await VERDICTS.all(view, "variant", variant)}
