"""Runs the blocks of a document in order in one namespace, as a program of its own, and writes what became of them."""

import ast
import asyncio
import inspect
import json
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from documents.seeds import Block, blocks, with_bodies

BLOCK_SECONDS_MAX = 1.5
CALL_SECONDS = 1.0

# What a reader of the documents is expected to have at hand.
SUPPLIED = """
import asyncio, os, queue as queues
from pathlib import Path
from dataclasses import dataclass
from enum import Enum
from typing import Any
from app.coordination.event_router import DataEventType, RouterEvent, get_router
from app.coordination.daemon_types import DaemonType
for example in ("MY_DAEMON", "SOME_DAEMON"): DaemonType.declare(example)
event = RouterEvent(event_type="training.completed", payload={"config": "hex8_2p"})
payload, config_key, node_id = {"config": "hex8_2p"}, "hex8_2p", "node-1"
heard = []
def recent(name): return get_router().get_recent_events(event_type=name)
from app.coordination.coordination_bootstrap import get_bootstrap_status as booted
from app.coordination.event_router import EventSource as Sources, RouterEvent as Routed
from app.coordination.protocols import HealthCheckResult as Checked
from app.coordination.sync_facade import SyncBackend as Ways, SyncResponse as Answered
from compat.file_scene import FileScene
def fields(kind): return set(kind.__dataclass_fields__)
def members(kind): return {one.name: one.value for one in kind}
async def said(name):
    while not recent(name): await asyncio.sleep(0.02)
async def yours():
    await get_router().publish("YOUR_EVENT", {"n": 1})
    while not heard: await asyncio.sleep(0.02)
async def copied():
    await setup_pipeline()
    await get_router().publish("DATA_SYNC_COMPLETED", {"games_synced": 150})
    while not recent("EXPORT_TRIGGERED"): await asyncio.sleep(0.02)
async def on_model_promoted(event): heard.append(event)
async def my_handler(event): heard.append(event)
queue = queues.Queue()
class MyCustomDaemon:
    async def start(self): self.started = True
    async def wait_for_shutdown(self): await asyncio.Event().wait()
class Own:
    _start_time, _error_count, _cycle_count, _uptime = 0.0, 0, 1, 1.0
    async def _on_your_event(self, event): heard.append(event)
self = Own()
"""
# The duty of these is to run until they are cancelled.
UNTIL_CANCELLED = frozenset({"000.3"})
# What a block only defines is called, and ended after its time where its duty is to go on.
CALLED = {
    "002.33": "sync_with_feedback('hex8_2p', 'node-1')",
    "002.31": "main()",
    "002.32": "copied()",
    "004.2": "said('TRAINING_STARTED')",
    "004.5": "yours()",
}
# What a block needs that its reader has: nodes, files, an orchestrator.
_LINE = (
    "games, model = scene.put(b'games', HERE), scene.put(b'model', HERE); scene.open_line(games=[games], model=model)"
)
PREPARED: dict[str, str] = {
    "000.9": "scene = FileScene(Path.cwd(), 'spot', ephemeral=['spot']); orphan = scene.put(b'games', 'spot'); "
    "scene.open_line(games=[orphan])",
    "002.18": "scene = FileScene(Path.cwd(), 'node-1', 'node-2'); HERE = scene.host.node_id; " + _LINE,
    "002.19": "more = scene.put(b'more games', HERE); scene.open_line(games=[games, more], model=model)",
    "002.20": "VAST = 'vast-12345'; scene.add_node(Path.cwd() / VAST, VAST, ephemeral=True); "
    "orphan = scene.put(b'x', VAST); scene.open_line(games=[games, more, orphan], model=model)",
    "002.33": "scene = FileScene(Path.cwd(), 'node-1'); last = scene.put(b'last', HERE); "
    "scene.open_line(games=[last], model=model)",
    "004.1": "from ringrift_compat.cluster.orchestrator import P2POrchestrator; self = P2POrchestrator(); "
    "from compat.cluster_scene import present; present('n1', 80); node, config = 'n1', config_key; "
    "scene = FileScene(Path.cwd(), 'near'); HERE = scene.host.node_id; "
    f"{_LINE}; cluster_manifest = {{'near': [games, model], HERE: [games]}}",
    "004.5": "self = Own()",
    "004.6": "urgent = scene.put(b'urgent', HERE); scene.open_line(games=[urgent], model=model)",
}
# What must hold after a block, besides that it ran.
EFFECTS: dict[str, str] = {
    "000.1": "'event_coordinator' in status['_instances'] and health['status'] == 'healthy'",
    "000.2": "booted()['auto_trigger_pipeline'] is True",
    "000.3": "set(stats) >= {'pending', 'recovered'}",
    "000.4": "set(health) >= {'overall_health', 'status', 'coordinators', 'issues', 'handler_health'}",
    "000.5": "isinstance(level, BackpressureLevel)",
    "000.6": "isinstance(trace_id, str)",
    "000.7": "[one.payload['games_generated'] for one in recent('SELFPLAY_COMPLETE')] == [1000]",
    "000.8": "task_id == 'selfplay-001' and [task.id for task in coordinator.get_tasks()] == [task_id]",
    "001.1": "bus.get_history('training.completed')[-1].payload == {'config': 'hex8_2p'}",
    "001.2": "get_router().get_recent_events()[-1].source == 'training_daemon'",
    "001.3": "[one.type for one in router.get_recent_events()][-1:] == ['TRAINING_COMPLETED']",
    "001.4": "(result.success, result.stage, result.iteration) == (False, 'data_sync', 1) and 'wait' in result.error",
    "001.5": "cb.get_circuits()['training']['failures'] == 1 and cb.can_execute()",
    "000.9": "len(recommendations) == 1 and [row.node for row in scene.receipts(orphan)] == [scene.host.node_id]",
    "001.6": "not result.success and 'gpu-node-1' in result.error and manager.get_status()['active'] == 0",
    "002.17": "get_sync_facade() is get_sync_facade() and isinstance(get_sync_facade(), SyncFacade)",
    "002.18": "response.success and response.nodes_synced == 2 and response.backend_used is SyncBackend.CLUSTER_SYNC "
    "and {row.node for blob in (games, model) for row in scene.receipts(blob)} == {'node-1', 'node-2'}",
    "002.19": "response.success and (response.nodes_synced, response.bytes_transferred) == (2, 2 * len(b'more games'))",
    "002.20": "response.success and len(scene.receipts(orphan)) == 3 and response.bytes_transferred == 3",
    "002.21": "fields(SyncResponse) == fields(Answered)",
    "002.22": "members(SyncBackend) == members(Ways)",
    "002.23": "result.healthy and result.details['operations_count'] == stats['total_syncs'] == 5 "
    "and stats['by_backend'] == {'auto_sync': 1, 'router': 1, 'cluster_sync': 3} and stats['total_bytes'] > 0",
    "002.33": "recent('PRIORITY_SYNC_COMPLETED')[-1].payload['games_synced'] == 1 and len(scene.receipts(last)) == 1",
    "002.34": "get_system_health()['sync'] == {'healthy': True, 'total_syncs': 1}",
    "003.1": "UnifiedQueuePopulator.default is DaemonType.QUEUE_POPULATOR "
    "and get_sync_facade().get_stats()['total_syncs'] == 0",
    "004.1": "self.job_manager and [item.blob for item in self.sync_planner.generate_sync_plan(cluster_manifest)"
    ".recommendations] == [model] and self.state_manager.load_state()['jobs']['ready'] == 1",
    "004.3": "result.success and result.nodes_synced == 1 and 'near' in scene.holders(games) + scene.holders(model)",
    "004.6": "[row.transfer_class for row in scene.receipts(urgent)] == ['urgent']",
    "001.8": "UnifiedEventCoordinator.get_instance() is get_event_coordinator()",
    "002.1": "DaemonManager.get_instance() is get_daemon_manager() and DaemonType('auto_sync') is DaemonType.AUTO_SYNC",
    "002.2": "manager is get_daemon_manager()",
    "002.3": "success and manager.is_running(DaemonType.DATA_PIPELINE) and manager.is_running(DaemonType.AUTO_SYNC)",
    "002.4": "success and not any(manager.is_running(one) for one in (DaemonType.AUTO_SYNC, DaemonType.DATA_PIPELINE))",
    "002.5": "not is_running and set(status) == set(health_status) and manager.liveness_probe().ok",
    "002.6": "DaemonType.MY_DAEMON in manager.get_status() and not manager.is_running(DaemonType.MY_DAEMON)",
    "002.7": "not manager.is_permanently_failed(DaemonType.SOME_DAEMON)",
    "002.8": "manager is not get_daemon_manager() and manager.config == DaemonManagerConfig()",
    "002.9": "get_router().subscribe and not has_subscribers('NOBODY_LISTENS')",
    "002.10": "event.event_type == 'CUSTOM_EVENT' and recent('CUSTOM_EVENT')[0].payload == {'data': 'value'}",
    "002.11": "get_router().get_recent_events()[-1].source == 'trainer'",
    "002.12": "not router.unsubscribe('TRAINING_COMPLETED', on_training_complete)",
    "002.13": "fields(RouterEvent) <= fields(Routed)",
    "002.14": "{one.name: one.value for one in EventSource} == {one.name: one.value for one in Sources}",
    "002.15": "has_subscribers('TRAINING_COMPLETED') and has_subscribers(DataEventType.TRAINING_COMPLETED)",
    "002.16": "set(stats) >= {'events_routed', 'events_by_source', 'duplicates_prevented'} and len(history) > 0",
    "002.31": "{one for one, state in get_daemon_manager().get_all_daemon_health().items() if state['healthy']} >= "
    "{'event_router', 'data_pipeline', 'auto_sync', 'feedback_loop'}",
    "002.32": "recent('EXPORT_TRIGGERED')[0].payload['threshold_met'] is True",
    "004.2": "recent('TRAINING_STARTED')[-1].payload == payload",
    "004.4": "status.is_running and status.duty == 'replicate'",
    "002.24": "COORDINATOR_REGISTRY['task_coordinator'].layer == 1",
    "002.25": "get_bootstrap_status()['coordinators']['leadership_coordinator']['status'] == 'disabled'",
    "002.26": "status['initialized'] and not status['errors'] and len(status['coordinators']) > 25",
    "002.27": "not get_bootstrap_status()['initialized']",
    "002.28": "fields(HealthCheckResult) <= fields(Checked)",
    "002.29": "MyDaemon.health_check(self).status is CoordinatorStatus.RUNNING and MyDaemon.health_check(self)",
    "002.30": "is_ok is True and 'queue depth 0' in msg",
    "004.5": "[one.payload for one in heard] == [{'n': 1}]",
    "004.7": "health.node_id == node_id and not health and health.state == 'unknown'",
}


async def run(block: Block, namespace: dict[str, Any]) -> str:
    """Run one block; its error, "" if there is none."""
    exec(PREPARED.get(block.id, ""), namespace)
    code = compile(with_bodies(block.text), block.id, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    made = eval(code, namespace)
    if inspect.iscoroutine(made):
        running = asyncio.ensure_future(made)
        done, _ = await asyncio.wait((running,), timeout=BLOCK_SECONDS_MAX)
        if not done:
            running.cancel()
            await asyncio.wait((running,))
            if block.id not in UNTIL_CANCELLED or not running.cancelled():
                return "did not end in time, or not cleanly"
        elif (error := running.exception()) is not None:
            raise error
    if block.id in CALLED:
        await asyncio.wait((called := asyncio.ensure_future(eval(CALLED[block.id], namespace)),), timeout=CALL_SECONDS)
        called.cancel()
        await asyncio.wait((called,))
        if not called.cancelled() and (error := called.exception()) is not None:
            raise error
    effect = EFFECTS.get(block.id, "True")
    return "" if eval(effect, namespace) else f"it ran, but {effect} does not hold"


async def story(document: Path) -> Mapping[str, str]:
    """The error of each block, "" for one that ran."""
    namespace: dict[str, Any] = {"__name__": "documents"}
    exec(SUPPLIED, namespace)
    outcomes: dict[str, str] = {}
    for block in blocks(document):
        try:
            outcomes[block.id] = await run(block, namespace)
        except Exception as error:  # noqa: BLE001 - whatever a block raises is what its test shows
            outcomes[block.id] = f"{type(error).__name__}: {error}"
    return outcomes


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)
    Path(sys.argv[2]).write_text(json.dumps(asyncio.run(story(Path(sys.argv[1])))))
