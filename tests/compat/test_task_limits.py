"""Limits of tasks: every type has its limit, and each rule refuses by itself."""

from enum import Enum
from typing import Any

import pytest

from ringrift.kernel.errors import InvalidId, InvalidPayload, SettingsError, TooLarge, UnknownName
from ringrift.kernel.verdict import Verdict
from ringrift.store.ports import TASK_PREFIX, JobCounter
from ringrift.work.run_states import _STATES, RunState, RunStates
from ringrift.work.tasks import RUNNING_MAX, SELFPLAY_TYPES, TASK_TYPES, HostTick, Limit, Task
from ringrift_compat.tasks.task_limits import (
    _METADATA_BYTES_MAX,
    _TRAINING_MAX,
    TaskLimits,
    TaskStart,
    check_start,
    check_task,
    copy_metadata,
)

HERE = HostTick(host="here", tick=1000.0)
PRESETS = [TaskLimits.default(), TaskLimits.conservative(), TaskLimits.aggressive()]


def task(type: str = "training", **changes: Any) -> Task:
    """A task on node n."""
    usual = {"id": "t", "type": type, "node": "n", "beat_at": HERE}
    return Task(**usual | changes)


def verdict_on(task: Task, *running: Task, starts: tuple[TaskStart, ...] = (), **more: Any) -> Verdict:
    """The verdict on *task* beside *running*."""
    counters = [counter(TASK_PREFIX + other.type, other.variant, other.node) for other in running]
    counters += more.pop("jobs", [])
    facts = {"run_states": RunStates(), "now": 0.0} | more
    return check_start(task, counters, starts, TaskLimits(), tick=HERE.tick, **facts)


def counter(kind: str, variant: str = "", node: str = "n", count: int = 1) -> JobCounter:
    """The counter of claimed jobs or tasks."""
    return JobCounter(kind=kind, variant=variant, holder=node, count=count)


@pytest.mark.parametrize("limits", PRESETS, ids=["default", "conservative", "aggressive"])
def test_every_type_has_a_limit(limits: TaskLimits) -> None:
    """No type, and so not evaluation either, may run without end, on a node or in the cluster."""
    assert set(limits.table) == set(TASK_TYPES)
    assert all(1 <= limit.node_max <= limit.cluster_max < RUNNING_MAX for limit in limits.table.values())


@pytest.mark.parametrize("limits", PRESETS, ids=["default", "conservative", "aggressive"])
def test_concurrent_training_has_one_limit(limits: TaskLimits) -> None:
    """One training on a node and three in the cluster, for every preset of selfplay."""
    assert limits.table["training"] == Limit(node_max=1, cluster_max=_TRAINING_MAX)
    assert _TRAINING_MAX == 3


def test_presets_have_the_documented_limits() -> None:
    """Selfplay on a node and in the cluster, and the starts in a minute: of all, and of selfplay."""
    selfplay = [(limits.table["selfplay"].node_max, limits.table["selfplay"].cluster_max) for limits in PRESETS]
    rates = [(limits.spawns_per_minute_max, limits.selfplay_spawns_per_minute_max) for limits in PRESETS]

    assert [(*limit, *rate) for limit, rate in zip(selfplay, rates, strict=True)] == [
        (32, 500, 60, 30),
        (8, 100, 20, 10),
        (64, 1000, 120, 60),
    ]


@pytest.mark.parametrize("type", TASK_TYPES)
def test_a_full_node_and_a_full_cluster_refuse(type: str) -> None:
    """At its limit a type gets no further slot on the node, nor anywhere once the cluster is full; before, it does."""
    limit = TaskLimits().table[type]
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
    kinds = SELFPLAY_TYPES
    there = [task(kinds[number % 3], id=f"t{number}") for number in range(32)]

    assert all(not verdict_on(task(kind), *there).allowed for kind in kinds)
    assert verdict_on(task("training"), *there).allowed


def test_a_verdict_has_rule_value_and_limit() -> None:
    """The reason of a refusal is readable."""
    refused = verdict_on(task(), task(id="other"), now=7.0)

    assert str(refused) == "task.training: waits — tasks of type training on node n: 1 of 1"
    assert refused.since == 7.0
    assert str(verdict_on(task())) == "task.training: open — tasks of type training on node n: 0 of 1"


@pytest.mark.parametrize("scope", ["cluster", "node:n", "variant:hex8_2p", "stage:train"])
@pytest.mark.parametrize("state", _STATES)
def test_only_a_running_scope_admits(state: str, scope: str) -> None:
    """Paused, draining, in an emergency and stopped it admits no task, and gives the reason; others are admitted."""
    run_state = RunState(scope=scope, state=state, reason="because")
    states = RunStates(by_scope={scope: run_state})
    verdict = verdict_on(task(variant="hex8_2p"), run_states=states)

    assert verdict.allowed is (state == "running")
    assert verdict.allowed or verdict.rule == str(run_state)
    other = task("sync", node="m", variant="hex8_3p")
    assert verdict_on(other, run_states=states).allowed is (state == "running" or scope != "cluster")


def test_a_variant_has_one_training() -> None:
    """A training of a variant excludes every other node's, be it a task or a job; one without a variant none."""
    there = task(id="other", node="m", variant="hex8_2p")

    refused = verdict_on(task(variant="hex8_2p"), there)
    assert (refused.rule, refused.value, refused.limit) == ("training of hex8_2p", 1, 1)
    assert not verdict_on(task(variant="hex8_2p"), jobs=[counter("train", "hex8_2p", "m")]).allowed
    assert verdict_on(task(variant="hex8_3p"), there).allowed
    assert verdict_on(task(variant="hex8_3p"), jobs=[counter("train", "hex8_2p", "m")]).allowed
    assert verdict_on(task(), there).allowed


@pytest.mark.parametrize(
    ("type", "kind"),
    [
        ("training", "train"),
        ("selfplay", "play"),
        ("gpu_selfplay", "play"),
        ("evaluation", "match"),
        ("evaluation", "rate"),
        ("export", "export"),
        ("sync", "distribute"),
        ("cmaes", "tune"),
    ],
)
def test_jobs_of_a_node_fill_the_places_of_tasks(type: str, kind: str) -> None:
    """A node that does as many jobs of a kind as tasks of the like are allowed gets none of these."""
    limit = TaskLimits().table[type].node_max

    assert verdict_on(task(type), jobs=[counter(kind, "v", count=limit - 1)]).allowed
    refused = verdict_on(task(type), jobs=[counter(kind, "v", count=limit)])
    assert (refused.allowed, refused.value) == (False, limit)
    assert verdict_on(task("parity"), jobs=[counter(kind, "v", count=limit)]).allowed


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
        {"table": TaskLimits().table | {"sync": Limit(node_max=-1, cluster_max=1)}},
        {"table": TaskLimits().table | {"sync": Limit(node_max=1, cluster_max=RUNNING_MAX + 1)}},
        {"table": TaskLimits().table | {"chess": Limit(node_max=1, cluster_max=1)}},
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
        check_task(task("chess"))
    for name in ("", "x" * 201, "two\nlines"):
        with pytest.raises(InvalidId):
            check_task(task(id=name))
        with pytest.raises(InvalidId):
            check_task(task(node=name))
    Kind = Enum("Kind", {"SYNC": "sync"})
    with pytest.raises(InvalidPayload):
        copy_metadata({"what": object()})
    with pytest.raises(TooLarge):
        copy_metadata({"what": "x" * _METADATA_BYTES_MAX})
    assert copy_metadata({"kind": Kind.SYNC, "n": 1}) == {"kind": "sync", "n": 1}
