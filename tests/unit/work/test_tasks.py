"""What may begin: every type has its limit, each rule says no by itself, and who is dead has no place."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ringrift.kernel.errors import InvalidId, InvalidPayload, SettingsError, TooLarge, UnknownName
from ringrift.kernel.verdict import Verdict
from ringrift.work import processes
from ringrift.work.processes import Process
from ringrift.work.tasks import (
    METADATA_BYTES_MAX,
    RUNNING_MAX,
    SELFPLAY,
    STATES,
    TRAINING_MAX,
    TYPES,
    Limit,
    Moment,
    RunState,
    Spawn,
    Task,
    TaskLimits,
    may_start,
    orphaned,
    plain,
)
from ringrift_compat.levels import TaskType

HERE = Moment(host="here", tick=1000.0)
PRESETS = [TaskLimits.default(), TaskLimits.conservative(), TaskLimits.aggressive()]


def task(type: str = "training", **changes: Any) -> Task:
    """A task on node n."""
    usual = {"id": "t", "type": type, "node": "n", "beaten": HERE}
    return Task(**usual | changes)


def told(asked: Task, *running: Task, spawns: tuple[Spawn, ...] = (), **more: Any) -> Verdict:
    """What *asked* is told beside *running*."""
    return may_start(asked, running, spawns, more.pop("limits", TaskLimits()), tick=HERE.tick, **more)


def test_types_are_those_of_the_documents() -> None:
    """What is admitted here and what the documents name are the same fourteen types."""
    assert tuple(TaskType) == TYPES


@pytest.mark.parametrize("limits", PRESETS, ids=["default", "conservative", "aggressive"])
def test_every_type_has_a_limit(limits: TaskLimits) -> None:
    """No type, and so not evaluation either, may run without end, on a node or in the cluster."""
    assert set(limits.table) == set(TYPES)
    assert all(1 <= limit.node_max <= limit.cluster_max < RUNNING_MAX for limit in limits.table.values())


@pytest.mark.parametrize("limits", PRESETS, ids=["default", "conservative", "aggressive"])
def test_there_is_one_number_for_concurrent_training(limits: TaskLimits) -> None:
    """One training on a node and three in the cluster, whatever the preset says of selfplay."""
    assert limits.of("training") == Limit(node_max=1, cluster_max=TRAINING_MAX)
    assert TRAINING_MAX == 3


def test_presets_are_the_documented_ones() -> None:
    """Selfplay on a node and in the cluster, and the starts in a minute: of all, and of selfplay."""
    found = [
        (one.of("selfplay").node_max, one.of("selfplay").cluster_max, one.spawns_per_minute_max,
         one.selfplay_spawns_per_minute_max)
        for one in PRESETS
    ]  # fmt: skip

    assert found == [(32, 500, 60, 30), (8, 100, 20, 10), (64, 1000, 120, 60)]


@pytest.mark.parametrize("type", TYPES)
def test_a_full_node_and_a_full_cluster_refuse(type: str) -> None:
    """At its limit a type gets no further place on the node, nor anywhere once the cluster is full; before, it does."""
    limit = TaskLimits().of(type)
    there = [task(type, id=f"t{number}") for number in range(limit.node_max)]
    spread = [task(type, id=f"t{number}", node=f"n{number}") for number in range(limit.cluster_max)]

    assert told(task(type), *there[:-1]).allowed
    refused = told(task(type), *there)
    assert (refused.allowed, refused.value, refused.limit) == (False, limit.node_max, limit.node_max)
    assert "on node n" in refused.rule or limit.node_max == limit.cluster_max
    assert told(task(type, node="elsewhere"), *spread[:-1]).allowed
    full = told(task(type, node="elsewhere"), *spread)
    assert (full.allowed, full.limit) == (False, limit.cluster_max)


def test_the_kinds_of_selfplay_share_a_limit() -> None:
    """Thirty-two of any mixture fill a node; other types do not count."""
    kinds = sorted(SELFPLAY)
    there = [task(kinds[number % 3], id=f"t{number}") for number in range(32)]

    assert all(not told(task(kind), *there).allowed for kind in kinds)
    assert told(task("training"), *there).allowed


def test_a_verdict_says_rule_value_and_limit() -> None:
    """Whoever is refused can read why."""
    refused = told(task(), task(id="other"), now=7.0)

    assert str(refused) == "task.training: waits — tasks of type training on node n: 1 of 1"
    assert refused.since == 7.0
    assert str(told(task())) == "task.training: open — tasks of type training on node n: 0 of 1"


@pytest.mark.parametrize("state", STATES)
def test_only_running_admission_lets_in(state: str) -> None:
    """Paused, draining, in an emergency and stopped it lets nobody in, and says why."""
    verdict = told(task(), gate=RunState(state=state, reason="because"))

    assert verdict.allowed is (state == "running")
    assert verdict.allowed or verdict.rule == f"admission is {state}: because"


def test_one_task_for_a_key() -> None:
    """Who trains a variant keeps every other node from training it; no key keeps nobody."""
    there = task(id="other", node="m", key="training hex8_2p")

    assert told(task(key="training hex8_2p"), there).rule == "tasks for training hex8_2p"
    assert told(task(key="training hex8_3p"), there).allowed
    assert told(task(), there).allowed


@pytest.mark.parametrize(
    ("type", "starts", "ages", "allowed"),
    [
        ("sync", 59, 30.0, True), ("sync", 60, 30.0, False), ("sync", 60, 60.0, True),
        ("sync", 9, 0.5, True), ("sync", 10, 0.5, False), ("sync", 10, 1.0, True),
        ("selfplay", 29, 30.0, True), ("selfplay", 30, 30.0, False), ("selfplay", 30, 60.0, True),
        ("selfplay", 4, 0.5, True), ("selfplay", 5, 0.5, False), ("selfplay", 5, 1.0, True),
    ],
)  # fmt: skip
def test_starts_have_a_rate(type: str, starts: int, ages: float, allowed: bool) -> None:
    """So many in a minute and so many at once, of all and fewer of selfplay; what lies behind does not count."""
    spawns = tuple(Spawn(tick=HERE.tick - ages, type=type) for _ in range(starts))

    assert told(task(type), spawns=spawns).allowed is allowed


def test_other_types_do_not_use_up_the_rate_of_selfplay() -> None:
    """Forty starts of syncs leave room for selfplay, and thirty of selfplay for a sync."""
    syncs = tuple(Spawn(tick=HERE.tick - 30.0, type="sync") for _ in range(40))
    plays = tuple(Spawn(tick=HERE.tick - 30.0, type="gpu_selfplay") for _ in range(30))

    assert told(task("selfplay"), spawns=syncs).allowed
    assert told(task("sync"), spawns=plays).allowed
    assert not told(task("hybrid_selfplay"), spawns=plays).allowed


@pytest.mark.parametrize(
    "wrong",
    [
        {"table": {}}, {"table": TaskLimits().table | {"chess": Limit(node_max=1, cluster_max=1)}}, {"burst_max": 0},
        {"spawns_per_minute_max": 1001}, {"burst_seconds": -1.0}, {"beat_seconds_max": 0.0},
    ],
)  # fmt: skip
def test_limits_are_checked(wrong: dict[str, Any]) -> None:
    """A type without a row, a row without a type, and numbers out of range are refused."""
    with pytest.raises(SettingsError):
        TaskLimits(**wrong)


def test_tasks_are_checked() -> None:
    """A type that nobody knows, names that nobody can read, and metadata that cannot be kept are refused."""
    with pytest.raises(UnknownName):
        task("chess")
    for name in ("", "x" * 201, "two\nlines"):
        with pytest.raises(InvalidId):
            task(id=name)
        with pytest.raises(InvalidId):
            task(node=name)
    with pytest.raises(InvalidPayload):
        plain({"what": object()})
    with pytest.raises(TooLarge):
        plain({"what": "x" * METADATA_BYTES_MAX})
    assert plain({"kind": TaskType.SYNC, "n": 1}) == {"kind": "sync", "n": 1}


def test_who_is_dead_has_no_place() -> None:
    """Where the process can be looked at, it decides; else the beats of this host by age, and others by an observer."""
    mine = Process(host="here", pid=7, mark="a")
    old = Moment(host="here", tick=HERE.tick - 300.0)
    tasks = [
        task(id="dead", process=mine, pid=7),
        task(id="lives", process=Process(host="here", pid=8, mark="b"), beaten=old),
        task(id="silent", beaten=old),
        task(id="heard", beaten=Moment(host="here", tick=old.tick + 1)),
        task(id="away", beaten=Moment(host="there", tick=0.0), process=Process(host="there", pid=7, mark="a")),
        task(id="away and silent", beaten=Moment(host="there", tick=0.0)),
    ]

    found = orphaned(tasks, HERE, 300.0, late=["away and silent"], gone=lambda process: process == mine)

    assert {one.id: one.reason for one in found} == {
        "dead": "its process 7 is gone",
        "silent": "it gave no sign of life for 300 s",
        "away and silent": "it gave no sign of life for 300 s",
    }
    assert {one.state for one in found} == {"orphaned"}


def test_a_process_is_known_by_its_number_and_its_beginning() -> None:
    """One that lives is found; one that ended is gone, also as a zombie; one that has its number is another one."""
    here = processes.this_host()
    child = subprocess.Popen(["sleep", "60"])
    found = processes.find(child.pid)
    assert found is not None
    assert not processes.is_gone(found, here)

    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and nobody has asked for it yet
    assert processes.is_gone(found, here)
    child.wait()
    assert processes.is_gone(found, here)
    assert processes.find(child.pid) is None
    reused = Process(host=here, pid=os.getpid(), mark="another beginning")
    assert processes.is_gone(reused, here)
    assert not processes.is_gone(Process(host="elsewhere", pid=found.pid, mark="x"), here)
    assert processes.find(0) is None


def test_a_process_may_have_any_name(tmp_path: Path) -> None:
    """A name with blanks and brackets does not hide when its process began."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (a) Z (b) R {' '.join(str(n) for n in range(4, 22))} 4711 0\n")

    assert processes.mark_of(7, tmp_path) == "4711"
