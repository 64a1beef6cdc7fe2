"""Tries parked deliveries again when their pause is over."""

from collections.abc import Mapping

from ringrift.bus import dead_letters
from ringrift.bus.delivery import Reader
from ringrift.bus.router import Router
from ringrift.kernel.clock import Clock
from ringrift.kernel.watch import Watch
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon


async def redeliver(
    *, store: Store, router: Router, readers: Mapping[str, Reader], letter_watch: Watch, clock: Clock
) -> None:
    """Try what is due once more, each with the reader that failed and no other."""
    await dead_letters.retry(store, router.courier, readers, letter_watch, clock.tick())


SPEC = Daemon(
    name="redeliver", run=redeliver, every="bus.redeliver_seconds", role="redeliver", after=("elect",),
    profiles=frozenset({"coordinator", "full"}), category="core",
)  # fmt: skip
