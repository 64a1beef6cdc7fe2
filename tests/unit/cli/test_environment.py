"""The environment: documented variables have their effect, and a wrong one names itself."""

import re
import socket
from argparse import Namespace
from operator import attrgetter

import pytest

from ringrift.cli.command import Context
from ringrift.cli.commands.doctor import _run_checks
from ringrift.daemons import DAEMONS
from ringrift.environment import VARIABLES, read_settings
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import SettingsError
from ringrift.kernel.settings import ALWAYS_ENABLED


def test_variables_govern_the_bus() -> None:
    """The time limit of handlers comes from its documented variable, with the documented default."""
    plain = read_settings(environ={}).settings.bus

    bus = read_settings(environ={"RINGRIFT_EVENT_HANDLER_TIMEOUT": "30"}).settings.bus

    assert (plain.handler_seconds_max, bus.handler_seconds_max) == (600.0, 30.0)


@pytest.mark.parametrize(("value", "disabled"), [("true", ()), ("false", ("rate", "fill", "import_models"))])
def test_the_variable_of_the_loops_disables_their_daemons(value: str, disabled: tuple[str, ...]) -> None:
    """Lease expiry is never among them."""
    settings = read_settings(environ={"RINGRIFT_EXTRACTED_LOOPS": value}).settings

    assert settings.node.disabled_daemons == disabled


@pytest.mark.parametrize(
    ("name", "value"), [("RINGRIFT_EVENT_HANDLER_TIMEOUT", "-1"), ("RINGRIFT_TRACE_DEBUG", "perhaps")]
)
def test_a_wrong_value_is_refused(name: str, value: str) -> None:
    """A value out of range or of no sense is an error that says so."""
    with pytest.raises(SettingsError, match=value):
        read_settings(environ={name: value})


def test_a_documented_variable_that_nothing_reads_yet_is_no_misspelling() -> None:
    """It is told as having no effect, with what brings it; a variable that nobody documents is told as unknown."""
    effective = read_settings({"RINGRIFT_RAFT_ENABLED": "true", "RINGRIFT_RAFTT_ENABLED": "true"})

    context = Context(Namespace(), effective, SystemClock())
    details = [detail for name, _, detail in _run_checks(context) if name == "variable"]
    misspelt, unread = details
    assert details == list(effective.warnings)
    assert misspelt == "RINGRIFT_RAFTT_ENABLED is unknown and has no effect; did you mean RINGRIFT_RAFT_ENABLED?"
    assert unread == "RINGRIFT_RAFT_ENABLED has no effect yet; it comes with: a store on several machines"


@pytest.mark.parametrize(
    ("name", "value", "key", "expected"),
    [
        ("RINGRIFT_COORDINATOR_DB", "/x/other.db", "store.path", "/x/other.db"),
        ("RINGRIFT_NODE_ID", "n7", "node.id", "n7"),
        ("RINGRIFT_IS_COORDINATOR", "true", "node.profile", "coordinator"),
        ("RINGRIFT_COORDINATOR_URL", "http://a:1, https://b ,", "node.coordinators", ("http://a:1", "https://b")),
        ("RINGRIFT_P2P_URL", "http://a:1", "node.coordinators", ("http://a:1",)),
        ("RINGRIFT_P2P_PORT", "9000", "wire.port", 9000),
        ("RINGRIFT_P2P_STARTUP_GRACE_PERIOD", "30", "cluster.grace_seconds", 30.0),
        ("RINGRIFT_SWIM_ENABLED", "true", "cluster.swim", True),
        ("RINGRIFT_IS_COORDINATOR", "false", "node.profile", "training_node"),
        ("RINGRIFT_JOB_GRACE_PERIOD", "7", "work.grace_seconds", 7.0),
        ("RINGRIFT_TRACE_DEBUG", "true", "trace.debug", True),
        ("RINGRIFT_EVENT_HANDLER_TIMEOUT", "30", "bus.handler_seconds_max", 30.0),
    ],
)
def test_each_variable_sets_its_setting(name: str, value: str, key: str, expected: object) -> None:
    """The setting has its value, in its own type, and the origin says that it came from the environment."""
    plain, effective = read_settings({}), read_settings({name: value})

    assert attrgetter(key)(effective.settings) == expected
    assert attrgetter(key)(plain.settings) != expected
    assert effective.origins == {key: "environment"}


def test_a_node_is_called_after_its_host() -> None:
    """Without a variable its name is that of the machine, in the characters that a name may have."""
    name = read_settings({}).settings.node.id

    assert name == re.sub(r"[^\w-]", "-", socket.gethostname())[:64]


def test_the_variable_of_dead_letters_is_accepted_and_doctor_says_where_they_are() -> None:
    """It changes no setting, is no misspelling, and its note names the store."""
    effective = read_settings({"RINGRIFT_DLQ_PATH": "x.db"})

    assert effective.settings == read_settings({}).settings
    assert effective.warnings == ()
    assert VARIABLES["RINGRIFT_DLQ_PATH"].note == "accepted without effect: dead letters are in the store"


def test_the_variable_for_details_is_a_flag() -> None:
    """True logs in detail, and nothing else does."""
    assert [read_settings({"RINGRIFT_DEBUG": text}).debug for text in ("true", "1", "false", "")] == [
        True,
        True,
        False,
        False,
    ]
    assert not read_settings({}).debug


def test_each_variable_that_nothing_reads_yet_has_a_warning_and_no_other_has() -> None:
    """One line each, which names the work that brings it; a variable that is obeyed has none."""
    names = ["RINGRIFT_RAFT_ENABLED"]
    obeyed = {
        "RINGRIFT_NODE_ID": "a",
        "RINGRIFT_EXTRACTED_LOOPS": "false",
        "RINGRIFT_DLQ_PATH": "x",
        "RINGRIFT_ALLOW_PENDING_GATE": "1",
    }

    lines = read_settings({**dict.fromkeys(names, "1"), **obeyed}).warnings

    assert [line.split()[0] for line in lines] == names
    assert all(" has no effect yet; it comes with: " in line for line in lines)
    assert read_settings(obeyed).warnings == ()


def test_the_newer_name_of_the_address_wins() -> None:
    """Whichever the environment lists first."""
    older, newer = {"RINGRIFT_P2P_URL": "http://old"}, {"RINGRIFT_COORDINATOR_URL": "http://new"}

    assert read_settings({**older, **newer}).settings.node.coordinators == ("http://new",)
    assert read_settings({**newer, **older}).settings.node.coordinators == ("http://new",)


@pytest.mark.parametrize("token", ["rr-0badcafe-secret", "rr-0badcafe-\udcffsecret"])
def test_a_token_in_the_environment_is_in_no_setting_and_no_message(token: str) -> None:
    """Also if it is none: neither in what is in force nor in warnings nor in the error."""
    try:
        effective = read_settings({"RINGRIFT_CLUSTER_AUTH_TOKEN": token})
        text = f"{effective.in_force()} {effective.warnings} {effective}"
    except SettingsError as error:
        text = f"{error!r} {vars(error)} {error.__cause__!r}"
        assert "(not shown)" in text

    assert "0badcafe" not in text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RINGRIFT_COORDINATOR_URL", "attic:8770"),
        ("RINGRIFT_P2P_PORT", "65536"),
        ("RINGRIFT_P2P_PORT", "-1"),
        ("RINGRIFT_P2P_STARTUP_GRACE_PERIOD", "-1"),
        ("RINGRIFT_SWIM_ENABLED", "perhaps"),
    ],
)
def test_a_wrong_value_about_the_cluster_is_refused(name: str, value: str) -> None:
    """Before anything starts."""
    with pytest.raises(SettingsError):
        read_settings({name: value})


def test_the_daemons_of_the_loops_are_there() -> None:
    """Each that the variable disables is a daemon of ours that settings may disable."""
    disabled = read_settings({"RINGRIFT_EXTRACTED_LOOPS": "false"}).settings.node.disabled_daemons

    assert set(disabled) < {daemon.name for daemon in DAEMONS} - {ALWAYS_ENABLED}
