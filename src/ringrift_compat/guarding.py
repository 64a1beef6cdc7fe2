"""The documented guard of the master loop: whether a coordinator runs on this home, and being the only one."""

from contextlib import AbstractContextManager
from enum import StrEnum

from ringrift.cli.environment import effective
from ringrift.kernel.errors import SupervisionError
from ringrift.store.open import coordinator_of, only_coordinator


class LeadershipRole(StrEnum):
    """What a node is in the eyes of the others."""

    LEADER = "leader"
    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    PROVISIONAL = "provisional"


class NoMasterLoop(SupervisionError):
    """No coordinator runs on this home."""

    def __init__(self, operation: str, path: str) -> None:
        self.operation, self.path = operation, path
        super().__init__(f"{operation} needs a coordinator, and none runs on {path}: start one with  ringrift run")


def get_master_loop_holder() -> str | None:
    """Who is the coordinator of this home now, as it calls itself; None if nobody is."""
    return coordinator_of(effective().settings.store)


def is_master_loop_running() -> bool:
    """Whether a coordinator runs on this home, in this process or another."""
    return get_master_loop_holder() is not None


def ensure_master_loop_running(operation: str = "this") -> str:
    """Who is the coordinator of this home.  Raises NoMasterLoop if nobody is."""
    holder = get_master_loop_holder()
    if holder is None:
        raise NoMasterLoop(operation, effective().settings.store.path)
    return holder


require_master_loop = ensure_master_loop_running


def master_loop_guard() -> AbstractContextManager[None]:
    """Be the only coordinator of this home while the body runs.  Raises NotLeader naming the one there is."""
    settings = effective().settings
    return only_coordinator(settings.store, settings.node.id)
