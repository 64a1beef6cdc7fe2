"""The documented enumerations are ordered where that is documented, and have every documented member."""

import itertools

import pytest

from ringrift_compat.types import BackpressureLevel, BoardType, QueueType, RecoveryAction

LEVELS = "none low soft medium hard high critical stop"


def test_levels_are_ordered_as_they_are_written() -> None:
    """Each member compares with each other one, and with its value, by the documented order."""
    assert [level.value for level in BackpressureLevel] == LEVELS.split()
    for (low, lesser), (high, greater) in itertools.product(enumerate(BackpressureLevel), repeat=2):
        assert (lesser < greater, lesser >= greater) == (low < high, low >= high)
        assert (lesser <= greater.value, lesser > greater.value) == (low <= high, low > high)


def test_a_level_does_not_compare_with_another_enumeration() -> None:
    """A member of another enumeration and an unknown value are errors, not a comparison of strings."""
    with pytest.raises(TypeError, match="BackpressureLevel"):
        _ = BackpressureLevel.HIGH >= QueueType.SYNC
    with pytest.raises(ValueError, match="highest"):
        _ = BackpressureLevel.HIGH >= "highest"


def test_every_action_against_trouble_is_there() -> None:
    """The documented actions, and no other."""
    words = "restart_job kill_job restart_node_services reboot_node remove_node escalate_human none"
    assert [action.value for action in RecoveryAction] == words.split()


def test_boards_have_short_names() -> None:
    """A board is looked up by its value and by its other names; the rest is unknown."""
    values = [BoardType(name).value for name in ("hexsmall", "sq8", "SQ19", "hexlarge")]
    assert values == ["hex8", "square8", "square19", "hexagonal"]
    with pytest.raises(ValueError, match="sq9"):
        BoardType("sq9")
    assert QueueType("training_data") is QueueType.TRAINING_DATA
