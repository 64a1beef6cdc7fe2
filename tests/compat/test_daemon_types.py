"""The documented daemon names: one table, in which every name resolves and nothing disagrees."""

import re

import pytest

from documents import seeds
from ringrift.daemons import DAEMONS
from ringrift.kernel.errors import InvalidId, UnknownName
from ringrift.kernel.health import Health, Status
from ringrift.kernel.settings import PROFILES
from ringrift.supervision.status import DaemonStatus
from ringrift_compat.daemons.duties import ALWAYS, DUTIES, WIRE
from ringrift_compat.daemons.registry import DAEMON_REGISTRY, get_profile_daemons
from ringrift_compat.daemons.types import DaemonInfo, DaemonState, DaemonType, state_of

FACTS = seeds.FOLDER.parent / "facts" / "enumerations.md"
OURS = {daemon.name for daemon in DAEMONS} - set(ALWAYS)
DOCUMENTED = {
    "core": "EVENT_ROUTER DAEMON_WATCHDOG",
    "sync": "AUTO_SYNC MODEL_DISTRIBUTION ELO_SYNC",
    "training": "DATA_PIPELINE SELFPLAY_COORDINATOR TRAINING_TRIGGER",
    "evaluation": "EVALUATION AUTO_PROMOTION",
    "health": "NODE_HEALTH_MONITOR QUALITY_MONITOR CLUSTER_WATCHDOG",
    "resources": "IDLE_RESOURCE NODE_RECOVERY UTILIZATION_OPTIMIZER",
}


def test_every_name_resolves_to_a_daemon_a_part_or_its_replacement() -> None:
    """A daemon is one of ours, and an unbuilt or retired type has a reason in words."""
    for duty in DUTIES.values():
        assert duty.kind in ("daemon", "part", "later", "retired")
        assert (duty.target in {*OURS, WIRE}) is (duty.kind == "daemon")
        assert duty.target.startswith("not yet: ") is (duty.kind == "later")
        assert duty.target.startswith("retired: ") is (duty.kind == "retired")
        assert duty.is_done is (duty.kind in ("daemon", "part"))
    assert {duty.target for duty in DUTIES.values()} >= OURS


@pytest.mark.skipif(not FACTS.exists(), reason=f"the facts are not there: {FACTS}")
def test_every_name_of_the_earlier_system_is_there() -> None:
    """Each row of the enumeration is a member."""
    rows = FACTS.read_text().split("### 1.2")[1].split("```")[1].strip().splitlines()
    names = {row.split("|")[0].strip() for row in rows}

    assert len(names) > 100
    assert names <= set(DaemonType.__members__)


@pytest.mark.skipif(not seeds.documents(), reason=f"the documents are not there: {seeds.FOLDER} is empty")
def test_every_name_of_the_documents_is_there() -> None:
    """Every ``DaemonType.`` name in a document is a member, except the two examples."""
    text = "".join(document.read_text() for document in seeds.documents())
    names = set(re.findall(r"DaemonType\.([A-Z_]+)", text)) - {"MY_DAEMON", "SOME_DAEMON"}

    assert names
    assert names <= set(DUTIES)


def test_a_type_has_one_value_in_any_spelling() -> None:
    """Its value is its name in lower case, and it is looked up by both."""
    assert [kind.value for kind in DaemonType] == [kind.name.lower() for kind in DaemonType]
    assert DaemonType("auto_sync") is DaemonType("AUTO_SYNC") is DaemonType.AUTO_SYNC == "auto_sync"
    with pytest.raises(ValueError, match="nobody_at_all"):
        DaemonType("nobody_at_all")


def test_a_user_type_can_be_declared() -> None:
    """It is a member from then on, once however often it is declared; the error for an undeclared type shows how to."""
    with pytest.raises(AttributeError, match=r"declare\('TEST_UNIT_OWN'\)"):
        _ = DaemonType.TEST_UNIT_OWN
    mine = DaemonType.declare("TEST_UNIT_OWN")

    assert mine is DaemonType.TEST_UNIT_OWN is DaemonType.declare("test_unit_own") is DaemonType("test_unit_own")
    assert mine in DaemonType
    assert DaemonType.declare("AUTO_SYNC") is DaemonType.AUTO_SYNC
    with pytest.raises(InvalidId):
        DaemonType.declare("not a name")


def test_the_registry_agrees_with_itself() -> None:
    """Everything starts after what it depends on, critical ones are those of our daemons, and no name is missing."""
    order = list(DAEMON_REGISTRY)
    for kind, spec in DAEMON_REGISTRY.items():
        assert all(order.index(need) < order.index(kind) for need in spec.depends_on)
    assert set(order) == {DaemonType[name] for name in DUTIES}
    critical = {spec.duty.target for spec in DAEMON_REGISTRY.values() if spec.critical}
    assert critical == {daemon.name for daemon in DAEMONS if daemon.critical} - set(ALWAYS)
    spec = DAEMON_REGISTRY[DaemonType.DATA_PIPELINE]
    assert (spec.duty.target, spec.critical, spec.depends_on) == ("pipeline", True, (DaemonType.EVENT_ROUTER,))
    assert DaemonType.declare("TEST_UNIT_OWN") not in DAEMON_REGISTRY


@pytest.mark.parametrize(("category", "names"), DOCUMENTED.items())
def test_categories_are_those_of_the_documents(category: str, names: str) -> None:
    """Each key daemon stands in its group."""
    assert {DUTIES[name].category for name in names.split()} == {category}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_has_the_declared_daemons(profile: str) -> None:
    """It has no unbuilt type, and every old name of its running daemons."""
    kinds = get_profile_daemons(profile)

    assert {DUTIES[kind.name].kind for kind in kinds} == {"daemon", "part"}
    there = {DUTIES[kind.name].target for kind in kinds if DUTIES[kind.name].kind == "daemon"}
    assert there == {daemon.name for daemon in DAEMONS if profile in daemon.profiles} - set(ALWAYS)
    with pytest.raises(UnknownName):
        get_profile_daemons("worker")


def status(state: str, health: Status = Status.HEALTHY, *, ready: bool = True) -> DaemonStatus:
    """A daemon of the supervisor in this state."""
    return DaemonStatus(name="x", category="core", state=state, health=Health(part="x", status=health), ready=ready)


@pytest.mark.parametrize(
    ("daemon", "state"),
    [
        (status("resting", Status.UNKNOWN), "stopped"),
        (status("stopped", Status.UNKNOWN), "stopped"),
        (status("stopped", Status.UNHEALTHY), "stopping"),
        (status("starting", Status.UNKNOWN), "starting"),
        (status("running", Status.UNKNOWN, ready=False), "starting"),
        (status("running"), "running"),
        (status("running", Status.DEGRADED), "degraded"),
        (status("running", Status.UNHEALTHY), "degraded"),
        (status("pausing", Status.UNHEALTHY), "restarting"),
        (status("waiting", Status.DEGRADED), "restarting"),
        (status("failed", Status.UNHEALTHY), "failed"),
    ],
)
def test_every_state_has_its_documented_name(daemon: DaemonStatus, state: str) -> None:
    """The states of the supervisor have the names of the documents."""
    assert state_of(daemon) is DaemonState(state)


@pytest.mark.parametrize(
    ("state", "result"),
    [("running", "running"), ("restarting", "degraded"), ("failed", "error"), ("import_failed", "error")],
)
def test_every_state_is_the_status_of_a_health_check(state: str, result: str) -> None:
    """A daemon that was given up or is not built is an error; one that restarts is degraded."""
    info = DaemonInfo(DaemonType.AUTO_SYNC, DaemonState(state), "replicate", reason="so it is")

    assert (info.to_result().status.value, info.to_result().message) == (result, "so it is")


DONE_BY = {
    "EVENT_ROUTER": "part",
    "DAEMON_WATCHDOG": "part",
    "AUTO_SYNC": "replicate",
    "MODEL_DISTRIBUTION": "pipeline",
    "ELO_SYNC": "rate",
    "DATA_PIPELINE": "pipeline",
    "SELFPLAY_COORDINATOR": "fill",
    "TRAINING_TRIGGER": "pipeline",
    "EVALUATION": "pipeline",
    "AUTO_PROMOTION": "pipeline",
    "NODE_HEALTH_MONITOR": "watch",
    "QUALITY_MONITOR": "later",
    "CLUSTER_WATCHDOG": "later",
    "IDLE_RESOURCE": "later",
    "NODE_RECOVERY": "later",
    "UTILIZATION_OPTIMIZER": "later",
    "NPZ_DISTRIBUTION": "replicate",
    "LAMBDA_IDLE": "later",
    "VAST_IDLE": "later",
    "REPLICATION_MONITOR": "replicate",
    "REPLICATION_REPAIR": "replicate",
    "QUEUE_POPULATOR": "fill",
}
"""The daemons that the API reference and the cluster guide name in their tables."""


@pytest.mark.parametrize("name", DONE_BY)
def test_a_documented_daemon_maps_to_one_of_ours(name: str) -> None:
    """Each name in the documented tables maps to one of our daemons, to a part of every node, or to "not built"."""
    duty = DUTIES[name]

    assert (duty.target if duty.kind == "daemon" else duty.kind) == DONE_BY[name]
    assert DaemonType[name].value == name.lower()
