"""What is said of models, decisions and matches: for people and as values."""

import asyncio
from argparse import Namespace
from pathlib import Path

import msgspec
import pytest

from ringrift.cli import command
from ringrift.cli.commands import match, models, promotions
from ringrift.cli.commands.promotions import SAME, UNDECIDED, DecisionView, _Promotion, _Recount, _recount
from ringrift.cli.follow_jobs import JobsResult, follow_jobs
from ringrift.cli.main import _load, build_parser
from ringrift.evaluation.interval import Interval
from ringrift.events import evaluation, model, work
from ringrift.events.base import Event
from ringrift.events.evaluation import Block
from ringrift.jobs import Import, Job, Match, Purpose, Verify
from ringrift.kernel.errors import InputError, SettingsError, Unreachable
from ringrift.kernel.settings import Gate, WorkSettings
from ringrift.pipeline.line import DECISIONS, EVIDENCE, Decision, Stage
from ringrift.pipeline.models import resolve
from ringrift.pipeline.ratings import record_blocks
from unit.cli.command_output import ask
from unit.pipeline.story import VARIANT, at, blob
from unit.pipeline.test_operator import keep, origin
from unit.work.world import World, play

GATE = Gate(elo_0=0.0, elo_1=200.0, blocks_min=4, blocks_max=40)
WON = model.Evidence(blocks=12, score=0.75, llr=3.5, lower=-2.9, upper=2.9, rule="above", ranked=True, alpha=0.04)
DECIDED = Decision(
    variant=VARIANT,
    model=blob("new"),
    promoted=True,
    reason="above",
    generation=2,
    time=0.0,
    previous=blob("old"),
    evidence=WON,
    gate=GATE,
    seed=7,
    id="d",
)


def options(opponent: str | None, blocks: int) -> Namespace:
    """The command line of a match of the champion."""
    return build_parser("match").parse_args(["match", VARIANT, str(opponent), "--blocks", str(blocks)])


async def decide(world: World, decision: Decision, nodes: str) -> None:
    """Write *decision* down, resting on one won block of each of *nodes*."""
    async with world.store.begin() as tx:
        ids: list[str] = []
        for number, node in enumerate(nodes):
            played = evaluation.Block(number=number, scores=(1.0, 1.0), ranks=(1.0, 1.0))
            event = evaluation.BlocksPlayed(
                variant=VARIANT,
                candidate=decision.model,
                champion=decision.previous or "",
                blocks=(played,),
                node=node,
                seed=7,
            )
            ids += [block.id for block in (await record_blocks(tx, event, 1.0))[1]]
        await DECISIONS.put_at(tx, {"d": decision})
        await EVIDENCE.put_at(tx, {"d": tuple(ids)})


# -- list and show -----------------------------------------------------------------------------------------------------


def test_every_model_is_listed_with_what_is_trained_and_what_came_in(tmp_path: Path) -> None:
    """With its gain over the predecessor; one in training has no weights yet, one from elsewhere no generation."""

    async def story(world: World) -> None:
        state = at(Stage.TRAINING, rounds=1)
        await keep(world, state)
        champion = state.line.champion or ""
        await decide(world, msgspec.structs.replace(DECIDED, model=champion), "ab")
        async with world.store.begin() as tx:
            await tx.put_origins([origin("foreign"), origin("trained", job_kind="train")])
        rows = (await ask(world.store, "models", "list")).value

        assert [(row["generation"], row["state"], row["model"]) for row in rows] == [
            (0, "retired", state.line.previous),
            (1, "champion", champion),
            (None, "imported", blob("foreign")),
            (2, "training", None),
        ]
        assert rows[1]["gain"] == pytest.approx(190.8, abs=0.1)
        assert rows[1]["blocks"] == 12
        assert [row["gain"] for row in (rows[0], rows[2], rows[3])] == [None, None, None]

    play(tmp_path, story)


def test_the_list_is_a_table() -> None:
    """Short hashes, Elo over generation 0 with bounds, the gain over the predecessor, dashes for what there is not."""
    elo = Interval(value=180.4, lower=120.0, upper=240.0)
    test = {"elo": elo, "gain": 190.8, "blocks": 12, "held_out_loss": 1.25}
    rows = [
        models._row(VARIANT, blob("new"), 1, "champion", 40.0) | test,
        models._row(VARIANT, None, 2, "training", 100.0),
    ]

    text = models._models_text(rows, 100.0)

    head, first, second, note = text.splitlines()
    assert " ".join(head.split()) == "variant generation state since model Elo gain* blocks held-out loss"
    words = f"hex8_2p 1 champion 1 min 0 s ago {blob('new')[:10]} +180 (+120 … +240) +191 12 1.2500"
    assert first.split() == words.split()
    assert second.split() == ["hex8_2p", "2", "training", "0", "s", "ago", *("—" * 5)]
    assert note == "* over the predecessor, in their match"
    assert models._models_text([], 0.0) == "no models yet"


def test_one_model_is_shown_with_life_evidence_and_files(tmp_path: Path) -> None:
    """Who played its blocks, what the gate was, who was champion before, and where its file lies."""

    async def story(world: World) -> None:
        state = at(Stage.COLLECTING, rounds=1)
        await keep(world, state)
        champion, before = state.line.champion or "", state.line.previous
        await decide(world, msgspec.structs.replace(DECIDED, model=champion, previous=before), "aab")
        await world.beat("n")
        await world.hold(champion, "n")
        async with world.store.read() as view:
            one = await models._view_model(view, await resolve(view, VARIANT))

        text = models._model_text(one)
        assert (one["state"], one["champion"], one["generation"]) == ("champion", True, 1)
        assert [state for state, _ in one["steps"]] == ["candidate", "evaluating", "champion"]
        assert one["decisions"][0].played == {"a": 2, "b": 1}
        assert f"model {champion}\n  hex8_2p, generation 1, champion" in text
        assert f"champion before: {before}" in text
        assert "12 blocks, score 0.750 (gain over the predecessor +191), LLR 3.50 of -2.90 … 2.90, alpha 0.04" in text
        assert "gate: 0 against 200 Elo, 4 to 40 blocks" in text
        assert "blocks by node: a 2, b 1" in text
        assert text.endswith(f"file  n: n/{champion[:2]}/{champion}")

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("decision", "about", "words"),
    [
        (DECIDED, blob("new"), "promoted: above"),
        (DECIDED, blob("old"), f"replaced by {blob('new')[:10]}: above"),
        (msgspec.structs.replace(DECIDED, promoted=False), blob("new"), "rejected: above"),
        (msgspec.structs.replace(DECIDED, promoted=False), blob("old"), f"defended against {blob('new')[:10]}: above"),
        (msgspec.structs.replace(DECIDED, kind="rollback", promoted=False), blob("new"), "restored: above"),
        (msgspec.structs.replace(DECIDED, kind="rollback", promoted=False), blob("old"), "rolled back: above"),
    ],
    ids=["promoted", "gave way", "rejected", "held", "restored", "rolled back"],
)
def test_a_decision_is_told_from_each_side(decision: Decision, about: str, words: str) -> None:
    """Of the one that won and of the one that lost."""
    assert models._decision_text(DecisionView(decision=decision), about)[0].endswith(words)


def test_commands_need_a_store(tmp_path: Path) -> None:
    """Without one nothing is made."""
    line = ["models", "list", "--set", f"store.path={tmp_path / 'none.db'}"]

    with pytest.raises(Unreachable):
        command.run(_load("models"), build_parser("models").parse_args(line))

    assert list(tmp_path.iterdir()) == []


# -- promotions --------------------------------------------------------------------------------------------------------


def blocks(results: str) -> list[Block]:
    """Blocks won (+) or lost (-) by node a, and likewise (w, l) by node b."""
    return [
        Block(
            number=number,
            scores=(float(one in "+w"),) * 2,
            ranks=(float(one in "+w"),) * 2,
            node="a" if one in "+-" else "b",
        )
        for number, one in enumerate(results)
    ]


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
    again = _recount(DECIDED, blocks(results), "b", 2)

    assert again == _Recount(node="b", outcome=says, blocks=left, excluded=gone)


def test_what_no_gate_decided_is_not_decided_again() -> None:
    """Generation 0 and a rollback by actor rest on no block."""
    assert _recount(msgspec.structs.replace(DECIDED, gate=None, evidence=None), [], "b", 2) is None


def promotion(says: str, *, promoted: bool, gone: int = 4) -> _Promotion:
    """A decision of which the gate would have said *says*."""
    decision = msgspec.structs.replace(DECIDED, promoted=promoted)
    again = _Recount(node="b", outcome=says, blocks=8, excluded=gone)
    return _Promotion(view=DecisionView(decision=decision, gain=190.8), champion=promoted, recount=again)


def test_a_rejection_stands_as_long_as_nothing_else_is_decided() -> None:
    """A promotion does not: nobody is promoted without a decision."""
    assert promotion(UNDECIDED, promoted=False).stands
    assert not promotion(UNDECIDED, promoted=True).stands
    assert promotion(SAME, promoted=True).stands


def test_the_champions_that_would_not_be_are_named() -> None:
    """After all decisions, with what the gate would have said."""
    text = promotions._as_text(
        [promotion("would be rejected", promoted=True), promotion(UNDECIDED, promoted=False)], "b"
    )

    assert "  without b: would be rejected with 8 blocks, 4 fewer" in text
    assert "without b: 2 decisions rest on its blocks, 1 would not stand" in text
    assert f"hex8_2p  {blob('new')[:10]}  +191  would be rejected with 8 blocks, 4 fewer" in text
    assert promotions._as_text([], None) == "no decisions yet"


@pytest.mark.parametrize("text", ["b", "node", "node=", "host=b", ""])
def test_without_takes_a_node(text: str) -> None:
    """Anything else is refused by name."""
    with pytest.raises(InputError, match="--without takes node=NAME"):
        promotions._parse_node(text)


def test_decisions_are_read_with_their_blocks(tmp_path: Path) -> None:
    """And only the one that made the champion of now is marked."""

    async def story(world: World) -> None:
        line = at(Stage.COLLECTING, rounds=1).line
        await world.keep(line)
        await decide(world, msgspec.structs.replace(DECIDED, model=line.champion or ""), "aabb")
        async with world.store.read() as view:
            [one] = await promotions._promotions_of(view, line, "b")

        assert one.champion
        assert one.view.played == {"a": 2, "b": 2}
        assert one.recount == _Recount(node="b", outcome=UNDECIDED, blocks=2, excluded=2)

    play(tmp_path, story)


# -- waiting for jobs, and a match -------------------------------------------------------------------------------------

VERIFY = Verify(variant=VARIANT, model="m")
IMPORT = Import(variant=VARIANT, file="f")
MATCH = Match(variant=VARIANT, candidate="m", baseline="random", first=8, count=2, seed=3, purpose=Purpose.OPERATOR)
PLAYED = evaluation.BlocksPlayed(
    variant=VARIANT,
    candidate="m",
    champion="random",
    node="n",
    seed=3,
    blocks=(evaluation.Block(number=8, scores=(1.0, 0.0)), evaluation.Block(number=9, scores=(1.0, 1.0))),
)


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
    assert job.is_ended_by(event) is its


async def wait(world: World, job: Job, *events: Event) -> tuple[JobsResult, list[str]]:
    """Follow *job* while *said* is said; what came of it and what was told meanwhile."""
    lines: list[str] = []
    await world.beat("n")
    await world.desk().enqueue([job])
    for event in events:
        await world.router.publish(event)
    async with asyncio.timeout(5):
        return await follow_jobs(world.store, world.roster, [job], 0, world.clock, lines.append), lines


def test_a_job_is_followed_to_its_end(tmp_path: Path) -> None:
    """Done, or given up with its reason."""

    async def story(world: World) -> None:
        verified = model.Verified(variant=VARIANT, model="m", node="n")
        buried = work.Buried(variant=VARIANT, job="j", kind="import", key=IMPORT.key, error="refused", attempts=1)

        done, _ = await wait(world, VERIFY, verified)
        given_up, _ = await wait(world, IMPORT, buried)

        assert done == JobsResult(events=(verified,))
        assert given_up == JobsResult(error="refused")

    play(tmp_path, story)


def test_nobody_waits_for_nodes_that_do_not_do_it(tmp_path: Path) -> None:
    """One that only plays takes no checks: that is said at once, and the job stays."""

    async def story(world: World) -> None:
        lines: list[str] = []
        await world.beat("n", profile="selfplay")
        await world.desk().enqueue([VERIFY])

        result = await follow_jobs(world.store, world.roster, [VERIFY], 0, world.clock, lines.append)

        assert result.pending
        assert result.error == 'no running node can do verify jobs; start one with "ringrift run"'
        assert lines == ["waits for a node"]

    play(tmp_path, story)


def test_a_match_says_score_and_elo_with_bounds() -> None:
    """Too few blocks claim nothing; more say between which bounds."""
    many = msgspec.structs.replace(
        PLAYED, blocks=tuple(evaluation.Block(number=n, scores=(1.0, float(n % 2))) for n in range(20))
    )

    few, result = match._result_of([MATCH], [PLAYED]), match._result_of([MATCH], [many])

    assert (few["blocks"], few["score"].lower, few["score"].upper) == (2, 0.0, 1.0)
    assert (result["blocks"], result["score"].value) == (20, 0.75)
    assert 0.5 < result["score"].lower < 0.75 < result["score"].upper < 1.0
    assert match._as_text(result).splitlines()[0] == "hex8_2p: m against random, 20 blocks"
    assert "gain over the opponent +191 (" in match._as_text(result)


def test_a_match_is_cut_into_jobs_that_promote_nobody(tmp_path: Path) -> None:
    """They are for the operator, not for the gate, and both sides must play the same game."""

    async def story(world: World) -> None:
        line = at(Stage.COLLECTING, rounds=1).line
        await world.keep(line)
        await keep(world, at(Stage.COLLECTING, rounds=1))
        async with world.store.read() as view:
            line_options = options("uct:200", 20)
            jobs = await match._jobs_of(view, line_options, WorkSettings(), 8)
            line_options = options(line.previous, 8)
            [own] = await match._jobs_of(view, line_options, WorkSettings(), 8)
            with pytest.raises(SettingsError, match="--blocks 0 is not valid: must lie between 1 and 10000"):
                await match._jobs_of(view, options("random", 0), WorkSettings(), 8)

        assert [(job.first, job.count, job.baseline) for job in jobs] == [
            (0, 8, "uct:200"),
            (8, 8, "uct:200"),
            (16, 4, "uct:200"),
        ]
        assert (own.candidate, own.champion, own.baseline) == (line.champion, line.previous, "")
        assert {job.purpose for job in (*jobs, own)} == {Purpose.OPERATOR}

    play(tmp_path, story)
