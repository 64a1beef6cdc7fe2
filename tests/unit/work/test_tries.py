"""Tries count by job and node: one bad node never decides alone that a job is hopeless."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events.work import Buried
from ringrift.jobs import JobFilter, Play
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.breaker import BreakerState
from ringrift.kernel.settings import WorkSettings
from ringrift.store.ports import Lease, Renewal
from ringrift.work.breakers import BREAKERS, StoredBreaker
from ringrift.work.desk import Done, Fault, StoreDesk, cancel
from ringrift.work.limits import LINE_WORK, QUARANTINES, LineWork
from ringrift.work.tries import _LOST_NODES, TRIES, able_nodes, retry_pause
from unit.work.world import RETRY, World, play

OTHERS = {"n2", "n3"}


@pytest.mark.parametrize(
    ("failures", "others", "pause"),
    [
        ({"n1": 1}, OTHERS, 1.0),
        ({"n1": 2}, OTHERS, 2.0),
        ({"n1": 3}, set(), None),
        ({"n1": 3}, OTHERS, 0.0),
        ({"n1": 3, "n2": 2}, {"n2"}, 0.0),
        ({"n1": 3, "n2": 3}, OTHERS, None),
        ({"n1": 2, "n2": 2, "n3": 2}, OTHERS, None),
        ({"n1": 1, "n2": 3}, {"n2"}, 1.0),
        ({"n1": 4}, OTHERS, None),
    ],
)
def test_a_job_is_given_up_after_the_tries_of_two_nodes_or_of_all(
    failures: dict[str, int], others: set[str], pause: float | None
) -> None:
    """The tries of a node have growing pauses; the next node may try at once; the only node decides alone."""
    assert retry_pause(failures, "n1", others, RETRY) == pause


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=40), st.integers(1, 5))
def test_no_history_of_failures_lets_one_node_decide_or_goes_on_for_ever(history: list[str], tries: int) -> None:
    """While another node is there, two nodes have failed a job that is given up, after at most twice the tries."""
    retry, failures = Backoff(first_seconds=1.0, seconds_max=1.0, tries=tries), dict[str, int]()
    for node in history:
        if failures.get(node, 0) >= tries:
            continue  # it gets this job no more
        failures[node] = failures.get(node, 0) + 1
        pause = retry_pause(failures, node, set("abcd") - {node}, retry)
        assert (pause is None) == (sum(failures.values()) == 2 * tries)
        if pause is None:
            assert len(failures) > 1
            return
    assert sum(failures.values()) < 2 * tries


def job() -> Play:
    """A batch of games to play."""
    return Play(variant="hex8_2p", model="m", games=10, seed=0)


async def try_once(world: World, node: str) -> Lease | None:
    """Let *node* claim what it can get, and fail it; the lease it had, with the pause of the job ended."""
    leases = await world.desk(node).claim({"play"}, 1)
    for lease in leases:
        await world.desk(node).fail([Fault(lease=lease, error=f"no gpu on {node}")])
    async with world.store.begin() as tx:
        await tx.resume([row.id for row in await tx.jobs(("paused",), 10)])
    return leases[0] if leases else None


async def stored(world: World) -> dict[str, dict[str, int]]:
    """The stored failures by job and node."""
    async with world.store.read() as view:
        return {job: row.failures for job, row in (await TRIES.scan(view)).items()}


def test_a_node_that_used_up_its_tries_leaves_the_job_to_others(tmp_path: Path) -> None:
    """After its tries a bad node gets the job no more, another does it, and nothing stays behind."""

    async def story(world: World) -> None:
        await world.beat("bad")
        await world.beat("good")
        [id] = await world.desk().enqueue([job()])
        for _ in range(RETRY.tries):
            assert await try_once(world, "bad") is not None
        assert (await stored(world), await try_once(world, "bad")) == ({id: {"bad": 3}}, None)

        [lease] = await world.desk("good").claim({"play"}, 1)
        await world.desk("good").finish([Done(lease=Renewal(job=id, fence=lease.fence))])

        assert [row.state for row in await world.jobs()] == ["done"]
        assert (await world.events(Buried), await stored(world)) == ([], {})

    play(tmp_path, story)


def test_a_job_that_fails_everywhere_is_buried(tmp_path: Path) -> None:
    """Two nodes use up their tries, then it is given up with an event, and nothing stays behind."""

    async def story(world: World) -> None:
        await world.beat("n1")
        await world.beat("n2")
        await world.desk().enqueue([job()])
        nodes = [lease.holder for _ in range(4) for node in ("n1", "n2") if (lease := await try_once(world, node))]

        [event] = await world.events(Buried)
        assert (nodes, event.attempts) == (["n1", "n2"] * RETRY.tries, 2 * RETRY.tries)
        assert await stored(world) == {}

    play(tmp_path, story)


def test_the_last_node_that_is_left_decides(tmp_path: Path) -> None:
    """A job that waits for another node goes back to the one that failed it once no other is there, and is given up."""

    async def story(world: World) -> None:
        await world.beat("n1")
        await world.beat("n2")
        await world.desk().enqueue([job()])
        for _ in range(RETRY.tries):
            await try_once(world, "n1")
        assert await try_once(world, "n1") is None

        async with world.store.begin() as tx:
            await _LOST_NODES.put_at(tx, {"n2": 1})
        assert await try_once(world, "n1") is not None
        assert [row.state for row in await world.jobs()] == ["dead"]

    play(tmp_path, story)


def test_others_have_the_time_of_the_longest_job(tmp_path: Path) -> None:
    """A node that only looks as if it could work is not waited for without end: then the first one tries once more."""

    async def story(world: World) -> None:
        await world.beat("n1")
        await world.beat("idle")
        await world.desk().enqueue([job()])
        for _ in range(RETRY.tries):
            await try_once(world, "n1")
        desk = world.desk("n1")
        assert not await desk.claim({"play"}, 1)
        world.clock.seconds += WorkSettings().deadline_seconds - 1.0
        assert not await desk.claim({"play"}, 1)
        world.clock.seconds += 1.0
        [lease] = await desk.claim({"play"}, 1)
        await desk.fail([Fault(lease=lease, error="no gpu on n1")])

        assert [row.state for row in await world.jobs()] == ["dead"]

    play(tmp_path, story)


def test_a_job_for_one_node_is_given_up_there(tmp_path: Path) -> None:
    """No other node may do it, so that its own tries decide, as they do where there is one node only."""

    async def story(world: World) -> None:
        await world.beat("n1")
        await world.beat("n2")
        await world.desk().enqueue([Play(variant="hex8_2p", model="m", games=10, seed=0, node="n1")])
        for _ in range(RETRY.tries):
            await try_once(world, "n1")
        assert [row.state for row in await world.jobs()] == ["dead"]

    play(tmp_path, story)


def test_the_failures_of_a_cancelled_job_are_forgotten(tmp_path: Path) -> None:
    """What nobody needs any more leaves nothing behind."""

    async def story(world: World) -> None:
        await world.desk().enqueue([job()])
        await try_once(world, "n1")
        assert len(await stored(world)) == 1
        async with world.store.begin() as tx:
            await cancel(tx, JobFilter(variant="hex8_2p"), world.envelopes)
        assert await stored(world) == {}

    play(tmp_path, story)


def test_nodes_that_cannot_take_a_job_are_not_waited_for(tmp_path: Path) -> None:
    """One that has left, is lost or quarantined, cannot start workers or never plays is not another node."""

    async def story(world: World) -> None:
        for node in ("fine", "lost", "quarantined", "broken"):
            await world.beat(node)
        await world.beat("files", profile="coordinator")
        async with world.store.begin() as tx:
            await _LOST_NODES.put_at(tx, {"lost": 1})
            await BREAKERS.put(tx, [StoredBreaker(subject="node:broken", state=BreakerState.OPEN, failures=1)])
            verdict = StoredBreaker(subject="node:quarantined").verdict("claim")
            await QUARANTINES.put_at(tx, {"quarantined": verdict})
            assert await able_nodes(tx, "play", "hex8_2p") == {"fine"}
            assert await able_nodes(tx, "train", "hex8_2p") == {"fine", "quarantined"}
            assert await able_nodes(tx, "distribute", "hex8_2p") == {"fine", "quarantined", "broken", "files"}

    play(tmp_path, story)


def test_a_node_without_the_workload_is_not_waited_for(tmp_path: Path) -> None:
    """Once it has left the job in the queue for that reason, the first node tries it for the last time at once."""

    async def story(world: World) -> None:
        async def find(workload: str) -> str:
            return "it is not installed"

        await world.beat("n1")
        await world.beat("other")
        async with world.store.begin() as tx:
            await LINE_WORK.put_at(tx, {"hex8_2p": LineWork(workload="chess")})
        await world.desk().enqueue([job()])
        for _ in range(RETRY.tries):
            await try_once(world, "n1")
        assert await try_once(world, "n1") is None
        other = StoreDesk(
            world.store, world.clock, EnvelopeFactory("other", world.clock, world.ids), WorkSettings(), find
        )
        assert not await other.claim({"play"}, 1)

        assert await try_once(world, "n1") is not None
        assert [row.state for row in await world.jobs()] == ["dead"]

    play(tmp_path, story)
