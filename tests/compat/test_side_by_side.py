"""Old-style and new-style code on one node see the same events, jobs, health and models."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ringrift.daemons.beat import beat
from ringrift.events import custom, model
from ringrift.events.base import Envelope, Event
from ringrift.events.pipeline import Opened
from ringrift.jobs import Verify
from ringrift.kernel.errors import AmbiguousVariant, JobFailed
from ringrift.kernel.health import Status
from ringrift.node import Node
from ringrift.pipeline.records import lines, models_of
from ringrift_compat import bootstrap, hosting
from ringrift_compat.ambient import ambient
from ringrift_compat.daemon_manager import get_daemon_manager
from ringrift_compat.daemon_types import DaemonType
from ringrift_compat.emitters import emit_training_complete
from ringrift_compat.events import get_router
from ringrift_compat.levels import QueueType
from ringrift_compat.models import ModelState, get_model_lifecycle_coordinator, get_production_model_id
from ringrift_compat.pipeline_actions import trigger_training
from ringrift_compat.pipelines import get_pipeline_status
from ringrift_compat.pressure import get_queue_monitor
from ringrift_compat.router_event import RouterEvent
from waiting import wait_until

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
    ambient.shutdown()


async def on_the_node(work: Coroutine[Any, Any, T]) -> T:
    """What *work* comes to where the node lives, as code of new style."""
    return await ambient.post(work)


@asynccontextmanager
async def learning() -> AsyncIterator[Node]:
    """The node of this program, on which the loop runs for two variants."""
    bootstrap.initialize_all_coordinators(auto_trigger_pipeline=True)
    node = hosting.hosted(ambient.node())
    assert node is not None
    yield node


async def open_lines(node: Node) -> None:
    """Let both variants be learnt."""
    await node.router.publish_many([Opened(variant=name, workload="fake") for name in VARIANTS], source="test")


def test_both_styles_hear_the_same_events_and_know_the_same_models() -> None:
    """Every promotion is heard once by each side under one id, and both name the same champions and histories."""
    old: list[str] = []
    new: list[str] = []

    async def hear(event: Event, envelope: Envelope) -> None:
        new.append(envelope.id)

    async def resting(node: Node) -> bool:
        async with node.store.read() as view:
            return [line.stage for line in await lines(view)] == ["resting", "resting"]

    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), learning() as node:
            get_router().subscribe("MODEL_PROMOTED", lambda event: old.append(event.event_id))
            await on_the_node(_subscribe(node, hear))
            await on_the_node(open_lines(node))
            await wait_until(lambda: on_the_node(resting(node)), SECONDS_MAX)
            await wait_until(lambda: len(old) == len(new) == 6, SECONDS_MAX)

            known, champions = await on_the_node(_written_down(node))
            life = get_model_lifecycle_coordinator()
            assert {name: get_production_model_id(name) for name in VARIANTS} == champions
            assert {one.model_id for one in life.get_models()} == set(known)
            # A promotion neither archives the model that it promotes nor the champion of another variant.
            assert [life.get_model_state(champion) for champion in champions.values()] == [ModelState.PRODUCTION] * 2
            for champion in champions.values():
                found = life.get_model(champion)
                assert found is not None
                assert [state for state, _ in found.history].count(ModelState.PRODUCTION) == 1
            assert life.get_stats()["by_state"]["production"] == 2
            with pytest.raises(AmbiguousVariant, match="hex8_2p, square8_2p"):
                get_production_model_id()

    asyncio.run(story())
    assert len(set(old)) == 6
    assert sorted(old) == sorted(new)


def test_what_the_loop_says_has_the_fields_that_old_handlers_look_for(tmp_path: Path) -> None:
    """The documents' pipeline goes by games_synced and samples_exported, and a promotion names the canonical file."""
    heard: dict[str, list[dict[str, Any]]] = {
        "DATA_SYNC_COMPLETED": [],
        "NPZ_EXPORT_COMPLETED": [],
        "MODEL_PROMOTED": [],
    }

    def keep(name: str) -> Any:
        return lambda event: heard[name].append(event.payload)

    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), learning() as node:
            for name in heard:
                get_router().subscribe(name, keep(name))
            await on_the_node(open_lines(node))
            await wait_until(lambda: len(heard["MODEL_PROMOTED"]) > 2, SECONDS_MAX)
            paths = {tmp_path / payload["model_path"] for payload in heard["MODEL_PROMOTED"]}
            await wait_until(lambda: all(path.is_file() for path in paths), SECONDS_MAX)

    asyncio.run(story())
    assert {payload["games_synced"] for payload in heard["DATA_SYNC_COMPLETED"]} == {20}
    assert all(payload["samples_exported"] > 0 for payload in heard["NPZ_EXPORT_COMPLETED"])


async def _subscribe(node: Node, hear: Any) -> None:
    node.router.subscribe(model.Promoted, hear)


async def _written_down(node: Node) -> tuple[list[str], dict[str, str]]:
    async with node.store.read() as view:
        known = [one.model for name in VARIANTS for one in await models_of(view, name)]
        return known, {line.variant: line.champion or "" for line in await lines(view)}


def test_what_one_side_says_the_other_hears() -> None:
    """An event under an old name is one event of ours, heard by a handler of new style with its payload."""
    heard: list[tuple[str, str]] = []

    async def hear(event: Event, envelope: Envelope) -> None:
        assert isinstance(event, custom.Said)
        heard.append((event.event, envelope.id))

    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), learning() as node:
            await on_the_node(_listen(node, hear))
            said: RouterEvent = await get_router().publish("CUSTOM_EVENT", {"data": "value"}, source="old")
            await wait_until(lambda: bool(heard))
            assert heard == [("CUSTOM_EVENT", said.event_id)]

    async def _listen(node: Node, call: Any) -> None:
        node.router.subscribe(custom.Said, call)

    asyncio.run(story())


def test_a_model_file_that_an_event_names_is_taken_in_before_the_event_counts(tmp_path: Path) -> None:
    """A real file becomes a model of ours, once; one that is none is a typed error, and nothing is said."""
    seen: list[RouterEvent] = []

    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            made = await trigger_training("hex8", 2)
            assert made.success, made.error
            file = tmp_path / "theirs.pth"
            shutil.copy(str(made.output_path), file)
            get_router().subscribe("TRAINING_COMPLETED", seen.append)

            said = await emit_training_complete(config_key="hex8_2p", model_path=str(file), metrics={"loss": 0.5})
            again = await emit_training_complete(config_key="hex8_2p", model_path=str(file), metrics={"loss": 0.4})
            assert said.payload["model_id"] == again.payload["model_id"] == made.metadata["event"]["model"]
            await wait_until(lambda: len(seen) == 2)

            file.write_bytes(b"no model at all")
            with pytest.raises(JobFailed, match="does not decode"):
                await emit_training_complete(config_key="hex8_2p", model_path=str(file), metrics={"loss": 0.3})
            recent = get_router().get_recent_events(event_type="TRAINING_COMPLETED")
            assert {event.payload.get("metrics", {}).get("loss") for event in recent} == {None, 0.5, 0.4}

    asyncio.run(story())


def test_both_styles_see_the_same_jobs() -> None:
    """What a trigger asks for is a job that new code finds, and what new code asks for is what old code counts."""

    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            bootstrap.initialize_all_coordinators()
            node = _node()
            made = await trigger_training("hex8", 2)
            rows = await on_the_node(_jobs(node, ("done",)))
            assert [(row.kind, row.variant) for row in rows] == [("train", "hex8_2p")]
            assert made.metadata["event"]["job"] == rows[0].key
            assert get_pipeline_status()["variants"]["hex8_2p"]["stage"] == "evaluation"

            await get_daemon_manager().stop(DaemonType.WORK)
            before = get_queue_monitor().get_queue_depth(QueueType.EVALUATION)
            model = str(made.metadata["event"]["model"])
            await on_the_node(node.desk.ask([Verify(variant="hex8_2p", model=model)]))
            assert get_queue_monitor().get_queue_depth(QueueType.EVALUATION) == before + 1

    asyncio.run(story())


def test_both_styles_see_the_same_health() -> None:
    """A daemon that was given up is unhealthy for the supervisor, for the manager, for the system and for commands."""

    async def broken() -> None:
        raise ValueError("no")

    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            bootstrap.initialize_all_coordinators()
            manager, kind, node = get_daemon_manager(), DaemonType.declare("SICK"), _node()
            assert [one.part for one in node.supervisor.health() if one.status is not Status.HEALTHY] == []
            manager.register_factory(kind, broken, max_restarts=0)
            await manager.start(kind)
            await wait_until(lambda: manager.is_permanently_failed(kind))

            [wrong] = [one for one in node.supervisor.health() if one.status is not Status.HEALTHY]
            assert (wrong.part, wrong.status) == ("sick", Status.UNHEALTHY)
            told = manager.get_all_daemon_health()[kind]
            assert not told["healthy"]
            assert "ValueError: no" in wrong.reason
            await on_the_node(_beat(node))
            record = next(one for one in await on_the_node(node.roster.everyone()) if one.id == node.node_id)
            assert [duty.name for duty in record.doing.duties.shown if duty.status == "unhealthy"] == ["sick"]

    asyncio.run(story())


def _node() -> Node:
    found = hosting.hosted(ambient.node())
    assert found is not None
    return found


async def _jobs(node: Node, states: tuple[str, ...]) -> Any:
    async with node.store.read() as view:
        return await view.jobs(states, 10)


async def _beat(node: Node) -> None:
    await beat(
        roster=node.roster, record=node.record, clock=node.clock, activity=node.activity, supervisor=node.supervisor,
        router=node.router,
    )  # fmt: skip
