"""Admission: every type has its limit, each rule refuses by itself, and a dead task holds no slot."""

import os
import subprocess
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from ringrift.kernel.errors import InvalidId, InvalidPayload, SettingsError, TooLarge, UnknownName
from ringrift.kernel.verdict import Verdict
from ringrift.work import processes
from ringrift.work.processes import Process
from ringrift.work.tasks import (
    _METADATA_BYTES_MAX,
    _SELFPLAY,
    _TRAINING_MAX,
    _TYPES,
    RUNNING_MAX,
    STATES,
    HostTick,
    RunState,
    Task,
    TaskLimits,
    TaskStart,
    _Limit,
    check_start,
    copy_metadata,
    find_orphans,
)

HERE = HostTick(host="here", tick=1000.0)
PRESETS = [TaskLimits.default(), TaskLimits.conservative(), TaskLimits.aggressive()]


def task(type: str = "training", **changes: Any) -> Task:
    """A task on node n."""
    usual = {"id": "t", "type": type, "node": "n", "beat_at": HERE}
    return Task(**usual | changes)


def verdict_on(task: Task, *running: Task, starts: tuple[TaskStart, ...] = (), **more: Any) -> Verdict:
    """The verdict on *task* beside *running*."""
    return check_start(task, running, starts, more.pop("limits", TaskLimits()), tick=HERE.tick, **more)


@pytest.mark.parametrize("limits", PRESETS, ids=["default", "conservative", "aggressive"])
def test_every_type_has_a_limit(limits: TaskLimits) -> None:
    """No type, and so not evaluation either, may run without end, on a node or in the cluster."""
    assert set(limits.table) == set(_TYPES)
    assert all(1 <= limit.node_max <= limit.cluster_max < RUNNING_MAX for limit in limits.table.values())


@pytest.mark.parametrize("limits", PRESETS, ids=["default", "conservative", "aggressive"])
def test_concurrent_training_has_one_limit(limits: TaskLimits) -> None:
    """One training on a node and three in the cluster, for every preset of selfplay."""
    assert limits.of("training") == _Limit(node_max=1, cluster_max=_TRAINING_MAX)
    assert _TRAINING_MAX == 3


def test_presets_have_the_documented_limits() -> None:
    """Selfplay on a node and in the cluster, and the starts in a minute: of all, and of selfplay."""
    selfplay = [(limits.of("selfplay").node_max, limits.of("selfplay").cluster_max) for limits in PRESETS]
    rates = [(limits.spawns_per_minute_max, limits.selfplay_spawns_per_minute_max) for limits in PRESETS]

    assert [(*limit, *rate) for limit, rate in zip(selfplay, rates, strict=True)] == [
        (32, 500, 60, 30),
        (8, 100, 20, 10),
        (64, 1000, 120, 60),
    ]


@pytest.mark.parametrize("type", _TYPES)
def test_a_full_node_and_a_full_cluster_refuse(type: str) -> None:
    """At its limit a type gets no further slot on the node, nor anywhere once the cluster is full; before, it does."""
    limit = TaskLimits().of(type)
    there = [task(type, id=f"t{number}") for number in range(limit.node_max)]
    spread = [task(type, id=f"t{number}", node=f"n{number}") for number in range(limit.cluster_max)]

    assert verdict_on(task(type), *there[:-1]).allowed
    refused = verdict_on(task(type), *there)
    assert (refused.allowed, refused.value, refused.limit) == (False, limit.node_max, limit.node_max)
    assert "on node n" in refused.rule or limit.node_max == limit.cluster_max
    assert verdict_on(task(type, node="elsewhere"), *spread[:-1]).allowed
    full = verdict_on(task(type, node="elsewhere"), *spread)
    assert (full.allowed, full.limit) == (False, limit.cluster_max)


def test_the_kinds_of_selfplay_share_a_limit() -> None:
    """Thirty-two of any mixture fill a node; other types do not count."""
    kinds = sorted(_SELFPLAY)
    there = [task(kinds[number % 3], id=f"t{number}") for number in range(32)]

    assert all(not verdict_on(task(kind), *there).allowed for kind in kinds)
    assert verdict_on(task("training"), *there).allowed


def test_a_verdict_has_rule_value_and_limit() -> None:
    """The reason of a refusal is readable."""
    refused = verdict_on(task(), task(id="other"), now=7.0)

    assert str(refused) == "task.training: waits — tasks of type training on node n: 1 of 1"
    assert refused.since == 7.0
    assert str(verdict_on(task())) == "task.training: open — tasks of type training on node n: 0 of 1"


@pytest.mark.parametrize("state", STATES)
def test_only_running_admission_admits(state: str) -> None:
    """Paused, draining, in an emergency and stopped it admits no task, and gives the reason."""
    verdict = verdict_on(task(), run_state=RunState(state=state, reason="because"))

    assert verdict.allowed is (state == "running")
    assert verdict.allowed or verdict.rule == f"admission is {state}: because"


def test_a_key_has_one_task() -> None:
    """A training of a variant excludes every other node's training of it; no key excludes none."""
    there = task(id="other", node="m", key="training hex8_2p")

    assert verdict_on(task(key="training hex8_2p"), there).rule == "tasks for training hex8_2p"
    assert verdict_on(task(key="training hex8_3p"), there).allowed
    assert verdict_on(task(), there).allowed


@pytest.mark.parametrize(
    ("type", "count", "ages", "allowed"),
    [
        ("sync", 59, 30.0, True),
        ("sync", 60, 30.0, False),
        ("sync", 60, 60.0, True),
        ("sync", 9, 0.5, True),
        ("sync", 10, 0.5, False),
        ("sync", 10, 1.0, True),
        ("selfplay", 29, 30.0, True),
        ("selfplay", 30, 30.0, False),
        ("selfplay", 30, 60.0, True),
        ("selfplay", 4, 0.5, True),
        ("selfplay", 5, 0.5, False),
        ("selfplay", 5, 1.0, True),
    ],
)
def test_starts_have_a_rate(type: str, count: int, ages: float, allowed: bool) -> None:
    """There is a limit per minute and per burst, for all and a lower one for selfplay; earlier starts do not count."""
    starts = tuple(TaskStart(tick=HERE.tick - ages, type=type) for _ in range(count))

    assert verdict_on(task(type), starts=starts).allowed is allowed


def test_other_types_do_not_use_up_the_rate_of_selfplay() -> None:
    """Forty starts of syncs leave room for selfplay, and thirty of selfplay for a sync."""
    syncs = tuple(TaskStart(tick=HERE.tick - 30.0, type="sync") for _ in range(40))
    plays = tuple(TaskStart(tick=HERE.tick - 30.0, type="gpu_selfplay") for _ in range(30))

    assert verdict_on(task("selfplay"), starts=syncs).allowed
    assert verdict_on(task("sync"), starts=plays).allowed
    assert not verdict_on(task("hybrid_selfplay"), starts=plays).allowed


@pytest.mark.parametrize(
    "bad",
    [
        {"table": {}},
        {"table": TaskLimits().table | {"chess": _Limit(node_max=1, cluster_max=1)}},
        {"burst_max": 0},
        {"spawns_per_minute_max": 1001},
        {"burst_seconds": -1.0},
        {"beat_seconds_max": 0.0},
    ],
)
def test_limits_are_checked(bad: dict[str, Any]) -> None:
    """A type without a row, a row without a type, and numbers out of range are refused."""
    with pytest.raises(SettingsError):
        TaskLimits(**bad)


def test_tasks_are_checked() -> None:
    """An unknown type, invalid names, and metadata that cannot be stored are refused."""
    with pytest.raises(UnknownName):
        task("chess")
    for name in ("", "x" * 201, "two\nlines"):
        with pytest.raises(InvalidId):
            task(id=name)
        with pytest.raises(InvalidId):
            task(node=name)
    Kind = Enum("Kind", {"SYNC": "sync"})
    with pytest.raises(InvalidPayload):
        copy_metadata({"what": object()})
    with pytest.raises(TooLarge):
        copy_metadata({"what": "x" * _METADATA_BYTES_MAX})
    assert copy_metadata({"kind": Kind.SYNC, "n": 1}) == {"kind": "sync", "n": 1}


def test_a_dead_task_holds_no_slot() -> None:
    """A visible process decides itself; otherwise beats of this host count by age, and others by an observer."""
    mine = Process(host="here", pid=7, mark="a")
    old = HostTick(host="here", tick=HERE.tick - 300.0)
    tasks = [
        task(id="dead", process=mine, pid=7),
        task(id="lives", process=Process(host="here", pid=8, mark="b"), beat_at=old),
        task(id="silent", beat_at=old),
        task(id="alive", beat_at=HostTick(host="here", tick=old.tick + 1)),
        task(id="away", beat_at=HostTick(host="there", tick=0.0), process=Process(host="there", pid=7, mark="a")),
        task(id="away and silent", beat_at=HostTick(host="there", tick=0.0)),
    ]

    orphans = find_orphans(tasks, HERE, 300.0, late=["away and silent"], has_died=lambda process: process == mine)

    assert {orphan.id: orphan.reason for orphan in orphans} == {
        "dead": "its process 7 is gone",
        "silent": "no sign of life for 300 s",
        "away and silent": "no sign of life for 300 s",
    }
    assert {orphan.state for orphan in orphans} == {"orphaned"}


def test_a_process_is_identified_by_its_number_and_start_time() -> None:
    """A live process is recognised; one that ended is gone, also as a zombie; a reused number is another process."""
    here = processes._this_host()
    child = subprocess.Popen(["sleep", "60"])
    process = processes.find(child.pid)
    assert process is not None
    assert not processes.is_gone(process, here)

    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet reaped
    assert processes.is_gone(process, here)
    child.wait()
    assert processes.is_gone(process, here)
    assert processes.find(child.pid) is None
    reused = Process(host=here, pid=os.getpid(), mark="another beginning")
    assert processes.is_gone(reused, here)
    assert not processes.is_gone(Process(host="elsewhere", pid=process.pid, mark="x"), here)
    assert processes.find(0) is None


def test_a_process_may_have_any_name(tmp_path: Path) -> None:
    """A name with blanks and brackets does not hide when its process began."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (a) Z (b) R {' '.join(str(n) for n in range(4, 22))} 4711 0\n")

    assert processes._mark_of(7, tmp_path) == "4711"
