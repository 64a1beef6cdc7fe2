"""The origin of a blob is recorded in full, and both lineage queries work from it, also with missing records."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ringrift import __version__
from ringrift.jobs import Export, Job, Play, Train
from ringrift.kernel.errors import InputError, InvalidId, UnknownName
from ringrift.pipeline import lineage
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.models import resolve
from ringrift.pipeline.records import save_line
from ringrift.store.ports import Origin, Reads, Share
from ringrift.work.limits import LineWork
from ringrift.workload.api import Artifact, JobResult, Kind, Scalar
from unit.work.world import World, play

V = "hex8_2p"
WORK = LineWork(workload="fake", params={"sims": 16, "device": "cpu"})


def ended(job: Job, kind: Kind, **meta: Scalar) -> Origin:
    """The origin of the one thing that *job* made."""
    result = JobResult(outputs=(Artifact(kind=kind, blob="out", size=1, meta=meta),))
    [made] = lineage.origins(job, replace(result, version="7"), "n", WORK)
    return made


def test_a_batch_records_its_origin() -> None:
    """Node, seed, model, games, workload, version, our release and the settings are all there."""
    job = Play(variant=V, seed=5, model="m0", games=30)

    made = ended(job, "games", games=28)

    assert made == Origin(
        blob="out",
        node="n",
        kind="games",
        variant=V,
        games=28,
        job_kind="play",
        key=job.key,
        seed=5,
        model="m0",
        workload="fake",
        version="7",
        release=__version__,
        settings=lineage._digest(WORK.params),
    )


@pytest.mark.parametrize(
    ("job", "kind", "meta", "expected"),
    [
        (Export(variant=V, batches=("b1",)), "samples", {"games": 9, "samples": 99}, ("export", 9, None, None, None)),
        (Export(variant=V, batches=("b1",)), "samples", {"games": "many"}, ("export", 0, None, None, None)),
        (Train(variant=V, generation=3, samples="s", parent="m2"), "model", {}, ("train", 0, "m2", "s", 3)),
        (Train(variant=V, generation=0), "model", {}, ("train", 0, None, None, 0)),
    ],
)
def test_inputs_are_recorded_by_role(job: Job, kind: Kind, meta: dict[str, Scalar], expected: tuple[Any, ...]) -> None:
    """A model names its parent and its samples; a count that is no number is none."""
    made = ended(job, kind, **meta)

    assert (made.job_kind, made.games, made.model, made.samples, made.generation) == expected


def test_the_digest_of_settings_ignores_order() -> None:
    """The same settings have the same digest in any order, others have another."""
    assert lineage._digest({"a": 1, "b": 2}) == lineage._digest({"b": 2, "a": 1})
    assert lineage._digest({"a": 1}) != lineage._digest({"a": 2})


def batch(blob: str, node: str, model: str, at: float, games: int = 10, version: str = "1") -> Origin:
    """A batch of games."""
    return Origin(blob=blob, node=node, kind="games", variant=V, time=at, games=games, model=model, version=version)


def test_batches_are_summed_by_node_model_and_code() -> None:
    """Those with the most games come first, with when the first and the last was played."""
    batches = [
        batch("b1", "x", "m0", 1.0),
        batch("b2", "x", "m0", 3.0),
        batch("b3", "x", "m0", 2.0, version="2"),
        batch("b4", "x", "m1", 4.0),
        batch("b5", "y", "m0", 5.0, games=40),
    ]

    actual = lineage._groups(batches)

    assert [(g.node, g.model, g.version, g.batches, g.games, g.first, g.last) for g in actual] == [
        ("y", "m0", "1", 1, 40, 5.0, 5.0),
        ("x", "m0", "1", 2, 20, 1.0, 3.0),
        ("x", "m0", "2", 1, 10, 2.0, 2.0),
        ("x", "m1", "1", 1, 10, 4.0, 4.0),
    ]


def model(blob: str, parent: str | None = None, samples: str | None = None, at: float = 0.0, **changes: Any) -> Origin:
    """A trained model."""
    usual = {"blob": blob, "node": "t", "kind": "model", "variant": V, "time": at, "model": parent, "samples": samples}
    return Origin(**usual | changes)


def test_games_spread_through_samples_and_through_parents() -> None:
    """Models trained on them differ from models that only descend from such a one; the nearest is named."""
    # m1 ─ m2* ─ m3 ─ m4* ─ m5, and m6 beside them from m1: the starred ones were trained on the games.
    models = [
        model("m6", "m1", "s6"),
        model("m5", "m4", "s5"),
        model("m4", "m3", "s4"),
        model("m3", "m2", "s3"),
        model("m2", "m1", "s2"),
        model("m1"),
    ]
    shares = {name: Share(name=name, blobs=blobs, games=10 * blobs) for name, blobs in (("s2", 2), ("s4", 4))}

    actual = lineage._spread(models, shares, {"m5"})

    assert [(row.origin.blob, row.directly, row.via, row.games, row.champion) for row in actual] == [
        ("m5", False, "m4", 40, True),
        ("m4", True, "s4", 40, False),
        ("m3", False, "m2", 20, False),
        ("m2", True, "s2", 20, False),
    ]


def test_a_cycle_of_models_does_not_hang() -> None:
    """An impossible record, two models that are each other's parent, still has an answer."""
    models = [model("m1", "m2", "s1"), model("m2", "m1")]

    actual = lineage._spread(models, {"s1": Share(name="s1", blobs=1, games=1)}, ())

    assert [(row.origin.blob, row.directly) for row in actual] == [("m1", True), ("m2", False)]


A, B, C = "aa" + "0" * 62, "ab" + "0" * 62, "c" * 64


def request(folder: Path, question: Callable[[Reads], Awaitable[None]], champion: str | None = B) -> None:
    """Ask a store with two models of one line, trained one from the other on games of the nodes x and y."""

    async def story(world: World) -> None:
        made = [
            model(A, generation=0),
            batch("b1", "x", A, 1.0),
            batch("b2", "y", A, 2.0),
            Origin(blob="s1", node="y", kind="samples", variant=V, time=3.0, games=20),
            model(B, A, "s1", 4.0, generation=1),
            model(B, A, "s1", 5.0, generation=1, node="again"),
            model(C, "imported", "old", 6.0, generation=5, variant="square8_2p"),
        ]
        links = [("b1", A), ("b2", A), ("s1", "b1"), ("s1", "b2"), (B, "s1"), (B, A), (C, "imported"), (C, "old")]
        line = Line(
            variant=V,
            workload="fake",
            players=2,
            champion=champion,
            generation=1 if champion else -1,
            stage=Stage.COLLECTING if champion else Stage.STARTING,
        )
        await world.beat("idle")
        async with world.store.begin() as tx:
            await tx.put_origins(made)
            await tx.link(links)
            await save_line(tx, line)
        async with world.store.read() as view:
            await question(view)

    play(folder, story)


def test_a_lineage_lists_all_ancestors_of_a_model(tmp_path: Path) -> None:
    """Its samples, batches, parents and nodes, that it is the champion, and that another node made it again."""

    async def question(view: Reads) -> None:
        actual = await lineage.lineage(view, B)

        assert (actual.model.node, actual.champion, [row.node for row in actual.again]) == ("t", True, ["again"])
        assert actual.samples is not None
        assert (actual.samples.blob, actual.samples.games) == ("s1", 20)
        assert [row.blob for row in actual.batches] == ["b1", "b2"]
        assert [row.blob for row in actual.parents] == [A]
        assert actual.behind == (Share(name="x", blobs=1, games=10), Share(name="y", blobs=1, games=10))
        assert (actual.missing, actual.cut) == ((), ())

    request(tmp_path, question)


def test_missing_records_are_named(tmp_path: Path) -> None:
    """A foreign model has inputs of unknown origin; the rest is listed."""

    async def question(view: Reads) -> None:
        actual = await lineage.lineage(view, C)

        assert (actual.parents, actual.samples, actual.batches, actual.behind) == ((), None, (), ())
        assert actual.missing == ("imported", "old")

    request(tmp_path, question)


@pytest.mark.parametrize(("text", "actual"), [(V, B), (A, A), ("ab", B), ("c", C)])
def test_a_model_is_looked_up_by_prefix_or_variant(tmp_path: Path, text: str, actual: str) -> None:
    """The champion of a variant, a whole name, or an unambiguous prefix."""

    async def question(view: Reads) -> None:
        assert (await resolve(view, text)).model == actual

    request(tmp_path, question)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("a", InputError, f"'a' is ambiguous: {A[:12]} of hex8_2p, {B[:12]} of hex8_2p$"),
        ("b1", UnknownName, f"unknown model 'b1'; known: {A[:12]}, {B[:12]}, {C[:12]}, hex8_2p|hex8_2p"),
        ("", InvalidId, "model '' is not valid"),
        ("\udcff", InvalidId, "model .* is not valid"),
        ("square8_2p", UnknownName, "unknown model 'square8_2p'"),
        ("a%", InvalidId, "model 'a%' is not valid"),
    ],
)
def test_a_missing_or_ambiguous_model_is_refused(
    tmp_path: Path, text: str, error: type[Exception], message: str
) -> None:
    """The error lists the existing ones."""

    async def question(view: Reads) -> None:
        with pytest.raises(error, match=message):
            await resolve(view, text)

    request(tmp_path, question)


def test_a_variant_without_a_champion_is_refused(tmp_path: Path) -> None:
    """There is no lineage yet."""

    async def question(view: Reads) -> None:
        with pytest.raises(InputError, match="hex8_2p has no champion yet"):
            await resolve(view, V)

    request(tmp_path, question, champion=None)


def test_the_games_of_a_node_are_traced(tmp_path: Path) -> None:
    """They lead to samples and models; a node without games has reached no model, nor has a time without games."""

    async def question(view: Reads) -> None:
        actual = await lineage.blast(view, "x", 0.0, 99.0)
        late = await lineage.blast(view, "x", 1.5, 99.0)
        idle = await lineage.blast(view, "idle", 0.0, 99.0, V)

        assert actual.played == Share(name="x", blobs=1, games=10)
        assert [(row.origin.blob, row.games) for row in actual.samples] == [("s1", 10)]
        assert [(row.origin.blob, row.directly, row.champion) for row in actual.models] == [(B, True, True)]
        assert (late.played.games, late.samples, late.models) == (0, (), ())
        assert (idle.played.games, idle.samples, idle.models) == (0, (), ())

    request(tmp_path, question)


@pytest.mark.parametrize(
    ("node", "variant", "error", "message"),
    [
        ("z", None, UnknownName, "unknown node 'z'; known: again, idle, t, x, y"),
        ("x y", None, InvalidId, "node 'x y' is not valid"),
        ("x", "hex8_3p", UnknownName, "unknown variant 'hex8_3p'; known: hex8_2p"),
        ("x", "chess", InvalidId, "variant 'chess' is not valid"),
    ],
)
def test_a_missing_node_or_variant_is_refused(
    tmp_path: Path, node: str, variant: str | None, error: type[Exception], message: str
) -> None:
    """The error lists the existing ones."""

    async def question(view: Reads) -> None:
        with pytest.raises(error, match=message):
            await lineage.blast(view, node, 0.0, 99.0, variant)

    request(tmp_path, question)
