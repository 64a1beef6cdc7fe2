"""Records are written, found and forgotten by kind, id and index; links lead from children to parents and back."""

from collections.abc import Sequence

import pytest

from contract.engines import Engine
from ringrift.store.ports import Put, Record, Store


def record(id: str, body: bytes = b"x", kind: str = "k", **index: str) -> Put:
    """A record to be written."""
    return Put(kind=kind, id=id, body=body, index=index)


async def put(store: Store, *records: Put) -> None:
    """Write *records*."""
    async with store.begin() as tx:
        await tx.put(records)


async def find(store: Store, field: str, *values: str, kind: str = "k", limit: int = 10) -> list[str]:
    """The ids of what is found."""
    async with store.read() as view:
        return [found.id for found in await view.find(kind, field, values, limit)]


def test_a_record_is_what_was_put_last(engine: Engine) -> None:
    """A put replaces what was there under the same kind and id, and touches no other kind; absent ones are left out."""

    async def story(store: Store) -> tuple[dict[str, bytes], dict[str, bytes]]:
        await put(store, record("a", b"1"), record("b", b"2"), record("a", b"other", kind="l"))
        await put(store, record("a", b"3"))
        async with store.read() as view:
            return dict(await view.get("k", ["b", "a", "none"])), dict(await view.get("l", ["a", "b"]))

    assert engine.run(story) == ({"a": b"3", "b": b"2"}, {"a": b"other"})


def test_records_outlive_the_store_object(engine: Engine) -> None:
    """What was put is there after reopening, with its index, whatever bytes it has."""
    body = bytes(range(256))

    async def first(store: Store) -> None:
        await put(store, record("ü'\"; DROP TABLE records", body, node="n\x00'1"))

    async def second(store: Store) -> Sequence[Record]:
        async with store.read() as view:
            return await view.find("k", "node", ["n\x00'1"], 9)

    engine.run(first)

    assert engine.run(second) == [Record(kind="k", id="ü'\"; DROP TABLE records", body=body)]


def test_records_are_found_by_every_index_field(engine: Engine) -> None:
    """A record is found by each of its fields, by any of several values, once, sorted by id and up to a limit."""

    async def story(store: Store) -> list[list[str]]:
        await put(store, record("b", blob="x", node="n1"), record("a", blob="x", node="n2"), record("c", blob="y"))
        await put(store, record("d", kind="l", blob="x"))
        return [
            await find(store, "blob", "x"),
            await find(store, "blob", "y", "x", "none"),
            await find(store, "blob", "x", "y", limit=2),
            await find(store, "node", "n1"),
            await find(store, "node", "x"),
            await find(store, "blob"),
        ]

    assert engine.run(story) == [["a", "b"], ["a", "b", "c"], ["a", "b"], ["b"], [], []]


def test_a_put_replaces_the_index(engine: Engine) -> None:
    """After a put with another index the record is found by that and by nothing it had before."""

    async def story(store: Store) -> list[list[str]]:
        await put(store, record("a", blob="x", node="n1"))
        await put(store, record("a", blob="y"))
        return [await find(store, "blob", "x"), await find(store, "node", "n1"), await find(store, "blob", "y")]

    assert engine.run(story) == [[], [], ["a"]]


def test_a_put_without_an_index_is_found_by_none(engine: Engine) -> None:
    """A record that was put without index fields is not found by those it had before."""

    async def story(store: Store) -> list[str]:
        await put(store, record("a", blob="x"))
        await put(store, record("a"))
        return await find(store, "blob", "x")

    assert engine.run(story) == []


def test_a_deleted_record_is_gone_from_everywhere(engine: Engine) -> None:
    """Deleting forgets the record and its index, leaves others alone, and is no error for what is not there."""

    async def story(store: Store) -> tuple[list[str], list[str]]:
        await put(store, record("a", blob="x"), record("b", blob="x"), record("a", kind="l", blob="x"))
        async with store.begin() as tx:
            await tx.delete("k", ["a", "none"])
            left = [found.id for found in await tx.scan("k", "", 9)]
        await put(store, record("a"))
        return left, await find(store, "blob", "x")

    assert engine.run(story) == (["b"], ["b"])


def test_a_scan_goes_on_where_it_stopped(engine: Engine) -> None:
    """Scanning in steps sees every record of its kind once, by id."""
    ids = [f"{number:02}" for number in range(7)]

    async def story(store: Store) -> list[str]:
        await put(store, *(record(id) for id in reversed(ids)), record("other", kind="l"))
        seen: list[str] = []
        async with store.read() as view:
            while found := await view.scan("k", seen[-1] if seen else "", 3):
                seen += [one.id for one in found]
        return seen

    assert engine.run(story) == ids


FAMILY = [("g3", "g2"), ("g2", "g1"), ("g3", "b2"), ("g2", "b1"), ("b1", "g1"), ("s", "g1")]


@pytest.mark.parametrize(
    ("roots", "up", "limit", "expected"),
    [
        (["g3"], True, 10, [{"b2", "g2"}, {"b1", "g1"}]),
        (["g1"], False, 10, [{"b1", "g2", "s"}, {"g3"}]),
        (["g3", "s"], True, 10, [{"b2", "g1", "g2"}, {"b1"}]),
        (["g3"], True, 2, [{"b2", "g2"}]),
        (["g1"], True, 10, []),
        (["none"], False, 10, []),
        ([], True, 10, []),
    ],
)
def test_a_walk_goes_to_the_nearest_first(
    engine: Engine, roots: list[str], up: bool, limit: int, expected: list[set[str]]
) -> None:
    """Ancestors and descendants come once each, those with fewer steps first, up to a limit."""

    async def story(store: Store) -> list[str]:
        async with store.begin() as tx:
            await tx.link(FAMILY)
            await tx.link(FAMILY[:2])
        async with store.read() as view:
            return list(await view.walk(roots, up, limit))

    found = engine.run(story)

    for near in expected:
        assert set(found[: len(near)]) == near
        del found[: len(near)]
    assert found == []


def test_a_walk_in_a_circle_ends(engine: Engine) -> None:
    """Links that lead back to where they began are walked once."""

    async def story(store: Store) -> Sequence[str]:
        async with store.begin() as tx:
            await tx.link([("a", "b"), ("b", "c"), ("c", "a"), ("c", "c"), ("c", "d")])
            return await tx.walk(["x", "b"], True, 100)

    assert set(engine.run(story)) >= {"a", "c", "d"}


def test_a_walk_leaves_its_roots_out(engine: Engine) -> None:
    """Roots are not part of the answer, also when one comes from another or from itself."""

    async def story(store: Store) -> tuple[Sequence[str], Sequence[str]]:
        async with store.begin() as tx:
            await tx.link([("a", "b"), ("b", "c"), ("c", "a")])
            return await tx.walk(["a"], True, 100), await tx.walk(["a", "b"], True, 100)

    assert engine.run(story) == (["b", "c"], ["c"])


def test_a_walk_has_no_other_limit_than_the_one_it_was_given(engine: Engine) -> None:
    """A lineage of two hundred generations is walked to its end."""
    chain = [(f"m{number + 1:03}", f"m{number:03}") for number in range(200)]

    async def story(store: Store) -> Sequence[str]:
        async with store.begin() as tx:
            await tx.link(chain)
            return await tx.walk(["m200"], True, 1000)

    assert engine.run(story) == [parent for _, parent in reversed(chain)]
