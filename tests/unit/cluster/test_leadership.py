"""A role has one holder, passes on only after a full silence, and a holder that was suspended changes nothing."""

from pathlib import Path

import pytest

from ringrift.cluster.leadership import Roles, _available_roles
from ringrift.events.cluster import RoleTaken
from ringrift.kernel.errors import NotLeader
from ringrift.store.ports import Put, RoleRow
from ringrift.store.roles import _TRUST
from unit.kernel.manual_clock import ManualClock
from unit.work.world import World, play

SECONDS = 15.0


def roles(world: World, node: str, *candidates: str, clock: ManualClock | None = None) -> Roles:
    """The roles of *node*, with a clock of its own if it needs one."""
    return Roles(node, world.store, clock or world.clock, candidates or ("fill",), SECONDS, envelopes=world.envelopes)


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
        ([], [], [("fill", None), ("measure_queues", None)]),
        ([row("fill", "a")], [], [("measure_queues", None)]),
        ([row("fill", "a")], ["fill"], [("fill", row("fill", "a")), ("measure_queues", None)]),
        ([row("fill", ""), row("measure_queues", "b")], [], [("fill", row("fill", ""))]),
        ([row("sweep", "")], ["sweep"], [("fill", None), ("measure_queues", None)]),
    ],
)
def test_free_and_overdue_roles_can_be_claimed(
    rows: list[RoleRow], overdue: list[str], expected: list[tuple[str, RoleRow | None]]
) -> None:
    """Only roles that are requested and unheld, or whose holder is overdue, each with the row that was read."""
    assert _available_roles(rows, overdue, ["fill", "measure_queues"]) == expected


def test_only_one_of_two_holds_a_role(tmp_path: Path) -> None:
    """The first to ask gets it and keeps it, as long as it renews."""

    async def story(world: World) -> None:
        first, second = roles(world, "first"), roles(world, "second")
        await first.elect()

        for _ in range(20):
            world.clock.seconds += 3.0
            await first.elect()
            await second.elect()

            assert (first.holds("fill"), second.holds("fill")) == (True, False)

    play(tmp_path, story)


def test_a_role_passes_on_after_its_full_time_and_not_before(tmp_path: Path) -> None:
    """The observer's clock counts from when it last saw the holder move; one moment earlier it takes nothing."""

    async def story(world: World) -> None:
        own = ManualClock(50_000.0)  # the observer's clock has nothing to do with the holder's
        first, second = roles(world, "first"), roles(world, "second", clock=own)
        await first.elect()
        await second.elect()
        own.seconds += 10.0
        await first.elect()
        await second.elect()

        for step, takes in ((SECONDS - 0.1, False), (0.1, True)):
            own.seconds += step
            await second.elect()
            assert second.holds("fill") is takes

        async with world.store.read() as view:
            [now] = await view.roles()
        assert (now.holder, now.term) == ("second", 2)

    play(tmp_path, story)


def test_a_role_is_published_when_acquired_and_not_when_renewed(tmp_path: Path) -> None:
    """One event for each role and term: at the start, after a holder's silence, after it resigned."""

    async def story(world: World) -> None:
        first, second = roles(world, "first", "fill", "measure_queues"), roles(world, "second")
        for _ in range(3):
            await first.elect()
            await second.elect()
        world.clock.seconds += SECONDS
        await second.elect()
        await second.resign()
        await second.elect()

        terms = [(event.role, event.node, event.term) for event in await world.events(RoleTaken)]
        assert terms == [
            ("fill", "first", 1),
            ("measure_queues", "first", 1),
            ("fill", "second", 2),
            ("fill", "second", 3),
        ]

    play(tmp_path, story)


def test_an_observer_that_starts_again_waits_its_full_time(tmp_path: Path) -> None:
    """After a restart it has no earlier observations, so no holder is cut short."""

    async def story(world: World) -> None:
        await roles(world, "first").elect()
        await roles(world, "second").elect()
        world.clock.seconds += SECONDS
        fresh = roles(world, "second")
        await fresh.elect()

        assert not fresh.holds("fill")
        world.clock.seconds += SECONDS
        await fresh.elect()
        assert fresh.holds("fill")

    play(tmp_path, story)


def test_a_suspended_holder_changes_nothing(tmp_path: Path) -> None:
    """A transaction under an old term raises NotLeader, and nothing that it wrote has happened."""

    async def story(world: World) -> None:
        first, second = roles(world, "first"), roles(world, "second")
        await first.elect()
        await second.elect()
        world.clock.seconds += SECONDS
        await second.elect()

        with pytest.raises(NotLeader) as refused:
            await act(world, first)

        assert (refused.value.role, refused.value.holder) == ("fill", "second")
        async with world.store.read() as view:
            assert await view.scan("effect", "", 10) == {}
        await act(world, second)
        await first.elect()
        assert not first.holds("fill")

    play(tmp_path, story)


def test_a_node_without_the_role_cannot_act_in_it(tmp_path: Path) -> None:
    """Without a term there is nothing to bind a transaction to."""

    async def story(world: World) -> None:
        with pytest.raises(NotLeader):
            await act(world, roles(world, "first"))

    play(tmp_path, story)


def test_a_holder_stops_trusting_itself_before_others_may_take_over(tmp_path: Path) -> None:
    """Two thirds of the time after its last renewal it stops by itself, though the role is still its own."""

    async def story(world: World) -> None:
        first = roles(world, "first")
        await first.elect()
        world.clock.seconds += _TRUST * SECONDS - 0.1
        before = first.holds("fill")
        world.clock.seconds += 0.1

        assert (before, first.holds("fill")) == (True, False)
        await act(world, first)
        await first.elect()
        assert first.holds("fill")

    play(tmp_path, story)


def test_resigning_frees_a_role_at_once(tmp_path: Path) -> None:
    """A role of a holder that resigned is free without a wait, and its old term is over."""

    async def story(world: World) -> None:
        first, second = roles(world, "first", "fill", "measure_queues"), roles(world, "second")
        await first.elect()
        await second.elect()
        await first.resign()
        await second.elect()

        assert (first.holds("fill"), second.holds("fill")) == (False, True)
        async with world.store.read() as view:
            holders = {row.role: (row.holder, row.term) for row in await view.roles()}
        assert holders == {"fill": ("second", 2), "measure_queues": ("", 1)}

    play(tmp_path, story)


def test_roles_are_held_apart(tmp_path: Path) -> None:
    """Leadership spreads: one node may lead here and another there."""

    async def story(world: World) -> None:
        first, second = roles(world, "first", "fill"), roles(world, "second", "fill", "measure_queues")
        await first.elect()
        await second.elect()

        assert (first.holds("fill"), first.holds("measure_queues")) == (True, False)
        assert (second.holds("fill"), second.holds("measure_queues")) == (False, True)

    play(tmp_path, story)


def test_a_role_requested_later_is_acquired_in_the_next_election(tmp_path: Path) -> None:
    """Until then the node does not act in it; requesting it again changes nothing."""

    async def story(world: World) -> None:
        mine = roles(world, "first")
        await mine.elect()
        mine.stand_for("greet")
        mine.stand_for("greet")
        assert not mine.holds("greet")

        await mine.elect()

        assert mine.holds("greet")
        assert mine.holds("fill")
        assert [event.role for event in await world.events(RoleTaken)] == ["fill", "greet"]

    play(tmp_path, story)
