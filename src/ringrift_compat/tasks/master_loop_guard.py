"""The guard of the master loop: one coordinator at a time for this home."""

from contextlib import AbstractContextManager
from enum import StrEnum

from ringrift.kernel.errors import NotLeader
from ringrift.kernel.settings import StoreSettings
from ringrift.store.open import only_coordinator
from ringrift_compat.variables import read_settings


class LeadershipRole(StrEnum):
    """The standing of a node in an election."""

    LEADER = "leader"
    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    PROVISIONAL = "provisional"


def has_coordinator(settings: StoreSettings) -> bool:
    """Whether a process is the coordinator of this store now.  A process that begins in this moment is refused."""
    try:
        with only_coordinator(settings, "a question"):
            return False
    except NotLeader:
        return True


def master_loop_guard() -> AbstractContextManager[None]:
    """Be the only coordinator of this home while the body runs.  Raises NotLeader naming the one there is."""
    settings = read_settings().settings
    return only_coordinator(settings.store, settings.node.id)
