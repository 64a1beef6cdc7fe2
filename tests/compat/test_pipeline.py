"""The documented pipeline on a real store: requested stages do the real work, pass their gates, and end."""

import asyncio
import time
from pathlib import Path

import msgspec
import pytest

from compat.subscribers import QUICK, async_test, home
from ringrift.events.pipeline import Opened, Requested
from ringrift.jobs import Play
from ringrift.kernel.breaker import BreakerState
from ringrift.kernel.errors import UnknownName
from ringrift.pipeline.line import LINES, Line
from ringrift.work import desk
from ringrift.work.breakers import BREAKERS, StoredBreaker
from ringrift_compat import embedded_host
from ringrift_compat.embedded_node import embedded
from ringrift_compat.events import old_names
from ringrift_compat.events.buses import StageCompletionResult
from ringrift_compat.events.event_router import get_router
from ringrift_compat.pipeline.model_import import complete_payload
from ringrift_compat.pipeline.model_lifecycle import ModelLifecycleCoordinator, get_production_model_id
from ringrift_compat.pipeline.orchestrator import get_pipeline_status, wire_pipeline_events
from ringrift_compat.pipeline.pipeline_actions import (
    _wait_for_line,
    trigger_data_sync,
    trigger_evaluation,
    trigger_npz_export,
    trigger_promotion,
    trigger_training,
)
from ringrift_compat.pipeline.selfplay_orchestrator import emit_selfplay_completion, wire_selfplay_events
from wait import wait_until

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
    """Return the stored line."""

    async def read() -> Line:
        async with embedded.node().store.read() as view:
            stored = await LINES.get(view, VARIANT)
        assert stored is not None
        return stored

    return embedded.call(read())


def open_breaker(subject: str) -> None:
    """Open the stored breaker of *subject*, as failures of jobs do."""

    async def write() -> None:
        facts = {"failures": 9, "opened": 1, "seconds": 60.0, "error": "exit 13"}
        async with embedded.node().store.begin() as tx:
            await BREAKERS.put(tx, [StoredBreaker(subject=subject, state=BreakerState.OPEN, **facts)])

    embedded.call(write())


def alive() -> int:
    """Return the number of waiting and running jobs."""

    async def count() -> int:
        async with embedded.node().store.read() as view:
            tally = await view.count_jobs()
        return sum(number for (_, state), number in tally.items() if state in ("ready", "claimed"))

    return embedded.call(count())


@async_test
async def test_with_nothing_to_do_the_gate_refuses_at_once() -> None:
    """The result is the verdict's reason, within a second, and no job is enqueued; a new line waits for a request."""
    await trigger_data_sync(board_type="hex8", num_players=2)
    began = time.monotonic()

    result = await trigger_data_sync(board_type="hex8", num_players=2, iteration=1)

    assert time.monotonic() - began < 1.0
    assert (result.success, result.stage, result.iteration) == (False, "data_sync", 1)
    assert result.error == "sync: batches that wait for their copies (0 of 1)"
    assert result.metadata["config_key"] == VARIANT
    assert alive() == 0
    assert [job.kind() for job in line().manual_jobs] == ["train"]


async def first_champion() -> list[StageCompletionResult]:
    """Train, evaluate and promote generation 0, each stage by request."""
    return [await trigger("hex8", 2) for trigger in (trigger_training, trigger_evaluation, trigger_promotion)]


@async_test
async def test_each_trigger_runs_one_stage_to_its_end() -> None:
    """Training makes a file, evaluation decides, promotion distributes it; each is published once under its name."""
    assert not (await trigger_promotion("hex8", 2)).success

    trained, judged, promoted = await first_champion()

    assert [result.error for result in (trained, judged, promoted)] == [None, None, None]
    assert (trained.success, judged.success, promoted.success) == (True, True, True)
    assert min(result.duration_seconds for result in (trained, judged, promoted)) > 0
    assert trained.output_path is not None
    assert trained.output_path.endswith(trained.metadata["event"]["model"])
    assert line().champion == trained.metadata["event"]["model"]
    for result in (judged, promoted):
        assert result.metadata["event"]["model"] == line().champion, "it waited for the event that ends its stage"
    lifecycle = ModelLifecycleCoordinator.get_instance()
    ids = {get_production_model_id(), get_production_model_id(VARIANT), lifecycle.get_production_model_id(VARIANT)}
    assert ids == {line().champion}
    assert get_production_model_id("hex8_3p") is None
    for name in ("TRAINING_COMPLETED", "MODEL_PROMOTED", "MODEL_DISTRIBUTION_COMPLETE"):
        assert len(get_router().get_recent_events(event_type=name)) == 1
    assert alive() == 0
    assert (await trigger_npz_export("hex8", 2)).error == "export: games kept since the last export (0 of 1)"


async def play(*seeds: int) -> None:
    """Let the champion play a batch for each of *seeds*: enqueue the jobs and wait for their end."""
    node, before, champion = embedded.node(), line().counts.batches, line().champion
    assert champion is not None
    jobs = [Play(variant=VARIANT, model=champion, games=4, seed=seed) for seed in seeds]

    async def ask() -> None:
        async with node.store.begin() as tx:
            await desk.enqueue(tx, jobs, node.envelopes, node.clock.now())

    await embedded.post(ask())
    await wait_until(lambda: line().counts.batches == before + len(seeds), 20.0)


@async_test
async def test_a_whole_iteration_runs_by_triggers(fake: Path) -> None:
    """Batches are copied, exported and trained on, the model is matched and promoted, each stage by its own trigger."""
    easy = "gate = { elo_0 = -400.0, elo_1 = -200.0 }"
    (fake / "ringrift.toml").write_text(FAKE.replace("[replicas]", f"{easy}\n[replicas]"))
    await first_champion()
    first = line().champion
    await play(1, 2)
    assert [len(line().pending), line().fresh] == [2, 0]
    done, stages = [], []
    for trigger in (trigger_data_sync, trigger_npz_export, trigger_training, trigger_evaluation, trigger_promotion):
        assert alive() == 0
        done.append(await trigger("hex8", 2, timeout_seconds=60.0))
        stages.append(get_pipeline_status()["variants"][VARIANT]["stage"])

    synced, exported, trained, judged, promoted = done
    assert [result.error for result in done] == [None] * 5
    assert stages == ["npz_export", "training", "evaluation", "promotion", "selfplay"]
    assert all(result.success and result.duration_seconds > 0 for result in done)
    assert synced.metadata["event"]["nodes"]
    for made, named in ((exported, "samples"), (trained, "model"), (judged, "candidate"), (promoted, "model")):
        assert made.output_path is not None
        assert await asyncio.to_thread(Path(made.output_path).is_file)
        assert made.output_path.endswith(made.metadata["event"][named])
    assert (line().champion, line().generation) == (trained.metadata["event"]["model"], 1)
    assert line().champion != first
    state, stored = get_pipeline_status()["variants"][VARIANT], line()
    assert (state["iteration"], state["generation"], state["champion"]) == (1, 1, stored.champion)
    assert (state["line_stage"], state["since"]) == (stored.stage.value, stored.since)


@async_test
async def test_an_action_ends_after_the_line_has_moved() -> None:
    """While the loop has not read the event that ends a stage, the action waits; then the status shows what is next."""
    node = embedded.node()

    async def prepare() -> int:
        async with node.store.begin() as tx:
            await tx.register_reader("pipeline", 0)
        return (await node.router.publish(Opened(variant=VARIANT, workload="fake"))).position

    position = await embedded.post(prepare())
    waiting = asyncio.run_coroutine_threadsafe(_wait_for_line(node, position), node.loop)
    await asyncio.wait((asyncio.wrap_future(waiting),), timeout=0.3)
    assert not waiting.done()

    async def advance() -> None:
        async with node.store.begin() as tx:
            await tx.advance("pipeline", 0, position)

    await embedded.post(advance())
    async with asyncio.timeout(20.0):
        await asyncio.wrap_future(waiting)


def test_a_job_that_is_buried_fails_its_stage_and_counts_for_the_breaker(fake: Path) -> None:
    """Its error is the result's, and both tries of the job are one failure of the stored breaker."""
    (fake / "ringrift.toml").write_text(
        FAKE.replace("slots", 'params = { fake_crash = "always", fake_stage = "train" }\nslots')
    )

    result = asyncio.run(trigger_training("hex8", 2, timeout_seconds=30.0))

    assert not result.success
    assert "13" in str(result.error)
    circuit = get_pipeline_status()["circuits"]["training"]
    assert (circuit["state"], circuit["failures"]) == ("closed", 1)


def test_an_open_breaker_enqueues_nothing() -> None:
    """The result names the stored breaker and its last error, and no request is in the log; a gate's refusals, and the
    breaker of another stage, keep nothing from being triggered."""
    for _ in range(4):
        asyncio.run(trigger_evaluation("hex8", 2))
    assert get_pipeline_status()["circuits"] == {}
    open_breaker("stage:train")

    result = asyncio.run(trigger_training("hex8", 2))

    assert not result.success
    assert "the breaker of stage:train is open: exit 13 (9 failures in a row" in str(result.error)
    assert get_router().get_recent_events(event_type="TRAINING_TRIGGERED") == []
    assert get_pipeline_status()["circuits"]["training"]["state"] == "open"
    assert "breaker" not in str(asyncio.run(trigger_evaluation("hex8", 2)).error)


@async_test
async def test_cancelling_a_trigger_leaves_its_stage_running(fake: Path) -> None:
    """A trigger that is cancelled, or runs out of time, takes nothing back: the stage goes on."""
    (fake / "ringrift.toml").write_text(FAKE.replace("slots", "params = { fake_slow_seconds = 1.0 }\nslots"))

    late = await trigger_training("hex8", 2, timeout_seconds=0.2)
    waiting = asyncio.ensure_future(trigger_training("hex8", 2))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert (late.success, late.error) == (False, "it is not done in time; the request is kept, and the stage goes on")
    await wait_until(lambda: line().candidate is not None, 10.0)


@async_test
async def test_an_unknown_variant_is_refused_and_opens_nothing() -> None:
    """No workload plays ludo here."""
    with pytest.raises(UnknownName):
        await trigger_training("ludo", 2)

    assert get_pipeline_status()["variants"] == {}


@async_test
async def test_an_old_style_request_passes_the_gates() -> None:
    """TRAINING_TRIGGERED starts the training that waits for a request; PROMOTION_TRIGGERED promotes no model."""
    await trigger_data_sync("hex8", 2)

    await get_router().publish("PROMOTION_TRIGGERED", {"config_key": VARIANT})
    await get_router().publish("TRAINING_TRIGGERED", {"config_key": VARIANT, "samples": 20_000}, source="pipeline")

    await wait_until(lambda: line().candidate is not None, 10.0)
    assert line().champion is None
    [trained] = get_router().get_recent_events(event_type="TRAINING_COMPLETED")
    assert trained.payload["config_key"] == VARIANT


@async_test
async def test_a_request_that_names_no_variant_means_the_only_line() -> None:
    """The documented example publishes it so; with no line or with two it stays a custom event."""
    node, payload = embedded.node(), {"samples": 20_000}
    none = await embedded.post(complete_payload(node, "TRAINING_TRIGGERED", payload))
    await trigger_data_sync("hex8", 2)
    only = await embedded.post(complete_payload(node, "TRAINING_TRIGGERED", payload))
    await trigger_data_sync("square8", 2)
    two = await embedded.post(complete_payload(node, "TRAINING_TRIGGERED", payload))

    assert none == two == payload
    assert only == {"samples": 20_000, "variant": VARIANT}
    assert old_names.make_event("TRAINING_TRIGGERED", only) == Requested(variant=VARIANT, stage="train")


def test_the_status_shows_where_each_variant_stands() -> None:
    """The status has stage, iteration, times, stages that wait for an operator, and every verdict."""
    asyncio.run(trigger_data_sync("hex8", 2))

    status = get_pipeline_status()

    [(variant, state)] = status["variants"].items()
    assert (variant, state["stage"], state["held"], state["iteration"]) == (VARIANT, "training", ["train"], 0)
    assert status["auto_trigger"] is False
    rules = {verdict["gate"]: verdict["rule"] for verdict in state["verdicts"]}
    assert rules["automatic"] == "auto-trigger is off: request train to go on"


def test_with_auto_trigger_the_loop_runs_by_itself() -> None:
    """Held stages start, generation 0 becomes champion, and games are played and counted."""
    asyncio.run(trigger_data_sync("hex8", 2))
    assert line().manual_jobs

    wire_pipeline_events(auto_trigger=True)

    assert get_pipeline_status()["auto_trigger"]
    asyncio.run(wait_until(lambda: line().counts.games > 0, 20.0))
    assert embedded_host.get_host(embedded.node()) is not None
    wire_pipeline_events(auto_trigger=False)
    assert not get_pipeline_status()["auto_trigger"]


@async_test
async def test_selfplay_is_announced_by_one_event() -> None:
    """Both spellings and both shapes are the same event; an announcement counts for no line."""
    wire_selfplay_events()
    whole = embedded_host.get_host(embedded.node())
    assert whole is not None
    assert {whole.supervisor.status(name).state for name in ("fill", "pipeline")} == {"running"}

    await emit_selfplay_completion("task-1", "hex8", 2, 1000)
    await emit_selfplay_completion({"config_key": VARIANT, "games_generated": 7})

    events = get_router().get_recent_events(event_type="SELFPLAY_COMPLETE")
    assert [event.payload["games_generated"] for event in events] == [1000, 7]
    assert events[0].payload["config_key"] == VARIANT
    assert get_pipeline_status()["variants"] == {}


def test_results_have_the_documented_fields() -> None:
    """Every field that is measured is there, no other is, and none is required but success."""
    made = StageCompletionResult(success=True)

    assert set(msgspec.to_builtins(made)) == {
        "success",
        "stage",
        "iteration",
        "duration_seconds",
        "output_path",
        "error",
        "metadata",
    }
