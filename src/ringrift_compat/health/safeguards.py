"""Safeguards: whether a task may be started, by the breakers that the loop keeps and by the admission of tasks."""

from functools import cache

from ringrift.jobs import JOB_KINDS
from ringrift.store.ports import Reads
from ringrift.work import breakers
from ringrift.work.tasks import kinds_like
from ringrift_compat.embedded_node import embedded
from ringrift_compat.tasks.task_coordinator import can_spawn
from ringrift_compat.types import TaskType


class Safeguards:
    """A view of the breakers and limits of this home: every program and every node obeys the same."""

    @classmethod
    @cache
    def get_instance(cls) -> "Safeguards":
        """The safeguards."""
        return cls()

    def check_before_spawn(self, task_type: str, node_id: str | None = None) -> tuple[bool, str]:
        """Whether a task of this type may start on *node_id*, by default this program's node, and if not, why.

        An open breaker of the node, of the stage that does such work or of its workload refuses it; then so do run
        states and limits, as :func:`can_spawn` checks them.  It takes no place.  Raises ValueError for an unknown type.
        """
        type, node = TaskType(task_type), embedded.node()
        name = node_id or node.settings.node.id

        async def read(view: Reads) -> str:
            return await _refuse(view, type.value, name, node.settings.work.workload)

        refusal = embedded.query(read)
        return (False, refusal) if refusal else can_spawn(type, name)


async def _refuse(view: Reads, type: str, node: str, workload: str) -> str:
    """Why breakers refuse such a task; empty if they do not, or if the loop has no jobs of its type."""
    kinds = sorted(kinds_like(type) & JOB_KINDS)
    circuits = await breakers.load_breakers(view, kinds, node, [workload])
    refusals, _ = breakers.admit(circuits, kinds, node, workload)
    return next(iter(refusals.values())).rule if refusals and len(refusals) == len(kinds) else ""


def check_before_spawn(task_type: str, node_id: str | None = None) -> tuple[bool, str]:
    """Whether a task may start, and if not, why: see :meth:`Safeguards.check_before_spawn`."""
    return Safeguards.get_instance().check_before_spawn(task_type, node_id)
