"""The documented pipeline on a real store: stages asked for by hand do the real thing, pass their gates, and end."""

import asyncio
import time
from pathlib import Path

import msgspec
import pytest

from compat.ears import QUICK, home, on_a_loop
from ringrift.events import custom
from ringrift.events.pipeline import Requested
from ringrift.jobs import Play
from ringrift.kernel.errors import UnknownName
from ringrift.pipeline.line import Line
from ringrift.pipeline.records import load
from ringrift.work import desk
from ringrift_compat import hosting, pipelines
from ringrift_compat.ambient import ambient
from ringrift_compat.buses import StageCompletionResult
from ringrift_compat.circuits import CircuitState
from ringrift_compat.completing import meant
from ringrift_compat.events import get_router
from ringrift_compat.pipeline_actions import (
    trigger_data_sync,
    trigger_evaluation,
    trigger_npz_export,
    trigger_promotion,
    trigger_training,
)
from ringrift_compat.pipelines import get_pipeline_orchestrator, get_pipeline_status, wire_pipeline_events
from ringrift_compat.router_event import EventSource
from ringrift_compat.saying import Saying
from ringrift_compat.selfplay import emit_selfplay_completion, get_selfplay_orchestrator, wire_selfplay_events
from ringrift_compat.stages import PipelineStage
from waiting import wait_until

__all__ = ["home"]

VARIANT = "hex8_2p"
FAKE = (
    QUICK
    + """
[work]
workload = "fake"
slots = 4
retry = { first_seconds = 0.05, seconds_max = 0.1, tries = 2 }
[policy]
games_per_batch = 4
games_per_export = 8
[replicas]
copies_min = 1
"""
)


@pytest.fixture(autouse=True)
def fake(home: Path) -> Path:
    """The quick stand-in plays, in small numbers."""
    (home / "ringrift.toml").write_text(FAKE)
    return home


def line() -> Line:
    """The line as it is written down."""

    async def read() -> Line:
        async with ambient.node().store.read() as view:
            found = await load(view, VARIANT)
        assert found is not None
        return found

    return ambient.call(read())


def alive() -> int:
    """How many jobs wait or run."""

    async def count() -> int:
        async with ambient.node().store.read() as view:
            return sum(number for (_, state), number in (await view.tally()).items() if state in ("ready", "claimed"))

    return ambient.call(count())


@on_a_loop
async def test_with_nothing_to_do_the_gate_says_so_at_once() -> None:
    """The answer is the verdict's reason, within a second, and no job is asked for; a new line waits to be asked."""
    await trigger_data_sync(board_type="hex8", num_players=2)
    began = time.monotonic()

    result = await trigger_data_sync(board_type="hex8", num_players=2, iteration=1)

    assert time.monotonic() - began < 1.0
    assert (result.success, result.stage, result.iteration) == (False, "data_sync", 1)
    assert result.error == "sync: batches that wait for their copies (0 of 1)"
    assert result.metadata["config_key"] == VARIANT
    assert alive() == 0
    assert [job.kind() for job in line().held] == ["train"]


async def first_champion() -> list[StageCompletionResult]:
    """Generation 0 made, judged and brought to every node, each stage by hand."""
    return [await trigger("hex8", 2) for trigger in (trigger_training, trigger_evaluation, trigger_promotion)]


@on_a_loop
async def test_each_trigger_starts_one_stage_and_sees_its_end() -> None:
    """Training makes a file, evaluation decides, promotion brings it everywhere; each is told once under its name."""
    assert not (await trigger_promotion("hex8", 2)).success

    trained, judged, promoted = await first_champion()

    assert [one.error for one in (trained, judged, promoted)] == [None, None, None]
    assert (trained.success, judged.success, promoted.success) == (True, True, True)
    assert min(one.duration_seconds for one in (trained, judged, promoted)) > 0
    assert trained.output_path is not None
    assert trained.output_path.endswith(trained.metadata["event"]["model"])
    assert line().champion == trained.metadata["event"]["model"]
    assert promoted.metadata["event"]["model"] == line().champion
    for name in ("TRAINING_COMPLETED", "MODEL_PROMOTED", "MODEL_DISTRIBUTION_COMPLETE"):
        assert len(get_router().get_recent_events(event_type=name)) == 1
    assert alive() == 0
    assert (await trigger_npz_export("hex8", 2)).error == "export: games kept since the last export (0 of 1)"


async def play(*seeds: int) -> None:
    """Let the champion play a batch for each of *seeds*: jobs asked for by hand, to their end."""
    node, before, champion = ambient.node(), line().counts.batches, line().champion
    assert champion is not None
    jobs = [Play(variant=VARIANT, model=champion, games=4, seed=seed) for seed in seeds]

    async def ask() -> None:
        async with node.store.begin() as tx:
            await desk.ask(tx, jobs, node.ids, node.clock.now(), scribe=node.scribe)

    await ambient.post(ask())
    await wait_until(lambda: line().counts.batches == before + len(seeds), 20.0)


@on_a_loop
async def test_a_whole_round_goes_by_hand(fake: Path) -> None:
    """Batches are copied, exported and trained on, the model is matched and brought out, each when it is asked for."""
    easy = "gate = { elo_0 = -400.0, elo_1 = -200.0 }"
    (fake / "ringrift.toml").write_text(FAKE.replace("[replicas]", f"{easy}\n[replicas]"))
    await first_champion()
    first = line().champion
    await play(1, 2)
    assert [len(line().pending), line().fresh] == [2, 0]
    done = []
    for trigger in (trigger_data_sync, trigger_npz_export, trigger_training, trigger_evaluation, trigger_promotion):
        assert alive() == 0
        done.append(await trigger("hex8", 2, timeout_seconds=60.0))

    synced, exported, trained, judged, promoted = done
    assert [one.error for one in done] == [None] * 5
    assert all(one.success and one.duration_seconds > 0 for one in done)
    assert synced.metadata["event"]["nodes"]
    for made, named in ((exported, "samples"), (trained, "model"), (judged, "candidate"), (promoted, "model")):
        assert made.output_path is not None
        assert await asyncio.to_thread(Path(made.output_path).is_file)
        assert made.output_path.endswith(made.metadata["event"][named])
    assert (line().champion, line().generation) == (trained.metadata["event"]["model"], 1)
    assert line().champion != first
    assert get_pipeline_status()["variants"][VARIANT]["iteration"] == 1


def test_a_job_that_is_buried_fails_its_stage_and_counts_for_the_breaker(fake: Path) -> None:
    """Its error is the result's, and one failure is written down for the stage."""
    (fake / "ringrift.toml").write_text(
        FAKE.replace("slots", 'params = { fake_crash = "always", fake_stage = "train" }\nslots')
    )

    result = asyncio.run(trigger_training("hex8", 2, timeout_seconds=30.0))

    assert not result.success
    assert "13" in str(result.error)
    breaker = get_pipeline_orchestrator().circuit_breaker
    assert breaker.get_status()["circuits"]["training"]["failures"] == 1


def test_an_open_breaker_asks_for_nothing() -> None:
    """The result says for how long, and no request is in the log; refusals of a gate never open it."""
    breaker = get_pipeline_orchestrator().circuit_breaker
    for _ in range(4):
        asyncio.run(trigger_evaluation("hex8", 2))
    assert breaker.get_state("evaluation") is CircuitState.CLOSED
    for _ in range(3):
        breaker.record_failure("training", "exit 13")

    result = asyncio.run(trigger_training("hex8", 2))

    assert not result.success
    assert "open for another 300 s: exit 13" in str(result.error)
    assert get_router().get_recent_events(event_type="TRAINING_TRIGGERED") == []
    assert pipelines.should_trigger_training("hex8", 2) == (False, "the circuit of training is open")
    assert not get_pipeline_orchestrator().health_check()


@on_a_loop
async def test_who_stops_waiting_leaves_the_stage_asked_for(fake: Path) -> None:
    """A trigger that is cancelled, or whose time is up, takes nothing back: the stage goes on."""
    (fake / "ringrift.toml").write_text(FAKE.replace("slots", "params = { fake_slow_seconds = 1.0 }\nslots"))

    late = await trigger_training("hex8", 2, timeout_seconds=0.2)
    waiting = asyncio.ensure_future(trigger_training("hex8", 2))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert (late.success, late.error) == (False, "it is not done in time; what was asked for is kept and goes on")
    await wait_until(lambda: line().candidate is not None, 10.0)


@on_a_loop
async def test_an_unknown_variant_is_refused_and_opens_nothing() -> None:
    """Nobody plays ludo here."""
    with pytest.raises(UnknownName):
        await trigger_training("ludo", 2)

    assert get_pipeline_status()["variants"] == {}


@on_a_loop
async def test_an_old_style_request_passes_the_gates() -> None:
    """TRAINING_TRIGGERED starts the training that waits to be asked for; PROMOTION_TRIGGERED promotes nobody."""
    await trigger_data_sync("hex8", 2)

    await get_router().publish("PROMOTION_TRIGGERED", {"config_key": VARIANT})
    await get_router().publish("TRAINING_TRIGGERED", {"config_key": VARIANT, "samples": 20_000}, source="pipeline")

    await wait_until(lambda: line().candidate is not None, 10.0)
    assert line().champion is None
    [trained] = get_router().get_recent_events(event_type="TRAINING_COMPLETED")
    assert trained.payload["config_key"] == VARIANT


@on_a_loop
async def test_a_request_that_names_no_variant_means_the_only_line() -> None:
    """As the documents' own example publishes it; with no line or with two it stays what was said."""
    node = ambient.node()
    saying = Saying(
        name="TRAINING_TRIGGERED", payload={"samples": 20_000}, event=custom.Said(event="TRAINING_TRIGGERED"),
        source="pipeline", origin=EventSource.ROUTER, hidden=frozenset(), here_only=False,
    )  # fmt: skip
    none = await ambient.post(meant(node, saying))
    await trigger_data_sync("hex8", 2)
    one = await ambient.post(meant(node, saying))
    await trigger_data_sync("square8", 2)
    two = await ambient.post(meant(node, saying))

    assert none == two == saying
    assert one.event == Requested(variant=VARIANT, stage="train")
    assert one.payload == {"samples": 20_000, "variant": VARIANT}


def test_the_status_shows_where_each_variant_stands() -> None:
    """Stage, iteration, since when, what is held, and every verdict; the triggers are views of the same gates."""
    asyncio.run(trigger_data_sync("hex8", 2))

    told = get_pipeline_status()

    [(variant, state)] = told["variants"].items()
    assert (variant, state["stage"], state["held"], state["iteration"]) == (VARIANT, "training", ["train"], 0)
    assert told["auto_trigger"] is False
    said = {verdict["gate"]: verdict["rule"] for verdict in state["verdicts"]}
    assert said["automatic"] == "auto-trigger is off: ask for train by hand"
    assert get_pipeline_orchestrator().get_current_stage(VARIANT) is PipelineStage.TRAINING
    assert get_pipeline_orchestrator().get_current_stage("square8_2p") is PipelineStage.IDLE
    assert pipelines.should_trigger_training("hex8", 2)[0]
    assert not pipelines.should_trigger_promotion("hex8", 2)[0]
    assert pipelines.should_trigger_export("square8", 2) == (False, "nobody has opened a line of square8_2p yet")
    assert pipelines.get_trigger_conditions().min_games_for_export == 8
    assert get_pipeline_orchestrator().health_check()


def test_switched_on_the_loop_goes_by_itself() -> None:
    """What was held goes, generation 0 becomes champion, and games are played and counted."""
    asyncio.run(trigger_data_sync("hex8", 2))
    assert line().held

    orchestrator = wire_pipeline_events(auto_trigger=True)

    assert orchestrator.auto_trigger
    asyncio.run(wait_until(lambda: line().counts.games > 0, 20.0))
    stats = get_selfplay_orchestrator().get_stats()
    assert stats["games_generated"] == stats["by_config"][VARIANT]["games"] > 0
    assert hosting.hosted(ambient.node()) is not None
    wire_pipeline_events(auto_trigger=False)
    assert not orchestrator.auto_trigger


@on_a_loop
async def test_selfplay_is_announced_by_one_event() -> None:
    """Both spellings and both shapes are the same event; what is announced counts for no line."""
    assert wire_selfplay_events() is get_selfplay_orchestrator()
    whole = hosting.hosted(ambient.node())
    assert whole is not None
    assert {whole.supervisor.report(name).state for name in ("fill", "pipeline")} == {"running"}

    await emit_selfplay_completion("task-1", "hex8", 2, 1000)
    await emit_selfplay_completion({"config_key": VARIANT, "games_generated": 7})

    heard = get_selfplay_orchestrator().get_recent_completions()
    assert [event.payload["games_generated"] for event in heard] == [1000, 7]
    assert heard[0].payload["config_key"] == VARIANT
    assert get_selfplay_orchestrator().get_status()["games_generated"] == 0
    assert get_selfplay_orchestrator().health_check()


def test_results_have_the_documented_fields() -> None:
    """Every field of the documents is there and none is required but success."""
    made = StageCompletionResult(success=True)

    assert set(msgspec.to_builtins(made)) == {
        "success", "stage", "iteration", "duration_seconds", "output_path", "error", "metadata", "exit_code", "stdout",
        "stderr",
    }  # fmt: skip
