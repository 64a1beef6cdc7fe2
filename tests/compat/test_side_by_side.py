"""Old-style and new-style code on one node see the same events, jobs, health and models."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ringrift.daemons.beat import _ClockWatch, beat
from ringrift.events import custom, model
from ringrift.events.base import Envelope, Event
from ringrift.events.pipeline import Opened
from ringrift.jobs import Verify
from ringrift.kernel.errors import JobFailed
from ringrift.kernel.health import Status
from ringrift.node import Node
from ringrift.pipeline.line import LINES
from ringrift.pipeline.models import MODELS, State
from ringrift_compat import embedded_host
from ringrift_compat.coordinators import bootstrap
from ringrift_compat.daemons.manager import get_daemon_manager
from ringrift_compat.daemons.types import DaemonType
from ringrift_compat.embedded_node import embedded
from ringrift_compat.events.event_emitters import emit_training_complete
from ringrift_compat.events.event_router import get_router
from ringrift_compat.events.router_event import RouterEvent
from ringrift_compat.health.queue_monitor import _measure
from ringrift_compat.pipeline.model_lifecycle import (
    AmbiguousVariant,
    ModelLifecycleCoordinator,
    get_production_model_id,
)
from ringrift_compat.pipeline.orchestrator import get_pipeline_status
from ringrift_compat.pipeline.pipeline_actions import trigger_training
from ringrift_compat.types import QueueType
from wait import wait_until

VARIANTS = ("hex8_2p", "square8_2p")
SECONDS_MAX = 60.0
QUICK = """
[work]
workload = "fake"
[policy]
iterations_max = 2
games_per_batch = 20
games_per_export = 40
"""
T = TypeVar("T")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of its own, where learning is quick and two promotions are enough."""
    monkeypatch.setenv("RINGRIFT_HOME", str(tmp_path))
    (tmp_path / "ringrift.toml").write_text(QUICK)
    yield tmp_path
    embedded.shutdown()


async def on_the_node(work: Coroutine[Any, Any, T]) -> T:
    """Run *work* on the loop of the node, as code of new style."""
    return await embedded.post(work)


@asynccontextmanager
async def learning() -> AsyncIterator[Node]:
    """The node of this program, on which the loop runs for two variants."""
    bootstrap.initialize_all_coordinators(auto_trigger_pipeline=True)
    node = embedded_host.get_host(embedded.node())
    assert node is not None
    yield node


async def open_lines(node: Node) -> None:
    """Let both variants be learnt."""
    await node.router.publish_many([Opened(variant=name, workload="fake") for name in VARIANTS], source="test")


def test_both_styles_see_the_same_events_and_models() -> None:
    """Every promotion reaches each side once under one id, and both name the same champions and histories."""
    old: list[str] = []
    new: list[str] = []

    async def record(event: Event, envelope: Envelope) -> None:
        new.append(envelope.id)

    async def resting(node: Node) -> bool:
        async with node.store.read() as view:
            return [line.stage for line in await LINES.all(view)] == ["resting", "resting"]

    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), learning() as node:
            get_router().subscribe("MODEL_PROMOTED", lambda event: old.append(event.event_id))
            await on_the_node(_subscribe(node, record))
            await on_the_node(open_lines(node))
            await wait_until(lambda: on_the_node(resting(node)), SECONDS_MAX)
            await wait_until(lambda: len(old) == len(new) == 6, SECONDS_MAX)

            existing, champions = await on_the_node(_stored_models(node))
            models = {model.model: model for model in ModelLifecycleCoordinator().get_models()}
            assert {name: get_production_model_id(name) for name in VARIANTS} == champions
            assert set(models) == set(existing)
            # A promotion neither archives the model that it promotes nor the champion of another variant.
            for champion in champions.values():
                assert models[champion].state is State.CHAMPION
                assert [state for state, _ in models[champion].steps].count(State.CHAMPION) == 1
            with pytest.raises(AmbiguousVariant, match="hex8_2p, square8_2p"):
                get_production_model_id()

    asyncio.run(story())
    assert len(set(old)) == 6
    assert sorted(old) == sorted(new)


def test_events_of_the_loop_have_the_fields_of_old_handlers(tmp_path: Path) -> None:
    """The documented pipeline reads games_synced and samples_exported, and a promotion names the canonical file."""
    received: dict[str, list[dict[str, Any]]] = {
        "DATA_SYNC_COMPLETED": [],
        "NPZ_EXPORT_COMPLETED": [],
        "MODEL_PROMOTED": [],
    }

    def keep(name: str) -> Any:
        return lambda event: received[name].append(event.payload)

    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), learning() as node:
            for name in received:
                get_router().subscribe(name, keep(name))
            await on_the_node(open_lines(node))
            await wait_until(lambda: len(received["MODEL_PROMOTED"]) > 2, SECONDS_MAX)
            paths = {tmp_path / payload["model_path"] for payload in received["MODEL_PROMOTED"]}
            await wait_until(lambda: all(path.is_file() for path in paths), SECONDS_MAX)

    asyncio.run(story())
    assert {payload["games_synced"] for payload in received["DATA_SYNC_COMPLETED"]} == {20}
    assert all(payload["samples_exported"] > 0 for payload in received["NPZ_EXPORT_COMPLETED"])


async def _subscribe(node: Node, handler: Any) -> None:
    node.router.subscribe(model.Promoted, handler)


async def _stored_models(node: Node) -> tuple[list[str], dict[str, str]]:
    async with node.store.read() as view:
        existing = [record.model for name in VARIANTS for record in await MODELS.all(view, "variant", name)]
        return existing, {line.variant: line.champion or "" for line in await LINES.all(view)}


def test_an_event_of_one_style_reaches_the_other() -> None:
    """An event under an old name is one event of ours, and a new-style handler receives its payload."""
    received: list[tuple[str, str]] = []

    async def record(event: Event, envelope: Envelope) -> None:
        assert isinstance(event, custom.Published)
        received.append((event.event, envelope.id))

    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), learning() as node:
            await on_the_node(_subscribe_custom(node, record))
            published: RouterEvent = await get_router().publish("CUSTOM_EVENT", {"data": "value"}, source="old")
            await wait_until(lambda: bool(received))
            assert received == [("CUSTOM_EVENT", published.event_id)]

    async def _subscribe_custom(node: Node, call: Any) -> None:
        node.router.subscribe(custom.Published, call)

    asyncio.run(story())


def test_a_model_file_named_by_an_event_is_imported_first(tmp_path: Path) -> None:
    """A real file becomes a model of ours, once; an invalid one is a typed error, and nothing is published."""
    received: list[RouterEvent] = []

    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            made = await trigger_training("hex8", 2)
            assert made.success, made.error
            file = tmp_path / "theirs.pth"
            shutil.copy(str(made.output_path), file)
            get_router().subscribe("TRAINING_COMPLETED", received.append)

            published = await emit_training_complete(config_key="hex8_2p", model_path=str(file), metrics={"loss": 0.5})
            again = await emit_training_complete(config_key="hex8_2p", model_path=str(file), metrics={"loss": 0.4})
            assert published.payload["model_id"] == again.payload["model_id"] == made.metadata["event"]["model"]
            await wait_until(lambda: len(received) == 2)

            file.write_bytes(b"no model at all")
            with pytest.raises(JobFailed, match="is refused"):
                await emit_training_complete(config_key="hex8_2p", model_path=str(file), metrics={"loss": 0.3})
            recent = get_router().get_recent_events(event_type="TRAINING_COMPLETED")
            assert {event.payload.get("metrics", {}).get("loss") for event in recent} == {None, 0.5, 0.4}

    asyncio.run(story())


def test_both_styles_see_the_same_jobs() -> None:
    """New code finds the job of an old trigger, and old code counts the job of new code."""

    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            bootstrap.initialize_all_coordinators()
            node = _node()
            made = await trigger_training("hex8", 2)
            rows = await on_the_node(_jobs(node, ("done",)))
            assert [(row.kind, row.variant) for row in rows] == [("train", "hex8_2p")]
            assert made.metadata["event"]["job"] == rows[0].key
            await wait_until(lambda: get_pipeline_status()["variants"]["hex8_2p"]["stage"] == "evaluation")

            await get_daemon_manager().stop(DaemonType.WORK)
            before = embedded.query(_measure)[QueueType.EVALUATION].depth
            model = str(made.metadata["event"]["model"])
            await on_the_node(node.desk.enqueue([Verify(variant="hex8_2p", model=model)]))
            assert embedded.query(_measure)[QueueType.EVALUATION].depth == before + 1

    asyncio.run(story())


def test_both_styles_see_the_same_health() -> None:
    """A daemon that was given up is unhealthy for the supervisor, the manager, the system and the commands."""

    async def broken() -> None:
        raise ValueError("no")

    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            bootstrap.initialize_all_coordinators()
            manager, kind, node = get_daemon_manager(), DaemonType.declare("SICK"), _node()
            assert [part.part for part in node.supervisor.health() if part.status is not Status.HEALTHY] == []
            manager.register_factory(kind, broken, max_restarts=0)
            await manager.start(kind)
            await wait_until(lambda: manager.is_permanently_failed(kind))

            [health] = [part for part in node.supervisor.health() if part.status is not Status.HEALTHY]
            assert (health.part, health.status) == ("sick", Status.UNHEALTHY)
            assert not manager.get_all_daemon_health()[kind]["healthy"]
            assert "ValueError: no" in health.reason
            await on_the_node(_beat(node))
            records = {record.id: record for record in await on_the_node(node.roster.all_nodes())}
            assert records[node.node_id].activity.daemons.failed == ("sick",)

    asyncio.run(story())


def _node() -> Node:
    result = embedded_host.get_host(embedded.node())
    assert result is not None
    return result


async def _jobs(node: Node, states: tuple[str, ...]) -> Any:
    async with node.store.read() as view:
        return await view.jobs(states, 10)


async def _beat(node: Node) -> None:
    parts = ("roster", "record", "clock", "activity", "supervisor", "router", "facts")
    await beat(**{part: getattr(node, part) for part in parts}, memory=_ClockWatch())
