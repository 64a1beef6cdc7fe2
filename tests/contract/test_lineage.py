"""Origins say how blobs were made, for ever; with links they answer what a blob rests on and what came of a node."""

import time
from collections.abc import Sequence
from typing import Any

import apsw
import pytest

from contract.engines import Engine
from ringrift.pipeline import lineage
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.records import save
from ringrift.store.ports import Origin, Share, Store
from ringrift.store.sqlite.connect import MIGRATIONS

FOR_EVER = 1e12
ANSWER_SECONDS_MAX = 1.0


def origin(blob: str, node: str = "n", kind: str = "games", **changes: Any) -> Origin:
    """How *blob* was made."""
    return Origin(**{"blob": blob, "node": node, "kind": kind, "variant": "hex8_2p", "games": 10} | changes)


async def write(store: Store, origins: Sequence[Origin], links: Sequence[tuple[str, str]] = ()) -> None:
    """Write both in one transaction."""
    async with store.begin() as tx:
        await tx.originate(origins)
        await tx.link(links)


def test_an_origin_outlives_the_store_object(engine: Engine) -> None:
    """Every field is there after reopening; blobs that nobody made are left out."""
    whole = Origin(
        blob="m1", node="ü'n", kind="model", variant="hex8_2p", time=7.25, games=3, job="j", job_kind="train",
        key="train:hex8_2p:9", seed=2**63 - 1, generation=4, model="m0", samples="s1", workload="fake", version="1",
        release="0.1.0", settings="abc",
    )  # fmt: skip

    async def first(store: Store) -> None:
        await write(store, [whole, origin("b1")])

    async def second(store: Store) -> Sequence[Origin]:
        async with store.read() as view:
            return await view.origins(["m1", "m0", "none", "b1", "m1"])

    engine.run(first)

    assert engine.run(second) == [whole, origin("b1")]


def test_what_was_first_said_of_a_blob_stands(engine: Engine) -> None:
    """The same node saying it again changes nothing; another node that made the same bytes has an origin of its own."""

    async def story(store: Store) -> Sequence[Origin]:
        await write(store, [origin("b1", seed=1)])
        await write(store, [origin("b1", seed=2), origin("b1", "other", seed=3)])
        async with store.read() as view:
            return await view.origins(["b1"])

    assert [(one.node, one.seed) for one in engine.run(story)] == [("n", 1), ("other", 3)]


def test_any_name_has_one_number(engine: Engine) -> None:
    """Whatever signs a name has, it is the same one when it comes again."""
    odd = ["ü", "a\x00b", "'; DROP TABLE names; --", "", " ", "a" * 1000]

    async def story(store: Store) -> tuple[Sequence[Origin], Sequence[str]]:
        for _ in range(2):
            await write(store, [origin(name) for name in odd], [(name, "m") for name in odd])
        async with store.read() as view:
            return await view.origins(odd), await view.walk(["m"], False, 99)

    made, children = engine.run(story)

    assert [one.blob for one in made] == odd
    assert sorted(children) == sorted(odd)


def test_origins_go_with_their_transaction(engine: Engine) -> None:
    """A body that fails leaves neither origins nor links, and their numbers can be given again."""

    async def fail(store: Store) -> None:
        async with store.begin() as tx:
            await tx.originate([origin("b1"), origin("b2")])
            await tx.link([("b1", "m0")])
            raise RuntimeError

    async def story(store: Store) -> tuple[Sequence[Origin], Sequence[str]]:
        with pytest.raises(RuntimeError):
            await fail(store)
        await write(store, [origin("b2")], [("b2", "m1")])
        async with store.read() as view:
            return await view.origins(["b1", "b2"]), await view.walk(["b1", "b2"], True, 9)

    assert engine.run(story) == ([origin("b2")], ["m1"])


def test_the_newest_of_a_kind_come_first(engine: Engine) -> None:
    """Origins of one kind, of one variant or of all, up to a limit."""

    async def story(store: Store) -> list[list[str]]:
        made = [origin(f"m{at}", kind="model", time=at) for at in (2.0, 3.0, 1.0)]
        await write(store, [*made, origin("q", kind="model", time=4.0, variant="square8_2p"), origin("b")])
        async with store.read() as view:
            found = [
                await view.made("model", 9),
                await view.made("model", 2),
                await view.made("model", 9, variant="hex8_2p"),
                await view.made("samples", 9),
            ]
        return [[one.blob for one in some] for some in found]

    assert engine.run(story) == [["q", "m3.0", "m2.0", "m1.0"], ["q", "m3.0"], ["m3.0", "m2.0", "m1.0"], []]


def test_blobs_are_found_by_how_they_begin(engine: Engine) -> None:
    """Only those of the kind, by name; signs that mean something elsewhere mean nothing here."""

    async def story(store: Store) -> list[list[str]]:
        models = [origin(blob, kind="model") for blob in ("abd", "abc", "ab", "b", "a%")]
        await write(store, [*models, origin("abe")])
        async with store.read() as view:
            return [
                [one.blob for one in await view.made("model", limit, prefix=prefix)]
                for prefix, limit in (("ab", 9), ("ab", 2), ("abc", 9), ("%", 9), ("a%", 9), ("c", 9))
            ]

    assert engine.run(story) == [["ab", "abc", "abd"], ["ab", "abc"], ["abc"], [], ["a%"], []]


def test_makers_are_named_once(engine: Engine) -> None:
    """Every node with an origin, by name, up to a limit; in an empty store nobody."""

    async def story(store: Store) -> list[Sequence[str]]:
        async with store.read() as view:
            nobody = await view.makers(9)
        await write(store, [origin(f"b{number}", f"n{number % 3}") for number in range(9)])
        async with store.read() as view:
            return [nobody, await view.makers(9), await view.makers(2)]

    assert engine.run(story) == [[], ["n0", "n1", "n2"], ["n0", "n1"]]


# Two windows that overlap in b2, a model from each, and b4 that nobody has used.
MADE = [
    origin("b1", "x", time=1.0, games=1), origin("b2", "x", time=2.0, games=2), origin("b3", "y", time=3.0, games=4),
    origin("b4", "x", time=4.0, games=8), origin("c1", "x", time=2.0, games=16, variant="square8_2p"),
    origin("s1", "y", "samples", games=3), origin("s2", "x", "samples", games=6), origin("m0", "x", "model"),
    origin("m1", "x", "model", model="m0", samples="s1"), origin("m2", "y", "model", model="m1", samples="s2"),
]  # fmt: skip
LINKS = [
    ("b1", "m0"), ("b2", "m0"), ("b3", "m1"), ("b4", "m2"), ("s1", "b1"), ("s1", "b2"), ("s2", "b2"), ("s2", "b3"),
    ("s2", "c1"), ("m1", "s1"), ("m1", "m0"), ("m2", "s2"), ("m2", "m1"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("roots", "up", "kinds", "found"),
    [
        (["m2"], True, ("model",), ["m1", "m0"]),
        (["s2"], True, ("games",), ["b2", "b3", "c1"]),
        (["m2"], True, ("samples", "games"), ["s2", "b2", "b3", "c1"]),
        (["m0"], False, ("model",), ["m1", "m2"]),
        (["b2"], False, ("samples",), ["s1", "s2"]),
        (["m2"], True, ("report",), []),
        (["m2"], True, (), ["m1", "s2", "b2", "b3", "c1", "m0", "s1", "b1", "stranger"]),
    ],
)
def test_a_walk_steps_only_on_the_kinds_it_was_given(
    engine: Engine, roots: list[str], up: bool, kinds: tuple[str, ...], found: list[str]
) -> None:
    """Blobs of other kinds, and those without an origin, are neither answered nor walked through."""

    async def story(store: Store) -> Sequence[str]:
        await write(store, MADE, [*LINKS, ("m2", "stranger"), ("s2", "stranger")])
        async with store.read() as view:
            return await view.walk(roots, up, 99, kinds)

    assert sorted(engine.run(story)) == sorted(found)


def test_what_went_in_is_counted_once(engine: Engine) -> None:
    """By node, batches and games of one or several samples; a batch in two windows counts once."""

    async def story(store: Store) -> list[Sequence[Share]]:
        await write(store, MADE, LINKS)
        async with store.read() as view:
            return [
                await view.makers_of("games", ["s1"]),
                await view.makers_of("games", ["s1", "s2", "none"]),
                await view.makers_of("games", []),
                await view.makers_of("model", ["m2"]),
            ]

    one, both, none, models = engine.run(story)

    assert one == [Share(name="x", blobs=2, games=3)]
    assert both == [Share(name="x", blobs=3, games=19), Share(name="y", blobs=1, games=4)]
    assert none == []
    assert models == [Share(name="x", blobs=1, games=10)]


@pytest.mark.parametrize(
    ("since", "until", "variant", "played", "found"),
    [
        (0.0, FOR_EVER, None, (4, 27), [("s2", 2, 18), ("s1", 2, 3)]),
        (0.0, FOR_EVER, "hex8_2p", (3, 11), [("s2", 1, 2), ("s1", 2, 3)]),
        (0.0, FOR_EVER, "square8_2p", (1, 16), [("s2", 1, 16)]),
        (2.0, FOR_EVER, "hex8_2p", (2, 10), [("s2", 1, 2), ("s1", 1, 2)]),
        (0.0, 2.0, None, (1, 1), [("s1", 1, 1)]),
        (3.0, FOR_EVER, None, (1, 8), []),
        (5.0, FOR_EVER, None, (0, 0), []),
    ],
)
def test_what_came_of_a_node_is_found(
    engine: Engine, since: float, until: float, variant: str | None, played: tuple[int, int], found: list[Any]
) -> None:
    """What rests directly on the node's games of a time, newest first, with how many; and how many it made at all."""

    async def story(store: Store) -> tuple[Share, Sequence[Share], Sequence[Share]]:
        await write(store, MADE, LINKS)
        async with store.read() as view:
            every = await view.made_from("games", "x", since, until, 9, variant=variant)
            first = await view.made_from("games", "x", since, until, 1, variant=variant)
            return await view.made_by("games", "x", since, until, variant=variant), every, first

    made, every, first = engine.run(story)

    assert (made.name, made.blobs, made.games) == ("x", *played)
    assert [(share.name, share.blobs, share.games) for share in every] == found
    assert list(first) == list(every[:1])


def test_links_of_an_older_store_lead_where_they_led(on_file: Engine) -> None:
    """A store that knows links by name alone is brought up to date, and walks the same ways."""
    on_file.path.parent.mkdir()
    db = apsw.Connection(str(on_file.path))
    for _, script in MIGRATIONS[:2]:
        db.execute(script)
    db.pragma("user_version", 2)
    db.executemany("INSERT INTO links VALUES (?, ?)", LINKS)
    db.close()

    async def story(store: Store) -> tuple[set[str], set[str], Sequence[Origin]]:
        async with store.begin() as tx:
            await tx.link([("m3", "m2"), ("m1", "m0")])
        async with store.read() as view:
            up, down = await view.walk(["m3"], True, 99), await view.walk(["b1"], False, 99)
            return set(up), set(down), await view.origins(["m1"])

    up, down, none = on_file.run(story)

    assert up == {"m2", "m1", "m0", "s1", "s2", "b1", "b2", "b3", "c1"}
    assert down == {"s1", "m1", "m2", "m3", "b3", "b4", "s2"}
    assert none == []


BATCHES, SAMPLES, WINDOW = 20_000, 200, 250
STEP = BATCHES // SAMPLES


def many() -> tuple[list[Origin], list[tuple[str, str]]]:
    """A million games in overlapping windows, with a chain of models; every tenth batch is of the node x."""
    made, links = [origin("m0", kind="model", generation=0)], list[tuple[str, str]]()
    for number in range(1, SAMPLES + 1):
        parent, fresh = f"m{number - 1}", range((number - 1) * STEP, number * STEP)
        made += [origin(f"b{at}", "y" if at % 10 else "x", games=50, time=at, model=parent) for at in fresh]
        made.append(origin(f"s{number}", kind="samples", time=fresh[-1]))
        made.append(origin(f"m{number}", kind="model", time=fresh[-1], generation=number, model=parent,
                           samples=f"s{number}"))  # fmt: skip
        links += [(f"b{at}", parent) for at in fresh]
        links += [(f"s{number}", f"b{at}") for at in range(max(fresh[-1] + 1 - WINDOW, 0), fresh[-1] + 1)]
        links += [(f"m{number}", f"s{number}"), (f"m{number}", parent)]
    return made, links


def test_a_million_games_are_answered_for_in_time(on_file: Engine) -> None:
    """Both questions take less than a second each and agree with what can be counted."""

    async def story(store: Store) -> tuple[lineage.Lineage, lineage.Blast, float, float]:
        await write(store, *many())
        line = Line(variant="hex8_2p", workload="fake", players=2, stage=Stage.COLLECTING, champion=f"m{SAMPLES}",
                    generation=SAMPLES)  # fmt: skip
        async with store.begin() as tx:
            await save(tx, line)
        async with store.read() as view:
            began = time.perf_counter()
            rests = await lineage.lineage(view, await lineage.find_model(view, "hex8_2p"))
            between = time.perf_counter()
            reached = await lineage.blast(view, "x", BATCHES / 2, FOR_EVER)
            return rests, reached, between - began, time.perf_counter() - between

    rests, reached, first, second = on_file.run(story)

    assert [one.generation for one in rests.parents] == list(range(SAMPLES - 1, -1, -1))
    assert rests.behind == (Share(name="x", blobs=BATCHES // 10, games=5 * BATCHES),
                            Share(name="y", blobs=BATCHES // 10 * 9, games=45 * BATCHES))  # fmt: skip
    assert [(group.node, group.games) for group in rests.groups] == [
        ("y", 90 * 50), ("y", 90 * 50), ("y", 45 * 50), ("x", 500), ("x", 500), ("x", 250)
    ]  # fmt: skip
    assert [one.origin.blob for one in reached.models] == [f"m{at}" for at in range(SAMPLES, SAMPLES // 2, -1)]
    assert all(one.directly for one in reached.models)
    assert reached.models[0].champion
    assert (first < ANSWER_SECONDS_MAX, second < ANSWER_SECONDS_MAX) == (True, True), (first, second)
