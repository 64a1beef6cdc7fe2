"""The environment: documented variables have their effect, and a wrong one names itself."""

import pytest

from ringrift.cli.commands.doctor import _run_checks
from ringrift.cli.environment import read_settings
from ringrift.kernel.errors import SettingsError


def test_variables_govern_the_bus() -> None:
    """The time limit of handlers comes from its documented variable, with the documented default."""
    plain = read_settings(environ={}).settings.bus

    bus = read_settings(environ={"RINGRIFT_EVENT_HANDLER_TIMEOUT": "30"}).settings.bus

    assert (plain.handler_seconds_max, bus.handler_seconds_max) == (600.0, 30.0)


@pytest.mark.parametrize(("value", "disabled"), [("true", ()), ("false", ("rate", "fill"))])
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
    effective = read_settings({"RINGRIFT_SWIM_ENABLED": "true", "RINGRIFT_SWIN_ENABLED": "true"})

    assert (effective.unsupported, effective.unknown) == (("RINGRIFT_SWIM_ENABLED",), ("RINGRIFT_SWIN_ENABLED",))
    details = [check.detail for check in _run_checks(effective) if check.name == "variable"]
    assert details == [
        "RINGRIFT_SWIN_ENABLED is unknown and has no effect: misspelt?",
        "RINGRIFT_SWIM_ENABLED has no effect yet: nodes over a network",
    ]
