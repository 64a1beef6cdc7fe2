"""The documented daemon names: one table, in which every name resolves and nothing disagrees."""

import re

import pytest

from documents import seeds
from ringrift.daemons import DAEMONS
from ringrift.kernel.errors import InvalidId, UnknownName
from ringrift.kernel.health import Health, Status
from ringrift.kernel.settings import PROFILES
from ringrift.supervision.report import DaemonReport
from ringrift_compat.daemon_duties import DUTIES, LOOPS, NOT_YET, does_loop, listed
from ringrift_compat.daemon_figures import LEGAL, DaemonLifecycleManager
from ringrift_compat.daemon_own import health_of
from ringrift_compat.daemon_registry import (
    CRITICAL_DAEMONS,
    DAEMON_CATEGORIES,
    DAEMON_DEPENDENCIES,
    DAEMON_PROFILES,
    DAEMON_REGISTRY,
    DAEMON_STARTUP_ORDER,
    get_category_daemons,
    get_profile_daemons,
    get_spec,
    validate_registry,
)
from ringrift_compat.daemon_types import DaemonState, DaemonType, state_of
from ringrift_compat.health import HealthCheckResult

FACTS = seeds.FOLDER.parent / "facts" / "enumerations.md"
OURS = {daemon.name for daemon in DAEMONS}
DOCUMENTED = {
    "core": "EVENT_ROUTER DAEMON_WATCHDOG",
    "sync": "AUTO_SYNC MODEL_DISTRIBUTION ELO_SYNC",
    "training": "DATA_PIPELINE SELFPLAY_COORDINATOR TRAINING_TRIGGER",
    "evaluation": "EVALUATION AUTO_PROMOTION",
    "health": "NODE_HEALTH_MONITOR QUALITY_MONITOR CLUSTER_WATCHDOG",
    "resources": "IDLE_RESOURCE NODE_RECOVERY UTILIZATION_OPTIMIZER",
}


def test_every_name_resolves_to_a_daemon_a_part_or_what_brings_it() -> None:
    """A daemon is one of ours, and what is not built says so in words."""
    for duty in DUTIES.values():
        assert duty.kind in ("daemon", "part", "later")
        assert (duty.target in OURS) is (duty.kind == "daemon")
        assert duty.target.startswith(NOT_YET) is (duty.kind == "later")
    assert {duty.target for duty in DUTIES.values()} >= OURS
    assert len(listed()) == len(DUTIES) == len({name for name, _, _ in listed()})


@pytest.mark.skipif(not FACTS.exists(), reason=f"the facts are not there: {FACTS}")
def test_every_name_of_the_earlier_system_is_there() -> None:
    """Each row of the enumeration is a member."""
    rows = FACTS.read_text().split("### 1.2")[1].split("```")[1].strip().splitlines()
    names = {row.split("|")[0].strip() for row in rows}

    assert len(names) > 100
    assert names <= set(DaemonType.__members__)


@pytest.mark.skipif(not seeds.documents(), reason=f"the documents are not there: {seeds.FOLDER} is empty")
def test_every_name_of_the_documents_is_there() -> None:
    """Whatever stands behind ``DaemonType.`` in a document is a member, but for the two examples."""
    text = "".join(document.read_text() for document in seeds.documents())
    names = set(re.findall(r"DaemonType\.([A-Z_]+)", text)) - {"MY_DAEMON", "SOME_DAEMON"}

    assert names
    assert names <= set(DUTIES)


def test_a_type_is_a_word_in_any_spelling() -> None:
    """Its value is its name in lower case, and it is found by both."""
    assert [kind.value for kind in DaemonType] == [kind.name.lower() for kind in DaemonType]
    assert DaemonType("auto_sync") is DaemonType("AUTO_SYNC") is DaemonType.AUTO_SYNC == "auto_sync"
    with pytest.raises(ValueError, match="nobody_at_all"):
        DaemonType("nobody_at_all")


def test_a_type_of_ones_own_is_declared() -> None:
    """It is a member from then on, once however often; what was not declared says how to."""
    with pytest.raises(AttributeError, match=r"declare\('TEST_UNIT_OWN'\)"):
        _ = DaemonType.TEST_UNIT_OWN
    mine = DaemonType.declare("TEST_UNIT_OWN")

    assert mine is DaemonType.TEST_UNIT_OWN is DaemonType.declare("test_unit_own") is DaemonType("test_unit_own")
    assert mine in DaemonType
    assert DaemonType.declare("AUTO_SYNC") is DaemonType.AUTO_SYNC
    with pytest.raises(InvalidId):
        DaemonType.declare("not a name")


def test_the_registry_agrees_with_itself() -> None:
    """Everything starts behind what it depends on, critical ones are those of our daemons, and lists are whole."""
    assert validate_registry() == []
    assert set(DAEMON_REGISTRY) == {DaemonType[name] for name in DUTIES}
    assert set(DAEMON_DEPENDENCIES) == set(DAEMON_REGISTRY)
    critical = {daemon.name for daemon in DAEMONS if daemon.critical}
    assert {DUTIES[kind.name].target for kind in CRITICAL_DAEMONS} == critical
    assert {kind for kinds in DAEMON_CATEGORIES.values() for kind in kinds} == set(DAEMON_REGISTRY)
    assert all(DUTIES[kind.name].kind != "later" for kind in DAEMON_STARTUP_ORDER)
    assert DAEMON_STARTUP_ORDER.index(DaemonType.EVENT_ROUTER) < DAEMON_STARTUP_ORDER.index(DaemonType.BEAT)
    spec = get_spec(DaemonType.DATA_PIPELINE)
    assert spec is not None
    assert (spec.description, spec.critical, spec.health_check_interval) == ("pipeline", True, 15.0)
    assert get_spec(DaemonType.declare("TEST_UNIT_OWN")) is None


@pytest.mark.parametrize(("category", "names"), DOCUMENTED.items())
def test_categories_are_those_of_the_documents(category: str, names: str) -> None:
    """Each key daemon stands in its group."""
    assert {DaemonType[name] for name in names.split()} <= set(get_category_daemons(category))
    with pytest.raises(UnknownName):
        get_category_daemons("misc")


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_has_what_our_daemons_declare(profile: str) -> None:
    """Nothing that is not built, and every old name of what runs there."""
    found = get_profile_daemons(profile)

    assert set(DAEMON_PROFILES) == set(PROFILES)
    assert {DUTIES[kind.name].kind for kind in found} == {"daemon", "part"}
    there = {DUTIES[kind.name].target for kind in found if DUTIES[kind.name].kind == "daemon"}
    assert there == {daemon.name for daemon in DAEMONS if profile in daemon.profiles}


def test_loops_are_known_under_every_name() -> None:
    """What does the duty of one of the six loops is one of them."""
    assert len(LOOPS) == 6
    assert all(does_loop(DUTIES[name]) for name in (*LOOPS, "SELFPLAY_COORDINATOR", "FILL", "RATE"))
    assert not any(does_loop(DUTIES[name]) for name in ("DATA_PIPELINE", "NODE_RECOVERY", "EVENT_ROUTER"))


def report(state: str, status: Status = Status.HEALTHY, *, ready: bool = True) -> DaemonReport:
    """A daemon that is found so."""
    health = Health(part="x", status=status)
    return DaemonReport(
        name="x", category="core", critical=False, group="", state=state, since=0.0, health=health, ready=ready
    )


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (report("resting", Status.UNKNOWN), "stopped"), (report("stopped", Status.UNKNOWN), "stopped"),
        (report("stopped", Status.UNHEALTHY), "stopping"), (report("starting", Status.UNKNOWN), "starting"),
        (report("running", Status.UNKNOWN, ready=False), "starting"), (report("running"), "running"),
        (report("running", Status.DEGRADED), "degraded"), (report("running", Status.UNHEALTHY), "degraded"),
        (report("pausing", Status.UNHEALTHY), "restarting"), (report("waiting", Status.DEGRADED), "restarting"),
        (report("failed", Status.UNHEALTHY), "failed"),
    ],
)  # fmt: skip
def test_every_state_has_its_documented_word(found: DaemonReport, state: str) -> None:
    """What the supervisor finds is told in the words of the documents."""
    assert state_of(found) is DaemonState(state)


def test_every_state_may_be_followed_by_something() -> None:
    """The table of legal changes is whole, nothing follows itself, and what was given up is not simply running."""
    assert set(LEGAL) == set(DaemonState)
    assert all(LEGAL[state] and state not in LEGAL[state] for state in DaemonState)
    assert DaemonLifecycleManager.can_transition("stopped", "starting")
    assert not DaemonLifecycleManager.can_transition(DaemonState.FAILED, DaemonState.RUNNING)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (True, Status.HEALTHY), (HealthCheckResult(healthy=True), Status.HEALTHY), ({"healthy": True}, Status.HEALTHY),
        ({"healthy": True, "status": "degraded"}, Status.DEGRADED), ({}, Status.UNKNOWN), (3, Status.UNKNOWN),
    ],
)  # fmt: skip
def test_what_a_check_says_is_read_in_every_shape(said: object, status: Status) -> None:
    """What does not say that it is healthy is not."""
    assert health_of("x", said).status is status
