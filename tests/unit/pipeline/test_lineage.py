"""How a blob was made is written down in full, and both questions are answered from it, whatever is missing."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ringrift import __version__
from ringrift.jobs import Export, Job, Play, Train
from ringrift.kernel.errors import InputError, InvalidId, UnknownName
from ringrift.kernel.settings import WorkSettings
from ringrift.pipeline import lineage
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.records import save
from ringrift.store.ports import Origin, Reads, Share
from ringrift.workload.api import Artifact, JobResult, Kind, Scalar
from unit.work.world import World, play

V = "hex8_2p"
WORK = WorkSettings(workload="fake", params={"sims": 16, "device": "cpu"})


def ended(job: Job, kind: Kind, **meta: Scalar) -> Origin:
    """The origin of the one thing that *job* made."""
    result = JobResult(outputs=(Artifact(kind=kind, blob="out", size=1, meta=meta),))
    [made] = lineage.origins(job, result, node="n", work=WORK, version="7")
    return made


def test_a_batch_says_who_played_it_and_with_what() -> None:
    """Node, seed, model, games, workload, version, our release and the settings are all there."""
    job = Play(variant=V, seed=5, model="m0", games=30)

    made = ended(job, "games", games=28)

    assert made == Origin(
        blob="out", node="n", kind="games", variant=V, games=28, job_kind="play", key=job.key, seed=5, model="m0",
        workload="fake", version="7", release=__version__, settings=lineage.digest(WORK.params),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("job", "kind", "meta", "expected"),
    [
        (Export(variant=V, batches=("b1",)), "samples", {"games": 9, "samples": 99}, ("export", 9, None, None, None)),
        (Export(variant=V, batches=("b1",)), "samples", {"games": "many"}, ("export", 0, None, None, None)),
        (Train(variant=V, generation=3, samples="s", parent="m2"), "model", {}, ("train", 0, "m2", "s", 3)),
        (Train(variant=V, generation=0), "model", {}, ("train", 0, None, None, 0)),
    ],
)
def test_inputs_are_told_by_their_role(
    job: Job, kind: Kind, meta: dict[str, Scalar], expected: tuple[Any, ...]
) -> None:
    """A model names its parent and its samples; a count that is no number is none."""
    made = ended(job, kind, **meta)

    assert (made.job_kind, made.games, made.model, made.samples, made.generation) == expected


def test_the_digest_of_settings_knows_no_order() -> None:
    """The same settings have the same digest in any order, others have another."""
    assert lineage.digest({"a": 1, "b": 2}) == lineage.digest({"b": 2, "a": 1})
    assert lineage.digest({"a": 1}) != lineage.digest({"a": 2})


def batch(blob: str, node: str, model: str, at: float, games: int = 10, version: str = "1") -> Origin:
    """A batch of games."""
    return Origin(blob=blob, node=node, kind="games", variant=V, time=at, games=games, model=model, version=version)


def test_batches_are_summed_by_node_model_and_code() -> None:
    """Those with the most games come first, with when the first and the last was played."""
    batches = [batch("b1", "x", "m0", 1.0), batch("b2", "x", "m0", 3.0), batch("b3", "x", "m0", 2.0, version="2"),
               batch("b4", "x", "m1", 4.0), batch("b5", "y", "m0", 5.0, games=40)]  # fmt: skip

    found = lineage.groups(batches)

    assert [(g.node, g.model, g.version, g.batches, g.games, g.first, g.last) for g in found] == [
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
    """Who was trained on them is told apart from who only descends from such a model, the nearest one being named."""
    # m1 ─ m2* ─ m3 ─ m4* ─ m5, and m6 beside them from m1: the starred ones were trained on the games.
    models = [model("m6", "m1", "s6"), model("m5", "m4", "s5"), model("m4", "m3", "s4"), model("m3", "m2", "s3"),
              model("m2", "m1", "s2"), model("m1")]  # fmt: skip
    shares = {name: Share(name=name, blobs=blobs, games=10 * blobs) for name, blobs in (("s2", 2), ("s4", 4))}

    found = lineage.spread(models, shares, {"m5"})

    assert [(one.origin.blob, one.directly, one.via, one.games, one.champion) for one in found] == [
        ("m5", False, "m4", 40, True),
        ("m4", True, "s4", 40, False),
        ("m3", False, "m2", 20, False),
        ("m2", True, "s2", 20, False),
    ]


def test_models_in_a_circle_do_not_hang() -> None:
    """What cannot be, two models that are each other's parent, still has an answer."""
    models = [model("m1", "m2", "s1"), model("m2", "m1")]

    found = lineage.spread(models, {"s1": Share(name="s1", blobs=1, games=1)}, ())

    assert [(one.origin.blob, one.directly) for one in found] == [("m1", True), ("m2", False)]


A, B, C = "aa" + "0" * 62, "ab" + "0" * 62, "c" * 64


def asked(folder: Path, question: Callable[[Reads], Awaitable[None]], champion: str | None = B) -> None:
    """Ask a store with two models of one line, trained one from the other on games of the nodes x and y."""

    async def story(world: World) -> None:
        made = [
            model(A, generation=0), batch("b1", "x", A, 1.0), batch("b2", "y", A, 2.0),
            Origin(blob="s1", node="y", kind="samples", variant=V, time=3.0, games=20),
            model(B, A, "s1", 4.0, generation=1), model(B, A, "s1", 5.0, generation=1, node="again"),
            model(C, "imported", "old", 6.0, generation=5, variant="square8_2p"),
        ]  # fmt: skip
        links = [("b1", A), ("b2", A), ("s1", "b1"), ("s1", "b2"), (B, "s1"), (B, A), (C, "imported"), (C, "old")]
        line = Line(variant=V, workload="fake", players=2, champion=champion, generation=1 if champion else -1,
                    stage=Stage.COLLECTING if champion else Stage.STARTING)  # fmt: skip
        await world.beat("idle")
        async with world.store.begin() as tx:
            await tx.originate(made)
            await tx.link(links)
            await save(tx, line)
        async with world.store.read() as view:
            await question(view)

    play(folder, story)


def test_a_model_is_told_with_all_that_it_rests_on(tmp_path: Path) -> None:
    """Its samples, batches, parents and nodes, that it is the champion, and that another node made it again."""

    async def question(view: Reads) -> None:
        found = await lineage.lineage(view, B)

        assert (found.model.node, found.champion, [one.node for one in found.again]) == ("t", True, ["again"])
        assert found.samples is not None
        assert (found.samples.blob, found.samples.games) == ("s1", 20)
        assert [one.blob for one in found.batches] == ["b1", "b2"]
        assert [one.blob for one in found.parents] == [A]
        assert found.behind == (Share(name="x", blobs=1, games=10), Share(name="y", blobs=1, games=10))
        assert (found.missing, found.cut) == ((), ())

    asked(tmp_path, question)


def test_what_is_not_written_down_is_named(tmp_path: Path) -> None:
    """A model from elsewhere has inputs of which nobody knows how they were made; the rest is told."""

    async def question(view: Reads) -> None:
        found = await lineage.lineage(view, C)

        assert (found.parents, found.samples, found.batches, found.behind) == ((), None, (), ())
        assert found.missing == ("imported", "old")

    asked(tmp_path, question)


@pytest.mark.parametrize(("text", "found"), [(V, B), (A, A), ("ab", B), ("c", C)])
def test_a_model_is_found_by_its_beginning_or_its_variant(tmp_path: Path, text: str, found: str) -> None:
    """The champion of a variant, a whole name, or as much of it as no other model begins with."""

    async def question(view: Reads) -> None:
        assert await lineage.find_model(view, text) == found

    asked(tmp_path, question)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("a", InputError, f"'a' is not the beginning of one name but of several: {A[:12]}, {B[:12]}$"),
        ("b1", UnknownName, f"unknown model 'b1'; known: {A[:12]}, {B[:12]}, {C[:12]}, hex8_2p|hex8_2p"),
        ("", InvalidId, "model '' is not valid"),
        ("\udcff", InvalidId, "model .* is not valid"),
        ("square8_2p", UnknownName, "unknown model 'square8_2p'"),
        ("a%", InvalidId, "model 'a%' is not valid"),
    ],
)
def test_a_model_that_is_not_there_or_not_one_is_refused(
    tmp_path: Path, text: str, error: type[Exception], message: str
) -> None:
    """The error says what there is."""

    async def question(view: Reads) -> None:
        with pytest.raises(error, match=message):
            await lineage.find_model(view, text)

    asked(tmp_path, question)


def test_a_variant_without_a_champion_is_refused(tmp_path: Path) -> None:
    """There is nothing to tell of it yet."""

    async def question(view: Reads) -> None:
        with pytest.raises(InputError, match="hex8_2p has no champion yet"):
            await lineage.find_model(view, V)

    asked(tmp_path, question, champion=None)


def test_the_games_of_a_node_are_followed(tmp_path: Path) -> None:
    """To samples and models; a node that played nothing has reached nobody, and so has a time without games."""

    async def question(view: Reads) -> None:
        found = await lineage.blast(view, "x", 0.0, 99.0)
        late = await lineage.blast(view, "x", 1.5, 99.0)
        idle = await lineage.blast(view, "idle", 0.0, 99.0, V)

        assert found.played == Share(name="x", blobs=1, games=10)
        assert [(one.origin.blob, one.games) for one in found.samples] == [("s1", 10)]
        assert [(one.origin.blob, one.directly, one.champion) for one in found.models] == [(B, True, True)]
        assert (late.played.games, late.samples, late.models) == (0, (), ())
        assert (idle.played.games, idle.samples, idle.models) == (0, (), ())

    asked(tmp_path, question)


@pytest.mark.parametrize(
    ("node", "variant", "error", "message"),
    [
        ("z", None, UnknownName, "unknown node 'z'; known: again, idle, t, x, y"),
        ("x y", None, InvalidId, "node 'x y' is not valid"),
        ("x", "hex8_3p", UnknownName, "unknown variant 'hex8_3p'; known: hex8_2p"),
        ("x", "chess", InvalidId, "variant 'chess' is not valid"),
    ],
)
def test_a_node_or_variant_that_is_not_there_is_refused(
    tmp_path: Path, node: str, variant: str | None, error: type[Exception], message: str
) -> None:
    """The error says what there is."""

    async def question(view: Reads) -> None:
        with pytest.raises(error, match=message):
            await lineage.blast(view, node, 0.0, 99.0, variant)

    asked(tmp_path, question)
