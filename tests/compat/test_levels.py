"""The documented enumerations are ordered where they look ordered, and have every documented member."""

import itertools

import pytest

from ringrift_compat.levels import BackpressureLevel, ErrorSeverity, Ordered, RecoveryAction, SystemHealthLevel

WORDS = {
    BackpressureLevel: "none low soft medium hard high critical stop",
    SystemHealthLevel: "critical unhealthy degraded healthy",
    ErrorSeverity: "info warning error critical",
}


@pytest.mark.parametrize("scale", WORDS)
def test_a_scale_is_ordered_as_it_is_written(scale: type[Ordered]) -> None:
    """Each member compares with each other one, and with its word, by the order of the documents."""
    assert [member.value for member in scale] == WORDS[scale].split()
    for (low, lesser), (high, greater) in itertools.product(enumerate(scale), repeat=2):
        assert (lesser < greater, lesser >= greater) == (low < high, low >= high)
        assert (lesser <= greater.value, lesser > greater.value) == (low <= high, low > high)


@pytest.mark.parametrize(
    ("level", "throttles", "stops", "factor"),
    [
        ("none", False, False, 1.0), ("low", True, False, 0.75), ("soft", True, False, 0.5),
        ("medium", True, False, 0.25), ("hard", True, False, 0.1), ("high", True, False, 0.05),
        ("critical", True, False, 0.01), ("stop", True, True, 0.0),
    ],
)  # fmt: skip
def test_every_level_of_pressure_has_its_answers(level: str, throttles: bool, stops: bool, factor: float) -> None:
    """Finding 6: medium, high and critical throttle, and each level has a factor."""
    found = BackpressureLevel(level)

    assert (found.should_throttle(), found.should_stop(), found.factor) == (throttles, stops, factor)


def test_scales_of_health_do_not_mix() -> None:
    """Critical is a word of two scales, and they have nothing else in common."""
    with pytest.raises(TypeError, match="ErrorSeverity"):
        _ = SystemHealthLevel.CRITICAL >= ErrorSeverity.CRITICAL


def test_every_action_against_trouble_is_there() -> None:
    """The documented words, and no other."""
    assert {action.value for action in RecoveryAction} == {
        "restart_job", "kill_job", "restart_node_services", "reboot_node", "remove_node", "escalate_human", "none",
    }  # fmt: skip
