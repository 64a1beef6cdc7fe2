"""Roles: one holder at a time, in terms that only grow, and no effect outside the term it was meant for."""

import asyncio
from random import Random

import pytest

from contract.engines import Engine, envelope, logged
from ringrift.kernel.errors import LeaseLost, NotLeader
from ringrift.store.ports import RoleRow, Store, Tx


async def hold(store: Store, holder: str, over: RoleRow | None = None, role: str = "fill") -> RoleRow | None:
    """Try to take a role in a transaction of its own."""
    async with store.begin() as tx:
        return await tx.hold(role, holder, 15.0, over)


async def held(store: Store, holder: str, over: RoleRow | None = None, role: str = "fill") -> RoleRow:
    """Take a role that can be had."""
    row = await hold(store, holder, over, role)
    assert row is not None
    return row


async def roles(store: Store) -> list[RoleRow]:
    """Every role as it is now."""
    async with store.read() as view:
        return list(await view.roles())


async def act(store: Store, term: int, said: str, role: str = "fill") -> None:
    """Say something in a role and its term."""
    async with store.begin() as tx:
        await tx.append([envelope(said)])
        await tx.under(role, term)


def test_a_free_role_goes_to_who_asks(engine: Engine) -> None:
    """The first holder of a role has it in the first term, and everybody can see that."""

    async def story(store: Store) -> tuple[RoleRow, list[RoleRow]]:
        return await held(store, "n1"), await roles(store)

    row, seen = engine.run(story)

    assert row == RoleRow(role="fill", holder="n1", term=1, renewals=0, seconds=15.0)
    assert seen == [row]


def test_a_held_role_is_refused(engine: Engine) -> None:
    """While somebody holds a role, nobody gets it without naming the row that stood still, not even the holder."""

    async def story(store: Store) -> tuple[RoleRow | None, RoleRow | None, list[RoleRow]]:
        await held(store, "n1")
        return await hold(store, "n2"), await hold(store, "n1"), await roles(store)

    second, again, [row] = engine.run(story)

    assert (second, again) == (None, None)
    assert (row.holder, row.term) == ("n1", 1)


def test_of_many_who_ask_one_gets_the_role(engine: Engine) -> None:
    """When several take a role at once, exactly one has it."""

    async def story(store: Store) -> list[RoleRow | None]:
        return await asyncio.gather(*(hold(store, f"n{number}") for number in range(5)))

    answers = engine.run(story)

    assert len([row for row in answers if row is not None]) == 1


def test_a_role_that_stood_still_is_taken_over_in_a_new_term(engine: Engine) -> None:
    """Who names the row exactly as it stands takes the role; the old holder can neither renew nor act any more."""

    async def story(store: Store) -> tuple[RoleRow, RoleRow, NotLeader, list[str]]:
        first = await held(store, "n1")
        second = await held(store, "n2", over=first)
        with pytest.raises(LeaseLost) as lost:
            await keep(store, first.term)
        assert lost.value.names == ("fill",)
        with pytest.raises(NotLeader) as refused:
            await act(store, first.term, "said-by-n1")
        await act(store, second.term, "said-by-n2")
        return first, second, refused.value, await logged(store)

    first, second, refused, said = engine.run(story)

    assert second.term > first.term
    assert (refused.role, refused.holder) == ("fill", "n2")
    assert said == ["said-by-n2"]


async def keep(store: Store, term: int, role: str = "fill") -> None:
    """Renew a role in a transaction of its own."""
    async with store.begin() as tx:
        await tx.keep(role, term)


def test_a_stale_row_takes_nothing_over(engine: Engine) -> None:
    """When renewals moved since the row was read, its reader is too late and the holder stays."""

    async def story(store: Store) -> tuple[RoleRow | None, list[RoleRow]]:
        stale = await held(store, "n1")
        await keep(store, stale.term)
        return await hold(store, "n2", over=stale), await roles(store)

    refused, [row] = engine.run(story)

    assert refused is None
    assert (row.holder, row.term, row.renewals) == ("n1", 1, 1)


def test_of_two_who_saw_the_same_row_one_takes_over(engine: Engine) -> None:
    """Two who found the same row standing still cannot both take it over."""

    async def story(store: Store) -> list[RoleRow | None]:
        stood = await held(store, "n1")
        return await asyncio.gather(hold(store, "n2", over=stood), hold(store, "n3", over=stood))

    answers = engine.run(story)

    assert [row and row.term for row in answers] == [2, None]


def test_a_dropped_role_is_free_and_its_term_over(engine: Engine) -> None:
    """Dropping frees the roles of one holder alone, ends their terms, and the next term is a greater one."""

    async def story(store: Store) -> tuple[RoleRow, RoleRow, list[str]]:
        first, other = await held(store, "n1"), await held(store, "n2", role="rescue")
        async with store.begin() as tx:
            await tx.drop("n1")
        with pytest.raises(LeaseLost):
            await keep(store, first.term)
        with pytest.raises(NotLeader):
            await act(store, first.term, "too-late")
        await act(store, other.term, "in-time", role="rescue")
        return first, await held(store, "n1"), await logged(store)

    first, second, said = engine.run(story)

    assert second.term > first.term
    assert said == ["in-time"]


def test_nobody_is_named_as_the_holder_of_a_free_role(engine: Engine) -> None:
    """Who acts in a role that was dropped is told that nobody holds it."""

    async def story(store: Store) -> str:
        row = await held(store, "n1")
        async with store.begin() as tx:
            await tx.drop("n1")
        with pytest.raises(NotLeader) as refused:
            await act(store, row.term, "too-late")
        return refused.value.holder

    assert engine.run(story) == "nobody"


def test_all_roles_can_be_dropped(engine: Engine) -> None:
    """Dropping without a holder frees every role."""

    async def story(store: Store) -> list[str]:
        await held(store, "n1")
        await held(store, "n2", role="rescue")
        async with store.begin() as tx:
            await tx.drop(None)
        return [row.holder for row in await roles(store)]

    assert engine.run(story) == ["", ""]


def test_nobody_acts_in_a_role_that_was_never_held(engine: Engine) -> None:
    """Acting in an unknown role is refused, and the whole transaction vanishes."""

    async def story(store: Store) -> tuple[str, list[str]]:
        with pytest.raises(NotLeader) as refused:
            await act(store, 0, "said", role="none")
        return refused.value.holder, await logged(store)

    assert engine.run(story) == ("nobody", [])


def test_a_future_term_is_no_term(engine: Engine) -> None:
    """A term that nobody has been given yet is refused like an old one."""

    async def story(store: Store) -> list[str]:
        row = await held(store, "n1")
        with pytest.raises(NotLeader):
            await act(store, row.term + 1, "said")
        return await logged(store)

    assert engine.run(story) == []


def test_terms_grow_over_reopening(engine: Engine) -> None:
    """A term is never given twice, whoever closed and opened the store in between."""

    async def story(store: Store) -> int:
        async with store.begin() as tx:
            await tx.drop(None)
        return (await held(store, "n1")).term

    terms = [engine.run(story) for _ in range(3)]

    assert terms == sorted(set(terms))


@pytest.mark.parametrize("seed", range(4))
def test_any_sequence_of_verbs_gives_each_term_once(engine: Engine, seed: int) -> None:
    """However roles are taken, kept, dropped and taken over, terms of one role only grow."""
    rng = Random(seed)
    given: list[int] = []

    async def step(tx: Tx) -> None:
        [row] = await tx.roles() or [None]
        match rng.randrange(4):
            case 0 | 1:
                over = row if rng.random() < 0.5 else None
                taken = await tx.hold("fill", rng.choice(("n1", "n2")), 15.0, over)
                assert (taken is not None) == (row is None or not row.holder or over is not None)
                given.extend([taken.term] if taken else [])
            case 2 if row and row.holder:
                await tx.keep("fill", row.term)
            case _:
                await tx.drop(rng.choice(("n1", "n2", None)))

    async def story(store: Store) -> None:
        for _ in range(60):
            async with store.begin() as tx:
                await step(tx)

    engine.run(story)

    assert given == sorted(set(given))
    assert len(given) > 5
