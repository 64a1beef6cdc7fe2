"""Roles: one holder at a time, in terms that only grow, and no effect outside its own term."""

import asyncio
from random import Random

import pytest

from contract.engines import Engine, envelope, logged
from ringrift.kernel.errors import LeaseLost, NotLeader
from ringrift.store.ports import RoleRow, Store, Tx


async def hold(store: Store, holder: str, over: RoleRow | None = None, role: str = "fill") -> RoleRow | None:
    """Try to take a role in a transaction of its own."""
    async with store.begin() as tx:
        return await tx.hold_role(role, holder, 15.0, over)


async def renewal(store: Store, holder: str, over: RoleRow | None = None, role: str = "fill") -> RoleRow:
    """Take a role that is available."""
    row = await hold(store, holder, over, role)
    assert row is not None
    return row


async def roles(store: Store) -> list[RoleRow]:
    """Every role as it is now."""
    async with store.read() as view:
        return list(await view.roles())


async def act(store: Store, term: int, reported: str, role: str = "fill") -> None:
    """Append an event in a role and its term."""
    async with store.begin() as tx:
        await tx.append([envelope(reported)])
        await tx.require_role(role, term)


def test_a_free_role_can_be_taken(engine: Engine) -> None:
    """The first holder of a role has it in the first term, and every reader can see that."""

    async def story(store: Store) -> tuple[RoleRow, list[RoleRow]]:
        return await renewal(store, "n1"), await roles(store)

    row, seen = engine.run(story)

    assert row == RoleRow(role="fill", holder="n1", term=1, renewals=0, seconds=15.0)
    assert seen == [row]


def test_a_held_role_is_refused(engine: Engine) -> None:
    """While a role is held it is refused without the row that stood still, even to the holder."""

    async def story(store: Store) -> tuple[RoleRow | None, RoleRow | None, list[RoleRow]]:
        await renewal(store, "n1")
        return await hold(store, "n2"), await hold(store, "n1"), await roles(store)

    second, again, [row] = engine.run(story)

    assert (second, again) == (None, None)
    assert (row.holder, row.term) == ("n1", 1)


def test_one_of_many_concurrent_requests_gets_the_role(engine: Engine) -> None:
    """When several nodes take a role at once, exactly one has it."""

    async def story(store: Store) -> list[RoleRow | None]:
        return await asyncio.gather(*(hold(store, f"n{number}") for number in range(5)))

    answers = engine.run(story)

    assert len([row for row in answers if row is not None]) == 1


def test_a_role_that_stood_still_is_taken_over_in_a_new_term(engine: Engine) -> None:
    """Naming the row exactly as it is takes the role over; the old holder can neither renew nor act any more."""

    async def story(store: Store) -> tuple[RoleRow, RoleRow, NotLeader, list[str]]:
        first = await renewal(store, "n1")
        second = await renewal(store, "n2", over=first)
        with pytest.raises(LeaseLost) as lost:
            await keep(store, first.term)
        assert lost.value.names == ("fill",)
        with pytest.raises(NotLeader) as refused:
            await act(store, first.term, "appended-by-n1")
        await act(store, second.term, "appended-by-n2")
        return first, second, refused.value, await logged(store)

    first, second, refused, reported = engine.run(story)

    assert second.term > first.term
    assert (refused.role, refused.holder) == ("fill", "n2")
    assert reported == ["appended-by-n2"]


async def keep(store: Store, term: int, role: str = "fill") -> None:
    """Renew a role in a transaction of its own."""
    async with store.begin() as tx:
        await tx.renew_role(role, term)


def test_a_stale_row_takes_nothing_over(engine: Engine) -> None:
    """When the renewals moved since the row was read, the takeover is refused and the holder stays."""

    async def story(store: Store) -> tuple[RoleRow | None, list[RoleRow]]:
        stale = await renewal(store, "n1")
        await keep(store, stale.term)
        return await hold(store, "n2", over=stale), await roles(store)

    refused, [row] = engine.run(story)

    assert refused is None
    assert (row.holder, row.term, row.renewals) == ("n1", 1, 1)


def test_one_of_two_takeovers_by_the_same_row_succeeds(engine: Engine) -> None:
    """Two nodes that read the same row cannot both take the role over."""

    async def story(store: Store) -> list[RoleRow | None]:
        stood = await renewal(store, "n1")
        return await asyncio.gather(hold(store, "n2", over=stood), hold(store, "n3", over=stood))

    answers = engine.run(story)

    assert [row and row.term for row in answers] == [2, None]


def test_a_dropped_role_is_free_and_its_term_over(engine: Engine) -> None:
    """Dropping frees the roles of one holder alone, ends their terms, and the next term is a greater one."""

    async def story(store: Store) -> tuple[RoleRow, RoleRow, list[str]]:
        first, other = await renewal(store, "n1"), await renewal(store, "n2", role="rescue")
        async with store.begin() as tx:
            await tx.release_roles("n1")
        with pytest.raises(LeaseLost):
            await keep(store, first.term)
        with pytest.raises(NotLeader):
            await act(store, first.term, "too-late")
        await act(store, other.term, "in-time", role="rescue")
        return first, await renewal(store, "n1"), await logged(store)

    first, second, reported = engine.run(story)

    assert second.term > first.term
    assert reported == ["in-time"]


def test_the_error_for_a_dropped_role_names_no_holder(engine: Engine) -> None:
    """Acting in a role that was dropped raises an error without a holder."""

    async def story(store: Store) -> str:
        row = await renewal(store, "n1")
        async with store.begin() as tx:
            await tx.release_roles("n1")
        with pytest.raises(NotLeader) as refused:
            await act(store, row.term, "too-late")
        return refused.value.holder

    assert engine.run(story) == "no node"


def test_all_roles_can_be_dropped(engine: Engine) -> None:
    """Dropping without a holder frees every role."""

    async def story(store: Store) -> list[str]:
        await renewal(store, "n1")
        await renewal(store, "n2", role="rescue")
        async with store.begin() as tx:
            await tx.release_roles(None)
        return [row.holder for row in await roles(store)]

    assert engine.run(story) == ["", ""]


def test_acting_in_an_unknown_role_is_refused(engine: Engine) -> None:
    """Acting in a role that was never held is refused, and the whole transaction is undone."""

    async def story(store: Store) -> tuple[str, list[str]]:
        with pytest.raises(NotLeader) as refused:
            await act(store, 0, "appended", role="none")
        return refused.value.holder, await logged(store)

    assert engine.run(story) == ("no node", [])


def test_a_future_term_is_no_term(engine: Engine) -> None:
    """A term that was not issued yet is refused like an old one."""

    async def story(store: Store) -> list[str]:
        row = await renewal(store, "n1")
        with pytest.raises(NotLeader):
            await act(store, row.term + 1, "appended")
        return await logged(store)

    assert engine.run(story) == []


def test_terms_grow_over_reopening(engine: Engine) -> None:
    """A term is never issued twice, also after reopening."""

    async def story(store: Store) -> int:
        async with store.begin() as tx:
            await tx.release_roles(None)
        return (await renewal(store, "n1")).term

    terms = [engine.run(story) for _ in range(3)]

    assert terms == sorted(set(terms))


@pytest.mark.parametrize("seed", range(4))
def test_any_sequence_of_verbs_gives_each_term_once(engine: Engine, seed: int) -> None:
    """However roles are taken, kept, dropped and taken over, terms of one role only grow."""
    rng = Random(seed)
    cause: list[int] = []

    async def step(tx: Tx) -> None:
        [row] = await tx.roles() or [None]
        match rng.randrange(4):
            case 0 | 1:
                over = row if rng.random() < 0.5 else None
                taken = await tx.hold_role("fill", rng.choice(("n1", "n2")), 15.0, over)
                assert (taken is not None) == (row is None or not row.holder or over is not None)
                cause.extend([taken.term] if taken else [])
            case 2 if row and row.holder:
                await tx.renew_role("fill", row.term)
            case _:
                await tx.release_roles(rng.choice(("n1", "n2", None)))

    async def story(store: Store) -> None:
        for _ in range(60):
            async with store.begin() as tx:
                await step(tx)

    engine.run(story)

    assert cause == sorted(set(cause))
    assert len(cause) > 5
