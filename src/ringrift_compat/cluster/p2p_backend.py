"""The documented client of a cluster: who leads and where, what goes on there, and work for it, from any machine."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from ringrift.client import Client
from ringrift.cluster.leadership import Leader
from ringrift.jobs import Job
from ringrift.store.open import store_exists
from ringrift_compat.events import remote_queue
from ringrift_compat.remote import ask, coordinators, find_leading, run_plainly, wait_for
from ringrift_compat.tasks.master_loop_guard import has_coordinator
from ringrift_compat.variables import read_settings

T = TypeVar("T")
_SECONDS_MAX = 5.0


def discover_p2p_leader_url(seed_urls: Sequence[str] = (), timeout: float = _SECONDS_MAX) -> str | None:
    """The address of the node that leads; None if nobody leads, serves or answers within *timeout* seconds.

    Asked are the coordinators at *seed_urls*, else the store of this home, else the coordinators that this home knows
    (RINGRIFT_COORDINATOR_URL, or where it joined).  That needs no key: only a node that leads answers at all.
    """
    urls = ((seed_urls,) if isinstance(seed_urls, str) else tuple(seed_urls)) or coordinators()
    if urls:
        return run_plainly(partial(find_leading, urls, timeout))
    if not _has_leader():
        return None
    leader = wait_for((), lambda client: client.leader(), timeout)
    return leader.addresses[0] if leader.addresses else None


def _has_leader() -> bool:
    """Whether a process leads the store of this home now: a row in it may be that of a dead one."""
    settings = read_settings().settings.store
    return store_exists(settings) and has_coordinator(settings)


class P2PBackend:
    """Asks the coordinators at *url*, else the store of this home, else the coordinators that this home knows.

    The scopes of this home's key decide what it may do over a network.  Raises NodeAway if none answers.
    """

    def __init__(self, url: str = "", timeout: float = _SECONDS_MAX) -> None:
        self.url, self._seconds_max = url, timeout

    async def _ask(self, work: Callable[[Client], Awaitable[T]]) -> T:
        urls = (self.url,) if self.url else coordinators()
        return await ask(urls, work, self._seconds_max)

    async def get_leader(self) -> Leader:
        """The node that leads and where it serves; its name is empty if none does."""
        return await self._ask(lambda client: client.leader())

    async def get_cluster_status(self) -> dict[str, Any]:
        """The nodes that are present, the lines, the open alerts and the number of jobs in each state."""
        status = await self._ask(lambda client: client.status())
        jobs = dict[str, int]()
        for (_, state), count in status.jobs.items():
            jobs[state] = jobs.get(state, 0) + count
        return {
            "nodes": {node.id: msgspec.to_builtins(node) for node in status.nodes},
            "variants": {line.variant: line.stage.value for line in status.lines},
            "alerts": [f"{alert.kind} {alert.subject}: {alert.detail}" for alert in status.alerts],
            "jobs": jobs,
        }

    async def submit_job(self, job: Job) -> str:
        """Enqueue *job*; its id."""
        return await self._ask(lambda client: client.jobs.enqueue(job))

    async def cancel_job(self, job_id: str) -> bool:
        """Cancel a job; False if it had ended."""
        return await self._ask(lambda client: client.jobs.cancel(job_id))

    async def publish(self, event_type: object, payload: dict[str, Any] | None = None) -> str:
        """Publish an event by any of its names; its id."""
        return await self._ask(lambda client: remote_queue.publish(client, event_type, payload or {}))
