"""Safeguards refuse a task by the breakers that the loop keeps, and then by the limits of tasks."""

import pytest
from app.coordination.safeguards import Safeguards, check_before_spawn

from compat.subscribers import home
from compat.test_pipeline import open_breaker
from ringrift.work.breakers import BREAKERS
from ringrift_compat.embedded_node import embedded
from ringrift_compat.tasks.task_coordinator import TaskCoordinator

__all__ = ["home"]

pytestmark = pytest.mark.usefixtures("home")


def close_breaker(subject: str) -> None:
    """Forget the stored breaker of *subject*."""

    async def delete() -> None:
        async with embedded.node().store.begin() as tx:
            await BREAKERS.delete(tx, [subject])

    embedded.call(delete())


def test_a_task_may_start_where_no_breaker_is_open() -> None:
    """On any node, also by the class; it takes no place."""
    assert check_before_spawn("selfplay", "n1") == (True, "OK")
    assert Safeguards.get_instance().check_before_spawn("training") == (True, "OK")
    assert TaskCoordinator.get_instance().get_tasks() == []


@pytest.mark.parametrize("subject", ["node:n1", "stage:selfplay"])
def test_an_open_breaker_of_the_node_or_the_stage_refuses(subject: str) -> None:
    """With the breaker and its last error; what it does not concern goes on, and it ends with the breaker."""
    open_breaker(subject)

    assert check_before_spawn("selfplay", "n1") == (False, f"the breaker of {subject} is open: exit 13")
    assert check_before_spawn("gpu_selfplay", "n1")[0] is False
    assert check_before_spawn("sync", "n1") == (True, "OK")
    close_breaker(subject)
    assert check_before_spawn("selfplay", "n1") == (True, "OK")


def test_the_breaker_of_one_node_does_not_concern_another() -> None:
    """Tasks start on the others."""
    open_breaker("node:n1")

    assert check_before_spawn("training", "n2") == (True, "OK")


def test_limits_and_run_states_refuse_too() -> None:
    """The answer is that of the admission of tasks, with its reason."""
    TaskCoordinator.get_instance().pause("maintenance")

    allowed, reason = check_before_spawn("selfplay", "n1")

    assert not allowed
    assert "maintenance" in reason


def test_an_unknown_type_is_an_error() -> None:
    """And nothing is checked."""
    with pytest.raises(ValueError, match="ludo"):
        check_before_spawn("ludo", "n1")
