"""Origins record how each blob was made; with links they show what a blob rests on and what a node has reached."""

import time
from collections.abc import Sequence
from typing import Any

import pytest

from contract.engines import Engine
from ringrift.pipeline import lineage
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.models import resolve
from ringrift.pipeline.records import save_line
from ringrift.store.ports import Origin, Share, Store

FOR_EVER = 1e12
ANSWER_SECONDS_MAX = 1.0


def origin(blob: str, node: str = "n", kind: str = "games", **changes: Any) -> Origin:
    """How *blob* was made."""
    return Origin(**{"blob": blob, "node": node, "kind": kind, "variant": "hex8_2p", "games": 10} | changes)


async def write(store: Store, origins: Sequence[Origin], links: Sequence[tuple[str, str]] = ()) -> None:
    """Write both in one transaction."""
    async with store.begin() as tx:
        await tx.put_origins(origins)
        await tx.link(links)


def test_an_origin_outlives_the_store_object(engine: Engine) -> None:
    """Every field is there after reopening; blobs without an origin are left out."""
    whole = Origin(
        blob="m1",
        node="ü'n",
        kind="model",
        variant="hex8_2p",
        time=7.25,
        games=3,
        job="j",
        job_kind="train",
        key="train:hex8_2p:9",
        seed=2**63 - 1,
        generation=4,
        model="m0",
        samples="s1",
        workload="fake",
        version="1",
        release="0.1.0",
        settings="abc",
    )

    async def first(store: Store) -> None:
        await write(store, [whole, origin("b1")])

    async def second(store: Store) -> Sequence[Origin]:
        async with store.read() as view:
            return await view.origins(["m1", "m0", "none", "b1", "m1"])

    engine.run(first)

    assert engine.run(second) == [whole, origin("b1")]


def test_the_first_origin_of_a_blob_stays(engine: Engine) -> None:
    """Writing it again from the same node changes nothing; another node that made the same bytes has its own origin."""

    async def story(store: Store) -> Sequence[Origin]:
        await write(store, [origin("b1", seed=1)])
        await write(store, [origin("b1", seed=2), origin("b1", "other", seed=3)])
        async with store.read() as view:
            return await view.origins(["b1"])

    assert [(origin.node, origin.seed) for origin in engine.run(story)] == [("n", 1), ("other", 3)]


def test_any_name_has_one_number(engine: Engine) -> None:
    """A name with any characters has the same number each time."""
    odd = ["ü", "a\x00b", "'; DROP TABLE names; --", "", " ", "a" * 1000]

    async def story(store: Store) -> tuple[Sequence[Origin], Sequence[str]]:
        for _ in range(2):
            await write(store, [origin(name) for name in odd], [(name, "m") for name in odd])
        async with store.read() as view:
            return await view.origins(odd), await view.walk(["m"], False, 99)

    made, children = engine.run(story)

    assert [origin.blob for origin in made] == odd
    assert sorted(children) == sorted(odd)


def test_origins_go_with_their_transaction(engine: Engine) -> None:
    """A body that fails leaves neither origins nor links, and their numbers can be used again."""

    async def fail(store: Store) -> None:
        async with store.begin() as tx:
            await tx.put_origins([origin("b1"), origin("b2")])
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
            actual = [
                await view.list_origins("model", 9),
                await view.list_origins("model", 2),
                await view.list_origins("model", 9, variant="hex8_2p"),
                await view.list_origins("samples", 9),
            ]
        return [[envelope.blob for envelope in some] for some in actual]

    assert engine.run(story) == [["q", "m3.0", "m2.0", "m1.0"], ["q", "m3.0"], ["m3.0", "m2.0", "m1.0"], []]


def test_blobs_are_selected_by_prefix(engine: Engine) -> None:
    """Only blobs of the kind, by name; wildcard characters have no special meaning."""

    async def story(store: Store) -> list[list[str]]:
        models = [origin(blob, kind="model") for blob in ("abd", "abc", "ab", "b", "a%")]
        await write(store, [*models, origin("abe")])
        async with store.read() as view:
            return [
                [origin.blob for origin in await view.list_origins("model", limit, prefix=prefix)]
                for prefix, limit in (("ab", 9), ("ab", 2), ("abc", 9), ("%", 9), ("a%", 9), ("c", 9))
            ]

    assert engine.run(story) == [["ab", "abc", "abd"], ["ab", "abc"], ["abc"], [], ["a%"], []]


def test_nodes_with_origins_are_listed_once(engine: Engine) -> None:
    """Every node with an origin, by name, up to a limit; an empty store has none."""

    async def story(store: Store) -> list[Sequence[str]]:
        async with store.read() as view:
            empty = await view.origin_nodes(9)
        await write(store, [origin(f"b{number}", f"n{number % 3}") for number in range(9)])
        async with store.read() as view:
            return [empty, await view.origin_nodes(9), await view.origin_nodes(2)]

    assert engine.run(story) == [[], ["n0", "n1", "n2"], ["n0", "n1"]]


# Two windows that overlap in b2, a model from each, and b4 that no window uses.
MADE = [
    origin("b1", "x", time=1.0, games=1),
    origin("b2", "x", time=2.0, games=2),
    origin("b3", "y", time=3.0, games=4),
    origin("b4", "x", time=4.0, games=8),
    origin("c1", "x", time=2.0, games=16, variant="square8_2p"),
    origin("s1", "y", "samples", games=3),
    origin("s2", "x", "samples", games=6),
    origin("m0", "x", "model"),
    origin("m1", "x", "model", model="m0", samples="s1"),
    origin("m2", "y", "model", model="m1", samples="s2"),
]
LINKS = [
    ("b1", "m0"),
    ("b2", "m0"),
    ("b3", "m1"),
    ("b4", "m2"),
    ("s1", "b1"),
    ("s1", "b2"),
    ("s2", "b2"),
    ("s2", "b3"),
    ("s2", "c1"),
    ("m1", "s1"),
    ("m1", "m0"),
    ("m2", "s2"),
    ("m2", "m1"),
]


@pytest.mark.parametrize(
    ("roots", "up", "kinds", "actual"),
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
def test_a_walk_visits_only_the_requested_kinds(
    engine: Engine, roots: list[str], up: bool, kinds: tuple[str, ...], actual: list[str]
) -> None:
    """Blobs of other kinds, and those without an origin, are neither returned nor walked through."""

    async def story(store: Store) -> Sequence[str]:
        await write(store, MADE, [*LINKS, ("m2", "stranger"), ("s2", "stranger")])
        async with store.read() as view:
            return await view.walk(roots, up, 99, kinds)

    assert sorted(engine.run(story)) == sorted(actual)


def test_inputs_are_counted_once(engine: Engine) -> None:
    """By node, batches and games of one or several samples; a batch in two windows counts once."""

    async def story(store: Store) -> list[Sequence[Share]]:
        await write(store, MADE, LINKS)
        async with store.read() as view:
            return [
                await view.shares_by_node("games", ["s1"]),
                await view.shares_by_node("games", ["s1", "s2", "none"]),
                await view.shares_by_node("games", []),
                await view.shares_by_node("model", ["m2"]),
            ]

    single, both, none, models = engine.run(story)

    assert single == [Share(name="x", blobs=2, games=3)]
    assert both == [Share(name="x", blobs=3, games=19), Share(name="y", blobs=1, games=4)]
    assert none == []
    assert models == [Share(name="x", blobs=1, games=10)]


@pytest.mark.parametrize(
    ("since", "until", "variant", "played", "actual"),
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
def test_results_that_rest_on_a_node_are_listed(
    engine: Engine, since: float, until: float, variant: str | None, played: tuple[int, int], actual: list[Any]
) -> None:
    """The blobs that rest directly on the node's games of a period, newest first, with their games, and its total."""

    async def story(store: Store) -> tuple[Share, Sequence[Share], Sequence[Share]]:
        await write(store, MADE, LINKS)
        async with store.read() as view:
            every = await view.shares_made_from("games", "x", since, until, 9, variant=variant)
            first = await view.shares_made_from("games", "x", since, until, 1, variant=variant)
            return await view.share_of_node("games", "x", since, until, variant=variant), every, first

    made, every, first = engine.run(story)

    assert (made.name, made.blobs, made.games) == ("x", *played)
    assert [(share.name, share.blobs, share.games) for share in every] == actual
    assert list(first) == list(every[:1])


BATCHES, SAMPLES, WINDOW = 20_000, 200, 250
STEP = BATCHES // SAMPLES


def many() -> tuple[list[Origin], list[tuple[str, str]]]:
    """A million games in overlapping windows, with a chain of models; every tenth batch is of the node x."""
    made, links = [origin("m0", kind="model", generation=0)], list[tuple[str, str]]()
    for number in range(1, SAMPLES + 1):
        parent, fresh = f"m{number - 1}", range((number - 1) * STEP, number * STEP)
        made += [origin(f"b{at}", "y" if at % 10 else "x", games=50, time=at, model=parent) for at in fresh]
        made.append(origin(f"s{number}", kind="samples", time=fresh[-1]))
        made.append(
            origin(f"m{number}", kind="model", time=fresh[-1], generation=number, model=parent, samples=f"s{number}")
        )
        links += [(f"b{at}", parent) for at in fresh]
        links += [(f"s{number}", f"b{at}") for at in range(max(fresh[-1] + 1 - WINDOW, 0), fresh[-1] + 1)]
        links += [(f"m{number}", f"s{number}"), (f"m{number}", parent)]
    return made, links


def test_queries_over_a_million_games_answer_in_time(on_file: Engine) -> None:
    """Both queries take less than a second each and agree with a direct count."""

    async def story(store: Store) -> tuple[lineage.Lineage, lineage.Blast, float, float]:
        await write(store, *many())
        line = Line(
            variant="hex8_2p",
            workload="fake",
            players=2,
            stage=Stage.COLLECTING,
            champion=f"m{SAMPLES}",
            generation=SAMPLES,
        )
        async with store.begin() as tx:
            await save_line(tx, line)
        async with store.read() as view:
            began = time.perf_counter()
            rests = await lineage.lineage(view, (await resolve(view, "hex8_2p")).model)
            between = time.perf_counter()
            reached = await lineage.blast(view, "x", BATCHES / 2, FOR_EVER)
            return rests, reached, between - began, time.perf_counter() - between

    rests, reached, first, second = on_file.run(story)

    assert [model.generation for model in rests.parents] == list(range(SAMPLES - 1, -1, -1))
    assert rests.behind == (
        Share(name="x", blobs=BATCHES // 10, games=5 * BATCHES),
        Share(name="y", blobs=BATCHES // 10 * 9, games=45 * BATCHES),
    )
    assert [(group.node, group.games) for group in rests.groups] == [
        ("y", 90 * 50),
        ("y", 90 * 50),
        ("y", 45 * 50),
        ("x", 500),
        ("x", 500),
        ("x", 250),
    ]
    assert [model.origin.blob for model in reached.models] == [f"m{at}" for at in range(SAMPLES, SAMPLES // 2, -1)]
    assert all(model.directly for model in reached.models)
    assert reached.models[0].champion
    assert (first < ANSWER_SECONDS_MAX, second < ANSWER_SECONDS_MAX) == (True, True), (first, second)
