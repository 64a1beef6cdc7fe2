"""Brings what only this machine holds to a durable node, while it may vanish, is drained or is to be taken away."""

from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.kernel.clock import Clock
from ringrift.pipeline.evacuation import Evacuation
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.sync.transfer import Transfer
from ringrift.work.desk import StoreDesk
from ringrift.work.runner import Runner

_DRAINING = "draining"


async def evacuate(
    *,
    store: Store,
    roster: Roster,
    transfer: Transfer,
    runner: Runner,
    desk: StoreDesk,
    record: NodeRecord,
    clock: Clock,
) -> list[str]:
    """Look once; the files that no durable node could take."""
    state = (await desk.run_states()).current(f"node:{record.id}", clock.now()).state
    if not (record.ephemeral or runner.notice or state == _DRAINING):
        return []
    return await Evacuation(record, store, roster, transfer).save(runner.checkpoints)


_SECONDS = 2.0  # within which a file that was just made is on its way
SPEC = Daemon(name="evacuate", run=evacuate, every=_SECONDS, after=("beat",), seconds_max=600.0, category="sync")
