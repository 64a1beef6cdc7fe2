"""The environment: documented variables have their effect, and a wrong one names itself."""

import pytest

from ringrift.cli.doctor import examine
from ringrift.cli.environment import effective
from ringrift.kernel.errors import SettingsError


def test_variables_govern_the_bus() -> None:
    """The time limit of handlers and strictness come from their documented variables, with documented defaults."""
    plain = effective(environ={}).settings.bus
    set_so = {"RINGRIFT_EVENT_HANDLER_TIMEOUT": "30", "RINGRIFT_EVENT_VALIDATION_STRICT": "true"}

    bus = effective(environ=set_so).settings.bus

    assert (plain.handler_seconds_max, plain.strict) == (600.0, False)
    assert (bus.handler_seconds_max, bus.strict) == (30.0, True)


@pytest.mark.parametrize(
    ("name", "value"), [("RINGRIFT_EVENT_HANDLER_TIMEOUT", "-1"), ("RINGRIFT_EVENT_VALIDATION_STRICT", "perhaps")]
)
def test_a_wrong_value_is_refused(name: str, value: str) -> None:
    """A value out of range or of no sense is an error that says so."""
    with pytest.raises(SettingsError, match=value):
        effective(environ={name: value})


def test_a_documented_variable_that_nothing_reads_yet_is_no_misspelling() -> None:
    """It is told as having no effect, with what brings it; a variable that nobody documents is told as unknown."""
    found = effective({"RINGRIFT_SWIM_ENABLED": "true", "RINGRIFT_SWIN_ENABLED": "true"})

    assert (found.later, found.unknown) == (("RINGRIFT_SWIM_ENABLED",), ("RINGRIFT_SWIN_ENABLED",))
    told = [one.found for one in examine(found) if one.what == "variable"]
    assert told == [
        "RINGRIFT_SWIN_ENABLED is read by nothing here: misspelt?",
        "RINGRIFT_SWIM_ENABLED has no effect, not yet: nodes over a network",
    ]
