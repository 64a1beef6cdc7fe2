"""The worker of a command claims the jobs of its command and no others, whichever are older or more urgent."""

from pathlib import Path

from ringrift.jobs import URGENT, Verify
from ringrift.work.run_states import BY_RUN, set_run_state
from unit.work.world import World, play

KINDS = frozenset({"verify"})


def job(number: int, priority: int = 40) -> Verify:
    """A job that can be told from others."""
    return Verify(variant="hex8_2p", model=f"{number:064x}", priority=priority)


def test_only_the_named_jobs_are_claimed(tmp_path: Path) -> None:
    """An older and an urgent job stay in the queue; with an empty list nothing is claimed."""

    async def story(world: World) -> None:
        desk = world.desk("command")
        _, own, _ = await world.desk().enqueue([job(1), job(2), job(3, URGENT)])
        desk.only = ()
        assert await desk.claim(KINDS, 8) == []
        desk.only = {own}
        assert [lease.job for lease in await desk.claim(KINDS, 8)] == [own]
        assert await desk.claim(KINDS, 8) == []
        assert len(await world.desk("node").claim(KINDS, 8)) == 2, "a node gets the others"

    play(tmp_path, story)


def test_without_a_list_any_job_is_claimed(tmp_path: Path) -> None:
    """As by every node: the urgent one first, then the oldest."""

    async def story(world: World) -> None:
        first, second = await world.desk().enqueue([job(1), job(2, URGENT)])
        assert [lease.job for lease in await world.desk("node").claim(KINDS, 8)] == [second, first]

    play(tmp_path, story)


def test_a_line_that_rests_for_a_run_is_no_obstacle_but_a_brake_is(tmp_path: Path) -> None:
    """A pause by a run of other lines is for the loop; one by a person holds for everybody."""

    async def story(world: World) -> None:
        desk = world.desk("command")
        first, second = await world.desk().enqueue([job(1), job(2)])
        for by, id, expected in ((BY_RUN, first, [first]), ("anna", second, [])):
            async with world.store.begin() as tx:
                about = {"scope": "variant:hex8_2p", "state": "paused", "reason": "x", "by": by}
                await set_run_state(tx, world.envelopes, now=world.clock.now(), **about)
            assert await world.desk("node").claim(KINDS, 8) == []
            desk.only = {id}
            assert [lease.job for lease in await desk.claim(KINDS, 8)] == expected

    play(tmp_path, story)
