"""Islands: a worker that is cut off plays on from the last champions, under leases that it gives itself.

Such a lease has no fence, and no coordinator knows it.  Its games come in as a batch with a key of their own.  Nothing
else is done on an island: promotion, deletion and spending wait.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random

from ringrift import jobs
from ringrift.jobs import Play
from ringrift.kernel.value import changed
from ringrift.store.ports import Lease

_PREFIX = "island:"
_SEED_BITS = 62


def is_island(job: str) -> bool:
    """Whether the job with this id is one that an island has given itself."""
    return job.startswith(_PREFIX)


class Island:
    """What a worker needs to know while it can still be told, to play on when it cannot."""

    def __init__(self, node: str, epoch: str, rng: Random, lease_seconds: float) -> None:
        self._node, self._epoch, self._rng, self._lease_seconds = node, epoch, rng, lease_seconds
        self._plays: dict[str, Play] = {}  # by variant the last batch that it was asked to play
        self._champions: dict[str, str] = {}  # by variant, those whose files are here
        self._offered: dict[str, str] = {}  # by variant, as the coordinator said last
        self._number = 0

    @property
    def blobs(self) -> frozenset[str]:
        """The files that must stay."""
        return frozenset((*self._champions.values(), *(play.model for play in self._plays.values())))

    def learn(self, leases: Sequence[Lease]) -> None:
        """Remember how batches of each variant look."""
        for lease in leases:
            job = jobs.decode_if_known(lease.kind, lease.body)
            if isinstance(job, Play):
                self._plays[job.variant] = job

    def offer(self, champions: Mapping[str, str]) -> None:
        """Take notice of the champions, by variant."""
        self._offered = dict(champions)

    async def fetch(self, fetch: Callable[[Sequence[str]], Awaitable[None]]) -> None:
        """Bring the champions here with *fetch*, and play on with them from then on."""
        champions = dict(self._offered)
        await fetch(sorted(champions.values()))
        self._champions = champions

    def make_leases(self, limit: int) -> list[Lease]:
        """Up to *limit* batches to play, of every variant in turn; none before the first batch was asked for."""
        variants, leases = sorted(self._plays), list[Lease]()
        for _ in range(limit if variants else 0):
            self._number += 1
            last = self._plays[variants[self._number % len(variants)]]
            model, seed = self._champions.get(last.variant, last.model), self._rng.getrandbits(_SEED_BITS)
            play = changed(last, model=model, seed=seed, node=None, pause_seconds=0.0)
            id, body = f"{_PREFIX}{self._epoch}:{self._number}", jobs.encode(play)
            lease = Lease(
                job=id,
                kind=Play.kind(),
                variant=play.variant,
                key=id,
                body=body,
                holder=self._node,
                fence=0,
                renewals=0,
                seconds=self._lease_seconds,
                attempts=1,
            )
            leases.append(lease)
        return leases
