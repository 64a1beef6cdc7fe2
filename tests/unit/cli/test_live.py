"""What people hear of while the loop runs: every event that is for people has a sentence."""

from io import StringIO
from pathlib import Path
from string import Formatter

import msgspec
import pytest

from ringrift.cli.live import (
    _BAR,
    _DECISIONS_AT_ONCE,
    _SENTENCES,
    _WINDOW_SECONDS,
    Live,
    _bar,
    _row,
    _sentence,
    _stage_share,
    _strength_text,
    _Throughput,
    describe_event,
)
from ringrift.events import alert, cluster, custom, daemon, data, evaluation, model, node, tuning, work
from ringrift.events.base import Event, Unknown
from ringrift.events.catalog import FOR_PEOPLE
from ringrift.events.evaluation import Block
from ringrift.kernel.settings import Gate, Policy
from ringrift.kernel.value import changed
from ringrift.pipeline.line import DECISIONS, Candidate, Challenge, Stage
from unit.cli.example_report import decisions, line
from unit.work.world import World, play

V = "hex8_2p"
SENTENCES: list[tuple[Event, str]] = [
    (alert.Raised(kind="daemon", subject="n/fill", level="severe", detail="no"), "ALERT severe: daemon n/fill: no"),
    (alert.Cleared(kind="daemon", subject="n/fill"), "alert cleared: daemon n/fill"),
    (alert.Cleared(kind="disk", subject="n", detail="swapped"), "alert cleared: disk n swapped"),
    (cluster.RoleTaken(role="fill", node="n", term=3), "node n leads fill in term 3"),
    (
        data.Removed(node="n", blobs=("b",), count=1, bytes=7),
        "node n deleted 1 blobs that nothing needs (7 bytes)",
    ),
    (custom.Published(event="MY_EVENT", payload={"a": 1}), "MY_EVENT: {'a': 1}"),
    (daemon.CommandDone(command="o", daemon="fill", node="n", action="stop"), "daemon fill on n: command stop done"),
    (
        daemon.CommandDone(command="o", daemon="fill", node="n", action="stop", error="it hangs"),
        "daemon fill on n: command stop failed: it hangs",
    ),
    (daemon.Stopped(daemon="fill", node="n", error="no"), "daemon fill on n stopped with an error: no"),
    (daemon.Started(daemon="fill", node="n", failures=2), "daemon fill on n started again after 2 recent failures"),
    (
        evaluation.VelocityChanged(variant=V, trend="rising", before="flat", elo_per_hour=12.4, champions=5),
        "hex8_2p: the trend is rising (before: flat): +12 Elo an hour over the last 5 champions",
    ),
    (work.Enqueued(variant=V, kind="train", jobs=("j",)), "hex8_2p: training queued (job j)"),
    (work.Started(variant=V, kind="train", job="j", node="n", attempts=1), "hex8_2p: training started (job j, node n)"),
    (
        work.Started(variant=V, kind="train", job="j", node="n", attempts=2),
        "hex8_2p: training started (job j, node n, attempt 2)",
    ),
    (node.Suspected(node="n", seconds=10.0), "node n has sent no heartbeat for 10 s"),
    (
        daemon.Stalled(node="n", daemon="fill", place="f.py:3 in fill", seconds=1.52),
        "node n: the event loop was blocked for 1.5 s at f.py:3 in fill",
    ),
    (
        work.TaskChanged(
            task="t", kind="sync", node="n", state="orphaned", seconds=1.0, reason="its process 7 is gone"
        ),
        "task t (sync) on n: orphaned after 1 s its process 7 is gone",
    ),
    (work.Rescued(jobs=("a", "b")), "2 leases expired without renewal; their jobs are ready again"),
    (model.Rejected(variant=V, model="m" * 64, reason="weak"), "hex8_2p: candidate mmmmmmmmmm rejected: weak"),
    (node.Left(node="n"), "node n left"),
    (node.Quarantined(node="n", reason="it lies"), "node n is quarantined: it lies"),
    (
        model.Imported(variant=V, model="m" * 64, source="f" * 64, node="n"),
        "hex8_2p: mmmmmmmmmm imported from ffffffffff",
    ),
    (node.Released(node="n"), "node n is released from quarantine"),
    (tuning.TrialFinished(variant=V, vector=(1.0, 2.0), fitness=0.5, node="n"), "hex8_2p: fitness 0.500 of (1.0, 2.0)"),
    (
        model.RolledBack(variant=V, model="m" * 64, to="k" * 64, generation=3, reason="weak"),
        "hex8_2p: ROLLED BACK from mmmmmmmmmm to generation 3, kkkkkkkkkk: weak",
    ),
    (
        evaluation.Reviewed(
            variant=V, model="m" * 64, opponent="k", passed=False, blocks=9, score=0.4, elo=-70.4, reason="due"
        ),
        "hex8_2p: review of mmmmmmmmmm FAILED at -70 Elo: due",
    ),
]


@pytest.mark.parametrize(("event", "sentence"), SENTENCES, ids=lambda one: "" if isinstance(one, str) else one.name())
def test_an_event_is_told_in_a_sentence(event: Event, sentence: str) -> None:
    """Each as a person would say it."""
    assert describe_event(event) == sentence


def test_every_event_for_people_has_a_sentence() -> None:
    """What nobody else reacts to is told, or people would never hear of it."""
    assert {type(event) for event, _ in SENTENCES} >= FOR_PEOPLE


def test_what_nobody_wants_to_hear_is_not_told() -> None:
    """Small jobs, and events of another version."""
    assert describe_event(work.Enqueued(variant=V, kind="sync", jobs=("j",))) is None
    assert describe_event(work.Cancelled(variant=V, kind="match", jobs=("a", "b"))) is None
    assert describe_event(Unknown(wire_name="x.y", raw=b"{}")) is None


@pytest.mark.parametrize("event", _SENTENCES, ids=lambda event: event.name())
def test_a_sentence_names_fields_of_its_event(event: type[Event]) -> None:
    """A renamed field would otherwise be noticed only when the event comes."""
    names = [field for _, field, _, _ in Formatter().parse(_SENTENCES[event]) if field is not None]

    assert {name.removeprefix("0.") for name in names} <= set(event.__struct_fields__)


def test_long_words_have_an_end() -> None:
    """A payload of any size is one line on a screen."""
    text = describe_event(custom.Published(event="E", payload={"a": "x" * 10_000}))

    assert text is not None
    assert len(text) <= 160


@pytest.mark.parametrize(("part", "full"), [(0.0, 0), (0.5, _BAR // 2), (1.0, _BAR), (7.0, _BAR), (-1.0, 0)])
def test_a_bar_is_as_full_as_its_share(part: float, full: int) -> None:
    """And never longer than it is."""
    assert _bar(part) == "█" * full + "·" * (_BAR - full)


@pytest.mark.parametrize(
    ("stage", "part"),
    [
        (Stage.COLLECTING, 0.25),
        (Stage.TRAINING, 0.75),
        (Stage.EXPORTING, 0.0),
        (Stage.EVALUATING, 0.5),
        (Stage.DISTRIBUTING, 0.0),
        (Stage.RESTING, 1.0),
    ],
)
def test_a_stage_is_as_far_as_what_it_waits_for(stage: Stage, part: float) -> None:
    """Games while collecting, the job while one is under way, blocks while a candidate is judged."""
    policy = msgspec.structs.replace(Policy(), games_per_export=768)
    blocks = tuple(Block(number=number, scores=(1.0, 0.0)) for number in range(200))
    test = Challenge(opponent="c", gate=Gate(blocks_max=400), seed=1, dispatched=400, blocks=blocks)
    candidate = Candidate(model="m", generation=3, challenge=test)
    stands = msgspec.structs.replace(line(V), stage=stage, candidate=candidate)

    assert _stage_share(stands, policy, {(V, "train"): 0.75, ("hex8_3p", "export"): 0.9}) == part


def test_strength_is_told_as_a_rough_sum() -> None:
    """With bounds, and not at all before the first promotion on evidence."""
    assert _strength_text(decisions(V), 2).startswith("about +294 ±")
    assert _strength_text(decisions(V)[:2], 2) == "—"


def test_a_line_is_told_in_a_row_and_in_words() -> None:
    """Where it stands, its champion, its strength and its games."""
    strength, share = _strength_text(decisions(V), 2), _stage_share(line(V), Policy(games_per_export=768), {})

    row, words = _row(line(V), strength, share, 0.0, 0.0), _sentence(line(V), strength, share)

    assert row[:2] == (V, Stage.COLLECTING)
    assert line(V).champion[:10] in row
    assert words.startswith(f"{V} collecting 25%, generation 2 (")
    assert "Elo over generation 0, 2304 games" in words


def test_pace_is_that_of_the_last_minute() -> None:
    """Games from before do not count, and nothing seen is no throughput."""
    throughput = _Throughput()
    assert throughput.total() == 0.0

    for second in range(0, 301, 10):
        throughput.add(float(second), {"a": 100 * second, "b": max(second - 240, 0)})

    assert throughput.of("a") == pytest.approx(100.0)
    assert throughput.of("b") == pytest.approx(1.0, abs=10 / _WINDOW_SECONDS)
    assert throughput.total() == pytest.approx(101.0, abs=10 / _WINDOW_SECONDS)


def test_a_redraw_reads_only_new_decisions(tmp_path: Path) -> None:
    """However many there were before: those of this variant alone, in their order, over as many pages as it takes."""

    async def story(world: World) -> None:
        live = Live(StringIO(), Policy(), world.clock, table=False)
        blank, shown = decisions(V)[0], list[list[float]]()

        async def decide(variant: str, first: int, count: int) -> None:
            rows = [changed(blank, id=f"{variant}:{n:06}", variant=variant, time=float(n)) for n in range(first, count)]
            async with world.store.begin() as tx:
                await DECISIONS.put(tx, rows)

        for first, count in ((0, 2 * _DECISIONS_AT_ONCE), (2 * _DECISIONS_AT_ONCE, 2 * _DECISIONS_AT_ONCE + 3)):
            await decide(V, first, count)
            await decide("square8_2p", first, count)
            async with world.store.read() as view:
                shown.append([decision.time for decision in await live._decisions_about(view, V)])
            async with world.store.begin() as tx:  # what was read is not read again
                await DECISIONS.delete(tx, [f"{V}:{n:06}" for n in range(count - 1)])
        assert shown == [[float(n) for n in range(2 * _DECISIONS_AT_ONCE + more)] for more in (0, 3)]

    play(tmp_path, story)
