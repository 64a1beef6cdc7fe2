"""Every kind of node takes its kinds of jobs."""

from ringrift.jobs import JOBS, NODE_KINDS
from ringrift.kernel.settings import PROFILES
from ringrift.work.limits import KINDS, PLAYS


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
