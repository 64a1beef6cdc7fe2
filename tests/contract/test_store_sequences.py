"""Any sequence of verbs: the store agrees with a small model, fences only grow, and no job is ever lost."""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from contract.engines import EVERY_STATE, Engine, new_job
from ringrift.kernel.errors import LeaseLost
from ringrift.store.ports import Failure, JobRequest, Renewal, Store, Tx

STEPS = 120
KINDS = ("play", "sync")
NODES = ("n1", "n2")


@dataclass
class Modelled:
    """One job as the model has it."""

    new_job: JobRequest
    state: str = "ready"
    fence: int = 0
    attempts: int = 0
    renewals: int = 0
    pause: float = 0.0
    holder: str | None = None

    def fields(self) -> tuple[str, str, int, int, int, float, str | None]:
        """The fields that a row has, too."""
        return self.new_job.id, self.state, self.fence, self.attempts, self.renewals, self.pause, self.holder


@dataclass
class Model:
    """The jobs in the order of their arrival, and every claim that was ever issued."""

    rng: Random
    jobs: dict[str, Modelled] = field(default_factory=dict)
    cause: list[tuple[str, int]] = field(default_factory=list)

    async def enqueue(self, tx: Tx) -> None:
        """Enqueue a job whose key may be alive."""
        rng, id = self.rng, str(len(self.jobs))
        job = new_job(
            id,
            key=f"k:{rng.randrange(6)}:{rng.randrange(3)}",
            kind=rng.choice(KINDS),
            variant=rng.choice("xy"),
            priority=rng.choice((0, 40, 90)),
            node=rng.choice((None, *NODES)),
        )
        alive = [i for i, j in self.jobs.items() if j.new_job.key == job.key and j.state in ("ready", "claimed")]
        if not alive:
            self.jobs[id] = Modelled(job)
        assert list(await tx.enqueue([job])) == [*alive, id][:1]

    async def claim(self, tx: Tx) -> None:
        """Claim some of the ready jobs, in the fair order."""
        holder, limit, kinds = self.rng.choice(NODES), self.rng.randint(1, 3), self.rng.sample(KINDS, 1)
        ready = [j for j in self.jobs.values() if j.state == "ready" and not j.pause and j.new_job.kind in kinds]
        claimable = [j for j in ready if j.new_job.node in (None, holder)]
        due = sorted(claimable, key=lambda j: -j.new_job.priority)[:limit]
        for job in due:
            job.state, job.holder, job.renewals = "claimed", holder, 0
            job.fence, job.attempts = job.fence + 1, job.attempts + 1
        leases = await tx.claim(kinds, holder, 30.0, limit)
        assert [(lease.job, lease.fence) for lease in leases] == [(job.new_job.id, job.fence) for job in due]
        self.cause += [(lease.job, lease.fence) for lease in leases]

    def pick(self) -> tuple[str, int, Modelled | None]:
        """A lease that was issued once, and its job if that lease still holds."""
        id, fence = self.rng.choice(self.cause or [("none", 1)])
        job = self.jobs.get(id)
        return id, fence, job if job and job.state == "claimed" and job.fence == fence else None

    async def renew(self, tx: Tx) -> None:
        """Renew with a fence that may be old."""
        id, fence, job = self.pick()
        if job is not None:
            job.renewals += 1
        assert await refused(tx.renew, Renewal(job=id, fence=fence)) == (id,) * (job is None)

    async def finish(self, tx: Tx) -> None:
        """Finish with a fence that may be old."""
        id, fence, job = self.pick()
        if job is not None:
            job.state, job.holder = "done", None
        assert await refused(tx.finish, Renewal(job=id, fence=fence)) == (id,) * (job is None)

    async def fail(self, tx: Tx) -> None:
        """Fail with a fence or renewals that may be old."""
        id, fence, job = self.pick()
        pause, started = self.rng.choice((None, 0.0, 9.0)), self.rng.random() < 0.7
        renewals = self.rng.choice((None, 0, 1))
        if job is not None and renewals not in (None, job.renewals):
            job = None
        if job is not None:
            job.state, job.holder = "dead" if pause is None else "ready", None
            job.pause, job.attempts = pause or 0.0, job.attempts - (not started)
        failure = Failure(job=id, fence=fence, error="broke", pause=pause, renewals=renewals, started=started)
        assert list(await tx.fail([failure])) == [id] * (job is not None)

    async def resume(self, tx: Tx) -> None:
        """End a pause that may not exist."""
        id = self.rng.choice([*self.jobs, "none"])
        if id in self.jobs and self.jobs[id].state == "ready":
            self.jobs[id].pause = 0.0
        await tx.resume([id])

    async def cancel(self, tx: Tx) -> None:
        """Cancel a sixth of all jobs, live or not."""
        ids = [id for id in self.jobs if self.rng.randrange(6) == 0]
        live = [self.jobs[id] for id in ids if self.jobs[id].state in ("ready", "claimed")]
        for job in live:
            job.state, job.holder = "cancelled", None
        assert await tx.cancel([*ids, "none"]) == len(live)


async def refused(verb: Callable[[list[Renewal]], Awaitable[None]], renewal: Renewal) -> tuple[str, ...]:
    """The jobs whose leases *verb* refused."""
    try:
        await verb([renewal])
    except LeaseLost as lost:
        return lost.names
    return ()


async def check(tx: Tx, model: Model) -> None:
    """The store has the model's jobs, the tally counts them, and no fence was issued twice."""
    rows = await tx.jobs(EVERY_STATE, 10_000)
    fields = [(r.id, r.state, r.fence, r.attempts, r.renewals, r.pause, r.holder) for r in rows]
    assert fields == [job.fields() for job in model.jobs.values()]

    assert await tx.count_jobs() == Counter((row.kind, row.state) for row in rows)
    for variant in "xyz":
        assert await tx.count_jobs(variant) == Counter((row.kind, row.state) for row in rows if row.variant == variant)

    assert len(set(model.cause)) == len(model.cause)
    alive = Counter(row.key for row in rows if row.state in ("ready", "claimed"))
    assert set(alive.values()) <= {1}


@pytest.mark.parametrize("seed", range(6))
def test_any_sequence_of_verbs_keeps_every_job(engine: Engine, seed: int) -> None:
    """After any verbs in any order the tally is the count, each key has one live job, and every fence is new."""
    rng = Random(seed)
    model = Model(rng)
    verbs = [model.enqueue] * 3 + [model.claim] * 3 + [model.renew, model.finish, model.fail, model.fail, model.resume]
    verbs += [model.cancel] * (rng.random() < 0.5)

    async def story(store: Store) -> None:
        for _ in range(STEPS):
            async with store.begin() as tx:
                await rng.choice(verbs)(tx)
                await check(tx, model)

    engine.run(story)

    assert len(model.cause) > 10
    assert {job.state for job in model.jobs.values()} >= {"claimed", "done", "dead"}


@pytest.mark.parametrize("seed", range(3))
def test_failing_transactions_leave_no_trace(engine: Engine, seed: int) -> None:
    """A sequence in which half of the transactions fail ends like the one in which they never began."""
    rng = Random(seed)

    async def fail_after(store: Store, model: Model) -> None:
        async with store.begin() as tx:
            for verb in (model.enqueue, model.claim, model.finish, model.cancel):
                await verb(tx)
            raise ZeroDivisionError

    async def story(store: Store) -> None:
        model = Model(rng)
        for _ in range(30):
            async with store.begin() as tx:
                for verb in (model.enqueue, model.enqueue, model.claim, model.fail, model.finish):
                    await verb(tx)
            with pytest.raises(ZeroDivisionError):
                await fail_after(store, copied(model))
            async with store.begin() as tx:
                await check(tx, model)

    engine.run(story)


def copied(model: Model) -> Model:
    """A copy of the model, to be changed by a transaction that fails."""
    jobs = {id: Modelled(*(getattr(job, name) for name in Modelled.__match_args__)) for id, job in model.jobs.items()}
    return Model(model.rng, jobs, [*model.cause])
