"""What is said of models, decisions and matches: for people and as values."""

import asyncio
from argparse import Namespace
from pathlib import Path

import msgspec
import pytest

from ringrift.cli import awaited, life, match, promotions
from ringrift.cli.awaited import Followed, follow
from ringrift.cli.life import Judged, Row
from ringrift.cli.models import main
from ringrift.cli.promotions import SAME, UNDECIDED, Told, Without, stands, without
from ringrift.evaluation.blocks import Block
from ringrift.events import evaluation, model, work
from ringrift.events.base import Event
from ringrift.jobs import Import, Job, Match, Verify
from ringrift.kernel.errors import InputError, Unreachable
from ringrift.kernel.settings import Gate
from ringrift.pipeline.byhand import find
from ringrift.pipeline.line import DECISION, EVIDENCE, Decision, Stage
from ringrift.pipeline.matches import note
from ringrift.store.ports import Put
from unit.pipeline.story import VARIANT, at, blob
from unit.pipeline.test_byhand import keep, origin
from unit.work.world import World, play

GATE = Gate(elo_0=0.0, elo_1=200.0, blocks_min=4, blocks_max=40)
FOUND = model.Evidence(
    blocks=12, score=0.75, llr=3.5, lower=-2.9, upper=2.9, rule="above", ranked=True, alpha=0.04
)  # fmt: skip
DECIDED = Decision(
    variant=VARIANT, model=blob("new"), promoted=True, reason="above", generation=2, time=0.0, previous=blob("old"),
    evidence=FOUND, gate=GATE, seed=7, id="d",
)  # fmt: skip


def options(**given: object) -> Namespace:
    """A command line."""
    usual = {"settings": None, "verb": "list", "name": None, "variant": None, "to": None, "reason": "r", "json": False}
    return Namespace(**usual | given)


async def decide(world: World, decision: Decision, nodes: str) -> None:
    """Write *decision* down, resting on one won block of each of *nodes*."""
    async with world.store.begin() as tx:
        ids: list[str] = []
        for number, node in enumerate(nodes):
            played = evaluation.Played(number=number, scores=(1.0, 1.0), ranks=(1.0, 1.0))
            said = evaluation.BlocksPlayed(
                variant=VARIANT, candidate=decision.model, champion=decision.previous or "", blocks=(played,),
                node=node, seed=7,
            )  # fmt: skip
            ids += [block.id for block in (await note(tx, said, 1.0))[1]]
        await tx.put([
            Put(kind=DECISION, id="d", body=msgspec.json.encode(decision), index={"variant": VARIANT}),
            Put(kind=EVIDENCE, id="d", body=msgspec.json.encode(ids)),
        ])  # fmt: skip


# -- list and show -----------------------------------------------------------------------------------------------------


def test_every_model_is_listed_with_what_is_trained_and_what_came_in(tmp_path: Path) -> None:
    """Generation, state, since, hash and Elo; one in training has no weights yet, one from elsewhere no generation."""

    async def story(world: World) -> None:
        told = at(Stage.TRAINING, rounds=1)
        await keep(world, told)
        champion = told.line.champion or ""
        await decide(world, msgspec.structs.replace(DECIDED, model=champion), "ab")
        async with world.store.begin() as tx:
            await tx.originate([origin("foreign"), origin("trained", job_kind="train")])
        async with world.store.read() as view:
            rows = await life.listed(view, None)

        assert [(row.generation, row.state, row.model) for row in rows] == [
            (0, "retired", told.line.previous), (1, "champion", champion), (None, "imported", blob("foreign")),
            (2, "training", None),
        ]  # fmt: skip
        assert rows[1].elo == pytest.approx(190.8, abs=0.1)
        assert rows[1].blocks == 12
        assert [row.elo for row in (rows[0], rows[2], rows[3])] == [None, None, None]

    play(tmp_path, story)


def test_the_list_is_a_table() -> None:
    """Short hashes, signed Elo, dashes for what there is not."""
    rows = [
        Row(variant=VARIANT, model=blob("new"), generation=1, state="champion", since=40.0, elo=190.8, blocks=12),
        Row(variant=VARIANT, model=None, generation=2, state="training", since=100.0),
    ]

    text = life.list_text(rows, 100.0)

    assert text.splitlines()[0].split() == ["variant", "generation", "state", "since", "model", "Elo", "blocks"]
    assert text.splitlines()[1].split() == [
        "hex8_2p", "1", "champion", "1", "min", "0", "s", "ago", blob("new")[:10], "+191", "12",
    ]  # fmt: skip
    assert text.splitlines()[2].split() == ["hex8_2p", "2", "training", "0", "s", "ago", "—", "—", "—"]
    assert life.list_text([], 0.0) == "no models yet"


def test_one_model_is_shown_with_life_evidence_and_files(tmp_path: Path) -> None:
    """Who played its blocks, what the gate was, who was champion before, and where its file lies."""

    async def story(world: World) -> None:
        told = at(Stage.COLLECTING, rounds=1)
        await keep(world, told)
        champion, before = told.line.champion or "", told.line.previous
        await decide(world, msgspec.structs.replace(DECIDED, model=champion, previous=before), "aab")
        await world.beat("n")
        await world.hold(champion, "n")
        async with world.store.read() as view:
            one = await life.shown(view, await find(view, VARIANT))

        text = life.show_text(one)
        assert (one.state, one.champion, one.generation) == ("champion", True, 1)
        assert [state for state, _ in one.steps] == ["candidate", "evaluating", "champion"]
        assert one.decisions[0].played == {"a": 2, "b": 1}
        assert f"model {champion}\n  hex8_2p, generation 1, champion" in text
        assert f"champion before: {before}" in text
        assert "12 blocks, score 0.750 (+191 Elo), LLR 3.50 of -2.90 … 2.90, alpha 0.04" in text
        assert "gate: 0 against 200 Elo, 4 to 40 blocks" in text
        assert "blocks by node: a 2, b 1" in text
        assert text.endswith(f"file  n: n/{champion[:2]}/{champion}")

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("decision", "about", "words"),
    [
        (DECIDED, blob("new"), "promoted: above"),
        (DECIDED, blob("old"), f"gave way to {blob('new')[:10]}: above"),
        (msgspec.structs.replace(DECIDED, promoted=False), blob("new"), "rejected: above"),
        (msgspec.structs.replace(DECIDED, promoted=False), blob("old"), f"held against {blob('new')[:10]}: above"),
        (msgspec.structs.replace(DECIDED, kind="rollback", promoted=False), blob("new"), "brought back: above"),
        (msgspec.structs.replace(DECIDED, kind="rollback", promoted=False), blob("old"), "rolled back: above"),
    ],
    ids=["promoted", "gave way", "rejected", "held", "brought back", "rolled back"],
)
def test_a_decision_is_told_from_each_side(decision: Decision, about: str, words: str) -> None:
    """Of the one that won and of the one that lost."""
    assert life.decision_text(Judged(decision=decision), about)[0].endswith(words)


def test_commands_need_a_store(tmp_path: Path) -> None:
    """Without one nothing is made."""
    nowhere = {"store.path": str(tmp_path / "none.db")}

    with pytest.raises(Unreachable):
        main(options(), nowhere)

    assert list(tmp_path.iterdir()) == []


# -- promotions --------------------------------------------------------------------------------------------------------


def blocks(results: str) -> list[Block]:
    """Blocks won (+) or lost (-) by node a, and likewise (w, l) by node b."""
    return [
        Block(number=number, scores=(float(one in "+w"),) * 2, ranks=(float(one in "+w"),) * 2,
              node="a" if one in "+-" else "b")
        for number, one in enumerate(results)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("results", "says", "left", "gone"),
    [
        ("++++++++++++", SAME, 12, 0),
        ("++++++++++++wwww", SAME, 4, 4),
        ("wwwwwwwwwwww++", UNDECIDED, 2, 12),
        ("wwwwwwww--------", "would be rejected", 4, 8),
    ],
    ids=["none of it", "enough is left", "too few are left", "the others say no"],
)
def test_a_promotion_is_decided_once_more_without_a_node(results: str, says: str, left: int, gone: int) -> None:
    """By the same gate, of the blocks that are left, in their order."""
    found = without(DECIDED, blocks(results), "b", 2)

    assert found == Without(node="b", says=says, blocks=left, gone=gone)


def test_what_no_gate_decided_is_not_decided_again() -> None:
    """Generation 0 and a rollback by hand rest on no block."""
    assert without(msgspec.structs.replace(DECIDED, gate=None, evidence=None), [], "b", 2) is None


def told(says: str, *, promoted: bool, gone: int = 4) -> Told:
    """A decision of which the gate would have said *says*."""
    decision = msgspec.structs.replace(DECIDED, promoted=promoted)
    again = Without(node="b", says=says, blocks=8, gone=gone)
    return Told(judged=Judged(decision=decision, elo=190.8), champion=promoted, without=again)


def test_a_rejection_stands_as_long_as_nothing_else_is_decided() -> None:
    """A promotion does not: nobody is promoted without a decision."""
    assert stands(told(UNDECIDED, promoted=False))
    assert not stands(told(UNDECIDED, promoted=True))
    assert stands(told(SAME, promoted=True))


def test_the_champions_that_would_not_be_are_named() -> None:
    """After all decisions, with what the gate would have said."""
    text = promotions.as_text([told("would be rejected", promoted=True), told(UNDECIDED, promoted=False)], "b")

    assert "  without b: would be rejected with 8 blocks, 4 fewer" in text
    assert "without b: 2 decisions rest on its blocks, 1 would not stand" in text
    assert f"hex8_2p  {blob('new')[:10]}  +191  would be rejected with 8 blocks, 4 fewer" in text
    assert promotions.as_text([], None) == "nothing was decided yet"


@pytest.mark.parametrize("text", ["b", "node", "node=", "host=b", ""])
def test_without_takes_a_node(text: str) -> None:
    """Anything else is refused by name."""
    with pytest.raises(InputError, match="--without takes node=NAME"):
        promotions.node_of(text)


def test_decisions_are_read_with_their_blocks(tmp_path: Path) -> None:
    """And only the one that made the champion of now is marked."""

    async def story(world: World) -> None:
        line = at(Stage.COLLECTING, rounds=1).line
        await world.keep(line)
        await decide(world, msgspec.structs.replace(DECIDED, model=line.champion or ""), "aabb")
        async with world.store.read() as view:
            [one] = await promotions.told(view, line, "b")

        assert one.champion
        assert one.judged.played == {"a": 2, "b": 2}
        assert one.without == Without(node="b", says=UNDECIDED, blocks=2, gone=2)

    play(tmp_path, story)


# -- waiting for jobs, and a match -------------------------------------------------------------------------------------

VERIFY = Verify(variant=VARIANT, model="m")
IMPORT = Import(variant=VARIANT, file="f")
MATCH = Match(variant=VARIANT, candidate="m", baseline="random", first=8, count=2, seed=3, purpose="hand")
PLAYED = evaluation.BlocksPlayed(
    variant=VARIANT, candidate="m", champion="random", node="n", seed=3,
    blocks=(evaluation.Played(number=8, scores=(1.0, 0.0)), evaluation.Played(number=9, scores=(1.0, 1.0))),
)  # fmt: skip


@pytest.mark.parametrize(
    ("job", "event", "its"),
    [
        (VERIFY, model.Verified(variant=VARIANT, model="m", node="n"), True),
        (VERIFY, model.Verified(variant=VARIANT, model="other", node="n"), False),
        (VERIFY, model.Verified(variant="hex8_3p", model="m", node="n"), False),
        (IMPORT, model.Imported(variant=VARIANT, model="m", source="f", node="n"), True),
        (IMPORT, model.Imported(variant=VARIANT, model="m", source="g", node="n"), False),
        (MATCH, PLAYED, True),
        (MATCH, msgspec.structs.replace(PLAYED, seed=4), False),
        (msgspec.structs.replace(MATCH, first=0), PLAYED, False),
        (VERIFY, PLAYED, False),
    ],
)
def test_the_end_of_a_job_is_known_by_what_is_said(job: Job, event: Event, its: bool) -> None:
    """Only what was said of this very job counts."""
    assert awaited.ends(job, event) is its


async def wait(world: World, job: Job, *said: Event) -> tuple[Followed, list[str]]:
    """Follow *job* while *said* is said; what came of it and what was told meanwhile."""
    lines: list[str] = []
    await world.beat("n")
    await world.desk().ask([job])
    for event in said:
        await world.router.publish(event)
    async with asyncio.timeout(5):
        return await follow(world.store, world.roster, [job], 0, world.clock, lines.append), lines


def test_a_job_is_followed_to_its_end(tmp_path: Path) -> None:
    """Done, or given up with its reason."""

    async def story(world: World) -> None:
        said = model.Verified(variant=VARIANT, model="m", node="n")
        buried = work.Buried(variant=VARIANT, job="j", kind="import", key=IMPORT.key, error="refused", attempts=1)

        done, _ = await wait(world, VERIFY, said)
        given_up, _ = await wait(world, IMPORT, buried)

        assert done == Followed(events=(said,))
        assert given_up == Followed(error="refused")

    play(tmp_path, story)


def test_nobody_waits_for_nodes_that_do_not_do_it(tmp_path: Path) -> None:
    """One that only plays takes no checks: that is said at once, and the job stays."""

    async def story(world: World) -> None:
        lines: list[str] = []
        await world.beat("n", profile="selfplay")
        await world.desk().ask([VERIFY])

        found = await follow(world.store, world.roster, [VERIFY], 0, world.clock, lines.append)

        assert found.kept
        assert found.error == "nobody is there to do it: no node that is here takes verify jobs"
        assert lines == ["waits for a node"]

    play(tmp_path, story)


def test_a_match_says_score_and_elo_with_bounds() -> None:
    """Too few blocks claim nothing; more say between which bounds."""
    many = msgspec.structs.replace(
        PLAYED, blocks=tuple(evaluation.Played(number=n, scores=(1.0, float(n % 2))) for n in range(20))
    )

    few, found = match.met([MATCH], [PLAYED]), match.met([MATCH], [many])

    assert (few.blocks, few.score.lower, few.score.upper) == (2, 0.0, 1.0)
    assert (found.blocks, found.score.value) == (20, 0.75)
    assert 0.5 < found.score.lower < 0.75 < found.score.upper < 1.0
    assert match.as_text(found).splitlines()[0] == "hex8_2p: m against random, 20 blocks"
    assert "Elo +191 (" in match.as_text(found)


def test_a_match_is_cut_into_jobs_that_promote_nobody(tmp_path: Path) -> None:
    """Its keys are none that the gate waits for, and both sides must play the same game."""

    async def story(world: World) -> None:
        line = at(Stage.COLLECTING, rounds=1).line
        await world.keep(line)
        await keep(world, at(Stage.COLLECTING, rounds=1))
        async with world.store.read() as view:
            asked = Namespace(one=VARIANT, other="uct:200", variant=None, blocks=20)
            _, jobs = await match.jobs_of(view, asked, 8)
            asked = Namespace(one=VARIANT, other=line.previous, variant=None, blocks=8)
            _, [own] = await match.jobs_of(view, asked, 8)
            with pytest.raises(InputError, match="--blocks takes"):
                await match.jobs_of(view, Namespace(one=VARIANT, other="random", variant=None, blocks=0), 8)

        assert [(job.first, job.count, job.baseline) for job in jobs] == [
            (0, 8, "uct:200"), (8, 8, "uct:200"), (16, 4, "uct:200")
        ]  # fmt: skip
        assert (own.candidate, own.champion, own.baseline) == (line.champion, line.previous, "")
        assert all(not job.key.startswith(Match.prefix(VARIANT, job.candidate)) for job in (*jobs, own))

    play(tmp_path, story)
