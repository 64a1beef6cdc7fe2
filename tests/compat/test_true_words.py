"""A listener to every old name hears what happened and nothing else, through a kill, a rollback and a full queue."""

import asyncio
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import home
from e2e.processes import PATIENCE_SECONDS, QUICK, Home, kill, reached
from ringrift.jobs import JobFilter, Match
from ringrift.work.desk import StoreDesk, cancel
from ringrift_compat.embedded_node import embedded
from ringrift_compat.events import old_names
from ringrift_compat.events.event_router import get_router
from ringrift_compat.events.router_event import RouterEvent
from wait import until

__all__ = ["home"]

VARIANT = "hex8_2p"
BUS = "[bus]\nredeliver_seconds = 0.1\nredelivery = { first_seconds = 0.1, seconds_max = 0.1, tries = 2 }\n"
SETTINGS = QUICK.replace("slots = 1\n", "slots = 1\nmeasure_queues_seconds = 0.3\ndrain_patience = 0.001\n")
SETTINGS = (
    SETTINGS.replace("role_seconds = 1.2\n", "role_seconds = 1.2\nwatch_seconds = 0.2\ngrace_seconds = 1.0\n") + BUS
)
PLAYER = """
import asyncio
from random import Random
from ringrift.harness import Member, settings_of
from ringrift.kernel.clock import SystemClock
from ringrift.node import Node
from ringrift_compat.variables import read_settings

async def main():
    settings = settings_of(read_settings().settings, Member(id="b", profile="selfplay"))
    async with Node.open(settings, SystemClock(), Random(2)):
        await asyncio.Event().wait()

asyncio.run(main())
"""
# What must be true of an event of the log before it may have a name.  This list is the test's own: it says in other
# words than the product what each name means.  ``a|b`` is either event; ``x>1`` counts the items of x; ``x?`` is there.
CAUSES = """
selfplay.batch_finished: SELFPLAY_COMPLETE NEW_GAMES_AVAILABLE DATABASE_CREATED
data.synced kind=games: DATA_SYNC_COMPLETED GAME_SYNCED
data.synced kind=model: P2P_MODEL_SYNCED MODEL_SYNC_COMPLETE
data.synced repair=true: REPAIR_COMPLETED
data.synced nodes>1: CLUSTER_SYNC_COMPLETE
data.lost kind=model: MODEL_NOT_FOUND
data.exported: NPZ_EXPORT_COMPLETE
training.finished: TRAINING_COMPLETED
model.verified: PROMOTION_CANDIDATE
evaluation.finished: EVALUATION_COMPLETED
evaluation.finished|evaluation.reviewed: HEAD_TO_HEAD_COMPLETED
evaluation.finished promoted=true: ELO_SIGNIFICANT_CHANGE
evaluation.rated: ELO_UPDATED
evaluation.velocity_changed: ELO_VELOCITY_CHANGED
evaluation.plateaued: PLATEAU_DETECTED
evaluation.reviewed passed=false: REGRESSION_DETECTED TRAINING_ROLLBACK_NEEDED
model.promoted: MODEL_PROMOTED
model.promoted evidence?: ITERATION_COMPLETE
model.promoted|model.rolled_back: MODEL_UPDATED
model.rejected: PROMOTION_FAILED
model.rejected evidence?: PROMOTION_REJECTED
model.rolled_back: PROMOTION_ROLLED_BACK TRAINING_ROLLBACK_COMPLETED
model.distributed missed<1: MODEL_DISTRIBUTION_COMPLETE
model.distributed: CLUSTER_MODEL_INVENTORY_UPDATED
data.synced kind=model: CLUSTER_MODEL_INVENTORY_UPDATED
data.exported batches>1: NPZ_COMBINATION_COMPLETE
data.adopted: ORPHAN_GAMES_DETECTED ORPHAN_GAMES_REGISTERED
data.packed: CONSOLIDATION_COMPLETE
data.priority_synced success=true: PRIORITY_SYNC_COMPLETED
data.priority_synced success=false: PRIORITY_SYNC_FAILED
cluster.backed_up: DATA_BACKUP_COMPLETED
node.disk_pressure_changed level=low|high|critical: DISK_CLEANUP_TRIGGERED
model.distributed missed>0: DISTRIBUTION_INCOMPLETE
pipeline.moved stage=evaluating: EVALUATION_STARTED PROMOTION_STARTED
pipeline.moved stage=exporting before=collecting requested=false: TRAINING_THRESHOLD_REACHED
pipeline.moved late=true: PROGRESS_RECOVERED
work.enqueued: WORK_QUEUED WORK_SUBMITTED
work.enqueued kind=play: BATCH_SCHEDULED
work.enqueued kind=match purpose=promotion: EVALUATION_QUEUED EVALUATION_SUBMITTED
work.enqueued kind=sync purpose=model: MODEL_SYNC_REQUESTED
work.cancelled: WORK_CANCELLED
work.buried: TASK_ABANDONED
work.buried kind=sync: SYNC_FAILURE_CRITICAL
work.buried kind=sync purpose=repair: REPLICATION_ALERT
work.pressure_changed backpressure=activated: WORK_QUEUE_BACKPRESSURE BACKPRESSURE_ACTIVATED
work.pressure_changed backpressure=released: WORK_QUEUE_BACKPRESSURE_RELEASED BACKPRESSURE_RELEASED
work.pressure_changed backpressure=activated queue=evaluation: EVALUATION_BACKPRESSURE
work.pressure_changed backpressure=released queue=evaluation: EVALUATION_BACKPRESSURE_RELEASED
work.run_state_changed scope=cluster: CLUSTER_STATUS_CHANGED
node.joined: HOST_ONLINE NODE_ACTIVATED
node.left: NODE_RETIRED
node.left profile=full: COORDINATOR_SHUTDOWN
node.left roles>0: LEADER_STEPDOWN
node.suspected: NODE_SUSPECT
node.lost: HOST_OFFLINE P2P_NODE_DEAD
node.recovered: NODE_RECOVERED
node.joined|node.left|node.lost|node.recovered: CLUSTER_CAPACITY_CHANGED
cluster.role_taken: LEADER_ELECTED EPOCH_ADVANCED
cluster.role_taken reason=expired: LEADER_LOST LEADER_LEASE_EXPIRED LEADER_HEARTBEAT_MISSING
health.changed status=healthy: HEALTH_CHECK_PASSED
health.changed status=unhealthy: HEALTH_CHECK_FAILED NODE_UNHEALTHY
health.changed status=healthy profile=full: COORDINATOR_HEALTHY
health.changed status=degraded profile=full: COORDINATOR_HEALTH_DEGRADED
health.changed status=unhealthy profile=full: COORDINATOR_UNHEALTHY
health.recovery_started: RECOVERY_INITIATED
health.recovery_finished helped=true: RECOVERY_COMPLETED
health.recovery_finished helped=false: RECOVERY_FAILED
health.breaker_changed state=open: CIRCUIT_BREAKER_OPENED
health.breaker_changed state=half_open: CIRCUIT_BREAKER_HALF_OPEN
health.breaker_changed state=closed: CIRCUIT_BREAKER_CLOSED
delivery.changed state=parked|dead: HANDLER_FAILED
delivery.changed state=dead: DLQ_STALE_EVENTS
alert.raised level=severe|critical: ERROR
alert.raised kind=health: HEALTH_ALERT
custom.published event=CUSTOM_EVENT: CUSTOM_EVENT
"""
MUST_HAPPEN = """
HOST_OFFLINE PROMOTION_ROLLED_BACK EVALUATION_BACKPRESSURE WORK_QUEUE_BACKPRESSURE_RELEASED WORK_CANCELLED
DLQ_STALE_EVENTS HANDLER_FAILED CUSTOM_EVENT SELFPLAY_COMPLETE ITERATION_COMPLETE NODE_RETIRED LEADER_STEPDOWN
"""


def is_met(condition: str, body: dict[str, Any]) -> bool:
    """Whether the event *body* has what one word of the list says."""
    if condition.endswith("?"):
        return body.get(condition[:-1]) is not None
    for sign in "><":
        if sign in condition:
            field, number = condition.split(sign)
            count = len(body.get(field, ()))
            return count > int(number) if sign == ">" else count < int(number)
    field, _, allowed = condition.partition("=")
    value = body.get(field)
    return (json.dumps(value) if isinstance(value, bool) else value) in allowed.split("|")


def true_names(name: str, body: dict[str, Any]) -> set[str]:
    """The old names that an event of the log has by the list."""
    names: set[str] = set()
    for line in filter(None, CAUSES.splitlines()):
        cause, _, words = line.rpartition(": ")
        event, *conditions = cause.split()
        if name in event.split("|") and all(is_met(condition, body) for condition in conditions):
            names |= set(words.split())
    return names


class Listener:
    """Subscribes to every old name and notes the events that it gets under each."""

    def __init__(self) -> None:
        self.ids: dict[str, set[str]] = {name: set() for name in old_names.names()}
        for name in self.ids:
            get_router().subscribe(name, self._note(name))

    def _note(self, name: str) -> Callable[[RouterEvent], None]:
        def note(event: RouterEvent) -> None:
            self.ids[name].add(event.event_id)

        return note


@pytest.fixture
def program(home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """This process as a program on *home*."""
    (home.path / "ringrift.toml").write_text(SETTINGS)
    monkeypatch.setenv("RINGRIFT_HOME", str(home.path))
    yield home.path
    embedded.shutdown()


async def _pile_up() -> None:
    """Enqueue more matches than the queue may hold, for a node that is not there."""
    node = embedded.node()
    matches = [
        Match(variant=VARIANT, candidate="c" * 64, champion="m" * 64, first=n, count=1, purpose="ladder", node="nobody")
        for n in range(2000)
    ]
    await StoreDesk(node.store, node.clock, node.envelopes, node.settings.work).enqueue(matches)


async def _clear() -> None:
    """Cancel them."""
    node = embedded.node()
    async with node.store.begin() as tx:
        await cancel(tx, JobFilter(candidate="c" * 64), node.envelopes)


def _fail(event: RouterEvent) -> None:
    raise ValueError("this handler never works")


def test_a_listener_hears_nothing_that_did_not_happen(home: Home, program: Path) -> None:
    """A killed node, a rollback, a full queue and a dead letter: each name is heard as often as its cause is logged."""
    run = home.start("run", "--iterations", "0", "--variants", VARIANT, "--nodes", "1")
    reached(run, lambda: home.has("SELECT 1 FROM log WHERE name = 'model.promoted'"))
    listener, first = Listener(), home.ask("SELECT max(position) FROM log")[0][0]
    player = home.launch(PLAYER)

    def logged(name: str, condition: str = "1") -> bool:
        return home.has(f"SELECT 1 FROM log WHERE name = '{name}' AND position > {first} AND {condition}")

    reached(player, lambda: logged("selfplay.batch_finished", "json_extract(body, '$.node') = 'b'"))
    kill(player)
    reached(run, lambda: logged("model.promoted", "json_extract(body, '$.evidence') IS NOT NULL"))
    reached(run, lambda: logged("node.lost"))
    assert home.run("models", "rollback", VARIANT)[0] == 0
    embedded.call(_pile_up())
    reached(run, lambda: logged("work.pressure_changed", "json_extract(body, '$.backpressure') = 'activated'"))
    embedded.call(_clear())
    reached(run, lambda: logged("work.pressure_changed", "json_extract(body, '$.backpressure') = 'released'"))
    get_router().subscribe("CUSTOM_EVENT", _fail)
    asyncio.run(_publish())
    reached(run, lambda: logged("delivery.changed", "json_extract(body, '$.state') = 'dead'"))
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=PATIENCE_SECONDS)

    until(lambda: all_read(home), PATIENCE_SECONDS)
    true: dict[str, set[str]] = {name: set() for name in old_names.names()}
    since: dict[str, set[str]] = {name: set() for name in old_names.names()}
    for id, position, name, body in home.ask("SELECT id, position, name, body FROM log"):
        for word in true_names(name, json.loads(body)):
            true[word].add(id)
            if position > first:  # the listener was there already
                since[word].add(id)
    assert {name: len(events - true[name]) for name, events in listener.ids.items() if events - true[name]} == {}
    assert {
        name: len(events - listener.ids[name]) for name, events in since.items() if events - listener.ids[name]
    } == {}
    assert [name for name in MUST_HAPPEN.split() if not listener.ids[name]] == []


async def _publish() -> None:
    await get_router().publish("CUSTOM_EVENT", {"n": 1})


def all_read(home: Home) -> bool:
    """Whether every subscription of this program has read the whole log."""
    [(last,)] = home.ask("SELECT max(position) FROM log")
    behind = home.ask("SELECT 1 FROM readers WHERE reader LIKE 'app\\_%' ESCAPE '\\' AND position < ?", last)
    return not behind
