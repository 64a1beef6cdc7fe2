"""Says that this node lives."""

import msgspec

from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.kernel.clock import Clock
from ringrift.supervision.spec import Daemon


async def beat(*, roster: Roster, record: NodeRecord, clock: Clock) -> None:
    """One beat: any number will do, as long as it differs from the last."""
    await roster.say(msgspec.structs.replace(record, beat=int(clock.tick() * 1000)))


SPEC = Daemon(name="beat", run=beat, every="cluster.beat_seconds")
