"""Tasks share the rows of jobs and their counters, and a claim leaves in the queue what its terms exclude."""

import random
from collections.abc import Sequence

import apsw
import pytest

from contract.engines import Engine, claim, enqueue, new_job, renewal
from ringrift.store.ports import ClaimTerms, Failure, JobCounter, Lease, Store, TaskChange, TaskRequest
from ringrift.store.sqlite.reads import QUERIES


def request(id: str, kind: str = "training", variant: str = "hex8_2p", holder: str = "n") -> TaskRequest:
    """A task to be registered."""
    usual = {"kind": f"task:{kind}", "variant": variant, "key": f"task:{id}", "holder": holder}
    return TaskRequest(**usual, body=b"{}", seconds=300.0, time=4.0)


def change(id: str, fence: int, state: str = "claimed", body: bytes = b"{}") -> TaskChange:
    """A beat of a task, or its end."""
    return TaskChange(job=f"task:{id}#{fence}", fence=fence, state=state, body=body)


async def register(store: Store, *requests: TaskRequest) -> Sequence[int | None]:
    """Register tasks in a transaction of its own."""
    async with store.begin() as tx:
        return await tx.register_tasks(requests)


async def claim_on(store: Store, terms: ClaimTerms, limit: int = 9, holder: str = "n") -> list[str]:
    """The jobs that a claim on *terms* gets."""
    async with store.begin() as tx:
        return [lease.job for lease in await tx.claim(("play", "train", "match"), holder, 30.0, limit, terms)]


def test_a_task_is_claimed_from_its_birth(engine: Engine) -> None:
    """Its row has a holder and a fence that no other task has; while it lives its key belongs to it."""

    async def story(store: Store) -> None:
        assert await register(store, request("a"), request("b"), request("a")) == [1, 2, None]
        async with store.read() as view:
            first, second = await view.tasks(10)
            assert (first.state, first.holder, first.fence, first.seconds) == ("claimed", "n", 1, 300.0)
            assert [row.key for row in await view.tasks(10, keys=["task:b", "task:c"])] == ["task:b"]
        async with store.begin() as tx:
            assert await tx.change_tasks([change("a", 1, "done")]) == ["task:a#1"]
        assert await register(store, request("a")) == [3]
        async with store.read() as view:
            assert [row.state for row in await view.last_tasks(10)] == ["done", "claimed", "claimed"]
            assert [row.fence for row in await view.last_tasks(2)] == [2, 3]
            assert second.key == "task:b"

    engine.run(story)


def test_only_its_own_fence_changes_a_task(engine: Engine) -> None:
    """A beat counts and carries a new body; an ended task and another fence change nothing."""

    async def story(store: Store) -> None:
        await register(store, request("a"))
        async with store.begin() as tx:
            assert await tx.change_tasks([change("a", 1, body=b'{"beat":1}')]) == ["task:a#1"]
            [row] = await tx.tasks(10)
            assert (row.renewals, row.body) == (1, b'{"beat":1}')
            assert await tx.change_tasks([change("a", 2)]) == []
            assert await tx.change_tasks([change("a", 1, "dead")]) == ["task:a#1"]
            assert await tx.change_tasks([change("a", 1), change("a", 1, "done")]) == []
            assert [(row.state, row.holder) for row in await tx.last_tasks(10)] == [("dead", None)]

    engine.run(story)


def test_jobs_and_their_counts_have_no_tasks(engine: Engine) -> None:
    """Whoever reads, counts, claims or revokes jobs never meets a task."""

    async def story(store: Store) -> None:
        await enqueue(store, new_job("j"))
        await register(store, request("a", "selfplay"), request("b"))
        async with store.begin() as tx:
            await tx.change_tasks([change("b", 3, "dead")])
            assert [row.id for row in await tx.jobs(("ready", "claimed", "dead"), 10)] == ["j"]
            assert await tx.jobs(("claimed",), 10) == await tx.jobs(("claimed",), 10, holder="n") == []
            assert await tx.count_jobs() == {("play", "ready"): 1}
            assert await tx.count_jobs("hex8_2p") == {("play", "ready"): 1}
            assert [lease.job for lease in await tx.claim(("play", "task:selfplay"), "n", 30.0, 9)] == ["j"]

    engine.run(story)


def test_counters_know_the_holder(engine: Engine) -> None:
    """What runs is counted by kind, variant and node, for jobs and tasks alike; an end leaves no counter behind."""

    async def story(store: Store) -> None:
        await enqueue(store, new_job("j"), new_job("k"), new_job("l", variant="hex8_3p"))
        leases = [*await claim(store, "n", 2), *await claim(store, "m")]
        await register(store, request("a", "selfplay", holder="m"))
        async with store.begin() as tx:
            counters = await tx.job_counters("claimed", ["play", "task:selfplay"])
            assert counters == [
                JobCounter(kind="play", variant="hex8_2p", holder="n", count=2),
                JobCounter(kind="play", variant="hex8_3p", holder="m", count=1),
                JobCounter(kind="task:selfplay", variant="hex8_2p", holder="m", count=1),
            ]
            await tx.finish([renewal(leases[0])])
            await tx.fail([Failure(job=leases[1].job, fence=1, error="x", pause=0.0)])
            await tx.cancel([leases[2].job])
            await tx.change_tasks([change("a", 4, "done")])
            assert await tx.job_counters("claimed", ["play", "task:selfplay"]) == []
            assert [counter.holder for counter in await tx.job_counters("ready", ["play"])] == [""]

    engine.run(story)


def _unequal(engine: Engine) -> list[tuple[object, ...]]:
    """Where the counters of a closed store differ from its rows."""
    db = apsw.Connection(str(engine.path), vfs=engine.disk.name if engine.disk else None)
    if engine.disk is not None:
        db.pragma("locking_mode", "exclusive")
    rows = set(db.execute("SELECT kind, variant, state, ifnull(holder, ''), count(*) FROM jobs GROUP BY 1, 2, 3, 4"))
    counters = set(db.execute("SELECT kind, variant, state, holder, count FROM job_counts WHERE count <> 0"))
    db.close()
    return sorted(rows ^ counters)


@pytest.mark.parametrize("seed", range(4))
def test_counters_always_equal_the_rows(engine: Engine, seed: int) -> None:
    """After any sequence of changes, also ones that are rolled back, counting one by one gives the counters."""
    rng = random.Random(seed)

    async def story(store: Store) -> None:
        leases: list[Lease] = []
        tasks: list[tuple[str, int]] = []
        for number in range(120):
            deed, variant, node = rng.randrange(7), rng.choice("vw"), rng.choice("nm")
            try:
                async with store.begin() as tx:
                    if deed == 0:
                        await tx.enqueue([new_job(f"j{number}", variant=variant, kind=rng.choice(["play", "train"]))])
                    elif deed == 1:
                        leases += await tx.claim(("play", "train"), node, 30.0, 2)
                    elif deed == 2 and leases:
                        await tx.finish([renewal(leases.pop())])
                    elif deed == 3 and leases:
                        lease = leases.pop()
                        pause = rng.choice([0.0, None])
                        await tx.fail([Failure(job=lease.job, fence=lease.fence, error="x", pause=pause)])
                    elif deed == 4:
                        [fence] = await tx.register_tasks([request(f"t{number}", variant=variant, holder=node)])
                        assert fence is not None
                        tasks.append((f"t{number}", fence))
                    elif deed == 5 and tasks:
                        state = rng.choice(["claimed", "done", "dead", "cancelled"])
                        await tx.change_tasks([change(*rng.choice(tasks), state)])
                    elif deed == 6:
                        await tx.enqueue([new_job(f"x{number}")])
                        await tx.claim(("play",), node, 30.0, 1)
                        raise ZeroDivisionError
            except ZeroDivisionError:
                pass

    engine.run(story)

    assert _unequal(engine) == []


def test_compaction_drops_counters_that_count_nothing(engine: Engine) -> None:
    """A program may name as many nodes as it likes: those without a task leave no row behind."""

    async def story(store: Store) -> None:
        await register(store, *(request(f"t{number}", holder=f"n{number}") for number in range(20)))
        async with store.begin() as tx:
            await tx.change_tasks([change(f"t{number}", number + 1, "done") for number in range(19)])
            await tx.compact(1000, 10)

    engine.run(story)
    assert _unequal(engine) == []
    db = apsw.Connection(str(engine.path), vfs=engine.disk.name if engine.disk else None)
    if engine.disk is not None:
        db.pragma("locking_mode", "exclusive")
    assert db.execute("SELECT count(*) FROM job_counts").get == 2
    db.close()


def test_a_claim_leaves_out_variants(engine: Engine) -> None:
    """Excluded variants stay in the queue, of the excluded kind alone; the order of the others stays."""

    async def story(store: Store) -> list[list[str]]:
        rows = [("a", "play", "v"), ("b", "play", "w"), ("c", "train", "v"), ("d", "play", "v"), ("e", "play", "w")]
        await enqueue(store, *(new_job(id, kind=kind, variant=variant) for id, kind, variant in rows))
        first = await claim_on(store, ClaimTerms(without={"play": ["v", "x"]}))
        return [first, await claim_on(store, ClaimTerms(without={"play": ["w"], "train": ["v"]}))]

    assert engine.run(story) == [["b", "c", "e"], ["a", "d"]]


def test_a_claim_leaves_out_jobs(engine: Engine) -> None:
    """Excluded jobs stay in the queue for others, and do not take the places of those behind them."""

    async def story(store: Store) -> list[list[str]]:
        await enqueue(store, *(new_job(id, kind="play") for id in "abcd"))
        first = await claim_on(store, ClaimTerms(without_jobs=["a", "b", "x"]), limit=2)
        return [first, await claim_on(store, ClaimTerms())]

    assert engine.run(story) == [["c", "d"], ["a", "b"]]


def test_a_claim_takes_one_of_each_variant(engine: Engine) -> None:
    """Kinds of which a variant may have one at a time get one each, however many are ready, the most urgent first."""

    async def story(store: Store) -> list[str]:
        rows = [("a", "v", 40), ("b", "v", 90), ("c", "w", 40), ("d", "w", 40), ("p", "v", 40)]
        kinds = {"p": "play"}
        await enqueue(
            store,
            *(new_job(id, kind=kinds.get(id, "train"), variant=variant, priority=p) for id, variant, p in rows),
        )
        return await claim_on(store, ClaimTerms(one_per_variant=["train"]))

    assert engine.run(story) == ["b", "c", "p"]


def test_a_claim_takes_as_many_as_there_are_places(engine: Engine) -> None:
    """Kinds that share places get so many together; every bound counts, and other kinds are free."""

    async def story(store: Store) -> list[list[str]]:
        kinds = {"a": "play", "b": "match", "c": "play", "d": "match", "e": "train", "f": "train"}
        await enqueue(store, *(new_job(id, kind=kind) for id, kind in kinds.items()))
        first = await claim_on(store, ClaimTerms(places=((("play", "match"), 3), (("play",), 1))))
        return [first, await claim_on(store, ClaimTerms(places=((("play",), 0),)))]

    assert engine.run(story) == [["a", "b", "d", "e", "f"], []]


def test_the_queries_of_a_claim_read_only_their_indexes(engine: Engine) -> None:
    """However many rows there are: a claim and a count of what runs touch the rows they return and no others."""
    engine.run(lambda store: enqueue(store, new_job("a")))
    db = apsw.Connection(str(engine.path), vfs=engine.disk.name if engine.disk else None)
    if engine.disk is not None:
        db.pragma("locking_mode", "exclusive")

    def plan(name: str, *args: object) -> str:
        return " | ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {QUERIES[name]}", args))

    assert "COVERING INDEX jobs_ready (kind=? AND node=?)" in plan("ready", "play", None, 1)
    assert "COVERING INDEX jobs_ready (kind=? AND node=?)" in plan("ready_except", "play", None, 1, "[]", "[]", None)
    assert "INDEX job_counts_state (state=? AND kind=?)" in plan("job_counters", "claimed", "[]")
    assert "INDEX jobs_claimed" in plan("tasks_running", 1)
    assert "INDEX jobs_claimed (holder=?)" in plan("jobs_held", "n", None, 1)
    assert "INDEX jobs_key (key=?)" in plan("tasks_with_keys", "[]")
    assert "INDEX jobs_tasks" in plan("tasks_newest", 1)
    assert "TEMP B-TREE" not in plan("ready_except", "play", None, 1, "[]", "[]", None)
    db.close()
