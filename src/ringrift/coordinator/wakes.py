"""Wake-ups for workers that wait for jobs: one look at the queue serves all, and wakes as many as there are jobs.

Those whose last claim was filled have no room and are passed over: a wake-up for them would be lost to the others.  A
wake-up that is lost costs latency alone: workers also ask by themselves every few seconds.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable
from itertools import islice

from ringrift.jobs import NODE_KINDS, STAGES
from ringrift.kernel.backoff import wait_out
from ringrift.store.ports import Store
from ringrift.work.remote_desk import WorkNote
from ringrift.work.run_states import RunStates, load_run_states

_KINDS = tuple(sorted(STAGES.keys() - NODE_KINDS))
_LOOK_SECONDS_MIN = 0.05  # between two looks at the queue
_POLL_SECONDS = 1.0  # without any commit of this process
_AGAIN_SECONDS = 3.0  # after which others with room are woken for jobs that still wait


class _Waiter:
    """One worker that waits; *ready* and *states* are what it has not been told yet."""

    def __init__(self, node: str, kinds: Collection[str], states: RunStates | None) -> None:
        self.node, self.kinds, self.ready, self.states = node, frozenset(kinds), False, states
        self.event = asyncio.Event()
        self.event.set()

    def wake(self) -> None:
        self.ready = True
        self.event.set()


class Wakes:
    """The workers that wait, and the task that looks for them while there are any."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiters: dict[_Waiter, None] = {}  # those that were woken longest ago first
        self._full: set[str] = set()  # nodes whose last claim was filled: they ask again when they have room
        self._counts = Counter[str]()
        self._woken: dict[str, float] = {}  # by kind when somebody was last woken for it
        self._states: RunStates | None = None
        self._task: asyncio.Task[None] | None = None

    async def notes(self, node: str, kinds: Collection[str]) -> AsyncIterator[WorkNote]:
        """The run states first, then a note whenever there may be jobs of *kinds* or the run states have changed."""
        async with self._store.read() as view:
            states = await load_run_states(view)
        waiter = _Waiter(node, kinds, states)
        self._waiters[waiter] = None
        self._full.discard(node)
        if self._task is None or self._task.done():
            self._counts, self._states = Counter(), states  # what waits already wakes them, too
            self._task = asyncio.get_running_loop().create_task(wait_out(self._look), name="wire-wakes")
        try:
            while True:
                await waiter.event.wait()
                note = WorkNote(ready=waiter.ready, run_states=waiter.states)
                waiter.event.clear()
                waiter.ready, waiter.states = False, None
                yield note
        finally:
            del self._waiters[waiter]
            if not self._waiters and self._task is not None:
                self._task.cancel()

    def record_claim(self, node: str, kinds: Iterable[str], *, is_filled: bool) -> None:
        """Take note that *node* has leased jobs of *kinds*, one of each, and has no room for more if it *is_filled*."""
        self._counts.subtract(kinds)  # so that another one in their place is new
        (self._full.add if is_filled else self._full.discard)(node)

    def has_none(self, kinds: Collection[str]) -> bool:
        """Whether no job of *kinds* was ready at the last look; then whoever asks is woken by the next that is."""
        is_looking = self._task is not None and not self._task.done()
        return is_looking and not any(self._counts.get(kind, 1) > 0 for kind in kinds)

    async def _look(self) -> None:
        while True:
            # It waits before it looks, so that a commit in between wakes it.
            commit = asyncio.ensure_future(self._store.wait(None, _POLL_SECONDS))
            try:
                await asyncio.sleep(_LOOK_SECONDS_MIN)
                async with self._store.read(brief=True) as view:
                    counters, states = await view.job_counters("ready", _KINDS), await load_run_states(view)
                counts = Counter[str](dict.fromkeys(_KINDS, 0))
                for counter in counters:
                    counts[counter.kind] += counter.count
                self._wake(counts)
                self._tell(states)
                await commit
            finally:
                commit.cancel()

    def _wake(self, counts: Counter[str]) -> None:
        """Wake as many workers with room as there are new jobs of their kinds, each in its turn.

        If jobs still wait after a while, the next ones: those that were woken may not be able to do them.
        """
        now = asyncio.get_running_loop().time()
        for kind, count in counts.items():
            new = count - max(self._counts[kind], 0)
            is_late = now - self._woken.get(kind, now) >= _AGAIN_SECONDS
            for waiter in self._idle_waiters(kind, count if is_late else new):
                waiter.wake()
                del self._waiters[waiter]
                self._waiters[waiter] = None
            if new > 0 or is_late:
                self._woken[kind] = now
        self._counts = counts

    def _idle_waiters(self, kind: str, count: int) -> list[_Waiter]:
        """Up to *count* workers with room for jobs of *kind*."""
        rows = (row for row in self._waiters if kind in row.kinds and not row.ready and row.node not in self._full)
        return list(islice(rows, count)) if count > 0 else []

    def _tell(self, states: RunStates) -> None:
        if states != self._states:
            for waiter in self._waiters:
                waiter.states = states
                waiter.event.set()
        self._states = states
