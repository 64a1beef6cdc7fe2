"""Feels how each line gets on: says when its pace changes, and when it no longer gets stronger."""

import msgspec

from ringrift.bus.scribe import Scribe
from ringrift.events.base import Envelope
from ringrift.events.evaluation import Finished
from ringrift.kernel.settings import Policy
from ringrift.pipeline.feedback import KIND, Pace, feel
from ringrift.store.ports import Put, Tx
from ringrift.supervision.spec import Daemon


async def feedback(event: Finished, envelope: Envelope, tx: Tx, *, policy: Policy, scribe: Scribe) -> None:
    """Take in one decided match."""
    body = (await tx.get(KIND, [event.variant])).get(event.variant)
    pace = Pace(variant=event.variant) if body is None else msgspec.json.decode(body, type=Pace)
    felt = feel(pace, event, policy, envelope.time)
    await tx.put([Put(kind=KIND, id=event.variant, body=msgspec.json.encode(felt.pace))])
    await tx.append([scribe.wrap(said, cause=envelope, source="feedback") for said in felt.events])


SPEC = Daemon(
    name="feedback", run=feedback, on=(Finished,), role="feedback", after=("pipeline",),
    profiles=frozenset({"coordinator", "full"}),
)  # fmt: skip
