"""What people hear of while the loop runs: every event that is for people has a sentence."""

import asyncio
from io import StringIO
from pathlib import Path
from string import Formatter
from typing import cast

import msgspec
import pytest
from tools.terminal import Terminal

from ringrift.cli.live import _SENTENCES, Live, _stage_share, describe_event
from ringrift.environment import read_terminal
from ringrift.events import alert, cluster, custom, daemon, data, evaluation, model, node, tuning, work
from ringrift.events.base import Envelope, Event, Unknown
from ringrift.events.catalog import EVENTS, FOR_PEOPLE
from ringrift.events.evaluation import Block
from ringrift.harness import Cluster
from ringrift.kernel.settings import Gate, Policy
from ringrift.kernel.value import changed
from ringrift.pipeline.line import Candidate, Challenge, Stage
from ringrift.store.ports import Store
from unit.cli.example_report import line
from unit.kernel.manual_clock import ManualClock
from unit.work.world import World, play

V = "hex8_2p"
SENTENCES: list[tuple[Event, str]] = [
    (alert.Raised(kind="daemon", subject="n/fill", level="severe", detail="no"), "ALERT severe: daemon n/fill: no"),
    (alert.Cleared(kind="daemon", subject="n/fill"), "alert cleared: daemon n/fill"),
    (alert.Cleared(kind="disk", subject="n", detail="swapped"), "alert cleared: disk n swapped"),
    (cluster.RoleTaken(role="fill", node="n", term=3), "node n leads fill in term 3"),
    (
        data.Adopted(node="n", blobs=("b",), count=1, bytes=7),
        "node n adopted 1 files of unknown origin (7 bytes)",
    ),
    (data.Packed(node="n", count=40), "node n packed 40 small files of games"),
    (
        data.PrioritySynced(success=True, reason="spot", node_count=2, bytes=7),
        "urgent sync (spot): 2 nodes hold the files, 7 bytes sent, ()",
    ),
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
    (
        cluster.BackedUp(place="/mnt", backup="b-7", files=3, bytes=9),
        "backup b-7: 3 files are at /mnt (9 bytes sent, 0 files missing)",
    ),
    (
        cluster.Restored(backup="b-7", epoch=2, position=90),
        "the store was restored from backup b-7: epoch 2 begins after position 90",
    ),
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
        "hex8_2p: review of mmmmmmmmmm FAILED, -70 over its opponent: due",
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


@pytest.mark.parametrize("name", _SENTENCES)
def test_a_sentence_names_fields_of_its_event(name: str) -> None:
    """A renamed field or event would otherwise be noticed only when the event comes."""
    [event] = [event for event in EVENTS if event.name() == name]
    names = [field for _, field, _, _ in Formatter().parse(_SENTENCES[name]) if field is not None]

    assert {name.removeprefix("0.") for name in names} <= set(event.__struct_fields__)


def test_long_words_have_an_end() -> None:
    """A payload of any size is one line on a screen."""
    text = describe_event(custom.Published(event="E", payload={"a": "x" * 10_000}))

    assert text is not None
    assert len(text) <= 160


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


def failed(kind: str = "train", cause: str = "error") -> work.Failed:
    """A failed attempt, with a traceback of two frames."""
    trace = 'File "/a/b/play.py", line 3, in run\n  File "/a/b/game.py", line 33, in step\nValueError: no such move'
    about = {"variant": V, "node": "n", "job": "j1", "kind": kind}
    return work.Failed(error="ValueError: no\n such move", traceback=trace, cause=cause, **about)


def printed(*events: Event) -> list[str]:
    """The lines that *events* leave."""
    out = StringIO()
    live = Live(out, Policy(), ManualClock(), table=False)

    async def story() -> None:
        for event in events:
            await live._print_event(event, Envelope(id="e", name=event.name(), body=b""))

    asyncio.run(story())
    return out.getvalue().splitlines()


def test_the_first_failure_of_a_kind_of_job_is_shown_at_once() -> None:
    """In a line with file and line of the innermost frame, then the command that shows all; others are counted."""
    lines = printed(failed(), failed(), failed("play"))

    assert lines == [
        "FAILED: train hex8_2p on n: ValueError: no such move at game.py:33",
        "  see:  ringrift jobs show j1",
        "FAILED: play hex8_2p on n: ValueError: no such move at game.py:33",
        "  see:  ringrift jobs show j1",
    ]


def test_a_job_that_was_only_stopped_has_not_failed() -> None:
    """Asked to stop, or held by another node now: nothing is wrong with the job."""
    assert printed(failed(cause="stopped"), failed(cause="lost")) == []


class Screen(StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """It is."""
        return True


@pytest.mark.parametrize(
    ("variables", "colour", "redraw"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False, True),
        ({"TERM": "dumb"}, False, False),
        ({}, False, False),
    ],
)
def test_colour_and_redrawing_depend_on_the_terminal(variables: dict[str, str], colour: bool, redraw: bool) -> None:
    """NO_COLOR takes the colour, a dumb terminal both; what is no terminal never has them."""
    assert read_terminal(Screen(), variables) == (colour, redraw)
    assert read_terminal(StringIO(), variables) == (False, False)


def test_what_is_drawn_is_erased_also_after_the_screen_became_narrower(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rows go up as the lines now take, from the first column, where the terminal may have echoed a key."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    out = Screen()
    live = Live(out, Policy(), ManualClock(), table=True)
    live._draw(["x" * 70, "y" * 30])
    monkeypatch.setenv("COLUMNS", "40")

    live.line("done")

    assert out.getvalue().endswith("\r\x1b[3A\x1b[Jdone\n")


def test_the_echo_of_a_key_is_erased_with_the_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal prints ``^C`` behind the view: the next line begins in the first column, and nothing is left."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    out, terminal = Screen(), Terminal(80, 24)
    live = Live(out, Policy(), ManualClock(), table=True)
    live._draw(["hex8_2p collecting", "until Ctrl-C"])
    out.write("^C")

    live.line("done")

    terminal.feed(out.getvalue().replace("\n", "\r\n"))
    assert terminal.text() == "done"


class Broken(StringIO):
    """A pipe that nothing reads any more."""

    def write(self, text: str) -> int:
        """Always fails."""
        raise BrokenPipeError


def test_a_broken_pipe_ends_the_view_and_nothing_else() -> None:
    """A line that nobody reads raises nothing where it is printed; the view itself ends with the error."""
    live = Live(Broken(), Policy(), ManualClock(), table=False)

    live.line("hello")
    live.line("hello")

    with pytest.raises(BrokenPipeError):
        asyncio.run(live._redraw_forever(Cluster(cast("Store", None), ())))


def test_a_redraw_reads_slow_figures_once_a_second(tmp_path: Path) -> None:
    """Four redraws a second show progress from what is in memory, and each line's figures as they were."""

    async def story(world: World) -> None:
        await world.keep(line(V))
        live = Live(StringIO(), Policy(variants=(V,)), world.clock, table=False)
        cluster = Cluster(world.store, ())

        async def games() -> int:
            [view] = (await live._read(cluster)).lines
            return view.metrics.games

        assert await games() == 2304
        await world.keep(changed(line(V), counts=changed(line(V).counts, games=3000, games_kept=3000)))
        assert await games() == 2304
        world.clock.seconds += 1.0
        assert await games() == 3000

    play(tmp_path, story)
