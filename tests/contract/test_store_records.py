"""Records are written, selected and deleted by kind, id and index; links lead from children to parents and back."""

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from contract.engines import Engine
from ringrift.kernel.errors import Damaged
from ringrift.kernel.value import Value
from ringrift.store.ports import Put, Store
from ringrift.store.records import Records


def record(id: str, body: bytes = b"x", kind: str = "k", **index: str) -> Put:
    """A record to be written."""
    return Put(kind=kind, id=id, body=body, index=index)


async def put(store: Store, *records: Put) -> None:
    """Write *records*."""
    async with store.begin() as tx:
        await tx.put(records)


async def find(store: Store, field: str, *values: str, kind: str = "k", limit: int = 10) -> list[str]:
    """The ids that the query selects."""
    async with store.read() as view:
        return list(await view.find(kind, field, values, limit))


def test_a_record_is_what_was_put_last(engine: Engine) -> None:
    """A put replaces the record of the same kind and id, and changes no other kind; absent ones are left out."""

    async def story(store: Store) -> tuple[dict[str, bytes], dict[str, bytes]]:
        await put(store, record("a", b"1"), record("b", b"2"), record("a", b"other", kind="l"))
        await put(store, record("a", b"3"))
        async with store.read() as view:
            return dict(await view.get("k", ["b", "a", "none"])), dict(await view.get("l", ["a", "b"]))

    assert engine.run(story) == ({"a": b"3", "b": b"2"}, {"a": b"other"})


def test_records_outlive_the_store_object(engine: Engine) -> None:
    """A record is there after reopening, with its index, whatever its bytes."""
    body = bytes(range(256))

    async def first(store: Store) -> None:
        await put(store, record("ü'\"; DROP TABLE records", body, node="n\x00'1"))

    async def second(store: Store) -> Mapping[str, bytes]:
        async with store.read() as view:
            return await view.find("k", "node", ["n\x00'1"], 9)

    engine.run(first)

    assert engine.run(second) == {"ü'\"; DROP TABLE records": body}


def test_records_are_selected_by_every_index_field(engine: Engine) -> None:
    """A record is selected by each of its fields, by any of several values, once, sorted by id and up to a limit."""

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
    """After a put with another index the record is selected by that and by none of its earlier fields."""

    async def story(store: Store) -> list[list[str]]:
        await put(store, record("a", blob="x", node="n1"))
        await put(store, record("a", blob="y"))
        return [await find(store, "blob", "x"), await find(store, "node", "n1"), await find(store, "blob", "y")]

    assert engine.run(story) == [[], [], ["a"]]


def test_a_put_without_an_index_clears_the_index(engine: Engine) -> None:
    """A record that was put without index fields is not selected by its earlier ones."""

    async def story(store: Store) -> list[str]:
        await put(store, record("a", blob="x"))
        await put(store, record("a"))
        return await find(store, "blob", "x")

    assert engine.run(story) == []


def test_a_deleted_record_is_gone_with_its_index(engine: Engine) -> None:
    """Deleting removes the record and its index, leaves others alone, and is no error for an absent record."""

    async def story(store: Store) -> tuple[list[str], list[str]]:
        await put(store, record("a", blob="x"), record("b", blob="x"), record("a", kind="l", blob="x"))
        async with store.begin() as tx:
            await tx.delete("k", ["a", "none"])
            left = list(await tx.scan("k", "", 9))
        await put(store, record("a"))
        return left, await find(store, "blob", "x")

    assert engine.run(story) == (["b"], ["b"])


def test_a_scan_continues_where_it_stopped(engine: Engine) -> None:
    """Scanning in steps returns every record of its kind once, by id."""
    ids = [f"{number:02}" for number in range(7)]

    async def story(store: Store) -> list[str]:
        await put(store, *(record(id) for id in reversed(ids)), record("other", kind="l"))
        scanned: list[str] = []
        async with store.read() as view:
            while result := await view.scan("k", scanned[-1] if scanned else "", 3):
                scanned += result
        return scanned

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
def test_a_walk_visits_the_nearest_first(
    engine: Engine, roots: list[str], up: bool, limit: int, expected: list[set[str]]
) -> None:
    """Ancestors and descendants come once each, those with fewer steps first, up to a limit."""

    async def story(store: Store) -> list[str]:
        async with store.begin() as tx:
            await tx.link(FAMILY)
            await tx.link(FAMILY[:2])
        async with store.read() as view:
            return list(await view.walk(roots, up, limit))

    result = engine.run(story)

    for near in expected:
        assert set(result[: len(near)]) == near
        del result[: len(near)]
    assert result == []


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


def test_a_walk_has_no_other_limit_than_its_argument(engine: Engine) -> None:
    """A lineage of two hundred generations is walked to its end."""
    chain = [(f"m{number + 1:03}", f"m{number:03}") for number in range(200)]

    async def story(store: Store) -> Sequence[str]:
        async with store.begin() as tx:
            await tx.link(chain)
            return await tx.walk(["m200"], True, 1000)

    assert engine.run(story) == [parent for _, parent in reversed(chain)]


class Player(Value):
    """A value that is stored as a record."""

    name: str
    team: str
    score: int = 0

    @property
    def place(self) -> int:
        return -self.score


PLAYERS = Records("player", Player, id="name", index=("team",), order=("place",), limit=3)
SCORES = Records("score", int)


def test_typed_records_are_what_was_put_last(engine: Engine) -> None:
    """Values come back under their ids; absent ones are left out, deleted ones are gone."""
    ann, bob = Player(name="ann", team="x", score=1), Player(name="bob", team="y")

    async def story(store: Store) -> tuple[Player | None, dict[str, Player], Player | None]:
        async with store.begin() as tx:
            await PLAYERS.put(tx, [ann, bob])
            await PLAYERS.put(tx, [msgspec.structs.replace(ann, score=2)])
        async with store.begin() as tx:
            await PLAYERS.delete(tx, ["bob", "none"])
        async with store.read() as view:
            by_id = await PLAYERS.get_many(view, ["ann", "bob", "none"])
            return await PLAYERS.get(view, "ann"), by_id, await PLAYERS.get(view, "bob")

    latest = msgspec.structs.replace(ann, score=2)
    assert engine.run(story) == (latest, {"ann": latest}, None)


def test_typed_records_are_listed_by_id_and_selected_by_index(engine: Engine) -> None:
    """A scan continues after an id and has a limit; an index follows the value that was put last."""
    players = [Player(name=name, team="x" if name < "c" else "y", score=ord(name)) for name in "abcde"]

    async def story(store: Store) -> dict[str, list[str]]:
        async with store.begin() as tx:
            await PLAYERS.put(tx, players)
            await PLAYERS.put(tx, [Player(name="a", team="y", score=500)])
        async with store.read() as view:
            return {
                "scan": [*await PLAYERS.scan(view)],
                "after": [*await PLAYERS.scan(view, "b")],
                "limit": [*await PLAYERS.scan(view, limit=1)],
                "find": [*await PLAYERS.find(view, "team", "x", "none")],
                "find limited": [*await PLAYERS.find(view, "team", "x", "y")],
                "all": [player.name for player in await PLAYERS.all(view)],
                "all found": [player.name for player in await PLAYERS.all(view, "team", "y")],
            }

    assert engine.run(story) == {
        "scan": ["a", "b", "c"],
        "after": ["c", "d", "e"],
        "limit": ["a"],
        "find": ["b"],
        "find limited": ["a", "b", "c"],
        "all": ["a", "c", "b"],
        "all found": ["a", "d", "c"],
    }


def test_typed_records_without_an_id_are_put_at_one(engine: Engine) -> None:
    """Any value can be stored under an explicit id, with its own index; without an id ``put`` raises an error."""

    async def story(store: Store) -> tuple[dict[str, int], list[int]]:
        async with store.begin() as tx:
            await SCORES.put_at(tx, {"b": 2, "a": 1}, {"round": "1"})
            await SCORES.put_at(tx, {"c": 3})
            with pytest.raises(AssertionError, match="put_at"):
                await SCORES.put(tx, [4])
        async with store.read() as view:
            return await SCORES.find(view, "round", "1"), await SCORES.all(view)

    assert engine.run(story) == ({"a": 1, "b": 2}, [1, 2, 3])


def test_a_typed_record_of_another_shape_is_an_error(engine: Engine) -> None:
    """A body that is not of the type is not returned as if it were."""

    async def story(store: Store) -> None:
        await put(store, record("a", b'{"name": 7}', kind="player"))
        async with store.read() as view:
            with pytest.raises(Damaged):
                await PLAYERS.get(view, "a")

    engine.run(story)


class _Decided(Value):
    model: str
    promoted: bool


@pytest.mark.parametrize("place", ["value", "checksum", "sign"])
def test_a_flipped_bit_is_noticed(engine: Engine, place: str) -> None:
    """A checked record is not read if a bit of it differs, be it in its value, its checksum or the sign between."""
    checked = Records("decided", _Decided, id="model", checked=True)

    async def story(store: Store) -> list[str]:
        async with store.begin() as tx:
            await checked.put(tx, [_Decided(model="m1", promoted=True), _Decided(model="m2", promoted=True)])
        async with store.read() as view:
            assert [value.model for value in await checked.all(view)] == ["m1", "m2"]
            body = bytearray((await view.get("decided", ["m1"]))["m1"])
        body[{"value": body.index(b"1"), "checksum": -1, "sign": body.index(b"#")}[place]] ^= 0x02
        await put(store, record("m1", bytes(body), kind="decided"))
        async with store.read() as view:
            with pytest.raises(Damaged) as error:
                await checked.all(view)
            assert (error.value.kind, error.value.id) == ("decided", "m1")
            assert await checked.get(view, "m2") == _Decided(model="m2", promoted=True)
            return [damage.id for damage in await checked.find_damaged(view)]

    assert engine.run(story) == ["m1"]


def test_a_record_from_before_checksums_is_accepted(engine: Engine) -> None:
    """And one that is no JSON at all is a typed error, also where no checksums are."""
    checked, plain = Records("decided", _Decided, checked=True), Records("plain", _Decided)

    async def story(store: Store) -> tuple[_Decided | None, list[str]]:
        await put(store, record("m1", b'{"model":"m1","promoted":false}', kind="decided"))
        await put(store, record("p", b'{"model":"\xff', kind="plain"))
        async with store.read() as view:
            return await checked.get(view, "m1"), [damage.id for damage in await plain.find_damaged(view)]

    assert engine.run(story) == (_Decided(model="m1", promoted=False), ["p"])
