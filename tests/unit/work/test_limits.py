"""Every kind of node takes its kinds of jobs, and a full queue is noticed."""

import pytest

from ringrift.jobs import JOBS, NODE_KINDS
from ringrift.kernel.settings import PROFILES
from ringrift.work.limits import KINDS, PLAYS, READY_HARD, READY_SOFT, may_fill, pressure


def test_every_profile_has_its_kinds() -> None:
    """The table covers exactly the profiles there are, with kinds that exist."""
    assert set(KINDS) == set(PROFILES)
    assert all(kinds <= {job.kind() for job in JOBS} for kinds in KINDS.values())


def test_every_kind_is_taken_by_some_profile_besides_full() -> None:
    """A cluster of special nodes can do everything."""
    assert frozenset().union(*(kinds for profile, kinds in KINDS.items() if profile != "full")) == KINDS["full"]


def test_a_coordinator_only_moves_files() -> None:
    """The control process never plays a game, a minimal node does nothing, and playing nodes are listed."""
    assert KINDS["coordinator"] == NODE_KINDS
    assert KINDS["minimal"] == frozenset()
    assert {"full", "training_node", "selfplay", "ephemeral"} == PLAYS


@pytest.mark.parametrize(
    ("ready", "level"),
    [
        (0, "none"),
        (READY_SOFT - 1, "none"),
        (READY_SOFT, "soft"),
        (READY_HARD - 1, "soft"),
        (READY_HARD, "hard"),
        (10**9, "hard"),
    ],
)
def test_pressure_has_three_levels(ready: int, level: str) -> None:
    """None below two thousand waiting jobs, soft below ten thousand, hard from there."""
    assert pressure(ready) == level
    assert may_fill(ready, 5.0).allowed is (level != "hard")


def test_a_full_queue_reports_its_depth() -> None:
    """The verdict names the rule, the number and the limit."""
    verdict = may_fill(READY_HARD, 5.0)

    assert str(verdict) == "fill: waits — jobs that wait in the queue: 10000 of 10000"
    assert verdict.since == 5.0
