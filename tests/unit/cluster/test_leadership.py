"""A role has one holder, passes on only after a full silence, and a holder who slept changes nothing."""

from pathlib import Path

import pytest

from ringrift.cluster.leadership import TRUST, Roles, takeable
from ringrift.events.cluster import RoleTaken
from ringrift.kernel.errors import NotLeader
from ringrift.store.ports import Put, RoleRow
from unit.kernel.hand import HandClock
from unit.work.world import World, play

SECONDS = 15.0


def roles(world: World, node: str, *wanted: str, clock: HandClock | None = None) -> Roles:
    """The roles of *node*, with a clock of its own if it needs one."""
    return Roles(node, world.store, clock or world.clock, wanted or ("fill",), SECONDS, scribe=world.scribe)


async def act(world: World, as_leader: Roles) -> None:
    """Write something in a transaction that is bound to the term of *as_leader*."""
    async with world.store.begin() as tx:
        await tx.put([Put(kind="effect", id="x", body=b"x")])
        await as_leader.check("fill", tx)


def row(role: str, holder: str) -> RoleRow:
    """A role as the store has it."""
    return RoleRow(role=role, holder=holder, term=1, renewals=0, seconds=SECONDS)


@pytest.mark.parametrize(
    ("rows", "overdue", "expected"),
    [
        ([], [], [("fill", None), ("gauge", None)]),
        ([row("fill", "a")], [], [("gauge", None)]),
        ([row("fill", "a")], ["fill"], [("fill", row("fill", "a")), ("gauge", None)]),
        ([row("fill", ""), row("gauge", "b")], [], [("fill", row("fill", ""))]),
        ([row("sweep", "")], ["sweep"], [("fill", None), ("gauge", None)]),
    ],
)
def test_what_is_free_or_stands_still_can_be_taken(
    rows: list[RoleRow], overdue: list[str], expected: list[tuple[str, RoleRow | None]]
) -> None:
    """Only roles that are wanted and unheld, or whose holder is overdue, each with the row that was seen."""
    assert takeable(rows, overdue, ["fill", "gauge"]) == expected


def test_only_one_of_two_holds_a_role(tmp_path: Path) -> None:
    """The first to ask gets it and keeps it, as long as it renews."""

    async def story(world: World) -> None:
        one, two = roles(world, "one"), roles(world, "two")
        await one.elect()

        for _ in range(20):
            world.clock.seconds += 3.0
            await one.elect()
            await two.elect()

            assert (one.holds("fill"), two.holds("fill")) == (True, False)

    play(tmp_path, story)


def test_a_role_passes_on_after_its_full_time_and_not_before(tmp_path: Path) -> None:
    """The observer's clock counts from when it last saw the holder move; one moment earlier it takes nothing."""

    async def story(world: World) -> None:
        own = HandClock(50_000.0)  # the observer's clock has nothing to do with the holder's
        one, two = roles(world, "one"), roles(world, "two", clock=own)
        await one.elect()
        await two.elect()
        own.seconds += 10.0
        await one.elect()
        await two.elect()

        for step, takes in ((SECONDS - 0.1, False), (0.1, True)):
            own.seconds += step
            await two.elect()
            assert two.holds("fill") is takes

        async with world.store.read() as view:
            [now] = await view.roles()
        assert (now.holder, now.term) == ("two", 2)

    play(tmp_path, story)


def test_a_role_is_told_when_it_is_taken_and_not_when_it_is_kept(tmp_path: Path) -> None:
    """One event for each role and term: at the start, after a holder's silence, after it resigned."""

    async def story(world: World) -> None:
        one, two = roles(world, "one", "fill", "gauge"), roles(world, "two")
        for _ in range(3):
            await one.elect()
            await two.elect()
        world.clock.seconds += SECONDS
        await two.elect()
        await two.resign()
        await two.elect()

        said = [(event.role, event.node, event.term) for event in await world.told(RoleTaken)]
        assert said == [("fill", "one", 1), ("gauge", "one", 1), ("fill", "two", 2), ("fill", "two", 3)]

    play(tmp_path, story)


def test_an_observer_that_starts_again_waits_its_full_time(tmp_path: Path) -> None:
    """After a restart nothing is known of the past, so nobody is cut short."""

    async def story(world: World) -> None:
        await roles(world, "one").elect()
        await roles(world, "two").elect()
        world.clock.seconds += SECONDS
        fresh = roles(world, "two")
        await fresh.elect()

        assert not fresh.holds("fill")
        world.clock.seconds += SECONDS
        await fresh.elect()
        assert fresh.holds("fill")

    play(tmp_path, story)


def test_a_holder_who_slept_changes_nothing(tmp_path: Path) -> None:
    """A transaction under an old term raises NotLeader, and nothing that it wrote has happened."""

    async def story(world: World) -> None:
        one, two = roles(world, "one"), roles(world, "two")
        await one.elect()
        await two.elect()
        world.clock.seconds += SECONDS
        await two.elect()

        with pytest.raises(NotLeader) as refused:
            await act(world, one)

        assert (refused.value.role, refused.value.holder) == ("fill", "two")
        async with world.store.read() as view:
            assert await view.scan("effect", "", 10) == []
        await act(world, two)
        await one.elect()
        assert not one.holds("fill")

    play(tmp_path, story)


def test_who_never_held_a_role_cannot_act_in_it(tmp_path: Path) -> None:
    """Without a term there is nothing to bind a transaction to."""

    async def story(world: World) -> None:
        with pytest.raises(NotLeader):
            await act(world, roles(world, "one"))

    play(tmp_path, story)


def test_a_holder_stops_trusting_itself_before_others_may_take_over(tmp_path: Path) -> None:
    """Two thirds of the time after its last renewal it stops by itself, though the role is still its own."""

    async def story(world: World) -> None:
        one = roles(world, "one")
        await one.elect()
        world.clock.seconds += TRUST * SECONDS - 0.1
        before = one.holds("fill")
        world.clock.seconds += 0.1

        assert (before, one.holds("fill")) == (True, False)
        await act(world, one)
        await one.elect()
        assert one.holds("fill")

    play(tmp_path, story)


def test_resigning_frees_a_role_at_once(tmp_path: Path) -> None:
    """Nobody waits for a holder that took its leave, and its old term is over."""

    async def story(world: World) -> None:
        one, two = roles(world, "one", "fill", "gauge"), roles(world, "two")
        await one.elect()
        await two.elect()
        await one.resign()
        await two.elect()

        assert (one.holds("fill"), two.holds("fill")) == (False, True)
        async with world.store.read() as view:
            held = {found.role: (found.holder, found.term) for found in await view.roles()}
        assert held == {"fill": ("two", 2), "gauge": ("", 1)}

    play(tmp_path, story)


def test_roles_are_held_apart(tmp_path: Path) -> None:
    """Leadership spreads: one node may lead here and another there."""

    async def story(world: World) -> None:
        one, two = roles(world, "one", "fill"), roles(world, "two", "fill", "gauge")
        await one.elect()
        await two.elect()

        assert (one.holds("fill"), one.holds("gauge")) == (True, False)
        assert (two.holds("fill"), two.holds("gauge")) == (False, True)

    play(tmp_path, story)


def test_a_role_that_is_wanted_later_is_taken_by_the_next_election(tmp_path: Path) -> None:
    """Only the next one: until then the node does not act in it; wanting it again changes nothing."""

    async def story(world: World) -> None:
        mine = roles(world, "one")
        await mine.elect()
        mine.want("greet")
        mine.want("greet")
        assert not mine.holds("greet")

        await mine.elect()

        assert mine.holds("greet")
        assert mine.holds("fill")
        assert [said.role for said in await world.told(RoleTaken)] == ["fill", "greet"]

    play(tmp_path, story)
